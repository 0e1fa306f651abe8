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

// suiteLimit is the time limit of one set of scenarios in one way. A set takes seconds, but
// a hanging scenario takes half a minute.
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

// set is a named selection of scenarios.
type set struct {
	name string
	args []string
	// authorization is whether a set for clients has the scenarios about authorization, or
	// all others.
	authorization bool
}

// serverSets returns all sets for servers. The first two run on the wire of their revision,
// and the last runs each scenario on its own wire.
func serverSets() []set {
	return []set{
		{name: "2025-11-25", args: []string{"--requirements", "2025-11-25"}},
		{name: "2026-07-28", args: []string{"--requirements", "2026-07-28"}},
		{name: "all", args: []string{"--suite", "all"}},
	}
}

// clientSets returns all sets for clients: one for each revision's wire, and one for the
// extensions.
func clientSets() []set {
	return []set{
		{name: "2025-11-25", args: []string{"--spec-version", "2025-11-25"}},
		{name: "2026-07-28", args: []string{"--spec-version", "2026-07-28"}},
		{name: "extensions"},
	}
}

// authorizationSets returns the sets of scenarios about authorization, which are for clients.
func authorizationSets() []set {
	return []set{
		{name: "2025-03-26", args: []string{"--spec-version", "2025-03-26"}, authorization: true},
		{name: "2025-11-25", args: []string{"--spec-version", "2025-11-25"}, authorization: true},
		{name: "2026-07-28", args: []string{"--spec-version", "2026-07-28"}, authorization: true},
		{name: "extensions", authorization: true},
	}
}

// status is the suite's result of one check.
type status string

const (
	statusFailure status = "FAILURE"
	statusWarning status = "WARNING"
	statusSuccess status = "SUCCESS"
)

// check is one entry of the suite's report on a scenario.
type check struct {
	ID           string
	Description  string
	Status       status
	ErrorMessage string
}

// verdict is the result of a scenario.
type verdict int

const (
	absent  verdict = iota // not run
	skipped                // nothing to check
	passed
	failed
)

// outcome is a verdict and, if it failed, the suite's messages.
type outcome struct {
	verdict  verdict
	messages []string
}

// wireValid is the check that the suite adds to every scenario: the messages were
// well-formed. If it is the only check, nothing of the scenario was checked.
const wireValid = "wire-schema-valid"

// judge is strict: a warning is a failure.
func judge(checks []check) outcome {
	o := outcome{verdict: skipped}
	for _, c := range checks {
		switch c.Status {
		case statusFailure, statusWarning:
			o.messages = append(o.messages, fmt.Sprintf("%s %s: %s", c.Status, c.ID, cmp.Or(c.ErrorMessage, c.Description)))
		case statusSuccess:
			if c.ID != wireValid {
				o.verdict = passed
			}
		}
	}
	if len(o.messages) > 0 {
		o.verdict = failed
	}
	return o
}

// server runs a set against the server at url, and returns the outcomes in the order of the
// set.
func (s suite) server(t *testing.T, url string, what set) []scenario {
	t.Helper()
	dir := t.TempDir()
	ctx, stop := context.WithTimeout(t.Context(), suiteLimit)
	defer stop()
	args := slices.Concat([]string{s.main, "server", "--url", url, "-o", dir}, what.args)
	// The exit status is a less strict summary of the results.
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

// scenario is one outcome.
type scenario struct {
	name string
	outcome
}

// announcement precedes the name of each scenario in the suite's output.
const announcement = "=== Running scenario: "

// readResults reads the names of the scenarios from the suite's output, and the results
// from its files. A scenario that crashed has no file.
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
			found = append(found, scenario{name, outcome{failed, []string{"it crashed: the suite wrote no result"}}})
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, scenario{name, judge(checks)})
	}
	if len(found) == 0 {
		return nil, errors.New("no scenario was run")
	}
	return found, nil
}

// readChecks reads the results of the scenario with a folder that has the prefix; the rest of the
// folder's name is the time.
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

// client runs the scenarios of a set against a command, each in a run of its own, because the
// suite cannot select them.
func (s suite) client(t *testing.T, command string, what set) []scenario {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), suiteLimit)
	defer stop()
	list, stderr, err := foreign.Output(ctx, nil, s.node.Env, s.node.Bin, slices.Concat([]string{s.main, "list", "--client"}, what.args)...)
	if err != nil {
		t.Fatalf("the suite: %v\n%s", err, stderr)
	}
	var found []scenario
	for _, name := range listed(list, len(what.args) == 0, what.authorization) {
		found = append(found, s.clientScenario(ctx, t, command, name, what.args))
	}
	return found
}

// clientScenario runs one scenario against a command.
func (s suite) clientScenario(ctx context.Context, t *testing.T, command, name string, more []string) scenario {
	t.Helper()
	dir := t.TempDir()
	args := slices.Concat([]string{s.main, "client", "--command", command, "--scenario", name, "-o", dir}, more)
	_, stderr, err := foreign.Output(ctx, nil, s.node.Env, s.node.Bin, args...)
	checks, failure := readChecks(dir, name+"-")
	if failure != nil {
		t.Fatalf("the suite: %v\n%s", errors.Join(err, failure), stderr)
	}
	o := judge(checks)
	if err != nil && o.verdict == passed {
		// The suite checks the exit status of a client, and reports it by its own.
		o = outcome{failed, []string{fmt.Sprintf("%v: %s", err, bytes.TrimSpace(stderr))}}
	}
	return scenario{name, o}
}

// listed parses a list of the suite: the scenarios of the extensions or those of the
// revisions, about authorization or about all else.
func listed(list []byte, extensions, authorization bool) []string {
	var names []string
	for line := range bytes.Lines(list) {
		rest, ok := strings.CutPrefix(string(line), "  - ")
		name, of, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if ok && strings.Contains(of, "extension") == extensions && strings.HasPrefix(name, "auth/") == authorization {
			names = append(names, name)
		}
	}
	return names
}
