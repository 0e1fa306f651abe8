// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// The tests of the requirements*_test.go files check sentences of the specification, which
// they quote; each has a positive and a negative side. Sentences that other tests check by
// number are not repeated here.

// T1, T2: "Servers MUST validate the Origin header on all incoming connections
// [...] If the Origin header is present and invalid, servers MUST respond with
// HTTP 403 Forbidden. The HTTP response body MAY comprise a JSON-RPC error
// response that has no id" (2026-07-28, basic/transports/streamable-http,
// "Security & Endpoint").
//
// T1+ 2026-07-28 basic/transports/streamable-http: "Servers **MUST** validate the
// `Origin` header on all incoming connections to prevent DNS rebinding attacks."
//
// T1- 2025-11-25 basic/transports: "Servers **MUST** validate the `Origin` header on
// all incoming connections to prevent DNS rebinding attacks"
func TestOriginOnEveryMethod(t *testing.T) {
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		sess := s.session()
		for _, method := range []string{"POST", "GET", "DELETE", "OPTIONS", "HEAD", "PUT", "TRACE"} {
			r := s.request(s.ctx(), method, raw("1", "ping", ""), sess, headers{"Origin": "http://evil.example"})
			got := s.do(r)
			if got.status != 403 || strings.Contains(got.body, `"id"`) || got.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: %d %s %v; want 403 without an id", method, got.status, got.body, got.header)
			}
		}
		for method, status := range map[string]int{"OPTIONS": 405, "HEAD": 405, "PUT": 405} {
			got := s.do(s.request(s.ctx(), method, "", sess, headers{"Origin": "http://localhost"}))
			if got.status != status {
				t.Errorf("our own page, %s: %d %s; want %d", method, got.status, got.body, status)
			}
		}
		if got := s.post(raw("1", "ping", ""), sess, headers{"Origin": "http://localhost"}); got.status != 200 {
			t.Errorf("our own page: %d %s", got.status, got.body)
		}
		if got := s.server.Stats().Sessions; got != 1 {
			t.Errorf("%d sessions; want the one that a foreign page could not delete", got)
		}
	})
}

// T8: "When initiating an SSE stream, servers SHOULD include the X-Accel-Buffering: no
// header in the HTTP response" (2026-07-28, basic/transports/streamable-http, "Receiving
// Messages"), in each place where a stream begins, and on no other response.
//
// T8+ 2026-07-28 basic/transports/streamable-http: "When initiating an SSE stream,
// servers **SHOULD** include the `X-Accel-Buffering: no` header in the HTTP response."
//
// T8- 2026-07-28 basic/transports/streamable-http: "This instructs reverse proxies
// (such as nginx) to disable response buffering, ensuring that SSE events are
// delivered to clients immediately rather than being held in a buffer."
func TestStreamsAreNotBuffered(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"burst": progressBurst(t, 1), "echo": fixedResult(`{}`)})
	bubble(t, h, server.Config{}, func(s *site) {
		old := s.handshake(opening("2025-03-26"))
		streams := map[string]*http.Request{
			"post":   s.request(s.ctx(), http.MethodPost, withToken("1", "burst", "7"), old),
			"batch":  s.request(s.ctx(), http.MethodPost, "["+raw("1", "ping", "")+"]", old),
			"get":    s.request(s.ctx(), http.MethodGet, "", old),
			"listen": s.request(s.ctx(), http.MethodPost, modern("1", "subscriptions/listen", ""), modernHeaders("subscriptions/listen", "")),
		}
		for name, r := range streams {
			res, err := s.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			got := []string{res.Header.Get("Content-Type"), res.Header.Get("X-Accel-Buffering"), res.Header.Get("Cache-Control")}
			equal(t, name, strings.Join(got, ", "), "text/event-stream, no, no-store")
		}
		if got := s.call("echo").header.Get("X-Accel-Buffering"); got != "" {
			t.Errorf("an answer in JSON has the header too: %q", got)
		}
	})
}

