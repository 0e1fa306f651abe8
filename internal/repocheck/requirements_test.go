// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:generate go test -run ^TestRequirementsPageIsCurrent$ . -update

const (
	// requirementsList contains the requirements, and requirementsPage the tests that
	// prove them.
	requirementsList = "internal/repocheck/testdata/requirements.txt"
	requirementsPage = "docs/requirements.md"
)

const requirementsIntroduction = `# Requirements of the specification, and the tests that prove them

The requirements of the MCP specification, in every revision, that apply to a gateway between clients and servers, and some
rules of our own. For each, one test proves that correct behaviour works, and one proves that incorrect behaviour is refused
or cannot be caused. The comment of the test contains the id, a sign (+ right, - wrong) and the sentence. This page is
generated from these comments and from [the list](../internal/repocheck/testdata/requirements.txt), by ` + "`make generate`" + `. Authorization is
not included yet.
`

// markdownLink is a link in a sentence of the specification, relative to its own site.
var markdownLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// requirement is one entry of the list.
type requirement struct {
	id, level string
	places    []passage
	text      string
}

// chapter is a part of the list under one title.
type chapter struct {
	title string
	rows  []requirement
}

var (
	rowForm   = regexp.MustCompile(`^([A-Z][0-9]+) \| (own|info|(?:(?:MUST|SHOULD|MAY)(?: NOT)?(?:, )?)+) \| (.*)$`)
	placeForm = regexp.MustCompile(`^(?:(\d{4}-\d{2}-\d{2}|seps) ([a-z0-9][\w./-]*)|own)$`)
)

// parseRequirements reads the list. The text before the first title describes the list
// itself.
func parseRequirements(text string) ([]chapter, error) {
	var all []chapter
	var errs []error
	seen := make(map[string]bool)
	for block := range strings.SplitSeq(text, "\n\n") {
		if title, ok := strings.CutPrefix(block, "# "); ok {
			all = append(all, chapter{title: title})
			continue
		}
		if len(all) == 0 {
			continue
		}
		row, err := parseRequirement(block)
		if err == nil && seen[row.id] {
			err = fmt.Errorf("%s is listed twice", row.id)
		}
		errs = append(errs, err)
		seen[row.id] = true
		last := &all[len(all)-1]
		last.rows = append(last.rows, row)
	}
	return all, errors.Join(errs...)
}

func parseRequirement(block string) (requirement, error) {
	head, text, _ := strings.Cut(block, "\n")
	m := rowForm.FindStringSubmatch(head)
	if text = strings.Join(strings.Fields(text), " "); m == nil || text == "" {
		return requirement{}, fmt.Errorf("%q has not the form: ID | LEVEL | PLACE, PLACE; and a text below", head)
	}
	row := requirement{id: m[1], level: m[2], text: text}
	for where := range strings.SplitSeq(m[3], ", ") {
		p := placeForm.FindStringSubmatch(where)
		if p == nil {
			return row, fmt.Errorf("%s: %q is no place", row.id, where)
		}
		if where == "own" {
			p[1], p[2] = "own", "own"
		}
		row.places = append(row.places, passage{p[1], p[2]})
	}
	return row, nil
}

// strangeProofs finds proofs of requirements that are not on the list, and proofs that
// misquote a rule of our own.
func strangeProofs(list []chapter, found []proof) []string {
	texts := make(map[string]string)
	for _, c := range list {
		for _, row := range c.rows {
			texts[row.id] = row.text
		}
	}
	var breaches []string
	for _, p := range found {
		switch text, ok := texts[p.id]; {
		case !ok:
			breaches = append(breaches, fmt.Sprintf("%s: %s proves %s, which is not in %s", p.path, p.name, p.id, requirementsList))
		case p.place.revision == "own" && !strings.Contains(text, p.quote):
			breaches = append(breaches, fmt.Sprintf("%s: %s quotes as our own rule %s: %q, which is: %q", p.path, p.name, p.id, p.quote, text))
		}
	}
	return breaches
}

// unproved finds the sides of requirements that no test proves.
func unproved(list []chapter, found []proof) []string {
	var breaches []string
	for _, c := range list {
		for _, row := range c.rows {
			for sign, right := range map[string]bool{"+": true, "-": false} {
				if !slices.ContainsFunc(found, func(p proof) bool { return p.id == row.id && p.right == right }) {
					breaches = append(breaches, fmt.Sprintf("no test proves %s%s: %s", row.id, sign, row.text))
				}
			}
		}
	}
	slices.Sort(breaches)
	return breaches
}

// link returns the passage as a link to the published page; a rule of our own has none.
func (p passage) link() string {
	const site = "https://modelcontextprotocol.io/"
	page := strings.TrimSuffix(p.page, "/index")
	switch {
	case p.revision == "own":
		return "our own"
	case p.revision == "seps":
		number, _, _ := strings.Cut(page, "-")
		return fmt.Sprintf("[SEP-%s](%sseps/%s)", number, site, page)
	case strings.HasPrefix(page, "tutorials/"):
		return fmt.Sprintf("[%s %s](%sdocs/%s/%s)", p.revision, page, site, p.revision, page)
	default:
		return fmt.Sprintf("[%s %s](%sspecification/%s/%s)", p.revision, page, site, p.revision, page)
	}
}

// links returns the tests of one side of a requirement, each once.
func links(found []proof, right bool) string {
	var out []string
	for _, p := range found {
		link := fmt.Sprintf("[%s](../%s)", p.name, p.path)
		if p.right == right && !slices.Contains(out, link) {
			out = append(out, link)
		}
	}
	if len(out) == 0 {
		return "**nothing yet**"
	}
	return strings.Join(out, ", ")
}

