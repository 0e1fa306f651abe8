// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package question

import (
	"errors"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// A capability is declared by its presence. An invalid declaration does not count.
func TestMissing(t *testing.T) {
	const form, url = `{"elicitation":{"form":{}}}`, `{"elicitation":{"url":{}}}`
	for _, tt := range []struct{ capabilities, method, params, want string }{
		{``, "roots/list", `{}`, `{"roots":{}}`},
		{`{"roots":{}}`, "roots/list", `{}`, ``},
		{`{"roots":7}`, "roots/list", `{}`, `{"roots":{}}`},
		{`[]`, "roots/list", `{}`, `{"roots":{}}`},
		{`{"roots":{}}`, "sampling/createMessage", `{}`, `{"sampling":{}}`},
		{`{"sampling":{}}`, "sampling/createMessage", `{}`, ``},
		{`{"sampling":{}}`, "sampling/createMessage", `{"tools":[]}`, `{"sampling":{"tools":{}}}`},
		{`{"sampling":{"tools":{}}}`, "sampling/createMessage", `{"tools":[]}`, ``},
		{`{}`, "elicitation/create", `{}`, form},
		{`{"elicitation":{}}`, "elicitation/create", `{}`, ``},
		{`{"elicitation":{}}`, "elicitation/create", `{"mode":"url"}`, url},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", `{"mode":"url"}`, ``},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", `{"mode":"form"}`, form},
		{`{"elicitation":{"form":{},"url":{}}}`, "elicitation/create", `{}`, ``},
	} {
		req, err := mcp.NewRequest(tt.method, []byte(tt.params))
		if err != nil {
			t.Fatal(err)
		}
		if got, known := Missing([]byte(tt.capabilities), req); !known || got != tt.want {
			t.Errorf("%s %s of %s: %q, %v; want %q", tt.method, tt.params, tt.capabilities, got, known, tt.want)
		}
	}
	for _, method := range []string{"tools/call", "ping", "tasks/get", ""} {
		req, err := mcp.NewRequest(method, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, known := Missing([]byte(`{"elicitation":{}}`), req); known || got != "" {
			t.Errorf("%q can be asked: %q", method, got)
		}
	}
}

func TestUndeclared(t *testing.T) {
	err := Undeclared("roots/list", `{"roots":{}}`)
	if !errors.Is(err, &mcp.Error{Code: mcp.CodeMissingCapability}) || string(err.Data) != `{"requiredCapabilities":{"roots":{}}}` {
		t.Errorf("got %v with %s", err, err.Data)
	}
}

// An answer has the members that its schema requires, and may have more.
func TestIsAnswer(t *testing.T) {
	const elicit, sample, roots = "elicitation/create", "sampling/createMessage", "roots/list"
	for _, tt := range []struct {
		method, raw string
		want        bool
	}{
		{elicit, `{"action":"accept","content":{"a":[1]}}`, true}, {elicit, `{"action":"decline"}`, true}, {elicit, `{"action":"cancel","x":1}`, true},
		{elicit, `{}`, false}, {elicit, `{"action":"ACCEPT"}`, false}, {elicit, `{"action":7}`, false}, {elicit, `{"action":"accept","content":7}`, false},
		{elicit, `7`, false}, {elicit, `null`, false}, {elicit, ``, false},
		{sample, `{"role":"assistant","model":"m","content":{}}`, true}, {sample, `{"role":"user","model":"","content":[]}`, true},
		{sample, `{"role":"system","model":"m","content":{}}`, false}, {sample, `{"role":"user","content":{}}`, false},
		{sample, `{"role":"user","model":"m"}`, false}, {sample, `{"role":"user","model":"m","content":"x"}`, false}, {sample, `[]`, false},
		{roots, `{"roots":[]}`, true}, {roots, `{"roots":[{"uri":"file:///a","name":"n"}]}`, true},
		{roots, `{}`, false}, {roots, `{"roots":null}`, false}, {roots, `{"roots":[{}]}`, false}, {roots, `{"roots":{"uri":"x"}}`, false},
		{"tools/call", `{"content":[]}`, false},
	} {
		if got := IsAnswer(tt.method, []byte(tt.raw)); got != tt.want {
			t.Errorf("%s %s: %v, want %v", tt.method, tt.raw, got, tt.want)
		}
	}
}
