// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"encoding/json"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// TestErrorCodes is the table of the conversions of codes for a client of either era.
// Other codes are unmodified.
func TestErrorCodes(t *testing.T) {
	read, err := mcp.NewRequest("resources/read", []byte(`{"uri":"file:///1"}`))
	if err != nil {
		t.Fatal(err)
	}
	call, err := mcp.NewRequest("tools/call", []byte(`{"name":"x","uri":"file:///1"}`))
	if err != nil {
		t.Fatal(err)
	}
	const ofIt, ofOther = `{"uri":"file:///1"}`, `{"uri":"file:///2"}`
	for _, tt := range []struct {
		name           string
		req            *mcp.Request
		code           int64
		data           string
		legacy, modern int64
	}{
		{"parse error", call, mcp.CodeParseError, "", -32700, -32700},
		{"invalid request", call, mcp.CodeInvalidRequest, "", -32600, -32600},
		{"no such method", call, mcp.CodeMethodNotFound, "", -32601, -32601},
		{"invalid parameters", call, mcp.CodeInvalidParams, "", -32602, -32602},
		{"internal error", call, mcp.CodeInternalError, "", -32603, -32603},

		{"no such resource, of the legacy era", read, mcp.CodeResourceNotFound, ofIt, -32002, -32602},
		{"the same without data", read, mcp.CodeResourceNotFound, "", -32002, -32602},
		{"the same of a tool", call, mcp.CodeResourceNotFound, "", -32002, -32602},
		{"no such resource, of the modern era", read, mcp.CodeInvalidParams, ofIt, -32002, -32602},
		{"the same with more data", read, mcp.CodeInvalidParams, `{"a":{"uri":1},"uri":"file:\/\/\/1"}`, -32002, -32602},
		{"invalid parameters of a read", read, mcp.CodeInvalidParams, "", -32602, -32602},
		{"of another resource", read, mcp.CodeInvalidParams, ofOther, -32602, -32602},
		{"with an odd URI", read, mcp.CodeInvalidParams, `{"uri":1}`, -32602, -32602},
		{"with odd data", read, mcp.CodeInvalidParams, `"file:///1"`, -32602, -32602},
		{"of a tool that names a URI", call, mcp.CodeInvalidParams, ofIt, -32602, -32602},
		{"without a request", nil, mcp.CodeInvalidParams, ofIt, -32602, -32602},

		{"URL elicitation", call, mcp.CodeURLElicitationRequired, "", -32042, mcp.CodeUnsupported},
		{"header mismatch", call, mcp.CodeHeaderMismatch, "", -32600, -32020},
		{"missing capability", call, mcp.CodeMissingCapability, "", -32600, -32021},
		{"the same, of the legacy era", call, mcp.CodeInvalidRequest, `{"requiredCapabilities":{"sampling":{}}}`, -32600, -32021},
		{"with odd capabilities", call, mcp.CodeInvalidRequest, `{"requiredCapabilities":"sampling"}`, -32600, -32600},
		{"with other data", call, mcp.CodeInvalidRequest, `{"own":{"requiredCapabilities":{}}}`, -32600, -32600},
		{"unsupported version", call, mcp.CodeUnsupportedVersion, "", -32602, -32022},
		{"the first that is not defined", call, -32023, "", -32023, -32603},
		{"the last that is reserved", call, -32099, "", -32099, -32603},
		{"before them", call, -32019, "", -32019, -32019},
		{"behind them", call, -32100, "", -32100, -32100},
		{"of servers", call, -32000, "", -32000, -32000},
		{"of the application", call, 4711, "", 4711, 4711},
		{"of the gateway", call, mcp.CodeDeadline, "", mcp.CodeDeadline, mcp.CodeDeadline},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := &mcp.Error{Code: tt.code, Message: "why", Data: json.RawMessage(tt.data)}
			for era, want := range map[mcp.Era]int64{mcp.EraLegacy: tt.legacy, mcp.EraModern: tt.modern} {
				got := Error(era, tt.req, in)
				if got.Code != want {
					t.Errorf("%s: %d, want %d", era, got.Code, want)
				}
				if got.Message != "why" || string(got.Data) != tt.data {
					t.Errorf("%s: the message is %q and the data %s", era, got.Message, got.Data)
				}
				if want == tt.code && got != in {
					t.Errorf("%s: a copy was made of what stays as it is", era)
				}
			}
		})
	}
}

// Only the code changes; all other members of a backend's error are kept.
func TestErrorKeepsBytes(t *testing.T) {
	m, err := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"error":{"x-own":1.0, "code" : -32002,"message":"\u0041","data":{"b":1e2}}}`), mcp.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	wire, err := m.WireError()
	if err != nil {
		t.Fatal(err)
	}
	got := string(jsonrpc.AppendError(nil, m.ID, Error(mcp.EraModern, nil, wire)))
	want := `{"jsonrpc":"2.0","id":1,"error":{"x-own":1.0,"code" : -32602,"message":"\u0041","data":{"b":1e2}}}`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
