// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"errors"
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/test/sim/mutant"
)

// entryLists returns the lists of what must hold, each entry with its tests and with mutations of the
// product that one of them detects. They are data of a test and no pages, because most of them is
// quoted source.
func entryLists() []string {
	return []string{"internal/repocheck/testdata/identity.txt", "internal/repocheck/testdata/compose.txt"}
}

// entryIDs returns the ids that the lists must have, in their order.
func entryIDs() []string {
	var all []string
	upTo := func(prefix string, last int) {
		for n := range last {
			all = append(all, prefix+strconv.Itoa(n+1))
		}
	}
	upTo("I", 20)
	upTo("", 42)
	upTo("N", 16)
	return append(all, "C1", "C2", "C5", "C6", "C9", "C10", "C11", "C12", "C13", "C14", "C15", "R1", "R2", "R3", "R4", "R16", "R17", "R18", "R19", "R20", "R21", "R22")
}

// entry is one entry of a list.
type entry struct {
	id, title string
	tests     []namedTest
	slow      []namedTest // of these, those that need to run without -short
	judges    []namedTest // in other modules, with programs of others
	mutations []entryMutation
}

// namedTest is a test function of a folder, or a part of one: TestScripts/canary.
type namedTest struct{ folder, name string }

// function returns the test function.
func (n namedTest) function() namedTest {
	name, _, _ := strings.Cut(n.name, "/")
	return namedTest{n.folder, name}
}

func (n namedTest) String() string { return n.folder + " " + n.name }

// entryMutation is a mutation, and the test that has to fail with it.
type entryMutation struct {
	name    string
	changes []mutant.Switch
	by      namedTest
}

// parseEntries reads lists. The text of each before its first entry is not read. A mutation may be that of
// an entry of another list.
func parseEntries(texts ...string) ([]entry, error) {
	var all []entry
	var errs []error
	for _, text := range texts {
		_, text, _ = strings.Cut(text, "\n\n# ")
		for block := range strings.SplitSeq("# "+strings.TrimSpace(text), "\n\n") {
			e, err := parseEntry(block)
			all, errs = append(all, e), append(errs, err)
		}
	}
	for i := range all {
		for j := range all[i].mutations {
			m := &all[i].mutations[j]
			if len(m.changes) > 0 {
				continue
			}
			changes := changesNamed(all, m.name)
			if changes == nil {
				errs = append(errs, fmt.Errorf("%s: %s has no mutation", all[i].id, m.name))
			}
			m.changes = changes
		}
	}
	return all, errors.Join(errs...)
}

// changesNamed returns the changes of the mutation with a name that has its own, or nil.
func changesNamed(all []entry, name string) []mutant.Switch {
	for _, e := range all {
		for _, m := range e.mutations {
			if len(m.changes) > 0 && m.changes[0].Name == name {
				return m.changes
			}
		}
	}
	return nil
}

// readEntries reads all lists.
func readEntries(t *testing.T) ([]entry, error) {
	t.Helper()
	var texts []string
	for _, list := range entryLists() {
		texts = append(texts, readFile(t, list))
	}
	return parseEntries(texts...)
}

var (
	entryHead   = regexp.MustCompile(`^# ([A-Z]?[0-9]+): (\S.*)$`)
	entryTest   = regexp.MustCompile(`^(test|slow|judge) (\S+) (Test\w+(?:/[\w-]+)?)$`)
	entryFile   = regexp.MustCompile(`^@ (\S+\.go)(?: (\S+) (Test\w+(?:/[\w-]+)?))?$`)
	entryMore   = regexp.MustCompile(`^& (\S+\.go)$`)
	entryShared = regexp.MustCompile(`^as ([A-Z]?[0-9]+(?:\.[0-9]+)?)(?: (\S+) (Test\w+(?:/[\w-]+)?))?$`)
)

func parseEntry(block string) (entry, error) {
	head, rest, _ := strings.Cut(block, "\n")
	m := entryHead.FindStringSubmatch(head)
	if m == nil {
		return entry{}, fmt.Errorf("%q has not the form: # ID: title", head)
	}
	p := entryParser{entry: entry{id: m[1], title: m[2]}}
	for line := range strings.SplitSeq(rest, "\n") {
		if err := p.line(line); err != nil {
			return p.entry, fmt.Errorf("%s: %w", p.entry.id, err)
		}
	}
	e := p.entry
	if err := p.end(); err != nil {
		return e, fmt.Errorf("%s: %w", e.id, err)
	}
	if len(e.tests) == 0 || len(e.mutations) == 0 {
		return e, fmt.Errorf("%s needs a test and a mutation", e.id)
	}
	return e, nil
}

