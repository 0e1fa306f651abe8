// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// server/discover is served to every client that may call, whatever the Handler supports,
// and its result has cache hints. It needs authentication like any other request, and is
// refused for the same reasons.
//
// V2+ 2026-07-28 basic/versioning: "Servers MUST implement server/discover."
//
// V2- 2026-07-28 basic/versioning: "Servers MUST implement server/discover."
func TestDiscoverIsServed(t *testing.T) {
	body := modern("1", "server/discover", "")
	hs := modernHeaders("server/discover", "")
	const want = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],` +
		`"capabilities":{"tools":{"listChanged":true},"extensions":{"x/y":{}}},"instructions":"be <kind>","ttlMs":1,"cacheScope":"public",` +
		`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}}`
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		equal(t, "discovered", s.post(body, hs).body, want)
	})
	silent := mcp.HandlerFunc(func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) { return result(`{"capabilities":{}}`) })
	bubble(t, silent, server.Config{}, func(s *site) { // the server adds what the Handler's result lacks
		got := s.post(body, hs).body
		for _, part := range []string{`"resultType":"complete"`, `"supportedVersions":["2026-07-28",`, `"capabilities":{}`, `"ttlMs":0`, `"cacheScope":"private"`} {
			if !strings.Contains(got, part) {
				t.Errorf("%s lacks %s", got, part)
			}
		}
	})
	bubble(t, tools(nil), server.Config{Authenticate: identified(byToken)}, func(s *site) {
		if got := s.post(body, hs); got.status != 401 || strings.Contains(got.body, "supportedVersions") {
			t.Errorf("without a token: %d %s; want 401 and nothing of the server", got.status, got.body)
		}
		equal(t, "with a token", s.post(body, hs, headers{"Authorization": "Bearer ann"}).body, want)
		bare := raw("1", "server/discover", `{}`)
		if got := s.post(bare, hs, headers{"Authorization": "Bearer ann"}); got.status != 400 || !strings.Contains(got.body, `"code":-32602`) {
			t.Errorf("without metadata: %d %s; want 400 and -32602", got.status, got.body)
		}
	})
}

// A thousand clients of both eras take turns at one endpoint: each is served in its own
// revision and session, and no request of the modern era has a session, even if it names
// the id of one.
//
// V7+ 2026-07-28 basic/versioning: "A dual-era server MAY serve both eras concurrently on
// the same endpoint or process."
//
// V7- 2026-07-28 basic/versioning: "A request carrying modern per-request _meta is served
// statelessly according to this revision."
func TestThousandClientsOfBothEras(t *testing.T) {
	const clients = 1000
	var version mcp.Version
	scopes := map[*mcp.Scope]bool{}
	h := tools(map[string]mcp.HandlerFunc{"who": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		version = req.Client.Version
		scopes[req.Scope] = true
		return result(`{}`)
	}})
	legacy := []mcp.Version{mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125}
	bubble(t, h, server.Config{}, func(s *site) {
		sessions := make([]headers, clients)
		for i := 0; i < clients; i += 2 {
			sessions[i] = s.handshake(opening(string(legacy[i/2%4])))
		}
		for i := range clients {
			want := mcp.V20260728
			var got reply
			if i%2 == 0 {
				want = legacy[i/2%4]
				got = s.post(raw("1", "tools/call", `{"name":"who"}`), sessions[i])
			} else {
				got = s.post(modern("1", "tools/call", `"name":"who"`), modernHeaders("tools/call", "who"), sessions[i-1])
			}
			if got.status != http.StatusOK || version != want {
				t.Fatalf("client %d: %d %s in %s; want %s", i, got.status, got.body, version, want)
			}
		}
		if n := fmt.Sprint(len(scopes), scopes[nil]); n != fmt.Sprint(clients/2+1, true) {
			t.Errorf("scopes: %s; want one of each session, and none of the modern era", n)
		}
	})
}

// If a request names any other version, past, future or invented, the error lists the
// supported revisions, the same as server/discover, and the requested one; over HTTP with
// 400, and on a pipe as well. A version that is no string is invalid.
//
// V1- 2026-07-28 basic/versioning: "it MUST respond with an
// UnsupportedProtocolVersionError listing the versions it does support"
func TestUnsupportedVersions(t *testing.T) {
	const supported = `"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`
	body := func(version string) string {
		return raw("1", "tools/call", `{"name":"echo","_meta":{"io.modelcontextprotocol/protocolVersion":`+version+`,"io.modelcontextprotocol/clientCapabilities":{}}}`)
	}
	versions := []string{"", "1900-01-01", "2026-07-27", "2027-01-01", "DRAFT-2026-v1", "latest", "*", "2026-07-28, 2025-11-25", "2026-7-28", strings.Repeat("9", 500)}
	bubble(t, never(t), server.Config{}, func(s *site) {
		for _, v := range versions {
			got := s.post(body(`"`+v+`"`), modernHeaders("tools/call", "echo"), headers{"MCP-Protocol-Version": v})
			if got.status != 400 || !strings.Contains(got.body, `"code":-32022,`) || !strings.Contains(got.body, supported+`,"requested":"`+v+`"`) {
				t.Errorf("%.40q: %d %s; want 400, -32022 and what is spoken", v, got.status, got.body)
			}
		}
		for _, v := range []string{`["2026-07-28"]`, `20260728`, `null`, `{}`} {
			if got := s.post(body(v), modernHeaders("tools/call", "echo")); got.status != 400 || !strings.Contains(got.body, `"code":-32602,`) {
				t.Errorf("%s: %d %s; want 400 and -32602", v, got.status, got.body)
			}
		}
	})
	pipes(t, never(t), server.Config{}, func(c *console) {
		for _, v := range versions[:len(versions)-1] {
			c.send(body(`"` + v + `"`))
			if got := c.next(); !strings.Contains(got, `"code":-32022,`) || !strings.Contains(got, supported+`,"requested":"`+v+`"`) {
				t.Errorf("%q on a pipe: %s; want -32022 and what is spoken", v, got)
			}
		}
		c.closeInput()
		c.wantEnd()
	})
}
