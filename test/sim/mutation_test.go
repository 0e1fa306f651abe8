// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machines is the directory of the files that mutations change. Paths relative to it name
// files of the simulator.
const machines = "../../internal/session"

// mutation is one way to break a rule: it replaces a text in a file.
type mutation struct {
	rule, title string
	file        string
	old, new    string
}

func (m *mutation) String() string { return m.rule + ": " + m.title }

// readMutations parses a file of mutations. Each has a title that begins with its rule, the
// file that it changes, and the old and the new lines.
func readMutations(text string) ([]mutation, error) {
	var all []mutation
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		m, err := readMutation(block)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func readMutation(block string) (mutation, error) {
	var m mutation
	var was, is []string
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "# "):
			m.rule, m.title, _ = strings.Cut(line[2:], ": ")
		case strings.HasPrefix(line, "@ "):
			m.file = line[2:]
		case strings.HasPrefix(line, "-"):
			was = append(was, line[1:])
		case strings.HasPrefix(line, "+"):
			is = append(is, line[1:])
		default:
			return m, fmt.Errorf("a mutation has no such line: %q", line)
		}
	}
	m.old, m.new = strings.Join(was, "\n"), strings.Join(is, "\n")
	if m.rule == "" || m.title == "" || m.file == "" || m.old == "" || m.new == m.old {
		return m, fmt.Errorf("a mutation needs a rule, a title, a file and what is changed:\n%s", block)
	}
	return m, nil
}

// apply returns the mutated source.
func (m *mutation) apply(source string) (string, error) {
	if n := strings.Count(source, m.old); n != 1 {
		return "", fmt.Errorf("%s: %s has the old text %d times, want once:\n%s", m, m.file, n, m.old)
	}
	return strings.Replace(source, m.old, m.new, 1), nil
}

// mutations returns all mutations.
func mutations(t *testing.T) []mutation {
	t.Helper()
	names, err := filepath.Glob("testdata/mutations/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("no mutations: %v", err)
	}
	var all []mutation
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		some, err := readMutations(string(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, some...)
	}
	return all
}

// The old text of every mutation exists exactly once.
func TestMutationsApply(t *testing.T) {
	all := mutations(t)
	if len(all) < 40 {
		t.Errorf("%d mutations, want at least 40", len(all))
	}
	seen := make(map[string]bool)
	for _, m := range all {
		source, err := os.ReadFile(filepath.Join(machines, m.file))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.apply(string(source)); err != nil {
			t.Error(err)
		}
		if seen[m.String()] {
			t.Errorf("%s is listed twice", &m)
		}
		seen[m.String()] = true
	}
}

func TestReadMutations(t *testing.T) {
	got, err := readMutations("# I1: a title\n@ a.go\n-\told\n-\tmore\n+\tnew\n\n# I2: another\n@ b.go\n-x\n")
	if err != nil || len(got) != 2 {
		t.Fatalf("%d mutations, %v", len(got), err)
	}
	want := mutation{rule: "I1", title: "a title", file: "a.go", old: "\told\n\tmore", new: "\tnew"}
	if got[0] != want {
		t.Errorf("got %+v, want %+v", got[0], want)
	}
	if _, err := want.apply("\told\n\tmore\n\told\n\tmore"); err == nil {
		t.Error("a text that is there twice is no error")
	}
	if out, err := want.apply("a\n\told\n\tmore()\n"); err != nil || out != "a\n\tnew()\n" {
		t.Errorf("applied: %q, %v", out, err)
	}
	for _, bad := range []string{"# I1: a\n@ a.go\n", "@ a.go\n-x\n", "# I1\n@ a.go\n-x\n", "# I1: a\n@ a.go\n-x\n+x\n", "# I1: a\n@ a.go\n x\n"} {
		if _, err := readMutations(bad); err == nil {
			t.Errorf("%q is no error", bad)
		}
	}
}
