// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

const (
	maxReadmeLines = 200 // the first screens of a project, not its manual
	maxTargets     = 15  // a Makefile that is read at a glance: a dozen, their list, and the common ones: fmt, vuln
	maxADRLines    = 70  // one page
)

// markdown reads the documents of the repository: those at the root and below docs, by
// their paths.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	logFolder()
	names, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir("docs", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && path.Ext(name) == ".md" {
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	docs := make(map[string]string)
	for _, name := range names {
		docs[name] = readFile(t, name)
	}
	return docs
}

func TestRepoReadmeIsShort(t *testing.T) {
	if n := strings.Count(readFile(t, "README.md"), "\n"); n >= maxReadmeLines {
		t.Errorf("README.md has %d lines, want fewer than %d", n, maxReadmeLines)
	}
}

// makeTarget is one rule of the Makefile.
type makeTarget struct {
	name, help string
	recipe     int // lines
}

var makeRule = regexp.MustCompile(`^([a-z][a-z-]*):[^=#]*(?:## (.*))?$`)

// parseMakefile lists the targets in their order.
func parseMakefile(text string) []makeTarget {
	var targets []makeTarget
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if rule := makeRule.FindStringSubmatch(line); rule != nil {
			targets = append(targets, makeTarget{name: rule[1], help: rule[2]})
			continue
		}
		if strings.HasPrefix(line, "\t") && len(targets) > 0 {
			targets[len(targets)-1].recipe++
		}
	}
	return targets
}

// crowdedTargets finds targets that are not one line with a word of help.
func crowdedTargets(targets []makeTarget) []string {
	var breaches []string
	if len(targets) > maxTargets {
		breaches = append(breaches, fmt.Sprintf("%d targets, more than %d", len(targets), maxTargets))
	}
	for _, target := range targets {
		if target.help == "" {
			breaches = append(breaches, target.name+": has no ## help")
		}
		if target.recipe > 1 {
			breaches = append(breaches, fmt.Sprintf("%s: %d lines, want 1", target.name, target.recipe))
		}
	}
	return breaches
}

func TestRepoMakefile(t *testing.T) {
	made := ".PHONY: a\nV ?= 1\nW := 2\na: b ## both\nb: ## one\n\tgo x\nc:\n\tgo y\n\tgo z\n"
	want := []string{"c: has no ## help", "c: 2 lines, want 1"}
	if diff := cmp.Diff(crowdedTargets(parseMakefile(made)), want); diff != "" {
		t.Errorf("breaches (-got +want):\n%s", diff)
	}
	many := strings.Repeat("x: ## help\n", maxTargets+1)
	if diff := cmp.Diff(crowdedTargets(parseMakefile(many)), []string{"16 targets, more than 15"}); diff != "" {
		t.Errorf("breaches of many targets (-got +want):\n%s", diff)
	}
	reportBreaches(t, crowdedTargets(parseMakefile(readFile(t, "Makefile"))))
}

var (
	codeText = regexp.MustCompile("(?s)```.*?```|`[^`\n]+`")
	makeCall = regexp.MustCompile(`(?m)(?:^|[\s` + "`" + `;&])make ([a-z][a-z-]*)`)
)

// unknownTargets finds the targets that a document names in code and that the Makefile
// does not have.
func unknownTargets(name, doc string, targets []makeTarget) []string {
	var breaches []string
	for _, code := range codeText.FindAllString(doc, -1) {
		for _, call := range makeCall.FindAllStringSubmatch(code, -1) {
			if !slices.ContainsFunc(targets, func(t makeTarget) bool { return t.name == call[1] }) {
				breaches = append(breaches, fmt.Sprintf("%s: the Makefile has no target %q", name, call[1]))
			}
		}
	}
	return breaches
}

func TestRepoDocumentsNameTargetsThatExist(t *testing.T) {
	doc := "We make promises. `make check`, `make promises`\n```sh\ncd x && make test\nmake nothing\n```\n"
	got := unknownTargets("x.md", doc, parseMakefile("check: ## c\ntest: ## t\n"))
	want := []string{`x.md: the Makefile has no target "promises"`, `x.md: the Makefile has no target "nothing"`}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("breaches (-got +want):\n%s", diff)
	}
	targets := parseMakefile(readFile(t, "Makefile"))
	for name, doc := range markdown(t) {
		reportBreaches(t, unknownTargets(name, doc, targets))
	}
}

// TestRepoReadmeCommands checks the two commands that the README promises and that CI
// runs.
func TestRepoReadmeCommands(t *testing.T) {
	readme := readFile(t, "README.md")
	for _, command := range []string{"go run ./cmd/signalbox serve", "make check"} {
		if !strings.Contains(readme, command) {
			t.Errorf("README.md does not name the command %q", command)
		}
	}
	if ci := readFile(t, ".ci/run"); !strings.Contains(ci, "make check") {
		t.Error(".ci/run does not run make check")
	}
}

var (
	backendListen = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading       = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	scheme        = regexp.MustCompile(`^[a-z]+:`)
)

// brokenLinks finds relative links to missing files or headings.
func brokenLinks(docs map[string]string, exists func(name string) bool) []string {
	var breaches []string
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		for _, found := range backendListen.FindAllStringSubmatch(codeText.ReplaceAllString(docs[name], ""), -1) {
			if !scheme.MatchString(found[1]) && !resolves(name, found[1], docs, exists) {
				breaches = append(breaches, fmt.Sprintf("%s: the link %s leads nowhere", name, found[1]))
			}
		}
	}
	return breaches
}

