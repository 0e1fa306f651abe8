// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	licenceHeader = "// Copyright The Signalbox Authors.\n// SPDX-License-Identifier: Apache-2.0\n\n"
	// maxFileLines is the length at which a file must be split; the median is far
	// below.
	maxFileLines = 700
)

// unlicensed finds files that do not begin with the licence header. The blank line
// after it keeps it out of the package's documentation.
func unlicensed(files []sourceFile) []string {
	var breaches []string
	for _, f := range files {
		if !strings.HasPrefix(f.text, licenceHeader) {
			breaches = append(breaches, f.path+": does not begin with the licence header")
		}
	}
	return breaches
}

func TestRepoLicenceHeader(t *testing.T) {
	testSourceRule(t, unlicensed, []ruleCase{
		{name: "present", files: map[string]string{"a.go": licenceHeader + "package a"}},
		{name: "absent, late, glued to the package", files: map[string]string{
			"absent.go": "package a",
			"glued.go":  strings.TrimSuffix(licenceHeader, "\n") + "package a",
			"late.go":   "//go:build linux\n\n" + licenceHeader + "package a",
		}, want: []string{
			"absent.go: does not begin with the licence header",
			"glued.go: does not begin with the licence header",
			"late.go: does not begin with the licence header",
		}},
	})
}

// tooLong finds files over maxFileLines.
func tooLong(files []sourceFile) []string {
	var breaches []string
	for _, f := range files {
		if n := strings.Count(f.text, "\n"); n > maxFileLines {
			breaches = append(breaches, fmt.Sprintf("%s: %d lines, more than %d", f.path, n, maxFileLines))
		}
	}
	return breaches
}

func TestRepoFileLength(t *testing.T) {
	testSourceRule(t, tooLong, []ruleCase{
		{name: "at the limit", files: map[string]string{"a.go": "package a" + strings.Repeat("\n", maxFileLines)}},
		{name: "over it", files: map[string]string{"a.go": "package a" + strings.Repeat("\n", maxFileLines+1)},
			want: []string{"a.go: 701 lines, more than 700"}},
	})
}

// packageDocs finds packages with documentation that is missing, in several files, or
// does not begin with the package's name.
func packageDocs(files []sourceFile) []string {
	var breaches []string
	documented := make(map[string]int)
	for _, f := range files {
		if f.isTest() {
			continue
		}
		documented[f.pkg()] += 0 // a package with no documentation counts too
		if f.syntax.Doc == nil {
			continue
		}
		documented[f.pkg()]++
		name := f.syntax.Name.Name
		if name != "main" && !strings.HasPrefix(f.syntax.Doc.Text(), "Package "+name+" ") {
			breaches = append(breaches, f.breach(f.syntax.Doc.Pos(), `documentation does not begin with "Package %s "`, name))
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(documented)) {
		if n := documented[pkg]; n != 1 {
			breaches = append(breaches, fmt.Sprintf("%s: %d package comments, want 1", pkg, n))
		}
	}
	return breaches
}

func TestRepoOnePackageComment(t *testing.T) {
	testSourceRule(t, packageDocs, []ruleCase{
		{name: "one each", files: map[string]string{
			"a/doc.go":        "// Package a is first.\npackage a",
			"a/more.go":       "package a",
			"a/a_test.go":     "// Not counted.\npackage a",
			"cmd/b/main.go":   "// The command b is second.\npackage main",
			"only/x_test.go":  "package only",
			"detached/doc.go": "// Package detached is fine.\npackage detached",
		}},
		{name: "none, two, wrong name", files: map[string]string{
			"none/a.go":  "// Package none is cut off.\n\npackage none",
			"two/a.go":   "// Package two is here.\npackage two",
			"two/b.go":   "// Package two is there.\npackage two",
			"wrong/a.go": "// This package is wrong.\npackage wrong",
		}, want: []string{
			`wrong/a.go:1: documentation does not begin with "Package wrong "`,
			"none: 0 package comments, want 1",
			"two: 2 package comments, want 1",
		}},
	})
}

var (
	todoWord = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)
	todoForm = regexp.MustCompile(`^TODO\(#[1-9][0-9]*\): \S`)
)

// looseTodos finds comments that postpone work without naming an issue.
func looseTodos(files []sourceFile) []string {
	var breaches []string
	for _, f := range files {
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				breaches = append(breaches, commentTodos(f, c)...)
			}
		}
	}
	return breaches
}

func commentTodos(f sourceFile, c *ast.Comment) []string {
	var breaches []string
	for _, at := range todoWord.FindAllStringIndex(c.Text, -1) {
		if !todoForm.MatchString(c.Text[at[0]:]) {
			pos := c.Pos() + token.Pos(at[0])
			breaches = append(breaches, f.breach(pos, "%s without an issue: want TODO(#123): what", c.Text[at[0]:at[1]]))
		}
	}
	return breaches
}

