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
// of the product.
//
// All mutations are compiled into each test program, and the environment selects one: the
// programs are built once.
func TestIdentityMutations(t *testing.T) {
	if *identityRun == "" {
		t.Skip("it takes minutes; -identity=.* runs it")
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
	named := make(map[string][]string) // the tests of a folder
	for _, e := range all {
		for _, m := range e.mutations {
			if match.MatchString(e.id) && !slices.Contains(named[m.by.folder], m.by.name) {
				named[m.by.folder] = append(named[m.by.folder], m.by.name)
			}
		}
	}
	places := make(chan struct{}, identityAtOnce)
	programs := make(map[string]string)
	for pkg := range named {
		programs[pkg] = filepath.Join(folder, strings.ReplaceAll(pkg, "/", "-")+".test")
		build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", programs[pkg], "./"+pkg) //nolint:gosec // a folder of the list
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	run := func(t *testing.T, broken, pkg string, tests ...string) (string, error) {
		places <- struct{}{}
		defer func() { <-places }()
		ctx, cancel := context.WithTimeout(t.Context(), identityTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, programs[pkg], "-test.short", "-test.timeout=1m", "-test.v", "-test.run=^("+strings.Join(tests, "|")+")$") //nolint:gosec // built above
		cmd.Dir, cmd.Env = pkg, append(os.Environ(), mutant.Variable+"="+broken)
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	for pkg, tests := range named {
		t.Run("unbroken "+pkg, func(t *testing.T) {
			t.Parallel()
			text, err := run(t, "", pkg, tests...)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			for _, name := range tests {
				if !strings.Contains(text, "--- PASS: "+name+" ") {
					t.Errorf("%s is skipped", name)
				}
			}
		})
	}
	for _, e := range all {
		if !match.MatchString(e.id) {
			continue
		}
		for _, m := range e.mutations {
			t.Run(e.id+" "+m.name+" "+m.by.String(), func(t *testing.T) {
				t.Parallel()
				text, err := run(t, m.name, m.by.folder, m.by.name)
				switch {
				case err == nil:
					t.Errorf("it passes with this mutation: %+v", m.changes)
				case !strings.Contains(text, "--- FAIL: "+m.by.name+" "), strings.Contains(text, "panic: test timed out"):
					t.Errorf("it does not fail by itself: %v\n%s", err, text)
				}
				t.Log(firstReport(text))
			})
		}
	}
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
