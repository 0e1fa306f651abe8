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
	const roots = `{"roots":{"listChanged":true},"sampling":`
	const all = roots + `{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"tasks":{"list":{}},"extensions":{"a/b":{}},"experimental":{},"x-own":1}`
	for _, tt := range []struct {
		name    string
		version mcp.Version
		in      string
		want    string
	}{
		{"the first", mcp.V20241105, all, roots + `{},"experimental":{}}`},
		{"the second", mcp.V20250326, all, roots + `{},"experimental":{}}`},
		{"the third", mcp.V20250618, all, roots + `{},"elicitation":{},"experimental":{}}`},
		{"the last of its era", mcp.V20251125, all,
			roots + `{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"tasks":{"list":{}},"experimental":{}}`},
		{"the modern one", mcp.V20260728, all,
			`{"roots":{},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"extensions":{"a/b":{}},"experimental":{}}`},
		{"forms by default", mcp.V20250618, `{"elicitation":{}}`, `{"elicitation":{}}`},
		{"no forms", mcp.V20250618, `{"elicitation":{"url":{}},"sampling":{}}`, `{"sampling":{}}`},
		{"no forms, where there are URLs", mcp.V20251125, `{"elicitation":{"url":{}}}`, `{"elicitation":{"url":{}}}`},
		{"odd ones", mcp.V20241105, `{"sampling":true}`, `{"sampling":{}}`},
		{"none", mcp.V20260728, ``, `{}`},
		{"null", mcp.V20251125, `null`, `{}`},
	} {
		if got := string(ClientCapabilities(tt.version, []byte(tt.in))); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
