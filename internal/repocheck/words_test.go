// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wordRule bounds how often a pattern may occur in 1000 lines of prose. A bound may be
// lowered, and never raised.
type wordRule struct {
	name    string
	pattern *regexp.Regexp
	code    float64 // bound for comments and messages, per 1000 lines of comments
	docs    float64 // bound for Markdown, per 1000 lines
}

// wordRules are the words that make sentences hard to read here: they hide the subject
// of a sentence, or replace the verb of the field. net/http and connect-go have at most
// 2 of the first and 4 of the last in 1000 lines of comments, and nearly none of the others.
func wordRules() []wordRule {
	return []wordRule{
		{"who, whoever, whose, whom", words(`who|whoever|whose|whom`), 2, 2},
		{"nobody, somebody", words(`nobody|somebody`), 0.5, 0.5},
		{"stands, stood", words(`stands|stood`), 0.5, 0.5},
		{"is none", words(`(is|are|was|were) none`), 1, 0.5},
		{"of which", words(`of which`), 0.5, 0.5},
		{"has ... called", words(`has \S+ called`), 0.1, 0},
		{"say, tell", words(`say|says|said|tell|tells|told`), 3, 4},
	}
}

func words(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + pattern + `)\b`) }

// prose is text to be counted, and how many lines the counts are relative to.
type prose struct {
	texts []string
	lines int
}

// per1000 returns how often the pattern occurs in 1000 lines.
func (p prose) per1000(pattern *regexp.Regexp) float64 {
	n := 0
	for _, text := range p.texts {
		n += len(pattern.FindAllStringIndex(text, -1))
	}
	return 1000 * float64(n) / float64(max(1, p.lines))
}

// codeProse returns the comments of all files, and the string literals of several words
// of those that are not tests: errors, log messages and help texts.
func codeProse(files []sourceFile) prose {
	var p prose
	for _, f := range files {
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "//go:") || strings.Contains(licenceHeader, c.Text) {
					continue
				}
				p.texts = append(p.texts, c.Text)
				p.lines += 1 + strings.Count(c.Text, "\n")
			}
		}
		if f.isTest() {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(text, " ") {
				p.texts = append(p.texts, text)
			}
			return true
		})
	}
	return p
}

// docsProse returns the lines of documents, without quotations.
func docsProse(docs map[string]string) prose {
	var p prose
	for _, text := range docs {
		for line := range strings.Lines(text) {
			if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, ">") {
				p.texts = append(p.texts, line)
				p.lines++
			}
		}
	}
	return p
}

// wordBreach reports a count beyond its bound.
func wordBreach(rule wordRule, where string, got, bound float64) []string {
	if got <= bound {
		return nil
	}
	return []string{fmt.Sprintf("%s: %q occurs %.2f times in 1000 lines, more than %.2f", where, rule.name, got, bound)}
}

func TestRepoWords(t *testing.T) {
	files, err := repoSources()
	if err != nil {
		t.Fatal(err)
	}
	code, docs := codeProse(files), docsProse(markdown(t))
	for _, rule := range wordRules() {
		reportBreaches(t, wordBreach(rule, "code", code.per1000(rule.pattern), rule.code))
		reportBreaches(t, wordBreach(rule, "documents", docs.per1000(rule.pattern), rule.docs))
	}
}

func TestRepoWordsCounts(t *testing.T) {
	files := madeUp(t, map[string]string{
		"a.go": licenceHeader + `package a

// f asks whoever
// is told.
func f() error { return errors.New("Nobody says") } // who

const who = "who"
`,
		"a_test.go": licenceHeader + "package a\n\n// is none, of which\nvar x = \"who says\"\n",
	})
	code := codeProse(files)
	if code.lines != 4 {
		t.Errorf("%d lines of comments, want 4", code.lines)
	}
	got := make(map[string]float64)
	for _, rule := range wordRules() {
		got[rule.name] = code.per1000(rule.pattern) * float64(code.lines) / 1000
	}
	want := map[string]float64{"who, whoever, whose, whom": 2, "nobody, somebody": 1, "is none": 1, "of which": 1, "say, tell": 2}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%q: counted %v, want %v", name, got[name], n)
		}
	}
	docs := docsProse(map[string]string{"a.md": "# Who\n\n> whoever\n\nIt stands.\n"})
	if docs.lines != 2 || docs.per1000(words("who")) != 500 {
		t.Errorf("documents: %+v", docs)
	}
	rule := wordRule{name: "x"}
	if got := slices.Concat(wordBreach(rule, "code", 2, 1), wordBreach(rule, "code", 1, 1)); len(got) != 1 {
		t.Errorf("breaches: %q", got)
	}
}
