// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// A modern server with a configured legacy version returns its supported versions in
// its error. That is the cure, so the error for the operator and the client contains
// it.
//
// V6- 2026-07-28 basic/versioning: "legacy clients have no fall-forward mechanism, and this
// message may be the only diagnostic they can surface to users."
func TestModernServerThatIsPinnedToLegacy(t *testing.T) {
	for name, refusal := range map[string]string{
		"unknown method": `"error":{"code":-32601,"message":"initialize is unknown; this server speaks 2026-07-28"}`,
		"header":         `"error":{"code":-32020,"message":"MCP-Protocol-Version header is missing; send 2026-07-28"}`,
	} {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"initialize": func(x *faultyserver.Exchange) {
				x.Status(400, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, x.Msg.ID, refusal))
			}}}
			_, err := within(t, dialHTTP(t, s, client.Config{Version: mcp.V20251125}), echo(t), &recorder{})
			if err == nil || !strings.Contains(err.Error(), "2026-07-28") {
				t.Errorf("%s: %v; want what the server speaks", name, err)
			}
			if s.Count("tools/call") != 0 {
				t.Errorf("%s: the call was sent all the same", name)
			}
		})
	}
}

// The version header is on each request after the handshake, with the negotiated
// version, and not on the handshake itself.
//
// V10+ 2025-11-25 basic/transports: "If using HTTP, the client MUST include the
// MCP-Protocol-Version: <protocol-version> HTTP header on all subsequent requests to the
// MCP server"
func TestVersionHeaderAfterTheHandshake(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V20250618, mcp.V20251125} {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.HTTP{Sessions: true}
			scope := mcp.NewScope("s", nil)
			if _, err := within(t, dialHTTP(t, s, client.Config{Version: v}), in(scope, echo(t)), &recorder{}); err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, r := range s.Seen() {
				want := string(v)
				if r.Method == "initialize" {
					want = ""
				}
				if got := r.Header.Get("Mcp-Protocol-Version"); got != want {
					t.Errorf("%s: %s %s has the version %q, want %q", v, r.Verb, r.Method, got, want)
				}
				n++
			}
			if n < 3 { // initialize, initialized, tools/call
				t.Errorf("%s: %d requests", v, n)
			}
			scope.End()
		})
	}
}

// Each request about a task names the task in the Mcp-Name header.
//
// H4+ seps 2663-tasks-extension: "the client MUST set the Mcp-Name header"
func TestTaskRequestsNameTheirTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Modern: true, Capabilities: `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, On: map[string]func(*faultyserver.Exchange){}}
		c := dialHTTP(t, s, client.Config{})
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			s.On[method] = func(x *faultyserver.Exchange) { x.Result(`{"resultType":"complete"}`) }
			for id, want := range map[string]string{"t-1": "t-1", " \u4e16 ": "=?base64?IOS4liA=?="} {
				req := request(t, method, `{"taskId":"`+id+`","inputResponses":{}}`)
				req.Client = &mcp.Peer{Capabilities: []byte(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)}
				req.TakesInputRequired = true
				if _, err := within(t, c, req, &recorder{}); err != nil {
					t.Errorf("%s: %v", method, err)
				}
				if got := last(s, method).Header["Mcp-Name"]; fmt.Sprint(got) != "["+want+"]" {
					t.Errorf("%s of %q: Mcp-Name %q, want %q", method, id, got, want)
				}
			}
		}
	})
}