func TestRepoTodoForm(t *testing.T) {
	testSourceRule(t, looseTodos, []ruleCase{
		{name: "with an issue, or not one at all", files: map[string]string{
			"a.go": "package a\n// TODO(#12): split.\nvar todo = \"TODO\" // TODOS are a word",
		}},
		{name: "without one", files: map[string]string{
			"a.go": "package a\n// TODO: split.\n\n/* one\ntwo FIXME */\n// TODO(me): later. XXX",
		}, want: []string{
			"a.go:2: TODO without an issue: want TODO(#123): what",
			"a.go:5: FIXME without an issue: want TODO(#123): what",
			"a.go:6: TODO without an issue: want TODO(#123): what",
			"a.go:6: XXX without an issue: want TODO(#123): what",
		}},
	})
}

// unownedGoroutines finds goroutines that are started without a comment on the line
// above or on the same line, which must name what waits for it and what ends it.
func unownedGoroutines(files []sourceFile) []string {
	var breaches []string
	for _, f := range productCode(files) {
		commented := make(map[int]bool)
		for _, group := range f.syntax.Comments {
			commented[f.line(group.Pos())] = true
			commented[f.line(group.End())+1] = true
		}
		for _, pos := range goroutineStarts(f) {
			if !commented[f.line(pos)] {
				breaches = append(breaches, f.breach(pos, "goroutine without a comment that names what waits for it and what ends it"))
			}
		}
	}
	return breaches
}

// goroutineStarts returns the positions of go statements and of calls such as
// group.Go(f), in the order of the file.
func goroutineStarts(f sourceFile) []token.Pos {
	var starts []token.Pos
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if s, ok := n.(*ast.GoStmt); ok {
			starts = append(starts, s.Pos())
		}
		return true
	})
	for _, c := range f.calls() {
		if c.name == "Go" && len(c.call.Args) == 1 {
			starts = append(starts, c.call.Pos())
		}
	}
	slices.Sort(starts)
	return starts
}

func TestRepoGoroutinesNameTheirEnd(t *testing.T) {
	testSourceRule(t, unownedGoroutines, []ruleCase{
		{name: "named", files: map[string]string{
			"a.go": `package a
func f() {
	// Ends with the pipe; close waits for it.
	go read()
	go func() { // ends with ctx; run waits
	}()
	// Ends with the group,
	// which Wait waits for.
	wg.Go(read)
	s.Go(1, 2)
}`, "a_test.go": "package a\nfunc f() {\n\tgo read()\n}",
		}},
		{name: "bare", files: map[string]string{
			"a.go": "package a\n// f starts.\nfunc f() {\n\tx() // here\n\n\tgo read()\n\twg.Go(read)\n}",
		}, want: []string{
			"a.go:6: goroutine without a comment that names what waits for it and what ends it",
			"a.go:7: goroutine without a comment that names what waits for it and what ends it",
		}},
	})
}

// realSleeps finds time.Sleep in tests without a synctest bubble, where it would wait
// in real time and still prove nothing.
func realSleeps(files []sourceFile) []string {
	var breaches []string
	for _, f := range files {
		if !f.isTest() || f.imports("testing/synctest") {
			continue
		}
		for _, c := range f.calls() {
			if c.receiver() == "time" && c.name == "Sleep" {
				breaches = append(breaches, f.breach(c.call.Pos(), "time.Sleep in a test outside a synctest bubble"))
			}
		}
	}
	return breaches
}

func TestRepoTestsDoNotSleep(t *testing.T) {
	testSourceRule(t, realSleeps, []ruleCase{
		{name: "in a bubble, or not a test", files: map[string]string{
			"a_test.go": `import "testing/synctest"; func f() { time.Sleep(1) }`,
			"b.go":      `func f() { time.Sleep(1) }`,
		}},
		{name: "real", files: map[string]string{"a_test.go": `func f() { clock.Sleep(1); time.Sleep(1) }`},
			want: []string{"a_test.go:1: time.Sleep in a test outside a synctest bubble"}},
	})
}

// skips finds tests that can skip themselves: a check that did not run looks like one
// that passed.
func skips(files []sourceFile) []string {
	var breaches []string
	for _, f := range files {
		for _, c := range f.calls() {
			on := slices.Contains([]string{"t", "b", "f", "tb"}, c.receiver())
			if f.isTest() && on && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, c.name) {
				breaches = append(breaches, f.breach(c.call.Pos(), "%s.%s: a test installs what it needs and runs", c.receiver(), c.name))
			}
		}
	}
	return breaches
}

func TestRepoTestsDoNotSkip(t *testing.T) {
	testSourceRule(t, skips, []ruleCase{
		{name: "other skips", files: map[string]string{"a_test.go": `func f() { r.Skip(3); t.Log("Skip") }`}},
		{name: "skips", files: map[string]string{"a_test.go": "package a\nfunc f() {\n\tt.Skip()\n\tb.Skipf(\"no node\")\n}"},
			want: []string{
				"a_test.go:3: t.Skip: a test installs what it needs and runs",
				"a_test.go:4: b.Skipf: a test installs what it needs and runs",
			}},
	})
}
