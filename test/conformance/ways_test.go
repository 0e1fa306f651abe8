// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"fmt"
	"net/http"
	neturl "net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/canary"
	"github.com/signalbox-mcp/signalbox/test/foreign"
	"github.com/signalbox-mcp/signalbox/test/identity/provider"
	"github.com/signalbox-mcp/signalbox/test/tap"
)

// way is one way in which the suite reaches a server or client.
type way struct {
	name, note string
	// open starts the programs of the way, until the test ends, and returns a function that
	// runs a set against them.
	open func(t *testing.T, s suite) func(what set) []scenario
	// like names the way that this one must match in its results: a scenario that passes there, on
	// any wire, must pass here on every wire. If it is empty, all must pass.
	like string
	// foreign marks a way that only shows the results of other projects.
	foreign bool
	// lacks is the era that the backends of this way do not serve.
	lacks era
}

type era string

const (
	legacy era = "legacy"
	modern era = "modern"
)

// programs are the commands of the ways.
type programs struct {
	gateway, behind, server, client string
	// Programs of the Go SDK.
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

// clients returns the ways to a client, the reference ways first.
func (p programs) clients() []way {
	return []way{
		{name: direct + "ours", note: "our client, directly", open: started(p.client)},
		{name: direct + "Go SDK", note: "the conformance client of the Go SDK, directly",
			open: started(p.goClient), foreign: true},
		{name: through + "ours", note: "our client, through the gateway", open: started(p.behind, p.gateway, p.client)},
		{name: through + "ours, legacy", note: "the same, with a client that uses 2025-11-25 towards the gateway",
			open: started(p.behind, p.gateway, p.client, "-revision", "2025-11-25")},
		{name: through + "Go SDK", note: "the Go SDK's client, through the gateway",
			open: started(p.behind, p.gateway, p.goClient), like: direct + "Go SDK"},
	}
}

// accounts returns the ways to a client for the scenarios about authorization: it gets tokens
// at the authorization server of the suite.
func (p programs) accounts() []way {
	return []way{
		{name: direct + "ours", note: "our client, directly", open: started(p.client)},
		{name: direct + "Go SDK", note: "the conformance client of the Go SDK, directly", open: started(p.goClient), foreign: true},
		{name: through + "ours", note: "our client, through the gateway, where the user signs in", open: started(p.behind, p.gateway, p.client)},
		{name: through + "ours, legacy", note: "the same, with a client that uses 2025-11-25 towards the gateway",
			open: started(p.behind, p.gateway, p.client, "-revision", "2025-11-25")},
	}
}

// started is a command that the suite starts.
func started(command ...string) func(*testing.T, suite) func(set) []scenario {
	return func(t *testing.T, s suite) func(set) []scenario {
		t.Helper()
		return func(what set) []scenario { return s.client(t, strings.Join(command, " "), what) }
	}
}

// served is a server that runs before the suite calls it.
func served(open func(*testing.T) string) func(*testing.T, suite) func(set) []scenario {
	return func(t *testing.T, s suite) func(set) []scenario {
		t.Helper()
		url := open(t)
		return func(what set) []scenario { return s.server(t, url, what) }
	}
}

// servers returns the ways to a server, the reference ways first.
func (p programs) servers() []way {
	stateful, stateless := p.theirs("false"), p.theirs("true")
	old, current, both := p.ours(legacy, "knots"), p.ours(modern, "knots"), p.ours("", "knots")
	return []way{
		{name: direct + "fixture", note: "our server, directly", open: served(both)},
		{name: direct + "sessions", note: "the conformance server of the Go SDK with sessions, directly",
			open: served(stateful), foreign: true},
		{name: direct + "stateless", note: "the same without sessions", open: served(stateless), foreign: true},
		{name: through + "fixture", note: "the gateway in front of our server", open: p.through(bare(both))},
		{name: through + "sessions", note: "the gateway in front of the Go SDK's server with sessions",
			open: p.through(bare(stateful)), like: direct + "sessions"},
		{name: through + "stateless", note: "the gateway in front of the same without sessions",
			open: p.through(bare(stateless)), like: direct + "stateless"},
		{name: through + "one of five", note: "the gateway in front of our server without a skill and four more with prefixes, two of them ours with a skill",
			open: p.through(bare(p.ours("", "")), named(p.ours(legacy, "knots")), named(p.ours(modern, "splices")), named(stateful), named(stateless))},
		{name: through + "tokens", note: "the gateway in front of our server, for requests with the tokens of an identity provider only",
			open: p.withTokens(bare(both))},
		{name: through + "legacy", note: "the gateway in front of our server, which serves the legacy era only",
			open: p.through(bare(old)), lacks: modern},
		{name: through + "modern", note: "the gateway in front of our server, which serves the modern era only",
			open: p.through(bare(current)), lacks: legacy},
		{name: through + "legacy, modern", note: "the gateway in front of both of these with the same names, which belong to the first",
			open: p.through(bare(old), bare(current)), lacks: modern},
		{name: through + "modern, legacy", note: "the same in the other order",
			open: p.through(bare(current), bare(old)), lacks: legacy},
	}
}

// ours is the fixture, in one era or, if that is empty, in both. It has a skill of this name, if that is
// not empty.
func (p programs) ours(only era, skill string) func(*testing.T) string {
	args := []string{"-addr", "127.0.0.1:0", "-skill", skill}
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

// bare is a backend without a prefix.
func bare(open func(*testing.T) string) backend {
	return func(t *testing.T) string {
		t.Helper()
		return fmt.Sprintf(`{"type": "http", "url": %q, "prefix": ""}`, open(t))
	}
}

// named is a backend with its default prefix.
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
		var secrets canary.Set
		secrets.Add(t, "token of a client", canary.Token)
		return withToken(t, p.serve(t, &secrets, "127.0.0.1:0", "", backends), canary.Token)
	})
}

