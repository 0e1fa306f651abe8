// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/test/sim/mutant"
)

var entriesRun = flag.String("entries", "", "run the tests of the entries of identity.txt and compose.txt with these ids (a regular expression), with each of their mutations")

const (
	programsAtOnce = 2 // test programs
	programTimeout = 2 * time.Minute
)

// TestMutationsOfEntries requires all mutations of the lists to compile, the tests of the lists to pass, and each to
// fail with its mutation of the product. It takes minutes, and runs only if -entries is set.
//
// All mutations are compiled into each test program, and the environment selects one: the
// programs are built once.
func TestMutationsOfEntries(t *testing.T) {
	t.Parallel()
	if *entriesRun == "" {
		return
	}
	match, err := regexp.Compile("^(?:" + *entriesRun + ")$")
	if err != nil {
		t.Fatal(err)
	}
	all, err := readEntries(t)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	overlay, err := mutant.OverlaySwitches(folder, switches(all))
	if err != nil {
		t.Fatal(err)
	}
	buildAll(t, overlay, switches(all))
	type pair struct {
		mutation string
		by       namedTest
		slow     bool // it needs to run without -short
	}
	ids := make(map[pair][]string) // the entries that the run is for
	for _, e := range all {
		for _, m := range e.mutations {
			if match.MatchString(e.id) {
				p := pair{m.name, m.by, slices.Contains(e.slow, m.by)}
				ids[p] = append(ids[p], e.id)
			}
		}
	}
	programs := make(map[string]*testProgram) // by the folders of their packages
	places := make(chan struct{}, programsAtOnce)
	for run := range ids {
		p := programs[run.by.folder]
		if p == nil {
			p = &testProgram{folder: run.by.folder, places: places}
			p.path = filepath.Join(folder, strings.ReplaceAll(p.folder, "/", "-")+".test")
			p.build(t, overlay)
			programs[run.by.folder] = p
		}
		tests := &p.tests
		if run.slow {
			tests = &p.slow
		}
		if !slices.Contains(*tests, run.by.name) {
			*tests = append(*tests, run.by.name)
		}
	}
	for _, p := range programs {
		isPart := func(name string) bool { return strings.Contains(name, "/") }
		if whole := slices.DeleteFunc(slices.Clone(p.tests), isPart); len(whole) > 0 {
			p.mustPass(t, false, whole)
		}
		for _, name := range p.tests {
			if isPart(name) {
				p.mustPass(t, false, []string{name})
			}
		}
		if len(p.slow) > 0 {
			p.mustPass(t, true, p.slow)
		}
	}
	for run, of := range ids {
		t.Run(strings.Join(of, ",")+" "+run.mutation+" "+run.by.String(), func(t *testing.T) {
			t.Parallel()
			text, err := programs[run.by.folder].run(t, run.mutation, run.slow, run.by.name)
			switch {
			case err == nil:
				t.Error("it passes with this mutation")
			case !strings.Contains(text, "--- FAIL: "+run.by.name+" "), strings.Contains(text, "panic: test timed out"):
				t.Errorf("it does not fail by itself: %v\n%s", err, text)
			}
			t.Log(firstReport(text))
		})
	}
}

// buildAll requires the packages with mutations to compile, also those that are part of no test program.
func buildAll(t *testing.T, overlay string, all []mutant.Switch) {
	t.Helper()
	args := []string{"build", "-o", os.DevNull, "-overlay", overlay}
	for _, s := range all {
		if folder := "./" + filepath.ToSlash(filepath.Dir(s.File)); !slices.Contains(args, folder) {
			args = append(args, folder)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// testProgram is the test program of a package, with all mutations.
type testProgram struct {
	folder string // of the package
	path   string
	tests  []string
	slow   []string // tests that run without -short
	places chan struct{}
}

func (p *testProgram) build(t *testing.T, overlay string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", p.path, "./"+p.folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// mustPass requires tests to pass without a mutation.
func (p *testProgram) mustPass(t *testing.T, slow bool, tests []string) {
	t.Run("unbroken "+p.folder+" "+tests[0], func(t *testing.T) {
		t.Parallel()
		text, err := p.run(t, "", slow, tests...)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for _, name := range tests {
			if !strings.Contains(text, "--- PASS: "+name+" ") {
				t.Errorf("%s did not run", name)
			}
		}
	})
}

// run runs tests with a mutation, or with none if that is "".
func (p *testProgram) run(t *testing.T, mutation string, slow bool, tests ...string) (output string, err error) {
	t.Helper()
	p.places <- struct{}{}
	defer func() { <-p.places }()
	ctx, cancel := context.WithTimeout(t.Context(), programTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, "-test.short="+strconv.FormatBool(!slow), "-test.timeout=1m", "-test.v", "-test.run=^("+strings.ReplaceAll(strings.Join(tests, "|"), "/", ")$/^(")+")$")
	cmd.Dir, cmd.Env = p.folder, append(os.Environ(), mutant.Variable+"="+mutation)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// firstReport returns the first line that a failed test has reported.
func firstReport(text string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, "_test.go:") {
			return strings.TrimSpace(line)
		}
	}
	return "no report"
}
