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

// identityList has the requirements of identity, the attacks and the invariants, each with its
// tests and with mutations of the product that one of them detects. It is data of a test and no
// page, because most of it is quoted source.
const identityList = "internal/repocheck/testdata/identity.txt"

// identityIDs returns the ids that the list must have, in their order.
func identityIDs() []string {
	var all []string
	for n := 1; n <= 20; n++ {
		all = append(all, "I"+strconv.Itoa(n))
	}
	for n := 1; n <= 42; n++ {
		all = append(all, strconv.Itoa(n))
	}
	for n := 1; n <= 16; n++ {
		all = append(all, "N"+strconv.Itoa(n))
	}
	return all
}

// identityEntry is one entry of the list.
type identityEntry struct {
	id, title string
	tests     []namedTest
	judges    []namedTest // in other modules, with programs of others
	mutations []identityMutation
}

// namedTest is a test function of a folder.
type namedTest struct{ folder, name string }

func (n namedTest) String() string { return n.folder + " " + n.name }

// identityMutation is a mutation, and the test that has to fail with it.
type identityMutation struct {
	name    string
	changes []mutant.Switch
	by      namedTest
}

// parseIdentity reads the list. The text before the first entry describes its form.
func parseIdentity(text string) ([]identityEntry, error) {
	_, text, _ = strings.Cut(text, "\n\n# ")
	var all []identityEntry
	var errs []error
	for block := range strings.SplitSeq("# "+strings.TrimSpace(text), "\n\n") {
		e, err := parseIdentityEntry(block)
		all, errs = append(all, e), append(errs, err)
	}
	for i := range all {
		for j := range all[i].mutations {
			m := &all[i].mutations[j]
			if len(m.changes) > 0 {
				continue
			}
			other := slices.IndexFunc(all, func(e identityEntry) bool { return e.id == m.name })
			if other < 0 || len(all[other].mutations) == 0 || len(all[other].mutations[0].changes) == 0 {
				errs = append(errs, fmt.Errorf("%s: %s has no mutation", all[i].id, m.name))
				continue
			}
			m.changes = all[other].mutations[0].changes
		}
	}
	return all, errors.Join(errs...)
}

var (
	identityHead   = regexp.MustCompile(`^# ([IN]?[0-9]+): (\S.*)$`)
	identityTest   = regexp.MustCompile(`^(test|judge) (\S+) (Test\w+)$`)
	identityFile   = regexp.MustCompile(`^@ (\S+\.go)(?: (\S+) (Test\w+))?$`)
	identityMore   = regexp.MustCompile(`^& (\S+\.go)$`)
	identityShared = regexp.MustCompile(`^as ([IN]?[0-9]+)(?: (\S+) (Test\w+))?$`)
)

func parseIdentityEntry(block string) (identityEntry, error) {
	head, rest, _ := strings.Cut(block, "\n")
	m := identityHead.FindStringSubmatch(head)
	if m == nil {
		return identityEntry{}, fmt.Errorf("%q has not the form: # ID: title", head)
	}
	p := identityParser{entry: identityEntry{id: m[1], title: m[2]}}
	for line := range strings.SplitSeq(rest, "\n") {
		if err := p.line(line); err != nil {
			return p.entry, fmt.Errorf("%s: %w", p.entry.id, err)
		}
	}
	e := p.entry
	if err := p.end(); err != nil {
		return e, fmt.Errorf("%s: %w", e.id, err)
	}
	if len(e.tests) == 0 || len(e.mutations) == 0 && len(e.judges) == 0 {
		return e, fmt.Errorf("%s needs a test, and a mutation or a judge", e.id)
	}
	return e, nil
}

// identityParser parses one entry.
type identityParser struct {
	entry   identityEntry
	was, is []string // the lines of the current change
}