// resolves reports whether a relative link in the document from has a target.
func resolves(from, to string, docs map[string]string, exists func(name string) bool) bool {
	file, fragment, _ := strings.Cut(to, "#")
	target := from
	if file != "" {
		target = path.Join(path.Dir(from), file)
	}
	if !exists(target) {
		return false
	}
	doc, isDoc := docs[target]
	return fragment == "" || !isDoc || slices.Contains(anchors(doc), fragment)
}

// anchors lists the fragments of the headings of a document, formed as code hosts form
// them.
func anchors(doc string) []string {
	var found []string
	for _, h := range heading.FindAllStringSubmatch(doc, -1) {
		found = append(found, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, h[1]))
	}
	return found
}

func TestRepoLinksResolve(t *testing.T) {
	made := map[string]string{
		"README.md":   "[a](docs/a.md) [b](docs/a.md#the-end-of-it) [c](https://example.com/x) [d](#top) `[e](none.md)`\n# Top",
		"docs/a.md":   "# The `end` of it!\n[up](../README.md#top) [wrong](README.md) [gone](#gone) [dir](adr/)",
		"docs/bad.md": "[x](a.md#nothing) [y](../go.mod#L3)",
	}
	exists := func(name string) bool {
		_, ok := made[name]
		return ok || name == "docs/adr" || name == "go.mod"
	}
	want := []string{
		"docs/a.md: the link README.md leads nowhere",
		"docs/a.md: the link #gone leads nowhere",
		"docs/bad.md: the link a.md#nothing leads nowhere",
	}
	if diff := cmp.Diff(brokenLinks(made, exists), want); diff != "" {
		t.Errorf("breaches (-got +want):\n%s", diff)
	}
	reportBreaches(t, brokenLinks(markdown(t), func(name string) bool {
		_, err := os.Stat(name)
		return err == nil
	}))
}

var (
	adrName     = regexp.MustCompile(`^[0-9]{4}-[a-z0-9-]+\.md$`)
	adrStatus   = regexp.MustCompile(`(?m)^Status: (accepted|superseded by [0-9]{4}), [0-9]{4}-[0-9]{2}-[0-9]{2}$`)
	adrSections = []string{"## Context", "## Decision", "## Consequences", "## What would change our mind"}
)

// looseDecisions finds decision records that are not one numbered page of the agreed
// form, or not in the index. Names are relative to docs/adr.
func looseDecisions(records map[string]string, index string) []string {
	var breaches []string
	taken := make(map[string]string) // number to name
	for _, name := range slices.Sorted(maps.Keys(records)) {
		report := func(format string, args ...any) {
			breaches = append(breaches, name+": "+fmt.Sprintf(format, args...))
		}
		number, _, _ := strings.Cut(name, "-")
		if !adrName.MatchString(name) {
			report("want a name like 0001-title.md")
		}
		if other, ok := taken[number]; ok {
			report("has the number of %s", other)
		}
		taken[number] = name
		if !strings.HasPrefix(records[name], "# "+number+": ") {
			report(`does not begin with "# %s: "`, number)
		}
		if !adrStatus.MatchString(records[name]) {
			report("has no status with a date")
		}
		for _, section := range adrSections {
			if strings.Count(records[name], section+"\n") != 1 {
				report("want one section %q", section)
			}
		}
		if n := strings.Count(records[name], "\n"); n > maxADRLines {
			report("%d lines, more than %d", n, maxADRLines)
		}
		if !strings.Contains(index, "("+name+")") {
			report("is not in the index")
		}
	}
	return breaches
}

func TestRepoDecisionRecords(t *testing.T) {
	good := "# 0001: A title\n\nStatus: accepted, 2026-01-02\n\n" + strings.Join(adrSections, "\n\nx\n\n") + "\n\nx\n"
	tests := []struct {
		name    string
		records map[string]string
		index   string
		want    []string
	}{
		{name: "good", records: map[string]string{"0001-a-title.md": good}, index: "[x](0001-a-title.md)"},
		{name: "bare", records: map[string]string{"0001-a.md": "# 1. A"}, want: []string{
			`0001-a.md: does not begin with "# 0001: "`,
			"0001-a.md: has no status with a date",
			`0001-a.md: want one section "## Context"`,
			`0001-a.md: want one section "## Decision"`,
			`0001-a.md: want one section "## Consequences"`,
			`0001-a.md: want one section "## What would change our mind"`,
			"0001-a.md: is not in the index",
		}},
		{name: "one number twice, and long", records: map[string]string{
			"0002-a.md": strings.Replace(good, "0001", "0002", 1),
			"0002-b.md": strings.Replace(good, "0001", "0002", 1) + strings.Repeat("\n", maxADRLines),
			"2-c.md":    strings.Replace(good, "0001", "2", 1),
		}, index: "(0002-a.md) (0002-b.md) (2-c.md)", want: []string{
			"0002-b.md: has the number of 0002-a.md",
			"0002-b.md: 89 lines, more than 70",
			"2-c.md: want a name like 0001-title.md",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(looseDecisions(tt.records, tt.index), tt.want); diff != "" {
				t.Errorf("breaches (-got +want):\n%s", diff)
			}
		})
	}
	records := make(map[string]string)
	for name, doc := range markdown(t) {
		if path.Dir(name) == "docs/adr" && path.Base(name) != "README.md" {
			records[path.Base(name)] = doc
		}
	}
	if len(records) == 0 {
		t.Error("docs/adr holds no records")
	}
	reportBreaches(t, looseDecisions(records, readFile(t, "docs/adr/README.md")))
}