// requirementsWithProofs returns the page.
func requirementsWithProofs(list []chapter, found []proof) string {
	var out strings.Builder
	out.WriteString(requirementsIntroduction)
	for _, c := range list {
		fmt.Fprintf(&out, "\n## %s\n", c.title)
		for _, row := range c.rows {
			row.write(&out, slices.DeleteFunc(slices.Clone(found), func(p proof) bool { return p.id != row.id }))
		}
	}
	return out.String()
}

// write adds the requirement to the page: its text, its passages, the sentences that
// its tests quote, and the tests.
func (r requirement) write(out *strings.Builder, found []proof) {
	var where, quotes []string
	for _, p := range r.places {
		where = append(where, p.link())
	}
	for _, p := range found {
		quote := "> \"" + markdownLink.ReplaceAllString(p.quote, "$1") + "\" (" + p.place.link() + ")\n"
		if p.place.revision != "own" && !slices.Contains(quotes, quote) {
			quotes = append(quotes, quote)
		}
	}
	fmt.Fprintf(out, "\n### %s\n\n%s (%s: %s)\n", r.id, r.text, r.level, strings.Join(where, ", "))
	if len(quotes) > 0 {
		fmt.Fprintf(out, "\n%s", strings.Join(quotes, ">\n"))
	}
	fmt.Fprintf(out, "\n- right: %s\n- wrong: %s\n", links(found, true), links(found, false))
}

func TestRequirementsPageIsCurrent(t *testing.T) {
	list, err := parseRequirements(readFile(t, requirementsList))
	if err != nil {
		t.Fatal(err)
	}
	found := repoProofs(t)
	reportBreaches(t, strangeProofs(list, found))
	reportBreaches(t, unproved(list, found))
	want := requirementsWithProofs(list, found)
	if *update {
		if err := os.WriteFile(requirementsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if readFile(t, requirementsPage) != want {
		t.Errorf("%s is not what the tests prove; run make generate", requirementsPage)
	}
}

// The rule detects breaches: on a made-up list and made-up proofs.
func TestRequirementsRule(t *testing.T) {
	const made = "About.\n\nT9 | is about too\n\n# One\n\nT1 | MUST, SHOULD NOT | 2026-07-28 basic/index, seps 12-x\n  Be\n  kind.\n\n# Two\n\nJ1 | own | own\n  Be ours.\n"
	list, err := parseRequirements(made)
	want := []chapter{
		{"One", []requirement{{"T1", "MUST, SHOULD NOT", []passage{{"2026-07-28", "basic/index"}, {"seps", "12-x"}}, "Be kind."}}},
		{"Two", []requirement{{"J1", "own", []passage{{"own", "own"}}, "Be ours."}}},
	}
	if diff := cmp.Diff(list, want, cmp.AllowUnexported(chapter{}, requirement{}, passage{})); diff != "" || err != nil {
		t.Fatalf("error %v, list (-got +want):\n%s", err, diff)
	}
	for _, wrong := range []string{"T1 | MUST | own", "T1 | must | own\n  x", "T1 | MUST | nowhere\n  x", "T | MUST | own\n  x", "T1 | MUST | own\n  x\n\nT1 | MUST | own\n  x"} {
		if got, err := parseRequirements("# One\n\n" + wrong); err == nil {
			t.Errorf("%q is taken for %v", wrong, got)
		}
	}
	mine := passage{"own", "own"}
	found := []proof{
		{"T1", true, passage{"2026-07-28", "basic/index"}, `You "MUST" [be](/specification/kind).`, "TestA", "a_test.go"},
		{"T1", true, passage{"2026-07-28", "basic/index"}, `You "MUST" [be](/specification/kind).`, "TestB", "a_test.go"},
		{"J1", false, mine, "Be", "TestC", "c_test.go"},
	}
	if got := strangeProofs(list, found); len(got) > 0 {
		t.Errorf("breaches %q", got)
	}
	strange := []proof{{"T2", true, mine, "x", "TestA", "a_test.go"}, {"J1", true, mine, "Be mine.", "TestB", "b_test.go"}}
	if got := strangeProofs(list, strange); len(got) != 2 || !strings.Contains(got[0], "T2, which is not in") || !strings.Contains(got[1], `which is: "Be ours."`) {
		t.Errorf("breaches %q; want one of an unknown entry and one of a rule that is not ours", got)
	}
	missing := []string{"no test proves J1+: Be ours.", "no test proves T1-: Be kind."}
	if got := unproved(list, found); !slices.Equal(got, missing) {
		t.Errorf("unproved %q, want %q", got, missing)
	}
	page := requirementsWithProofs(list, found)
	for _, part := range []string{
		"## One\n\n### T1\n\nBe kind. (MUST, SHOULD NOT: [2026-07-28 basic](https://modelcontextprotocol.io/specification/2026-07-28/basic), [SEP-12](https://modelcontextprotocol.io/seps/12-x))\n\n" +
			"> \"You \"MUST\" be.\" ([2026-07-28 basic](https://modelcontextprotocol.io/specification/2026-07-28/basic))\n\n- right: [TestA](../a_test.go), [TestB](../a_test.go)\n- wrong: **nothing yet**\n",
		"### J1\n\nBe ours. (own: our own)\n\n- right: **nothing yet**\n- wrong: [TestC](../c_test.go)\n",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the page is\n%s\nwithout\n%s", page, part)
		}
	}
}
