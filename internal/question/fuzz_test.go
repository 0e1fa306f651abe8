// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package question

import (
	"encoding/json"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// methods are the methods of requests to clients.
var methods = []string{"elicitation/create", "sampling/createMessage", "roots/list"}

// An accepted answer is an object that a strict decoder reads, and not an answer to
// another method, unless it has the members of both.
func FuzzIsAnswer(f *testing.F) {
	for _, raw := range []string{
		`{"action":"accept","content":{}}`, `{"role":"user","model":"m","content":{"type":"text","text":""}}`, `{"roots":[{"uri":"x:y"}]}`,
		`{"action":"accept","action":"decline"}`, `{"roots":[null]}`, `{"Action":"accept"}`, "{\"action\":\"accept\",\"x\":\"\xff\"}", `null`, ``,
	} {
		f.Add([]byte(raw))
	}
	needs := map[string]string{"elicitation/create": "action", "sampling/createMessage": "role", "roots/list": "roots"}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, method := range methods {
			if !IsAnswer(method, raw) {
				continue
			}
			var members map[string]json.RawMessage
			if err := json.Unmarshal(raw, &members); err != nil || members[needs[method]] == nil {
				t.Errorf("%q is an answer to %s: %v", raw, method, err)
			}
		}
		if IsAnswer("tools/call", raw) {
			t.Errorf("%q is an answer to what nobody is asked", raw)
		}
	})
}

// The missing capabilities are sufficient: a client that also declares them can be
// asked.
func FuzzMissing(f *testing.F) {
	f.Add(uint8(0), []byte(`{}`))
	f.Add(uint8(0), []byte(`{"mode":"url"}`))
	f.Add(uint8(1), []byte(`{"tools":[],"mode":7}`))
	f.Add(uint8(2), []byte(`{"mode":"form"}`))
	f.Fuzz(func(t *testing.T, method uint8, params []byte) {
		req, err := mcp.NewRequest(methods[int(method)%len(methods)], params)
		if err != nil {
			return
		}
		missing, known := Missing(nil, req)
		if !known || missing == "" {
			t.Fatalf("%s %s asks a client that has declared nothing: %q, %v", req.Method, params, missing, known)
		}
		if still, _ := Missing([]byte(missing), req); still != "" {
			t.Errorf("%s %s: %s was missing, and then %s is", req.Method, params, missing, still)
		}
	})
}