// J7, J13: "Notifications MUST NOT include an ID", "The receiver MUST NOT send a response"
// (2025-11-25, basic, "Notifications"). A message with an id is a request, whatever its
// method.
//
// J7+ 2026-07-28 basic/index: "The receiver **MUST NOT** send a response."
//
// J7- 2025-11-25 basic/index: "Notifications **MUST NOT** include an ID."
//
// J13- 2026-07-28 basic/transports/streamable-http: "If the server cannot accept it,
// it **MUST** return an HTTP error status code (e.g., `400 Bad Request`)."
func TestNotificationsAreNotAnswered(t *testing.T) {
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		sess := s.session()
		for _, method := range []string{"notifications/x", "ping", "tools/list", "no/such", ""} {
			if got := s.post(`{"jsonrpc":"2.0","method":"`+method+`"}`, sess); got.status != 202 || got.body != "" {
				t.Errorf("%q: %d %q; want 202 and nothing", method, got.status, got.body)
			}
		}
		got := s.post(raw("1", "notifications/x", ""), sess)
		equal(t, "with an id", got.body, wireError("1", "-32601", `unknown method "notifications/x"`))
		for name, body := range map[string]string{"no method": `{"jsonrpc":"2.0"}`, "another version": `{"jsonrpc":"1.0","method":"x"}`} {
			if got := s.post(body, sess); got.status != 400 || !strings.Contains(got.body, "-32600") {
				t.Errorf("%s: %d %s; want 400", name, got.status, got.body)
			}
		}
	})
}

// J9: "Implementations of this protocol version MUST NOT emit these codes" and "MUST NOT
// emit any code from this sub-range that is not defined by this specification" (2026-07-28,
// basic, "Error Codes"): not even the codes of a backend. A legacy client receives them
// unmodified, except those that its revision does not define.
//
// J9- 2026-07-28 basic/index: "Implementations **MUST NOT** emit any code from this
// sub-range that is not defined by this specification"
//
// J9- 2026-07-28 basic/index: "Implementations of this protocol version **MUST NOT**
// emit these codes:"
func TestCodesByEra(t *testing.T) {
	code := 0
	h := tools(map[string]mcp.HandlerFunc{"fail": func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
		return nil, mcp.Errorf(int64(code), "why")
	}})
	pattern := regexp.MustCompile(`"code":(-?[0-9]+)`)
	codeOf := func(r reply) int {
		n, err := strconv.Atoi(pattern.FindStringSubmatch(r.body)[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		for code = -32110; code <= -31990; code++ {
			modern, legacy := codeOf(s.call("fail")), codeOf(s.post(raw("1", "tools/call", `{"name":"fail"}`), sess))
			defined := modern >= -32022 && modern <= -32020
			if modern == -32002 || modern == -32042 || modern <= -32020 && modern >= -32099 && !defined {
				t.Errorf("modern: %d becomes %d", code, modern)
			}
			if legacy <= -32020 && legacy >= -32022 {
				t.Errorf("legacy: %d becomes %d", code, legacy)
			}
			if outside := code < -32099 || code > -32000; outside && (modern != code || legacy != code) {
				t.Errorf("%d becomes %d and %d; want it unchanged", code, modern, legacy)
			}
		}
	})
}

