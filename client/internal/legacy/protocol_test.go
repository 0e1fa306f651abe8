// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// A legacy server has no request states. A request with one is for another server, and
// must not make this one repeat its work. Input without a state was not requested here:
// it is removed, and the server asks for what it needs.
func TestLegacyServerTakesNoInput(t *testing.T) {
	const refused = ""
	tests := []struct {
		method, params string
		modern         bool
		want           string
	}{
		{"tools/call", `{"name":"x","requestState":"s"}`, true, refused},
		{"tools/call", `{"name":"x","requestState":null}`, true, refused},
		{"tools/call", `{"name":"x","requestState":"s","inputResponses":{}}`, true, refused},
		{"prompts/get", `{"name":"x","requestState":"s"}`, true, refused},
		{"resources/read", `{"uri":"x:","requestState":"s"}`, true, refused},
		{"tools/call", `{"name":"x","inputResponses":{"a":1},"arguments":{"inputResponses":1}}`, true,
			`{"name":"x","arguments":{"inputResponses":1}}`},
		{"tools/call", `{"name":"x","inputResponses":null}`, true, `{"name":"x"}`},
		{"tools/call", `{"name":"x","arguments":{"requestState":"s"}}`, true, `{"name":"x","arguments":{"requestState":"s"}}`},
		{"tools/call", `{"name":"x","requestState":"s"}`, false, `{"name":"x","requestState":"s"}`},
		{"tasks/update", `{"taskId":"x","inputResponses":{}}`, true, `{"taskId":"x","inputResponses":{}}`},
	}
	for _, tt := range tests {
		req, err := mcp.NewRequest(tt.method, []byte(tt.params))
		if err != nil {
			t.Fatal(err)
		}
		req.TakesInputRequired = tt.modern
		got, err := withoutInput(req)
		switch {
		case tt.want == refused && (err == nil || !strings.Contains(err.Error(), "requestState")):
			t.Errorf("%s %s of a modern client %t: %v, want an error that names requestState", tt.method, tt.params, tt.modern, err)
		case tt.want != refused && (err != nil || string(got.Params.Bytes()) != tt.want):
			t.Errorf("%s %s of a modern client %t: %v, %v, want %s", tt.method, tt.params, tt.modern, got, err, tt.want)
		}
		if string(req.Params.Bytes()) != tt.params {
			t.Errorf("the request of the caller has become %s", req.Params.Bytes())
		}
	}
}
