// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/test/foreign"
)

// suiteLimit is for one set of scenarios in one way: they take seconds, but one
// that hangs takes half a minute.
const suiteLimit = 5 * time.Minute

// suite is the installed conformance suite.
type suite struct {
	node foreign.Node
	main string
}

func installSuite(t *testing.T) suite {
	t.Helper()
	node := foreign.InstallNode(t)
	return suite{node, node.Module("@modelcontextprotocol/conformance/dist/index.js")}
}

// set is a selection of scenarios, by the name that the table gives it.
type set struct {
	name string
	args []string
}

// serverSets are all that the suite asks of a server. The first two are run on the wire
// of their revision, and the last runs each scenario on the wire that is its own.
func serverSets() []set {
	return []set{
		{"2025-11-25", []string{"--requirements", "2025-11-25"}},
		{"2026-07-28", []string{"--requirements", "2026-07-28"}},
		{"all", []string{"--suite", "all"}},
	}
}

// clientSets are all that the suite asks of a client, on the wire of a revision
// each, and of its extensions.
func clientSets() []set {
	return []set{
		{"2025-11-25", []string{"--spec-version", "2025-11-25"}},
		{"2026-07-28", []string{"--spec-version", "2026-07-28"}},
		{"extensions", nil},
	}
}

// status is what the suite says of one check.
type status string

const (
	statusFailure status = "FAILURE"
	statusWarning status = "WARNING"
	statusSuccess status = "SUCCESS"
)

// check is one line of the suite's report on a scenario.
type check struct {
	ID           string
	Description  string
	Status       status
	ErrorMessage string
}

// verdict is what came of a scenario.
type verdict int

const (
	absent  verdict = iota // it was not run
	skipped                // the suite had nothing to check
	passed
	failed
)

// outcome is a verdict and, where it is failed, what the suite said.
type outcome struct {
	verdict verdict
	said    []string
}

// wireValid is the check that the suite adds to every scenario: that the messages were
// well-formed. Where nothing else was checked, nothing of the scenario was.
const wireValid = "wire-schema-valid"

// judge is strict: what only warns has failed too.
func judge(checks []check) outcome {
	o := outcome{verdict: skipped}
	for _, c := range checks {
		switch c.Status {
		case statusFailure, statusWarning:
			o.said = append(o.said, fmt.Sprintf("%s %s: %s", c.Status, c.ID, cmp.Or(c.ErrorMessage, c.Description)))
		case statusSuccess:
			if c.ID != wireValid {
				o.verdict = passed
			}
		}
	}
	if len(o.said) > 0 {
		o.verdict = failed
	}
	return o
}

// server has the suite run a set against the server at url, and returns the
// outcome of each scenario in the order of the set.
func (s suite) server(t *testing.T, url string, what set) []scenario {
	t.Helper()
	dir := t.TempDir()
	ctx, stop := context.WithTimeout(t.Context(), suiteLimit)
	defer stop()
	args := slices.Concat([]string{s.main, "server", "--url", url, "-o", dir}, what.args)
	// The suite's exit says what the results say, less strictly.
	stdout, stderr, err := foreign.Output(ctx, nil, s.node.Env, s.node.Bin, args...)
	if ctx.Err() != nil {
		t.Fatalf("the suite: %v\n%s", err, stderr)
	}
	found, err := readResults(dir, stdout)
	if err != nil {
		t.Fatalf("the suite: %v\n%s%s", err, stdout, stderr)
	}
	return found
}

// scenario is the outcome of one.
type scenario struct {
	name string
	outcome
}

// announcement stands before the name of each scenario in the suite's output.
const announcement = "=== Running scenario: "

// readResults takes the scenarios from what the suite printed, and what came of
// them from the files that it wrote. Of a scenario that broke down there is none.
func readResults(dir string, stdout []byte) ([]scenario, error) {
	var found []scenario
	for line := range bytes.Lines(stdout) {
		rest, ok := strings.CutPrefix(string(line), announcement)
		if !ok {
			continue
		}
		name := strings.TrimSuffix(strings.TrimSpace(rest), " ===")
		checks, err := readChecks(dir, "server-"+name+"-")
		if errors.Is(err, fs.ErrNotExist) {
			found = append(found, scenario{name, outcome{failed, []string{"it broke down: the suite wrote no result"}}})
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, scenario{name, judge(checks)})
	}
	if len(found) == 0 {
		return nil, errors.New("it ran no scenario")
	}
	return found, nil
}

// readChecks finds the results of the scenario whose folder has that beginning:
// what follows is the time.
func readChecks(dir, prefix string) ([]check, error) {
	files, err := filepath.Glob(filepath.Join(dir, prefix+"[0-9][0-9][0-9][0-9]-*", "checks.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fs.ErrNotExist
	}
	data, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		return nil, err
	}
	var checks []check
	if err := json.Unmarshal(data, &checks); err != nil {
		return nil, fmt.Errorf("%s: %w", files[0], err)
	}
	return checks, nil
}

// client has the suite judge a command by the scenarios of a set, each in a run of
// its own: a whole set would have those of authorization among them.
func (s suite) client(t *testing.T, command string, what set) []scenario {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), suiteLimit)
	defer stop()
	list, stderr, err := foreign.Output(ctx, nil, s.node.Env, s.node.Bin, slices.Concat([]string{s.main, "list", "--client"}, what.args)...)
	if err != nil {
		t.Fatalf("the suite: %v\n%s", err, stderr)
	}
	var found []scenario
	for _, name := range listed(list, len(what.args) == 0) {
		dir := t.TempDir()
		args := slices.Concat([]string{s.main, "client", "--command", command, "--scenario", name, "-o", dir}, what.args)
		_, stderr, err := foreign.Output(ctx, nil, s.node.Env, s.node.Bin, args...)
		checks, failure := readChecks(dir, name+"-")
		if failure != nil {
			t.Fatalf("the suite: %v\n%s", errors.Join(err, failure), stderr)
		}
		o := judge(checks)
		if err != nil && o.verdict == passed {
			// The suite minds how a client ends, and says so by its own end.
			o = outcome{failed, []string{fmt.Sprintf("%v: %s", err, bytes.TrimSpace(stderr))}}
		}
		found = append(found, scenario{name, o})
	}
	return found
}

// listed takes the scenarios from a list of the suite: those of the extensions or
// those of the revisions. What belongs to authorization is left out.
func listed(list []byte, extensions bool) []string {
	var names []string
	for line := range bytes.Lines(list) {
		rest, ok := strings.CutPrefix(string(line), "  - ")
		name, of, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if ok && strings.Contains(of, "extension") == extensions && !strings.HasPrefix(name, "auth/") {
			names = append(names, name)
		}
	}
	return names
}
