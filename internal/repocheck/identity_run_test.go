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
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/test/sim/mutant"
)

var identityRun = flag.String("identity", "", "run the tests of the entries of identity.txt with these ids (a regular expression), with each of their mutations")

const (
	identityAtOnce  = 2 // test programs
	identityTimeout = 2 * time.Minute
)

// TestIdentityMutations requires the tests of the list to pass, and each to fail with its mutation
// of the product. It takes minutes, and runs only if -identity is set.
//
// All mutations are compiled into each test program, and the environment selects one: the
// programs are built once.
func TestIdentityMutations(t *testing.T) {
	t.Parallel()
	if *identityRun == "" {
		return
	}
	match, err := regexp.Compile("^(?:" + *identityRun + ")$")
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseIdentity(readFile(t, identityList))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	overlay, err := mutant.OverlaySwitches(folder, switches(all))
	if err != nil {
		t.Fatal(err)
	}
	type pair struct {
		mutation string
		by       namedTest
	}
	ids := make(map[pair][]string) // the entries that the run is for
	for _, e := range all {
		for _, m := range e.mutations {
			if match.MatchString(e.id) {
				ids[pair{m.name, m.by}] = append(ids[pair{m.name, m.by}], e.id)
			}
		}
	}
	programs := make(map[string]*identityProgram) // by the folders of their packages
	places := make(chan struct{}, identityAtOnce)
	for run := range ids {
		p := programs[run.by.folder]
		if p == nil {
			p = &identityProgram{folder: run.by.folder, places: places}
			p.path = filepath.Join(folder, strings.ReplaceAll(p.folder, "/", "-")+".test")
			p.build(t, overlay)
			programs[run.by.folder] = p
		}
		if !slices.Contains(p.tests, run.by.name) {
			p.tests = append(p.tests, run.by.name)
		}
	}
	for _, p := range programs {
		t.Run("unbroken "+p.folder, func(t *testing.T) {
			t.Parallel()
			text, err := p.run(t, "", p.tests...)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			for _, name := range p.tests {
				if !strings.Contains(text, "--- PASS: "+name+" ") {
					t.Errorf("%s did not run", name)
				}
			}
		})
	}
	for run, of := range ids {
		t.Run(strings.Join(of, ",")+" "+run.mutation+" "+run.by.String(), func(t *testing.T) {
			t.Parallel()
			text, err := programs[run.by.folder].run(t, run.mutation, run.by.name)
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

// identityProgram is the test program of a package, with all mutations.
type identityProgram struct {
	folder string // of the package
	path   string
	tests  []string
	places chan struct{}
}

func (p *identityProgram) build(t *testing.T, overlay string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", p.path, "./"+p.folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// run runs tests with a mutation, or with none if that is "".
func (p *identityProgram) run(t *testing.T, mutation string, tests ...string) (output string, err error) {
	t.Helper()
	p.places <- struct{}{}
	defer func() { <-p.places }()
	ctx, cancel := context.WithTimeout(t.Context(), identityTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, "-test.short", "-test.timeout=1m", "-test.v", "-test.run=^("+strings.Join(tests, "|")+")$")
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