// entryParser parses one entry.
type entryParser struct {
	entry   entry
	was, is []string // the lines of the current change
}

func (p *entryParser) line(line string) error {
	e := &p.entry
	if m := entryTest.FindStringSubmatch(line); m != nil {
		named := namedTest{m[2], m[3]}
		switch m[1] {
		case "judge":
			e.judges = append(e.judges, named)
		case "slow":
			e.slow = append(e.slow, named)
			fallthrough
		default:
			e.tests = append(e.tests, named)
		}
		return nil
	}
	if m := entryFile.FindStringSubmatch(line); m != nil {
		name := e.id
		if len(e.mutations) > 0 {
			name += "." + strconv.Itoa(len(e.mutations)+1)
		}
		return p.begin(name, m[1], m[2], m[3])
	}
	if m := entryMore.FindStringSubmatch(line); m != nil && len(e.mutations) > 0 {
		return p.more(m[1])
	}
	if m := entryShared.FindStringSubmatch(line); m != nil {
		return p.begin(m[1], "", m[2], m[3])
	}
	switch {
	case strings.HasPrefix(line, "-"):
		defer func() { p.was = append(p.was, line[1:]) }()
		if len(p.is) > 0 { // another piece of the file
			changes := e.mutations[len(e.mutations)-1].changes
			return p.more(changes[len(changes)-1].File)
		}
	case strings.HasPrefix(line, "+") && len(e.mutations) > 0:
		p.is = append(p.is, line[1:])
	default:
		return fmt.Errorf("an entry has no such line here: %q", line)
	}
	return nil
}

// begin begins a mutation. Without a file it is that of another entry.
func (p *entryParser) begin(name, file, folder, test string) error {
	err := p.end()
	m := entryMutation{name: name, by: namedTest{folder, test}}
	if test == "" && len(p.entry.tests) > 0 {
		m.by = p.entry.tests[0]
	}
	if !slices.Contains(p.entry.tests, m.by) {
		err = errors.Join(err, fmt.Errorf("%s is not among its tests", m.by))
	}
	if file != "" {
		m.changes = []mutant.Switch{{Name: name, Change: mutant.Change{File: file}}}
	}
	p.entry.mutations = append(p.entry.mutations, m)
	return err
}

// more begins another change of the current mutation.
func (p *entryParser) more(file string) error {
	err := p.end()
	last := &p.entry.mutations[len(p.entry.mutations)-1]
	last.changes = append(last.changes, mutant.Switch{Name: last.name, Change: mutant.Change{File: file}})
	return err
}

// end ends the current change, if there is one.
func (p *entryParser) end() error {
	if len(p.was)+len(p.is) == 0 {
		return nil
	}
	all := p.entry.mutations
	if len(all) == 0 || len(all[len(all)-1].changes) == 0 || len(p.was) == 0 {
		return errors.New("a change needs a file, and lines that it replaces")
	}
	changes := all[len(all)-1].changes
	last := &changes[len(changes)-1]
	last.Old, last.New = strings.Join(p.was, "\n"), strings.Join(p.is, "\n")
	p.was, p.is = nil, nil
	return nil
}

// entryBreaches finds ids without an entry, and tests that do not exist.
func entryBreaches(list []entry, ids []string, files []sourceFile) []string {
	var breaches, got []string
	for _, e := range list {
		got = append(got, e.id)
	}
	if !slices.Equal(got, ids) {
		breaches = append(breaches, "the ids of the entries are not those that it must have: (-got +want)\n"+cmp.Diff(got, ids))
	}
	exists := make(map[namedTest]string)
	for _, f := range files {
		if !f.isTest() || !isBuilt(f) {
			continue
		}
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && testFunction.MatchString(fn.Name.Name) {
				exists[namedTest{f.pkg(), fn.Name.Name}] = f.module
			}
		}
	}
	for _, e := range list {
		for _, named := range e.tests {
			if exists[named.function()] != "." {
				breaches = append(breaches, fmt.Sprintf("%s: %s is no test of the product", e.id, named))
			}
		}
		for _, named := range e.judges {
			if m := exists[named.function()]; m == "" || m == "." {
				breaches = append(breaches, fmt.Sprintf("%s: %s is no test of another module", e.id, named))
			}
		}
	}
	return breaches
}

