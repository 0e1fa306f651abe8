// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"fmt"
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

//go:generate go test -run ^TestRegressPageIsCurrent$ . -update

// regressPage lists the published defects of other servers, clients and gateways that
// are replayed here, and by which tests. Its first two columns are written by hand; the
// third is generated unless it contains a reason.
const regressPage = "docs/regress.md"

// regressNumbers returns the entries. They have gaps. They are repeated here to detect
// a line that is lost from the page.
func regressNumbers() []int {
	gaps := []int{4, 10, 16, 22, 28, 40, 46, 52, 58, 64, 70, 76, 82, 88, 94, 100, 106, 112, 118, 124, 130, 136, 142, 148, 154, 160, 166, 172, 178, 184, 190}
	var all []int
	for n := 1; n <= 201; n++ {
		if !slices.Contains(gaps, n) {
			all = append(all, n)
		}
	}
	return all
}

// regressEntry is one line of the page.
type regressEntry struct {
	number      int
	title, text string // text is the third column
}

var regressLine = regexp.MustCompile(`^\| M(\d{3}) \| (.*) \| (.*) \|$`)

// parseRegress returns the entries of the page, in their order.
func parseRegress(page string) []regressEntry {
	var all []regressEntry
	for line := range strings.Lines(page) {
		m := regressLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			continue // three digits are a number
		}
		all = append(all, regressEntry{n, m[2], m[3]})
	}
	return all
}

// regressTest is a test function that replays entries.
type regressTest struct{ name, path string }

var regressName = regexp.MustCompile(`^Test((?:M\d{3})+)([A-Z]\w*)$`)

// regressTests returns the tests by the numbers in their names, ordered by path and
// place.
func regressTests(files []sourceFile) map[int][]regressTest {
	found := map[int][]regressTest{}
	for _, f := range files {
		if !f.isTest() {
			continue
		}
		for _, decl := range f.syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv != nil {
				continue
			}
			m := regressName.FindStringSubmatch(fn.Name.Name)
			if m == nil {
				continue
			}
			for digits := range strings.SplitSeq(m[1][1:], "M") {
				n, err := strconv.Atoi(digits)
				if err != nil {
					continue // three digits are a number
				}
				found[n] = append(found[n], regressTest{m[2], f.path})
			}
		}
	}
	return found
}

// regressReason begins the third column of an entry that cannot affect our code.
const regressReason = "No test: "

// column returns the third column of an entry: its tests, or the reason for having
// none.
func (e regressEntry) column(tests []regressTest) string {
	if len(tests) == 0 {
		return e.text
	}
	links := make([]string, len(tests))
	for i, test := range tests {
		links[i] = fmt.Sprintf("[%s](../%s)", test.name, test.path)
	}
	return strings.Join(links, ", ")
}

// emptyCases reports the entries that are missing, have neither a test nor a reason, or
// both, and the tests that belong to no entry.
func emptyCases(entries []regressEntry, tests map[int][]regressTest) []string {
	var wrong []string
	var listed []int
	for _, e := range entries {
		listed = append(listed, e.number)
		reasoned := strings.HasPrefix(e.text, regressReason) && len(e.text) > len(regressReason)
		switch {
		case len(tests[e.number]) == 0 && !reasoned:
			wrong = append(wrong, fmt.Sprintf("M%03d has neither a test nor a reason", e.number))
		case len(tests[e.number]) > 0 && reasoned:
			wrong = append(wrong, fmt.Sprintf("M%03d has a test and a reason for having none", e.number))
		}
		if strings.TrimSpace(e.title) == "" {
			wrong = append(wrong, fmt.Sprintf("M%03d has no title", e.number))
		}
	}
	if !slices.Equal(listed, regressNumbers()) {
		wrong = append(wrong, fmt.Sprintf("%d entries are listed, want the %d in their order", len(listed), len(regressNumbers())))
	}
	for n := range tests {
		if !slices.Contains(listed, n) {
			wrong = append(wrong, fmt.Sprintf("M%03d has a test and is not listed", n))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// regressWithTests returns the page with the correct third column.
func regressWithTests(page string, tests map[int][]regressTest) string {
	var out strings.Builder
	for line := range strings.Lines(page) {
		if entries := parseRegress(line); len(entries) == 1 {
			e := entries[0]
			line = fmt.Sprintf("| M%03d | %s | %s |\n", e.number, e.title, e.column(tests[e.number]))
		}
		out.WriteString(line)
	}
	return out.String()
}

// Every entry is replayed by a test that is named after it, or the page gives in one
// sentence the reason why it cannot affect our code.
func TestRegressHasNoEmptyCase(t *testing.T) {
	files, err := repoSources()
	if err != nil {
		t.Fatal(err)
	}
	reportBreaches(t, emptyCases(parseRegress(readFile(t, regressPage)), regressTests(files)))
}

func TestRegressPageIsCurrent(t *testing.T) {
	files, err := repoSources()
	if err != nil {
		t.Fatal(err)
	}
	page := readFile(t, regressPage)
	want := regressWithTests(page, regressTests(files))
	if want == page {
		return
	}
	if !*update {
		t.Fatalf("%s does not name the tests that there are; run make generate", regressPage)
	}
	if err := os.WriteFile(regressPage, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The rule detects breaches: on made-up pages and tests.
func TestRegressRule(t *testing.T) {
	const made = "package p\n\nfunc TestM001M002Two(t *T) {}\n\nfunc TestM003Three(t *T) {}\n\nfunc TestM004(t *T) {}\n\nfunc (x) TestM005Method(t *T) {}\n\nfunc testM006Small(t *T) {}\n"
	tests := regressTests(madeUp(t, map[string]string{"a/b_test.go": made, "a/b.go": "package p\n\nfunc TestM007NoTest(t *T) {}\n"}))
	if len(tests) != 3 || tests[2][0] != (regressTest{"Two", "a/b_test.go"}) {
		t.Errorf("tests %v; want those of 1, 2 and 3", tests)
	}
	line := func(n int, title, text string) string { return fmt.Sprintf("| M%03d | %s | %s |\n", n, title, text) }
	page := "# Regress\n\n| entry | what | test |\n|---|---|---|\n" + line(1, "one", "") + line(2, "", "old") + line(3, "three", regressReason+"none.") + line(5, "five", regressReason+"of another kind.") + line(6, "six", regressReason)
	want := []string{
		"5 entries are listed, want the 170 in their order", "M002 has no title",
		"M003 has a test and a reason for having none", "M006 has neither a test nor a reason",
	}
	if got := emptyCases(parseRegress(page), tests); !slices.Equal(got, want) {
		t.Errorf("breaches:\n got %q\nwant %q", got, want)
	}
	if got := emptyCases(parseRegress(page)[:1], tests); !slices.Contains(got, "M003 has a test and is not listed") {
		t.Errorf("breaches %q; want the test that is not listed", got)
	}
	got := regressWithTests(page, tests)
	for _, want := range []string{line(1, "one", "[Two](../a/b_test.go)"), line(5, "five", regressReason+"of another kind."), "| entry | what | test |\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page is %s; want %s in it", got, want)
		}
	}
}
