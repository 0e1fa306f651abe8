// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/foreign"
)

// way is one way for the suite to reach what it judges.
type way struct {
	name, note string
	// open starts what the way consists of, until the test ends, and returns what
	// has the suite run a set against it.
	open func(t *testing.T, s suite) func(what set) []scenario
	// like names the ways that this one has to equal: a scenario that passes
	// there, on whatever wire, passes here on every wire. Without, all have to pass.
	like string
	// foreign has a way only show what can be asked of others.
	foreign bool
	// lacks is the era that the backends of this way do not serve.
	lacks era
}

type era string

const (
	legacy era = "legacy"
	modern era = "modern"
)

// programs are the commands that the ways consist of.
type programs struct {
	gateway, behind, server, client string
	// Those of the Go SDK.
	goServer, goClient string
}

func buildPrograms(t *testing.T) programs {
	t.Helper()
	return programs{
		gateway: foreign.BuildGo(t, filepath.Join("..", ".."), "./cmd/signalbox"),
		behind:  foreign.BuildGo(t, ".", "./behind"),
		server:  foreign.BuildGo(t, ".", "./server"),
		client:  foreign.BuildGo(t, ".", "./client"),

		goServer: foreign.BuildGo(t, ".", "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"),
		goClient: foreign.BuildGo(t, ".", "github.com/modelcontextprotocol/go-sdk/conformance/everything-client"),
	}
}

const (
	direct  = "direct: "
	through = "gateway: "
)

// clients are the ways to a client, those first that others are measured by.
func (p programs) clients() []way {
	return []way{
		{name: direct + "ours", note: "our client, nothing between", open: started(p.client)},
		{name: direct + "Go SDK", note: "the conformance client of the Go SDK, nothing between",
			open: started(p.goClient), foreign: true},
		{name: through + "ours", note: "the gateway, and our client at it", open: started(p.behind, p.gateway, p.client)},
		{name: through + "ours, legacy", note: "the same, with a client that speaks 2025-11-25 to the gateway",
			open: started(p.behind, p.gateway, p.client, "-revision", "2025-11-25")},
		{name: through + "Go SDK", note: "the gateway, and the Go SDK's client at it",
			open: started(p.behind, p.gateway, p.goClient), like: direct + "Go SDK"},
	}
}

// started is a command that the suite starts.
func started(command ...string) func(*testing.T, suite) func(set) []scenario {
	return func(t *testing.T, s suite) func(set) []scenario {
		t.Helper()
		return func(what set) []scenario { return s.client(t, strings.Join(command, " "), what) }
	}
}

// served is a server that stands before the suite calls it.
func served(open func(*testing.T) string) func(*testing.T, suite) func(set) []scenario {
	return func(t *testing.T, s suite) func(set) []scenario {
		t.Helper()
		url := open(t)
		return func(what set) []scenario { return s.server(t, url, what) }
	}
}

// servers are the ways to a server, those first that others are measured by.
func (p programs) servers() []way {
	stateful, stateless := p.theirs("false"), p.theirs("true")
	old, current, both := p.ours(legacy), p.ours(modern), p.ours("")
	return []way{
		{name: direct + "fixture", note: "our server, nothing between", open: served(both)},
		{name: direct + "sessions", note: "the conformance server of the Go SDK with sessions, nothing between",
			open: served(stateful), foreign: true},
		{name: direct + "stateless", note: "the same without sessions", open: served(stateless), foreign: true},
		{name: through + "fixture", note: "the gateway before our server", open: p.through(bare(both))},
		{name: through + "sessions", note: "the gateway before the Go SDK's server with sessions",
			open: p.through(bare(stateful)), like: direct + "sessions"},
		{name: through + "stateless", note: "the gateway before the same without sessions",
			open: p.through(bare(stateless)), like: direct + "stateless"},
		{name: through + "one of five", note: "the gateway before our server and four more that bear prefixes",
			open: p.through(bare(both), named(old), named(current), named(stateful), named(stateless))},
		{name: through + "legacy", note: "the gateway before our server, which serves the legacy era only",
			open: p.through(bare(old)), lacks: modern},
		{name: through + "modern", note: "the gateway before our server, which serves the modern era only",
			open: p.through(bare(current)), lacks: legacy},
		{name: through + "legacy, modern", note: "the gateway before both of these, with the same names, which the first has",
			open: p.through(bare(old), bare(current)), lacks: modern},
		{name: through + "modern, legacy", note: "the same in the other order",
			open: p.through(bare(current), bare(old)), lacks: legacy},
	}
}

// ours is the fixture, in one era or, where none is named, in both.
func (p programs) ours(only era) func(*testing.T) string {
	args := []string{"-addr", "127.0.0.1:0"}
	if only != "" {
		args = append(args, "-era", string(only))
	}
	return func(t *testing.T) string {
		t.Helper()
		return foreign.Start(t, p.server, args...).URL
	}
}

// theirs is the conformance server of the Go SDK.
func (p programs) theirs(stateless string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		at := foreign.FreeAddress(t)
		foreign.StartAt(t, at, p.goServer, "-http", at, "-stateless="+stateless)
		return "http://" + at
	}
}

// backend starts a server and returns its entry in the configuration.
type backend func(t *testing.T) string

// bare is a backend whose names stay as they are.
func bare(open func(*testing.T) string) backend {
	return func(t *testing.T) string {
		t.Helper()
		return fmt.Sprintf(`{"type": "http", "url": %q, "prefix": ""}`, open(t))
	}
}

// named is a backend whose names get its own before them.
func named(open func(*testing.T) string) backend {
	return func(t *testing.T) string {
		t.Helper()
		return fmt.Sprintf(`{"type": "http", "url": %q}`, open(t))
	}
}

// through starts the gateway with these backends, in this order.
func (p programs) through(backends ...backend) func(*testing.T, suite) func(set) []scenario {
	return served(func(t *testing.T) string {
		t.Helper()
		var entries []string
		for i, b := range backends {
			entries = append(entries, fmt.Sprintf(`"b%d": %s`, i+1, b(t)))
		}
		config := filepath.Join(t.TempDir(), "servers.json")
		text := fmt.Sprintf(`{"conflict": "first", "limits": {"firstList": "10s"}, "mcpServers": {%s}}`, strings.Join(entries, ", "))
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return foreign.Start(t, p.gateway, "serve", "--config", config, "--listen", "127.0.0.1:0").URL
	})
}