// withTokens is like through, for requests that need a token of an identity provider. A
// proxy before the gateway adds it, because the suite has none.
func (p programs) withTokens(backends ...backend) func(*testing.T, suite) func(set) []scenario {
	return served(func(t *testing.T) string {
		t.Helper()
		const scope = "mcp:use"
		at := foreign.FreeAddress(t)
		public := "http://" + at
		client := provider.Machine("suite", "secret-of-the-suite")
		issuer := provider.Start(t, provider.Settings{Clients: []provider.Client{client}})
		auth := fmt.Sprintf(`"publicURL": %q, "auth": {"issuers": [{"name": "corp", "issuer": %q, "scopes": [%q]}]}, `, public, issuer.Issuer, scope)
		var secrets canary.Set
		url := p.serve(t, &secrets, at, auth, backends)
		tokens, err := issuer.MachineToken(t.Context(), client, url, scope)
		if err != nil {
			t.Fatal(err)
		}
		secrets.Add(t, "token of the suite", tokens.Access)
		return withToken(t, url, tokens.Access)
	})
}

// withToken starts a proxy before a gateway that adds a token to each request, and returns its
// address.
func withToken(t *testing.T, gateway, token string) string {
	t.Helper()
	url, err := neturl.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	relay := tap.Before(t, gateway)
	relay.Change = func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	return relay.URL + url.Path
}

// serve starts the gateway with more keys of the configuration and returns its address. At the end
// of the test none of the secrets may be in what it has written, with the log at level debug.
func (p programs) serve(t *testing.T, secrets *canary.Set, at, keys string, backends []backend) string {
	t.Helper()
	var entries []string
	for i, b := range backends {
		entries = append(entries, fmt.Sprintf(`"b%d": %s`, i+1, b(t)))
	}
	config := filepath.Join(t.TempDir(), "servers.json")
	text := fmt.Sprintf(`{%s"log": {"level": "debug"}, "audit": {"file": "audit.jsonl"}, "conflict": "first", "limits": {"firstList": "10s"}, "mcpServers": {%s}}`, keys, strings.Join(entries, ", "))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	output, state := new(bytes.Buffer), t.TempDir()
	t.Cleanup(func() { // when the gateway has ended, which is cleaned up first
		files, err := secrets.ScanFiles(state)
		if err != nil {
			t.Error(err)
		}
		record, err := secrets.ScanFiles(filepath.Dir(config))
		if err != nil {
			t.Error(err)
		}
		for _, leak := range slices.Concat(secrets.Scan("output", output.String()), files, record) {
			t.Error(leak)
		}
		if !strings.Contains(output.String(), "listening on ") {
			t.Error("the output of the gateway is not here")
		}
	})
	return foreign.StartTo(t, output, "env", "XDG_STATE_HOME="+state, p.gateway, "serve", "--config", config, "--listen", at).URL
}
