// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func askOf(t *testing.T, method, params string) *mcp.Request {
	t.Helper()
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// peerOf returns a client with these declared capabilities, as the edge of its era reads
// them.
func peerOf(t *testing.T, v mcp.Version, caps string) *mcp.Peer {
	t.Helper()
	if v.Era() == mcp.EraModern {
		return &mcp.Peer{Version: v, Capabilities: []byte(caps)}
	}
	m, err := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+string(v)+`","capabilities":`+caps+`}}`), mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	peer, wire := legacyPeer(&m)
	if wire != nil {
		t.Fatal(wire)
	}
	return peer
}

// A client is asked for what it has declared, whether or not its revision has it.
func TestDeclaredDecides(t *testing.T) {
	const all = `{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}`
	const runs = `{"tasks":{"list":{},"requests":{"elicitation":{"create":{}}}}}`
	const form, url, tools = `{"message":"m"}`, `{"mode":"url"}`, `{"tools":[]}`
	tests := []struct {
		version        mcp.Version
		caps           string
		method, params string
		want           string // the missing capability
	}{
		{mcp.V20241105, all, "roots/list", `{}`, ""},
		{mcp.V20241105, all, "elicitation/create", url, ""},
		{mcp.V20241105, all, "sampling/createMessage", tools, ""},
		{mcp.V20241105, `{"elicitation":{}}`, "elicitation/create", form, ""},
		{mcp.V20241105, `{"elicitation":{}}`, "elicitation/create", url, `{"elicitation":{"url":{}}}`},
		{mcp.V20241105, `{"roots":{}}`, "elicitation/create", form, `{"elicitation":{"form":{}}}`},
		{mcp.V20241105, `{"sampling":true,"roots":{}}`, "sampling/createMessage", `{}`, `{"sampling":{}}`},
		{mcp.V20241105, `{"sampling":true,"roots":{}}`, "roots/list", `{}`, ""},
		{mcp.V20250326, all, "elicitation/create", form, ""},
		{mcp.V20250326, all, "sampling/createMessage", `{}`, ""},
		{mcp.V20250618, all, "elicitation/create", form, ""},
		{mcp.V20250618, all, "elicitation/create", url, ""},
		{mcp.V20250618, `{"elicitation":{"url":{}}}`, "elicitation/create", form, `{"elicitation":{"form":{}}}`}, // it declares URLs only
		{mcp.V20250618, `{"elicitation":{"form":{}}}`, "elicitation/create", form, ""},
		{mcp.V20250618, all, "sampling/createMessage", tools, ""},
		{mcp.V20251125, all, "elicitation/create", url, ""},
		{mcp.V20251125, all, "sampling/createMessage", tools, ""},
		{mcp.V20251125, `{"elicitation":{}}`, "elicitation/create", url, `{"elicitation":{"url":{}}}`},
		{mcp.V20251125, runs, "tasks/get", `{}`, ""},
		{mcp.V20251125, runs, "tasks/result", `{}`, ""},
		{mcp.V20251125, runs, "tasks/list", `{}`, ""},
		{mcp.V20251125, runs, "tasks/cancel", `{}`, "tasks/cancel"},
		{mcp.V20251125, all, "tasks/get", `{}`, "tasks/get"},
		{mcp.V20250618, runs, "tasks/get", `{}`, ""},
		{mcp.V20260728, runs, "tasks/get", `{}`, "tasks/get"},
		{mcp.V20251125, runs, "tasks/update", `{}`, "tasks/update"},
		{mcp.V20260728, all, "elicitation/create", url, ""},
		{mcp.V20260728, `{}`, "roots/list", `{}`, `{"roots":{}}`},
		{mcp.V20260728, `[]`, "roots/list", `{}`, `{"roots":{}}`},
	}
	for _, tt := range tests {
		err := checkDeclared(peerOf(t, tt.version, tt.caps), askOf(t, tt.method, tt.params))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s of %s with %s: %v, want %q missing", tt.method, tt.version, tt.caps, err, tt.want)
		}
	}
}

// A question has the members that the revision of its client knows.
func TestQuestionByRevision(t *testing.T) {
	const given = `{"mode":"url","message":"m","url":"https://x"}`
	tests := []struct {
		version              mcp.Version
		method, params, want string
	}{
		{mcp.V20250618, "elicitation/create", `{"mode":"form","message":"m","x":1.0}`, `{"message":"m","x":1.0}`},
		{mcp.V20251125, "elicitation/create", `{"mode":"form","message":"m"}`, `{"mode":"form","message":"m"}`},
		{mcp.V20241105, "elicitation/create", `{"mode":"url","elicitationId":"e"}`, `{"mode":"url","elicitationId":"e"}`},
		{mcp.V20251125, "elicitation/create", `{"mode":"url","elicitationId":"e"}`, `{"mode":"url","elicitationId":"e"}`},
		{mcp.V20250618, "sampling/createMessage", `{"mode":"x"}`, `{"mode":"x"}`},
	}
	for _, tt := range tests {
		if got := string(legacyAsk(tt.version, askOf(t, tt.method, tt.params))); got != tt.want {
			t.Errorf("%s %s for %s: %s, want %s", tt.method, tt.params, tt.version, got, tt.want)
		}
	}
	first, second := legacyAsk(mcp.V20250326, askOf(t, "elicitation/create", given)), legacyAsk(mcp.V20251125, askOf(t, "elicitation/create", given))
	if !strings.HasPrefix(string(first), strings.TrimSuffix(given, "}")+`,"elicitationId":"`) || string(first) == string(second) {
		t.Errorf("ids: %s and %s", first, second)
	}
	modern := modernAsk(askOf(t, "elicitation/create", `{"_meta":{"progressToken":1,"a":1.0},"task":{"ttl":1},"elicitationId":"e","mode":"url"}`))
	if want := `{"_meta":{"a":1.0},"mode":"url"}`; string(modern) != want {
		t.Errorf("to a modern client: %s, want %s", modern, want)
	}
}