func (p *identityParser) line(line string) error {
	e := &p.entry
	if m := identityTest.FindStringSubmatch(line); m != nil {
		named := namedTest{m[2], m[3]}
		if m[1] == "judge" {
			e.judges = append(e.judges, named)
		} else {
			e.tests = append(e.tests, named)
		}
		return nil
	}
	if m := identityFile.FindStringSubmatch(line); m != nil {
		name := e.id
		if len(e.mutations) > 0 {
			name += "." + strconv.Itoa(len(e.mutations)+1)
		}
		return p.begin(name, m[1], m[2], m[3])
	}
	if m := identityMore.FindStringSubmatch(line); m != nil && len(e.mutations) > 0 {
		return p.more(m[1])
	}
	if m := identityShared.FindStringSubmatch(line); m != nil {
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
func (p *identityParser) begin(name, file, folder, test string) error {
	err := p.end()
	m := identityMutation{name: name, by: namedTest{folder, test}}
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
func (p *identityParser) more(file string) error {
	err := p.end()
	last := &p.entry.mutations[len(p.entry.mutations)-1]
	last.changes = append(last.changes, mutant.Switch{Name: last.name, Change: mutant.Change{File: file}})
	return err
}

// end ends the current change, if there is one.
func (p *identityParser) end() error {
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

// identityBreaches finds ids without an entry, and tests that do not exist.
func identityBreaches(list []identityEntry, ids []string, files []sourceFile) []string {
	var breaches, got []string
	for _, e := range list {
		got = append(got, e.id)
	}
	if !slices.Equal(got, ids) {
		breaches = append(breaches, "the ids of "+identityList+" are not those that it must have: (-got +want)\n"+cmp.Diff(got, ids))
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
			if exists[named] != "." {
				breaches = append(breaches, fmt.Sprintf("%s: %s is no test of the product", e.id, named))
			}
		}
		for _, named := range e.judges {
			if m := exists[named]; m == "" || m == "." {
				breaches = append(breaches, fmt.Sprintf("%s: %s is no test of another module", e.id, named))
			}
		}
	}
	return breaches
}

// switches returns each mutation of the list once.
func switches(list []identityEntry) []mutant.Switch {
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
func TestIdentityList(t *testing.T) {
	list, err := parseIdentity(readFile(t, identityList))
	if err != nil {
		t.Fatal(err)
	}
	files, err := repoSources()
	if err != nil {
		t.Fatal(err)
	}
	reportBreaches(t, identityBreaches(list, identityIDs(), files))
	if _, err := mutant.SwitchedTexts(switches(list)); err != nil {
		t.Error(err)
	}
}

// The rule detects breaches: on a made-up list and made-up files.
func TestIdentityRule(t *testing.T) {
	const made = "About.\n\n# I1: One\ntest a TestA\ntest b TestB\n@ a/a.go\n-x\n-y\n+z(BROKEN)\n@ a/b.go b TestB\n-u\n+BROKEN\n& a/c.go\n-v\n+BROKEN\n-w\n+BROKEN\n\n# 2: Two\ntest a TestA\njudge test/o TestO\nas I1\n"
	list, err := parseIdentity(made)
	a, b := namedTest{"a", "TestA"}, namedTest{"b", "TestB"}
	change := func(name, file, was, is string) mutant.Switch {
		return mutant.Switch{Name: name, Change: mutant.Change{File: file, Old: was, New: is}}
	}
	first := identityMutation{"I1", []mutant.Switch{change("I1", "a/a.go", "x\ny", "z(BROKEN)")}, a}
	want := []identityEntry{
		{id: "I1", title: "One", tests: []namedTest{a, b}, mutations: []identityMutation{
			first, {"I1.2", []mutant.Switch{change("I1.2", "a/b.go", "u", "BROKEN"), change("I1.2", "a/c.go", "v", "BROKEN"), change("I1.2", "a/c.go", "w", "BROKEN")}, b},
		}},
		{id: "2", title: "Two", tests: []namedTest{a}, judges: []namedTest{{"test/o", "TestO"}}, mutations: []identityMutation{first}},
	}
	if diff := cmp.Diff(list, want, cmp.AllowUnexported(identityEntry{}, namedTest{}, identityMutation{})); diff != "" || err != nil {
		t.Fatalf("error %v, list (-got +want):\n%s", err, diff)
	}
	for _, wrong := range []string{
		"1: x", "# I1: x", "# I1: x\ntest a TestA", "# I1: x\ntest a TestA\n-x", "# I1: x\ntest a TestA\n@ a.go\n+x", "# I1: x\njudge a TestA",
		"# I1: x\ntest a TestA\n@ a.go b TestB\n-x", "# I1: x\ntest a TestA\nas I2", "# I1: x\ntest a testA\njudge b TestB",
	} {
		if got, err := parseIdentity("About.\n\n" + wrong); err == nil {
			t.Errorf("%q is taken for %v", wrong, got)
		}
	}
	files := madeUp(t, map[string]string{
		"a/a_test.go": "package a\nfunc TestA(t *T) {}", "b/b.go": "package b\nfunc TestB(t *T) {}", "test/o/o_test.go": "package o\nfunc TestO(t *T) {}\n",
	})
	got := identityBreaches(list, []string{"I1", "2", "3"}, files)
	for i, part := range []string{`"3"`, "I1: b TestB is no test", "2: test/o TestO is no test of another"} {
		if len(got) != 3 || !strings.Contains(got[i], part) {
			t.Errorf("breaches %q", got)
		}
	}
}