// J16, J17: member names are case-sensitive, and two readers must not understand a message
// differently.
//
// J16+ own: "The names of members are compared exactly."
//
// J16- own: "A name that another parser could read as a member of the envelope is not
// ignored."
//
// J17- own: "A member that occurs twice, in the envelope or in the parameters that we
// act upon, makes the message invalid."
//
// J17+ own: "A member that occurs twice, in the envelope or in the parameters that we
// act upon, makes the message invalid."
func TestMembersOfTheEnvelope(t *testing.T) {
	bubble(t, tools(map[string]mcp.HandlerFunc{"echo": fixedResult(`{"content":[]}`)}), server.Config{}, func(s *site) {
		sess := s.session()
		tests := []struct{ name, body, want string }{
			{"unknown member", `{"jsonrpc":"2.0","id":1,"method":"ping","extra":{}}`, `"result":{}`},
			{"method in another case", `{"jsonrpc":"2.0","id":1,"METHOD":"ping"}`, `"code":-32600`},
			{"two methods", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, `"code":-32600`},
			{"two spellings", `{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}`, `"code":-32600`},
			{"two ids", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `"code":-32600`},
			{"an escaped spelling", `{"jsonrpc":"2.0","id":1,"method":"ping","\u006dethod":"tools/call"}`, `"code":-32600`},
			{"params twice", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}`, `"code":-32600`},
			{"a name twice", raw("1", "tools/call", `{"name":"a","name":"b"}`), `"code":-32600`},
			{"what we pass on twice", raw("1", "tools/call", `{"name":"echo","arguments":{"a":1,"a":2,"A":3}}`), `"result":{"content":[]}`},
			{"_meta twice", raw("1", "tools/call", `{"_meta":{},"name":"b","_meta":{}}`), `"code":-32600`},
		}
		for _, tt := range tests {
			if got := s.post(tt.body, sess); !strings.Contains(got.body, tt.want) {
				t.Errorf("%s: %d %s; want %s", tt.name, got.status, got.body, tt.want)
			}
		}
	})
}

// H5: "Header names [...] are case-insensitive. Clients and servers MUST use
// case-insensitive comparisons for header names. Header values (such as method
// names) are case-sensitive" (2026-07-28, basic/transports/streamable-http,
// "Case Sensitivity").
//
// H5+ 2026-07-28 basic/transports/streamable-http: "Clients and servers MUST use
// case-insensitive comparisons for header names."
//
// H5- 2026-07-28 basic/transports/streamable-http: "Header values (such as method
// names) are case-sensitive."
func TestCaseOfHeaders(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"echo": fixedResult(`{}`)})
	bubble(t, h, server.Config{}, func(s *site) {
		body := modern("1", "tools/call", `"name":"echo"`)
		spelled := func(version, method, name string) string {
			return fmt.Sprintf("%s: 2026-07-28\r\n%s: tools/call\r\n%s: echo\r\n", version, method, name)
		}
		for _, head := range []string{
			spelled("mcp-protocol-version", "mcp-method", "mcp-name"),
			spelled("MCP-PROTOCOL-VERSION", "MCP-METHOD", "MCP-NAME"),
			spelled("mCp-Protocol-vERSION", "Mcp-mEthod", "mcp-Name"),
		} {
			if got := s.exchange(head, body); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
				t.Errorf("%q: %.100s; want 200", head, got)
			}
		}
		for _, tt := range []headers{
			{"Mcp-Method": "TOOLS/CALL"}, {"Mcp-Method": "Tools/call"}, {"Mcp-Name": "Echo"}, {"Mcp-Name": "ECHO"},
		} {
			if got := s.post(body, modernHeaders("tools/call", "echo"), tt); got.status != 400 || !strings.Contains(got.body, `"code":-32020`) {
				t.Errorf("%v: %d %s; want 400 and -32020", tt, got.status, got.body)
			}
		}
	})
}

// exchange sends a POST with exactly these headers and returns the response.
func (s *site) exchange(head, body string) string {
	s.t.Helper()
	conn, err := s.net.Dial(s.ctx())
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n%s\r\n%s", len(body), head, body)
	if err != nil {
		s.t.Fatal(err)
	}
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String()
		}
	}
}

// H13: a header that is larger than any name is refused by the HTTP server, and is never
// decoded.
//
// H13- seps 2243-http-standardization: "Deployments SHOULD reject requests with
// oversized or excessive headers early in the pipeline — before performing Base64
// decoding or body parsing — to mitigate denial-of-service risks from crafted
// payloads."
func TestOversizedHeader(t *testing.T) {
	bubble(t, never(t), server.Config{}, func(s *site) {
		s.http.MaxHeaderBytes = 16 << 10
		head := "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: =?base64?" + strings.Repeat("QUFB", 12<<10) + "?=\r\n"
		if got := s.exchange(head, modern("1", "tools/call", `"name":"echo"`)); !strings.HasPrefix(got, "HTTP/1.1 431 ") {
			t.Errorf("%.100s; want 431", got)
		}
	})
}

// H17, "Servers MUST NOT rely on prior requests over the same connection to establish
// context (e.g., capabilities, protocol version, client identity)" (2026-07-28, basic,
// "Statelessness"): what a request declares about its client applies to that request alone,
// and decides nothing.
//
// D6- 2026-07-28 basic/index: "Servers MUST NOT rely on prior requests over the same
// connection to establish context (e.g., capabilities, protocol version, client
// identity)."
//
// H17+ 2026-07-28 basic/index: "They are intended for display, logging, and
// debugging."
func TestRequestsAreStateless(t *testing.T) {
	var seen []string
	h := tools(map[string]mcp.HandlerFunc{"who": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		seen = append(seen, fmt.Sprintf("%s %s %q %v", req.Client.Info, req.Client.Capabilities, req.Principal, req.Scope != nil))
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		for _, meta := range []string{
			`"io.modelcontextprotocol/clientInfo":{"name":"admin","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}}`,
			`"io.modelcontextprotocol/clientCapabilities":{}`,
		} {
			s.post(raw("1", "tools/call", `{"name":"who","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+meta+`}}`), modernHeaders("tools/call", "who"))
		}
		equal(t, "seen", strings.Join(seen, "\n"), `{"name":"admin","version":"1"} {"roots":{}} "" false`+"\n"+` {} "" false`)
	})
}

// S1, S2: "The session ID SHOULD be globally unique and cryptographically secure",
// "The session ID MUST only contain visible ASCII characters (ranging from 0x21 to
// 0x7E)" (2025-11-25, basic/transports, "Session Management").
//
// S1+ 2025-11-25 basic/transports: "The session ID **SHOULD** be globally unique and
// cryptographically secure (e.g., a securely generated UUID, a JWT, or a cryptographic
// hash)."
//
// S2+ 2025-11-25 basic/transports: "The session ID **MUST** only contain visible ASCII
// characters (ranging from 0x21 to 0x7E)."
func TestSessionIDs(t *testing.T) {
	const n = 500
	seen := map[string]bool{}
	positions := map[int]map[rune]bool{}
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		for range n {
			id := s.handshake(initialize)["Mcp-Session-Id"]
			if seen[id] || len(id) < 26 {
				t.Fatalf("id %q is short or was there before", id)
			}
			seen[id] = true
			for i, c := range id {
				if c < 0x21 || c > 0x7e {
					t.Fatalf("id %q has the character %q", id, c)
				}
				if positions[i] == nil {
					positions[i] = map[rune]bool{}
				}
				positions[i][c] = true
			}
		}
	})
	for i := range 26 { // of 32 characters each has occurred in every place
		if len(positions[i]) < 28 {
			t.Errorf("at %d there were only %d characters in %d ids", i, len(positions[i]), n)
		}
	}
}

// S3: sessions are not authentication, and each request is verified separately (2025-11-25,
// security best practices, "Session Hijacking").
//
// S3+ 2025-11-25 tutorials/security/security_best_practices: "MCP servers that
// implement authorization **MUST** verify all inbound requests."
//
// S3- 2025-11-25 tutorials/security/security_best_practices: "MCP Servers **MUST NOT**
// use sessions for authentication."
func TestSessionIsNoCredential(t *testing.T) {
	cfg := server.Config{Authenticate: identified(func(r *http.Request) (string, error) {
		if principal := r.Header.Get("Authorization"); principal != "" {
			return principal, nil
		}
		return "", &server.Denial{Message: "no token"}
	})}
	bubble(t, tools(nil), cfg, func(s *site) {
		sess := s.sessionOf(headers{"Authorization": "ann"})
		for _, method := range []string{"POST", "GET", "DELETE"} {
			got := s.do(s.request(s.ctx(), method, raw("1", "ping", ""), sess))
			equal(t, method, got.body, invalid("no token"))
			if got.status != 401 || got.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: %d %v; want 401 and a challenge", method, got.status, got.header)
			}
		}
		if got := s.post(raw("1", "ping", ""), sess, headers{"Authorization": "ann"}); got.status != 200 {
			t.Errorf("with the token: %d %s", got.status, got.body)
		}
	})
}

// S9: "An Mcp-Session-Id header on a request: ignore it, and do not mint or echo
// session IDs. A Last-Event-ID header: ignore it" (2026-07-28,
// basic/transports/streamable-http, "Earlier Streamable HTTP Revisions").
//
// S9+ 2026-07-28 basic/transports/streamable-http: "An `Mcp-Session-Id` header on a
// request: ignore it, and do not mint or echo session IDs."
//
// S9- 2026-07-28 basic/transports/streamable-http: "A `Last-Event-ID` header: ignore
// it; streams are not resumable."
//
// V7- 2026-07-28 basic/versioning: "A request carrying modern per-request _meta is
// served statelessly according to this revision."
func TestModernRequestsHaveNoSession(t *testing.T) {
	var seen []*mcp.Request
	h := tools(map[string]mcp.HandlerFunc{"echo": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		seen = append(seen, req)
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		live := s.session()
		for name, h := range map[string]headers{"none": {}, "live": live, "dead": {"Mcp-Session-Id": "x"}, "event": {"Last-Event-Id": "7"}} {
			seen = nil
			got := s.post(modern("1", "tools/call", `"name":"echo"`), modernHeaders("tools/call", "echo"), h)
			if got.status != 200 || got.header.Get("Mcp-Session-Id") != "" {
				t.Errorf("%s: %d %s, session %q; want 200 and none", name, got.status, got.body, got.header.Get("Mcp-Session-Id"))
			}
			if len(seen) != 1 || seen[0].Scope != nil || seen[0].Client.Version != mcp.LatestModern {
				t.Errorf("%s: %d calls; want one, of no session", name, len(seen))
			}
		}
	})
}

// S12: "The receiver MUST respond promptly with an empty response" (2025-11-25,
// basic/utilities/ping), also when nothing else can be served.
//
// S12+ 2025-11-25 basic/utilities/ping: "The receiver **MUST** respond promptly with
// an empty response:"
func TestPingIsPrompt(t *testing.T) {
	gated(t, server.Config{Limits: server.Limits{InFlightPerSession: 1}}, func(s *site, g *gate) {
		sess := s.session()
		call := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess))
		<-g.entered
		prompt := func(when string) {
			t.Helper()
			start := time.Now()
			equal(t, when, s.post(raw("2", "ping", ""), sess).body, `{"jsonrpc":"2.0","id":2,"result":{}}`)
			if d := time.Since(start); d != 0 {
				t.Errorf("%s it took %v", when, d)
			}
		}
		prompt("with as much in flight as may be")
		done := s.shutdown(time.Minute)
		prompt("while the server waits for the last request")
		close(g.release)
		<-call
		<-done
	})
}

// The same on a pipe, where all messages share one writer.
//
// S12+ 2025-11-25 basic/utilities/ping: "The receiver **MUST** respond promptly with
// an empty response:"
func TestPingIsPromptOnAPipe(t *testing.T) {
	pipesGated(t, server.Config{Limits: server.Limits{InFlightPerSession: 1}}, func(c *console, g *gate) {
		prompt := func(when string) {
			t.Helper()
			start := time.Now()
			c.send(raw("2", "ping", ""))
			equal(t, when, c.next(), `{"jsonrpc":"2.0","id":2,"result":{}}`)
			if d := time.Since(start); d != 0 {
				t.Errorf("%s it took %v", when, d)
			}
		}
		prompt("before there is a session")
		c.handshake()
		c.send(raw("1", "tools/call", `{"name":"wait"}`))
		<-g.entered
		prompt("with as much in flight as may be")
		close(g.release)
		c.expect(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	})
}

// R2, R10: "The server MUST NOT send a JSON-RPC response on the stream unless
// resuming" and "After the JSON-RPC response has been sent, the server SHOULD
// terminate the SSE stream" (2025-11-25, basic/transports); R1: "it MUST NOT
// broadcast the same message across multiple streams".
//
// R1+ 2025-11-25 basic/transports: "The server MUST send each of its JSON-RPC messages
// on only one of the connected streams"
//
// R2+ 2025-11-25 basic/transports: "These messages SHOULD be unrelated to any
// concurrently-running JSON-RPC request from the client."
//
// R10+ 2025-11-25 basic/transports: "After the JSON-RPC response has been sent, the
// server SHOULD terminate the SSE stream."
func TestStreamsOfMessages(t *testing.T) {
	m := map[string]mcp.HandlerFunc{"burst": progressBurst(t, 3)}
	withChanges(t, m, func(s *site, h *changing) {
		sess := s.session()
		get := s.open(s.ctx(), http.MethodGet, "", sess)
		<-h.acked
		for i := range 5 {
			st := s.open(s.ctx(), http.MethodPost, withToken(fmt.Sprint(i), "burst", `"t"`), sess)
			for range 3 {
				if got := st.next(); !strings.Contains(got, "notifications/progress") {
					t.Errorf("on the stream of request %d: %s", i, got)
				}
			}
			equal(t, "result", st.next(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i))
			st.end()
		}
		h.changed <- toolsChanged
		equal(t, "on the GET", get.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
		s.do(s.request(s.ctx(), http.MethodDelete, "", sess))
		get.end()
	})
}

// U1: a modern server never sends requests; U9: "The server MUST NOT emit
// notifications/message for a request that does not include this field" (2026-07-28,
// server/utilities/logging, "Per-request log level"); C8: "Progress notifications MUST only
// reference tokens that were provided in an active request" (basic/patterns/progress).
//
// U1- 2026-07-28 basic/patterns/mrtr: "The previous pattern of server-initiated
// requests is no longer supported."
//
// U9- 2026-07-28 server/utilities/logging: "The server MUST NOT emit
// `notifications/message` for a request that does not include this field."
//
// Q5- 2026-07-28 basic/patterns/mrtr: "Servers MUST NOT send an `inputRequests` that
// the client has not declared support for in its capabilities."
func TestNoUnrequestedMessages(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"chatty": func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if _, err := mcp.Ask(ctx, c, &mcp.Request{Method: "roots/list"}); err == nil {
			return nil, mcp.Errorf(1, "a modern client was asked")
		}
		for _, n := range []*mcp.Notification{
			note(t, "notifications/message", `{"level":"emergency","data":"x"}`),
			note(t, "notifications/progress", `{"progressToken":"other","progress":1}`),
			note(t, "notifications/progress", `{"progress":1}`),
		} {
			if err := c.Notify(ctx, n); err != nil {
				return nil, err
			}
		}
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		equal(t, "nothing was asked for", s.call("chatty").body, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`)
		if got := s.server.Stats().Dropped; got != 3 {
			t.Errorf("dropped = %d, want 3", got)
		}
		meta := `"_meta":{` + meta + `,"io.modelcontextprotocol/logLevel":"info","progressToken":"other"}`
		got := s.post(raw("1", "tools/call", `{"name":"chatty",`+meta+`}`), modernHeaders("tools/call", "chatty")).events(t)
		if len(got) != 3 {
			t.Errorf("asked for: %q; want a log message, progress and the result", got)
		}
	})
}

// V7: "A dual-era server MAY serve both eras concurrently on the same endpoint"
// (2026-07-28, basic/versioning): the era of each message is its own, in any order on one
// connection.
//
// V7+ 2026-07-28 basic/versioning: "A dual-era server MAY serve both eras concurrently
// on the same endpoint or process."
func TestErasInterleaved(t *testing.T) {
	var versions []string
	h := tools(map[string]mcp.HandlerFunc{"who": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		versions = append(versions, string(req.Client.Version))
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		var want []string
		sessions := map[string]headers{}
		for _, v := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
			sessions[v] = s.handshake(opening(v))
		}
		for range 5 {
			for _, v := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
				s.post(raw("1", "tools/call", `{"name":"who"}`), sessions[v], headers{"Mcp-Protocol-Version": v})
				s.call("who")
				want = append(want, v, "2026-07-28")
			}
		}
		equal(t, "versions", strings.Join(versions, " "), strings.Join(want, " "))
	})
}