// switches returns each mutation of the list once.
func switches(list []entry) []mutant.Switch {
	var all []mutant.Switch
	for _, e := range list {
		for _, m := range e.mutations {
			if !slices.Contains(all, m.changes[0]) {
				all = append(all, m.changes...)
			}
		}
	}
	return all
}

// Each id has an entry, each test exists, and each mutation fits the source.
func TestEntries(t *testing.T) {
	files, err := repoSources()
	if err != nil {
		t.Fatal(err)
	}
	all, err := readEntries(t)
	if err != nil {
		t.Fatal(err)
	}
	reportBreaches(t, entryBreaches(all, entryIDs(), files))
	if _, err := mutant.SwitchedTexts(switches(all)); err != nil {
		t.Error(err)
	}
}

// The rule detects breaches: on a made-up list and made-up files.
func TestEntriesRule(t *testing.T) {
	const made = "About.\n\n# I1: One\ntest a TestA\ntest b TestB\n@ a/a.go\n-x\n-y\n+z(BROKEN)\n@ a/b.go b TestB\n-u\n+BROKEN\n& a/c.go\n-v\n+BROKEN\n-w\n+BROKEN\n\n# 2: Two\ntest a TestA\nslow b TestB\njudge test/o TestO\nas I1\nas I1.2\n"
	list, err := parseEntries(made)
	a, b := namedTest{"a", "TestA"}, namedTest{"b", "TestB"}
	change := func(name, file, was, is string) mutant.Switch {
		return mutant.Switch{Name: name, Change: mutant.Change{File: file, Old: was, New: is}}
	}
	first := entryMutation{"I1", []mutant.Switch{change("I1", "a/a.go", "x\ny", "z(BROKEN)")}, a}
	second := entryMutation{"I1.2", []mutant.Switch{change("I1.2", "a/b.go", "u", "BROKEN"), change("I1.2", "a/c.go", "v", "BROKEN"), change("I1.2", "a/c.go", "w", "BROKEN")}, b}
	want := []entry{
		{id: "I1", title: "One", tests: []namedTest{a, b}, mutations: []entryMutation{
			first, second,
		}},
		{id: "2", title: "Two", tests: []namedTest{a, b}, slow: []namedTest{b}, judges: []namedTest{{"test/o", "TestO"}}, mutations: []entryMutation{
			first, {"I1.2", second.changes, a},
		}},
	}
	if diff := cmp.Diff(list, want, cmp.AllowUnexported(entry{}, namedTest{}, entryMutation{})); diff != "" || err != nil {
		t.Fatalf("error %v, list (-got +want):\n%s", err, diff)
	}
	for _, wrong := range []string{
		"1: x", "# I1: x", "# I1: x\ntest a TestA", "# I1: x\ntest a TestA\n-x", "# I1: x\ntest a TestA\n@ a.go\n+x", "# I1: x\njudge a TestA",
		"# I1: x\ntest a TestA\n@ a.go b TestB\n-x", "# I1: x\ntest a TestA\nas I2", "# I1: x\ntest a testA\njudge b TestB",
		"# I1: x\ntest a TestA\njudge b TestB",
	} {
		if got, err := parseEntries("About.\n\n" + wrong); err == nil {
			t.Errorf("%q is taken for %v", wrong, got)
		}
	}
	files := madeUp(t, map[string]string{
		"a/a_test.go": "package a\nfunc TestA(t *T) {}", "b/b.go": "package b\nfunc TestB(t *T) {}", "test/o/o_test.go": "package o\nfunc TestO(t *T) {}\n",
	})
	got := entryBreaches(list, []string{"I1", "2", "3"}, files)
	for i, part := range []string{`"3"`, "I1: b TestB is no test", "2: b TestB is no test", "2: test/o TestO is no test of another"} {
		if len(got) != 4 || !strings.Contains(got[i], part) {
			t.Errorf("breaches %q", got)
		}
	}
}
