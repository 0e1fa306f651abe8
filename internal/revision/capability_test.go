// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestServerCapabilities(t *testing.T) {
	const all = `{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{},"completions":{},` +
		`"tasks":{"list":{}},"extensions":{"a/b":{}},"experimental":{"x":1.0},"x-own":{}}`
	const first = `{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}`
	for v, want := range map[mcp.Version]string{
		mcp.V20241105: first + `,"experimental":{"x":1.0}}`,
		mcp.V20250326: first + `,"completions":{},"experimental":{"x":1.0}}`,
		mcp.V20250618: first + `,"completions":{},"experimental":{"x":1.0}}`,
		mcp.V20251125: first + `,"completions":{},"tasks":{"list":{}},"experimental":{"x":1.0}}`,
		mcp.V20260728: first + `,"completions":{},"extensions":{"a/b":{}},"experimental":{"x":1.0}}`,
	} {
		if got := string(ServerCapabilities(v, []byte(all))); got != want {
			t.Errorf("%s: %s, want %s", v, got, want)
		}
	}
	for _, odd := range []string{"", "null", "[]", `"tools"`, "{}"} {
		if got := string(ServerCapabilities(mcp.V20251125, []byte(odd))); got != "{}" {
			t.Errorf("%q becomes %s", odd, got)
		}
	}
}

func TestClientCapabilities(t *testing.T) {
	const first, last = mcp.V20241105, mcp.V20260728
	const rest = `"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"experimental":{},"x-own":1.0`
	const all = `{"roots":{"listChanged":true,"x":1},"tasks":{"list":{}},"extensions":{"a/b":{}},` + rest + `}`
	for _, tt := range []struct {
		name     string
		from, to mcp.Version
		in, want string
	}{
		{"of the first revision", first, first, all, `{"roots":{"listChanged":true,"x":1},"tasks":{"list":{}},` + rest + `}`},
		{"of another", mcp.V20251125, first, all, `{"roots":{"listChanged":true,"x":1},"tasks":{"list":{}},` + rest + `}`},
		{"to a modern server", first, last, all, `{"roots":{"x":1},"extensions":{"a/b":{}},` + rest + `}`},
		{"of a modern client", last, first, all, `{"roots":{"x":1},` + rest + `}`},
		{"of the modern era", last, last, all, `{"roots":{"x":1},"extensions":{"a/b":{}},` + rest + `}`},
		{"of no revision", "", last, all, `{"roots":{"x":1},"extensions":{"a/b":{}},` + rest + `}`},
		{"odd ones", first, last, `{"sampling":true,"roots":7}`, `{"sampling":true,"roots":{}}`},
		{"none", last, last, ``, `{}`},
		{"null", first, first, `null`, `{}`},
	} {
		if got := string(ClientCapabilities(tt.from, tt.to, []byte(tt.in))); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// Extensions that are translated pass in each direction and revision, and others only between
// modern peers (ADR 0070).
func TestExtensionsInEachRevision(t *testing.T) {
	const all = `{"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{},"io.modelcontextprotocol/ui":{"mimeTypes":["x"]}}}`
	const translated = `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["x"]}}}`
	versions := append(mcp.LegacyVersions(), mcp.V20260728)
	for _, v := range versions {
		want := translated
		if v.Era() == mcp.EraModern {
			want = all
		}
		if got := string(ServerCapabilities(v, []byte(all))); got != want {
			t.Errorf("a server to a client of %s: %s, want %s", v, got, want)
		}
		for _, from := range versions {
			if got := string(ClientCapabilities(from, v, []byte(all))); got != want {
				t.Errorf("a client of %s to a server of %s: %s, want %s", from, v, got, want)
			}
		}
	}
}