// V10: "If the server receives a request with an invalid or unsupported
// MCP-Protocol-Version, it MUST respond with 400 Bad Request" (2025-11-25,
// basic/transports, "Protocol Version Header"), on each verb; without the header the
// revision of the session is used.
//
// V10+ 2025-11-25 basic/transports: "the server SHOULD assume protocol version
// 2025-03-26."
//
// V10- 2025-11-25 basic/transports: "If the server receives a request with an invalid
// or unsupported MCP-Protocol-Version, it MUST respond with 400 Bad Request."
func TestVersionHeaderOnEveryVerb(t *testing.T) {
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		sess := s.handshake(opening("2025-06-18"))
		for _, method := range []string{"POST", "GET", "DELETE"} {
			for _, version := range []string{"2025-11-25", "2024-11-05", "x", "2025-06-18 x", "2025-06-18, 2025-06-18"} {
				res, err := s.client.Do(s.request(s.ctx(), method, raw("1", "ping", ""), sess, headers{"Mcp-Protocol-Version": version}))
				if err != nil {
					t.Fatal(err)
				}
				body := make([]byte, 500) // not to its end, which a stream does not have
				n, _ := res.Body.Read(body)
				if got := string(body[:n]); res.StatusCode != 400 || !strings.Contains(got, "the session uses 2025-06-18") {
					t.Errorf("%s %q: %d %s; want 400", method, version, res.StatusCode, got)
				}
				_ = res.Body.Close()
			}
		}
		for _, h := range []headers{{}, {"Mcp-Protocol-Version": "2025-06-18"}} {
			if got := s.post(raw("1", "ping", ""), sess, h); got.status != 200 {
				t.Errorf("%v: %d %s", h, got.status, got.body)
			}
		}
	})
}
