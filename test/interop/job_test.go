// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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

// job is one session of one client, with all servers behind its target. The TypeScript
// clients read it as JSON.
type job struct {
	ID      int      `json:"id"`
	Version string   `json:"version"`
	Era     string   `json:"era"`
	Target  target   `json:"target"`
	Answers answers  `json:"answers"`
	Servers []probes `json:"servers"`
}

// answers are the client's answers to questions of a server.
type answers struct {
	Name   string `json:"name"`
	Sample string `json:"sample"`
	Root   string `json:"root"`
}

// outcomeClose is the result of closing a session. It is no column of the table.
const outcomeClose feature = "close"

// outcome is the result of one feature. Server is empty for connect and close, which
// concern the whole job.
type outcome struct {
	Job     int     `json:"job"`
	Server  string  `json:"server"`
	Feature feature `json:"feature"`
	OK      bool    `json:"ok"`
	Error   string  `json:"error"`
	MS      int     `json:"ms"`
}

// client is a client of another project.
type client struct {
	name     string
	versions []string
	// run runs the jobs, in any order. An error means that the client itself could not be
	// run; a failure with a server is an outcome.
	run func(ctx context.Context, jobs []job) ([]outcome, error)
}

// profile is the part of the tests that a client takes part in.
type profile struct {
	// few: it uses only the servers that cover each era and transport once, and not their
	// equivalents in other SDKs.
	few bool
	// offers are the features that its library has and its driver tests; all if it is empty.
	offers []feature
}

// profileOf returns the profile of a client by its name.
func profileOf(client string) profile {
	lists := []feature{featureTools, featureResources, featureTemplates, featurePrompts, featureCall, featureRead, featureGet}
	connected := append([]feature{featureConnect}, lists...)
	switch client {
	case inspectorName:
		return profile{few: true}
	case "mcp-go":
		return profile{few: true, offers: slices.Concat(connected, []feature{
			featureProgress, featureLog, featureComplete, featureElicit, featureSample, featureRoots, featureSeveral,
			featureKinds, featureStructure, featureCaps, featureInstruct, featureChanges,
		})}
	case "rmcp", "java-sdk":
		return profile{few: true, offers: slices.Concat(connected, []feature{
			featureProgress, featureComplete, featureElicit, featureSample, featureRoots, featureSeveral,
			featureKinds, featureStructure, featureCaps, featureInstruct, featureChanges,
		})}
	case "py-mcp1", "openai-agents":
		return profile{few: true, offers: append(connected, featureInstruct)}
	case "langchain":
		return profile{few: true, offers: []feature{featureTools, featureCall}}
	default:
		return profile{}
	}
}

// tries reports whether a client tests a feature.
func (p profile) tries(f feature) bool { return p.offers == nil || slices.Contains(p.offers, f) }

// clients returns the clients in installed languages.
func clients(t testing.TB, on machine) []client {
	t.Helper()
	legacy := []string{"2025-03-26", "2025-06-18", "2025-11-25"}
	newest := []string{"2025-11-25", modernVersion}
	all := append(legacy, modernVersion)
	found := []client{
		{name: "go-sdk", versions: all, run: runGoSDK},
		{name: "mcp-go", versions: newest, run: scriptRunner(foreign.BuildGo(t, ".", "./mcpgo"), nil)},
	}
	if n := on.node; n != nil {
		found = append(found,
			// This SDK offers its newest version, and no option changes that.
			client{name: "ts1", versions: newest[:1], run: scriptRunner(n.Bin, n.Env, "clients/ts1.mjs")},
			client{name: "ts2", versions: all, run: scriptRunner(n.Bin, n.Env, "clients/ts2.mjs")},
			// The command line selects the era, and the newest version in it.
			client{name: inspectorName, versions: newest, run: inspectorRunner(*n)})
	}
	if p := on.python; p != nil {
		// Both select the era, and the newest version in it.
		found = append(found,
			client{name: "py-mcp", versions: newest, run: scriptRunner(p.Bin, nil, "python/client_mcp.py")},
			client{name: "fastmcp", versions: newest, run: scriptRunner(p.Bin, nil, "python/client_fastmcp.py")})
	}
	if p := on.python1; p != nil {
		found = append(found,
			client{name: "py-mcp1", versions: newest[:1], run: scriptRunner(p.Bin, nil, "python1/client_mcp.py")},
			client{name: "langchain", versions: newest[:1], run: scriptRunner(p.Bin, nil, "python1/client_langchain.py")},
			client{name: "openai-agents", versions: newest[:1], run: scriptRunner(p.Bin, nil, "python1/client_openai.py")})
	}
	if on.rust != "" {
		found = append(found, client{name: "rmcp", versions: newest, run: scriptRunner(on.rust, nil)})
	}
	if on.java != "" {
		found = append(found, client{name: "java-sdk", versions: newest[:1], run: scriptRunner("java", nil, "-cp", on.java, "Main")})
	}
	return found
}

const (
	// batchTimeout bounds all jobs of one client; each feature has its own limit.
	batchTimeout = 10 * time.Minute
	// sessions is the number of concurrent sessions of a client, and busy the number of
	// concurrent clients: a machine has few cores.
	sessions = 4
	busy     = 3
)

// scriptRunner runs all jobs in one process, a script or a program.
func scriptRunner(bin string, env []string, args ...string) func(context.Context, []job) ([]outcome, error) {
	return func(ctx context.Context, jobs []job) ([]outcome, error) {
		stdin, err := json.Marshal(jobs)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, batchTimeout)
		defer cancel()
		stdout, stderr, err := foreign.Output(ctx, stdin, env, bin, args...)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w\n%s", filepath.Base(bin), strings.Join(args, " "), err, stderr)
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
