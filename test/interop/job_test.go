// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-mcp/signalbox/test/foreign"
)

const (
	newestLegacy  = "2025-11-25"
	modernVersion = "2026-07-28"

	eraLegacy = "legacy"
	eraModern = "modern"
)

// row is a row of the table: one client in one protocol version.
type row struct{ client, version string }

func (r row) era() string {
	if r.version >= modernVersion {
		return eraModern
	}
	return eraLegacy
}

// job is one session of one client, with all servers that are behind its
// target. It is what the TypeScript clients read.
type job struct {
	ID      int      `json:"id"`
	Version string   `json:"version"`
	Era     string   `json:"era"`
	Target  target   `json:"target"`
	Answers answers  `json:"answers"`
	Servers []probes `json:"servers"`
}

// answers are what the client says when a server asks it.
type answers struct {
	Name   string `json:"name"`
	Sample string `json:"sample"`
	Root   string `json:"root"`
}

// outcome is what came of one feature. Server is empty for the feature connect,
// which is the whole job's.
type outcome struct {
	Job     int     `json:"job"`
	Server  string  `json:"server"`
	Feature feature `json:"feature"`
	OK      bool    `json:"ok"`
	Error   string  `json:"error"`
	MS      int     `json:"ms"`
}

// client is a client that nobody here wrote.
type client struct {
	name     string
	versions []string
	// run does the jobs, in any order. An error means that the client itself
	// could not be run; what did not work with a server is an outcome.
	run func(ctx context.Context, jobs []job) ([]outcome, error)
}

// clients returns those whose language is there.
func clients(on machine) []client {
	legacy := []string{"2025-03-26", "2025-06-18", "2025-11-25"}
	newest := []string{"2025-11-25", modernVersion}
	all := append(legacy, modernVersion)
	found := []client{{name: "go-sdk", versions: all, run: runGoSDK}}
	if n := on.node; n != nil {
		found = append(found,
			// This SDK offers its newest version, and no option changes that.
			client{name: "ts1", versions: newest[:1], run: scriptRunner(n.Bin, "clients/ts1.mjs", n.Env)},
			client{name: "ts2", versions: all, run: scriptRunner(n.Bin, "clients/ts2.mjs", n.Env)},
			// The command line chooses the era, and the newest version in it.
			client{name: inspectorName, versions: newest, run: inspectorRunner(*n)})
	}
	if p := on.python; p != nil {
		// Both choose the era, and the newest version in it.
		found = append(found,
			client{name: "py-mcp", versions: newest, run: scriptRunner(p.Bin, "python/client_mcp.py", nil)},
			client{name: "fastmcp", versions: newest, run: scriptRunner(p.Bin, "python/client_fastmcp.py", nil)})
	}
	return found
}

const (
	// batchTimeout bounds all jobs of one client; each feature has its own limit.
	batchTimeout = 10 * time.Minute
	// sessions is how many a client has at once, and busy, how many clients there are
	// at once: a machine has few cores, and who starts first ends first.
	sessions = 4
	busy     = 3
)

// scriptRunner does all jobs in one process, which runs a script.
func scriptRunner(bin, script string, env []string) func(context.Context, []job) ([]outcome, error) {
	return func(ctx context.Context, jobs []job) ([]outcome, error) {
		stdin, err := json.Marshal(jobs)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, batchTimeout)
		defer cancel()
		stdout, stderr, err := foreign.Output(ctx, stdin, env, bin, script)
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", script, err, stderr)
		}
		return decodeOutcomes(stdout)
	}
}

// decodeOutcomes reads one outcome per line.
func decodeOutcomes(lines []byte) ([]outcome, error) {
	var all []outcome
	for line := range bytes.Lines(lines) {
		var o outcome
		if err := json.Unmarshal(line, &o); err != nil {
			return nil, fmt.Errorf("outcome %q: %w", line, err)
		}
		all = append(all, o)
	}
	if len(all) == 0 {
		return nil, errors.New("no outcomes")
	}
	return all, nil
}
