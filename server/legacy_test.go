// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// opening returns an initialize of the given revision.
func opening(version string) string {
	return raw("0", "initialize", `{"protocolVersion":`+string(jsonscan.AppendString(nil, version))+`,"capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}`)
}

// V8: the requested revision if it is supported, else the latest legacy one; M128: a
// handshake never results in a modern revision.
//
// V8+ 2025-11-25 basic/lifecycle: "If the server supports the requested protocol
// version, it MUST respond with the same version. Otherwise, the server MUST respond
// with another protocol version it supports."
func TestNegotiation(t *testing.T) {
	tests := []struct{ asked, want string }{
		{"2025-11-25", "2025-11-25"},
		{"2025-06-18", "2025-06-18"},
		{"2025-03-26", "2025-03-26"},
		{"2024-11-05", "2024-11-05"},
		{"2026-07-28", "2025-11-25"},
		{"2030-01-01", "2025-11-25"},
		{"", "2025-11-25"},
		{"x", "2025-11-25"},
	}
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		for _, tt := range tests {
			got := s.post(opening(tt.asked))
			want := `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"` + tt.want + `","capabilities":{"tools":{"listChanged":true}},` +
				`"serverInfo":{"name":"s","version":"1"},"instructions":"be <kind>"}}`
			equal(t, tt.asked, got.body, want)
			if id := got.header.Get("Mcp-Session-Id"); len(id) < 26 || strings.ContainsFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
				t.Errorf("session id %q; want 130 bits of visible ASCII", id) // S1, S2
			}
		}
	})
}

// V9, I35: a client is offered the capabilities that its revision has.
//
// V9- 2025-11-25 basic/lifecycle: "Only use capabilities that were successfully
// negotiated"
func TestCapabilitiesByRevision(t *testing.T) {
	const all = `{"capabilities":{"tools":{"listChanged":true},"completions":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}},"extensions":{"a/b":{}},"logging":{},"unknown":{}}}`
	h := mcp.HandlerFunc(func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) { return result(all) })
	tests := []struct{ version, want string }{
		{"2024-11-05", `{"tools":{"listChanged":true},"logging":{}}`},
		{"2025-06-18", `{"tools":{"listChanged":true},"completions":{},"logging":{}}`},
		{"2025-11-25", `{"tools":{"listChanged":true},"completions":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}},"logging":{}}`},
	}
	bubble(t, h, server.Config{}, func(s *site) {
		for _, tt := range tests {
			if got := s.post(opening(tt.version)).body; !strings.Contains(got, `"capabilities":`+tt.want+`,`) {
				t.Errorf("%s: %s; want %s", tt.version, got, tt.want)
			}
		}
	})
}

func TestInitializeFails(t *testing.T) {
	tests := []struct {
		name, body, want string
		h                mcp.HandlerFunc
	}{
		{"no version", raw("0", "initialize", `{}`), wireError("0", "-32602", "params.protocolVersion must be a string"), nil},
		{"too much", raw("0", "initialize", `{"protocolVersion":"2025-11-25","clientInfo":{"name":"`+strings.Repeat("x", 70_000)+`"}}`),
			wireError("0", "-32602", "clientInfo and capabilities exceed 64 KiB"), nil},
		{"the handler fails", initialize, wireError("0", "1004", "going away"),
			func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
				return nil, mcp.Errorf(1004, "going away")
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := tools(nil)
			if tt.h != nil {
				h = tt.h
			}
			bubble(t, h, server.Config{}, func(s *site) {
				got := s.post(tt.body)
				equal(t, "body", got.body, tt.want)
				if got.header.Get("Mcp-Session-Id") != "" || s.server.Stats().Sessions != 0 {
					t.Error("a session was left behind") // I28
				}
			})
		})
	}
}

// The fields of a legacy request in the Handler, and the lifetime of its scope.
//
// S5+ 2025-11-25 basic/transports: "clients using the Streamable HTTP transport
// **MUST** include it in the `MCP-Session-Id` header on all of their subsequent HTTP
// requests."
func TestLegacyRequest(t *testing.T) {
	var seen []*mcp.Request
	record := func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		seen = append(seen, req)
		return result(discovered)
	}
	bubble(t, mcp.HandlerFunc(record), server.Config{}, func(s *site) {
		h := s.session()
		s.post(raw("1", "tools/call", `{"name":"a"}`), h)
		s.post(raw("2", "logging/setLevel", `{"level":"error"}`), h)
		s.post(raw("3", "tools/call", `{"name":"b"}`), h, headers{"Mcp-Param-X": "y"})
		if len(seen) != 4 || seen[0].Method != "server/discover" || seen[2].Method != "logging/setLevel" {
			t.Fatalf("the handler saw %d requests; want discover, call, setLevel, call", len(seen))
		}
		scope := seen[0].Scope
		for _, req := range seen {
			if req.Scope != scope || req.Client != seen[0].Client || scope == nil {
				t.Errorf("%s has another scope or client", req.Method)
			}
			if req.ParamHeaders != nil || req.TakesInputRequired {
				t.Errorf("%s looks modern", req.Method)
			}
		}
		equal(t, "levels", fmt.Sprint(seen[1].LogLevel == mcp.LogUnset, seen[3].LogLevel), "true error")
		equal(t, "version", string(seen[1].Client.Version), "2025-11-25")
		ended := false
		scope.OnEnd(func() { ended = true })
		if got := s.do(s.request(s.ctx(), http.MethodDelete, "", h)); got.status != 204 || !ended {
			t.Errorf("DELETE: %d, scope ended: %v; want 204, true", got.status, ended)
		}
		if got := s.post(raw("4", "ping", ""), h); got.status != 404 {
			t.Errorf("after DELETE: %d %s; want 404", got.status, got.body)
		}
	})
}

// Legacy results have no members of the modern era, and legacy errors no modern codes.
func TestLegacyAnswers(t *testing.T) {
	tests := []struct{ name, result, want string }{
		{"modern members", `{"resultType":"complete","tools":[ ],"ttlMs":1,"cacheScope":"public"}`, `"result":{"tools":[ ]}`},
		{"as it came", `{"x":1.0e+2}`, `"result":{"x":1.0e+2}`},
		{"input required", `{"resultType":"input_required"}`,
			`"error":{"code":-32603,"message":"internal error: the result of tools/list is \"input_required\", which 2025-11-25 does not have"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, tools(map[string]mcp.HandlerFunc{"tools/list": fixedResult(tt.result)}), server.Config{}, func(s *site) {
				equal(t, "body", s.post(raw("1", "tools/list", ""), s.session()).body, `{"jsonrpc":"2.0","id":1,`+tt.want+`}`)
			})
		})
	}
}

func TestLegacyErrors(t *testing.T) {
	tests := []struct{ code, want int64 }{
		{-32020, -32600}, {-32021, -32600}, {-32022, -32602}, {-32002, -32002}, {-32042, -32042}, {-32601, -32601}, {1001, 1001},
	}
	for _, tt := range tests {
		h := tools(map[string]mcp.HandlerFunc{"tools/list": func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
			return nil, mcp.Errorf(tt.code, "no")
		}})
		bubble(t, h, server.Config{}, func(s *site) {
			got := s.post(raw("1", "tools/list", ""), s.session())
			equal(t, "body", got.body, wireError("1", fmt.Sprint(tt.want), "no"))
			if got.status != 200 {
				t.Errorf("%d: status %d, want 200", tt.code, got.status)
			}
		})
	}
}

// The listen of a legacy client reaches the Handler with the session's principal and scope:
// the lists, and thereby their changes, differ by both.
func TestStandaloneListensAsTheSession(t *testing.T) {
	asked := make(chan *mcp.Request, 2)
	scopes := make(chan *mcp.Scope, 2)
	h := tools(map[string]mcp.HandlerFunc{"who": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		scopes <- req.Scope
		return result(`{"content":[]}`)
	}})
	listens := mcp.HandlerFunc(func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if req.Method == "subscriptions/listen" {
			asked <- req
		}
		return h.Serve(ctx, req, c)
	})
	bubble(t, listens, server.Config{Authenticate: identified(byHeader)}, func(s *site) {
		for _, name := range []string{"ann", "bob"} {
			as := headers{"Authorization": name}
			opened := s.post(opening("2025-06-18"), as)
			as["Mcp-Session-Id"] = opened.header.Get("Mcp-Session-Id")
			s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, as)
			s.post(raw("1", "logging/setLevel", `{"level":"error"}`), as)
			s.post(raw("2", "tools/call", `{"name":"who"}`), as)
			st := s.open(s.ctx(), http.MethodGet, "", as)
			req := <-asked
			equal(t, name+": principal", req.Principal, name)
			equal(t, name+": revision", string(req.Client.Version), "2025-06-18")
			equal(t, name+": level", req.LogLevel.String(), "error")
			equal(t, name+": parameters", string(req.Params.Bytes()),
				`{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}`)
			if own := <-scopes; req.Scope == nil || req.Scope != own {
				t.Errorf("%s: listens in scope %v, calls in %v; want one", name, req.Scope, own)
			}
			st.close()
		}
	})
}

// S2, I18: two session headers in one request select neither session.
func TestTwoSessionsInOneRequest(t *testing.T) {
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		h := s.session()
		r := s.request(s.ctx(), http.MethodPost, raw("1", "ping", ""), nil)
		r.Header["Mcp-Session-Id"] = []string{h["Mcp-Session-Id"], s.session()["Mcp-Session-Id"]}
		got := s.do(r)
		equal(t, "body", got.body, wireError("1", "-32600", "Mcp-Session-Id header appears 2 times; send it once"))
	})
}

// FAULTS 18, 19, 20, 22; S5, S6, V8, V10.
//
// V8- 2025-11-25 basic/lifecycle: "The initialization phase MUST be the first
// interaction between client and server."
//
// J11- 2025-11-25 basic/transports: "The body of the POST request **MUST** be a single
// JSON-RPC _request_, _notification_, or _response_."
//
// J13- 2025-11-25 basic/transports: "If the server cannot accept the input, it
// **MUST** return an HTTP error status code (e.g., 400 Bad Request)."
//
// S5- 2025-11-25 basic/transports: "Servers that require a session ID **SHOULD**
// respond to requests without an `MCP-Session-Id` header (other than initialization)
// with HTTP 400 Bad Request."
func TestLegacyRefusals(t *testing.T) {
	const noSession = "Mcp-Session-Id header is missing; open a session with initialize"
	const notFound = "session not found; open a new one with initialize"
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		h := s.session()
		with := func(k, v string) headers { return headers{"Mcp-Session-Id": h["Mcp-Session-Id"], k: v} }
		for _, tt := range []refusalCase{
			{name: "no session, legacy header", body: raw("1", "tools/list", ""), header: headers{"MCP-Protocol-Version": "2025-06-18"}, status: 400, want: wireError("1", "-32600", noSession)},
			{name: "no session, nothing said at all", body: raw("1", "tools/list", ""), status: 400, want: wireError("1", "-32600", noSession)},
			{name: "no session, ping", body: raw("1", "ping", `{}`), status: 400, want: wireError("1", "-32600", noSession)},
			{name: "no session, notification", body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`, status: 400, want: invalid(noSession)},
			{name: "nothing of a revision, but a modern header", body: raw("1", "tools/list", ""), header: headers{"Mcp-Method": "tools/list"}, status: 400,
				want: wireError("1", "-32602", `params._meta lacks "io.modelcontextprotocol/protocolVersion"; every request must have it`)},
			{name: "GET after an event", method: "GET", header: with("Last-Event-ID", "17"), status: 400,
				want: invalid(`unknown event id "17"; open a stream without Last-Event-ID`)},
			{name: "GET without a session", method: "GET", status: 400, want: invalid(noSession)},
			{name: "DELETE without a session", method: "DELETE", status: 400, want: invalid(noSession)},
			{name: "unknown session", body: raw("9", "tools/list", ""), header: headers{"Mcp-Session-Id": "x"}, status: 404, want: wireError("9", "-32600", notFound)},
			{name: "unknown session, notification", body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`, header: headers{"Mcp-Session-Id": "x"}, status: 404, want: invalid(notFound)},
			{name: "unknown session, GET", method: "GET", header: headers{"Mcp-Session-Id": "x"}, status: 404, want: invalid(notFound)},
			{name: "unknown session, DELETE", method: "DELETE", header: headers{"Mcp-Session-Id": "x"}, status: 404, want: invalid(notFound)},
			{name: "initialize with a dead session", body: initialize, header: headers{"Mcp-Session-Id": "x"}, status: 404, want: wireError("0", "-32600", notFound)},
			{name: "initialize again", body: initialize, header: h, status: 400, want: wireError("0", "-32600", "the session is already initialized")},
			{name: "another version", body: raw("1", "ping", ""), header: with("MCP-Protocol-Version", "2025-06-18"), status: 400,
				want: wireError("1", "-32600", `MCP-Protocol-Version header is "2025-06-18"; the session uses 2025-11-25`)},
			{name: "garbage version", body: raw("1", "ping", ""), header: with("MCP-Protocol-Version", "latest"), status: 400,
				want: wireError("1", "-32600", `MCP-Protocol-Version header is "latest"; the session uses 2025-11-25`)},
			{name: "the same version", body: raw("1", "ping", ""), header: with("MCP-Protocol-Version", "2025-11-25"), status: 200, want: `{"jsonrpc":"2.0","id":1,"result":{}}`},
			{name: "unknown method", body: raw("1", "no/such", ""), header: h, status: 200, want: wireError("1", "-32601", `unknown method "no/such"`)},
			{name: "modern method", body: raw("1", "subscriptions/listen", `{}`), header: h, status: 200, want: wireError("1", "-32601", `method "subscriptions/listen" does not exist in 2025-11-25`)},
			{name: "log level", body: raw("1", "logging/setLevel", `{"level":"loud"}`), header: h, status: 200, want: wireError("1", "-32602", `unknown log level "loud"`)},
			{name: "log level that is no text", body: raw("1", "logging/setLevel", `{"level":7}`), header: h, status: 200, want: wireError("1", "-32602", `params.level must be a string`)},
			{name: "log level the handler knows nothing of", body: raw("1", "logging/setLevel", `{"level":"info"}`), header: h, status: 200, want: `{"jsonrpc":"2.0","id":1,"result":{}}`},
			{name: "batch", body: `[]`, header: h, status: 400, want: invalid("only 2025-03-26 has batches")},
			{name: "batch that begins a session", body: `[` + opening("2025-03-26") + `]`, status: 400, want: invalid("only 2025-03-26 has batches")},
		} {
			s.wantRefusal(tt)
		}
		r := s.request(s.ctx(), http.MethodPost, raw("1", "ping", ""), h)
		r.Header["Mcp-Protocol-Version"] = []string{"2025-11-25", "2025-06-18"}
		equal(t, "two versions", s.do(r).body, wireError("1", "-32600", `MCP-Protocol-Version header is "2025-11-25, 2025-06-18"; the session uses 2025-11-25`))
		if got := s.server.Stats().Sessions; got != 1 {
			t.Errorf("%d sessions, want the first one alone", got)
		}
	})
}

// A session of one principal does not exist for another, on any verb. S4, I18; FAULTS 21.
//
// S4+ 2025-11-25 tutorials/security/security_best_practices: "MCP servers **SHOULD**
// bind session IDs to user-specific information."
//
// S4- 2025-11-25 tutorials/security/security_best_practices: "MCP servers **SHOULD**
// bind session IDs to user-specific information."
func TestForeignSession(t *testing.T) {
	cfg := server.Config{Authenticate: identified(func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil })}
	bubble(t, tools(nil), cfg, func(s *site) {
		got := s.do(s.request(s.ctx(), http.MethodPost, initialize, headers{"Authorization": "alice"}))
		id := got.header.Get("Mcp-Session-Id")
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			foreign := s.do(s.request(s.ctx(), method, raw("1", "ping", ""), headers{"Authorization": "bob", "Mcp-Session-Id": id}))
			unknown := s.do(s.request(s.ctx(), method, raw("1", "ping", ""), headers{"Authorization": "bob", "Mcp-Session-Id": "x"}))
			equal(t, method, fmt.Sprint(foreign.status, foreign.body), fmt.Sprint(unknown.status, unknown.body))
		}
		if own := s.post(raw("1", "ping", ""), headers{"Authorization": "alice", "Mcp-Session-Id": id}); own.status != 200 {
			t.Errorf("its owner gets %d %s", own.status, own.body)
		}
	})
}

// ask returns a tool that asks the client and answers with the reply.
func ask(method, params string) mcp.HandlerFunc {
	return func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		req, err := mcp.NewRequest(method, []byte(params))
		if err != nil {
			return nil, err
		}
		return mcp.Ask(ctx, c, req)
	}
}

func TestAsk(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"ask": ask("elicitation/create", `{"message":"name?","requestedSchema":{}}`)})
	tests := []struct{ name, answer, want string }{
		{"result", `"result":{"action":"accept","content":{"name":"x"}}`, `"result":{"action":"accept","content":{"name":"x"}}`},
		{"error", `"error":{"code":-1,"message":"user rejected","data":{}}`, `"error":{"code":-1,"message":"user rejected","data":{}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, h, server.Config{}, func(s *site) {
				sess := s.session()
				st := s.open(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"ask"}`), sess)
				equal(t, "ask", st.next(), `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"name?","requestedSchema":{}}}`)
				for _, answer := range []string{`"id":7,`, `"id":"1",`, `"id":1,`, `"id":1,`} { // unknown, unknown, the id of the question, the same again
					got := s.post(`{"jsonrpc":"2.0",`+answer+tt.answer+`}`, sess)
					if got.status != 202 || got.body != "" {
						t.Errorf("answer %s: %d %q; want 202 without a body", answer, got.status, got.body)
					}
				}
				equal(t, "result", st.next(), `{"jsonrpc":"2.0","id":1,`+tt.want+`}`)
				st.end()
				if got := s.server.Stats().Strays; got != 3 {
					t.Errorf("strays = %d, want 3", got)
				}
			})
		})
	}
}

// I35: a client is asked only what it has declared.
//
// H16+ 2026-07-28 basic/index: "A server MUST NOT rely on capabilities the client has
// not declared."
func TestAskNeedsItsCapability(t *testing.T) {
	const nothing = ""
	tests := []struct{ caps, method, params, missing string }{
		{`{}`, "roots/list", `{}`, `{"roots":{}}`},
		{`{"roots":{}}`, "roots/list", `{}`, nothing},
		{`{}`, "sampling/createMessage", `{}`, `{"sampling":{}}`},
		{`{"sampling":{}}`, "sampling/createMessage", `{}`, nothing},
		{`{"sampling":{}}`, "sampling/createMessage", `{"tools":[]}`, `{"sampling":{"tools":{}}}`},
		{`{"sampling":{"tools":{}}}`, "sampling/createMessage", `{"tools":[]}`, nothing},
		{`{}`, "elicitation/create", `{}`, `{"elicitation":{"form":{}}}`},
		{`{"elicitation":{}}`, "elicitation/create", `{}`, nothing},
		{`{"elicitation":{}}`, "elicitation/create", `{"mode":"form"}`, nothing},
		{`{"elicitation":{}}`, "elicitation/create", `{"mode":"url"}`, `{"elicitation":{"url":{}}}`},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", `{"mode":"url"}`, nothing},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", `{}`, `{"elicitation":{"form":{}}}`},
		{`{"elicitation":{"url":{},"form":{}}}`, "elicitation/create", `{}`, nothing},
		{`{"elicitation":5}`, "elicitation/create", `{}`, `{"elicitation":{"form":{}}}`},
	}
	for _, tt := range tests {
		h := tools(map[string]mcp.HandlerFunc{"ask": ask(tt.method, tt.params)})
		bubble(t, h, server.Config{}, func(s *site) {
			sess := s.handshake(raw("0", "initialize", `{"protocolVersion":"2025-11-25","capabilities":`+tt.caps+`,"clientInfo":{}}`))
			body := raw("1", "tools/call", `{"name":"ask"}`)
			if tt.missing == nothing {
				st := s.open(s.ctx(), http.MethodPost, body, sess)
				defer st.close()
				if got := st.next(); !strings.Contains(got, tt.method) {
					t.Errorf("%s %s with %s: %s; want the question", tt.method, tt.params, tt.caps, got)
				}
				return
			}
			equal(t, tt.method+" "+tt.params+" with "+tt.caps, s.post(body, sess).body, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":`+
				string(jsonscan.AppendString(nil, "the client did not declare what "+tt.method+" needs: "+tt.missing))+`,"data":{"requiredCapabilities":`+tt.missing+`}}}`)
		})
	}
}

// A question is cancelled once its asker has stopped waiting.
func TestAskIsCancelled(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"ask": func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if _, err := ask("roots/list", "{}")(ctx, req, c); err == nil {
			t.Error("an ask whose context has ended succeeded")
		}
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		st := s.open(s.ctx(), http.MethodPost, raw("5", "tools/call", `{"name":"ask"}`), s.session())
		equal(t, "ask", st.next(), `{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`)
		equal(t, "cancelled", st.next(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		equal(t, "result", st.next(), `{"jsonrpc":"2.0","id":5,"result":{}}`)
		st.end()
	})
}

// A client that never answers a question does not hold up its request for ever.
func TestAskIsNotAnswered(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"ask": ask("roots/list", "{}")})
	bubble(t, h, server.Config{Limits: server.Limits{InputWait: time.Minute}}, func(s *site) {
		sess, start := s.session(), time.Now()
		st := s.open(s.ctx(), http.MethodPost, raw("5", "tools/call", `{"name":"ask"}`), sess)
		equal(t, "ask", st.next(), `{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`)
		equal(t, "cancelled", st.next(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		equal(t, "result", st.next(), `{"jsonrpc":"2.0","id":5,"error":{"code":1003,"message":"the client did not answer within 1m0s (limits.inputWait)","data":{"source":"gateway"}}}`)
		st.end()
		if got := time.Since(start); got != time.Minute {
			t.Errorf("the question was open for %v, want a minute", got)
		}
		s.post(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`, sess)
		if got := s.server.Stats().Strays; got != 1 {
			t.Errorf("%d strays, want the late answer", got)
		}
	})
}

// A message that belongs to no request goes to the standalone stream, and waits for it for
// a limited time.
func TestUnrelated(t *testing.T) {
	withScope(t, func(s *site, sess headers, scope *mcp.Scope) {
		roots := &mcp.Request{Method: "roots/list"}
		start := time.Now()
		_, err := mcp.Ask(s.ctx(), scope.Unrelated(), roots)
		if err == nil || time.Since(start) != 10*time.Second {
			t.Errorf("without a stream: %v after %v; want an error after 10s", err, time.Since(start))
		}
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		defer st.close()
		answered := make(chan error, 1)
		go func() { // ends with the answer
			_, err := mcp.Ask(s.ctx(), scope.Unrelated(), roots)
			answered <- err
		}()
		equal(t, "ask", st.next(), `{"jsonrpc":"2.0","id":2,"method":"roots/list"}`)
		s.post(`{"jsonrpc":"2.0","id":2,"result":{"roots":[]}}`, sess)
		if err := <-answered; err != nil {
			t.Errorf("Ask = %v, want an answer", err)
		}
		for _, n := range []string{"notifications/tools/list_changed", "notifications/elicitation/complete"} {
			if err := scope.Unrelated().Notify(s.ctx(), note(t, n, `{}`)); err != nil {
				t.Errorf("Notify: %v", err)
			}
			equal(t, "notification", st.next(), `{"jsonrpc":"2.0","method":"`+n+`","params":{}}`)
		}
	})
}

// notifications/roots/list_changed reaches the Handler as a request without an answer.
func TestRootsListChanged(t *testing.T) {
	var received []*mcp.Request
	h := tools(map[string]mcp.HandlerFunc{"notifications/roots/list_changed": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		received = append(received, req)
		return nil, nil
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		got := s.post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, s.session())
		s.advance(0)
		if got.status != 202 || len(received) != 1 || received[0].Scope == nil {
			t.Errorf("status %d, received %v; want 202 and one request with the session's scope", got.status, received)
		}
		if st := s.server.Stats(); st.Undelivered != 0 || st.Panics != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A flood of notifications is bounded like one of requests.
func TestFloodOfNotifications(t *testing.T) {
	gated(t, server.Config{Limits: server.Limits{InFlightPerSession: 5}}, func(s *site, g *gate) {
		sess := s.session()
		for range 20 {
			s.post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, sess)
		}
		s.advance(0)
		if got, dropped := len(g.entered), s.server.Stats().Dropped; got != 5 || dropped != 15 {
			t.Errorf("%d ran, %d dropped; want 5, 15", got, dropped)
		}
	})
}

func TestInFlightLimit(t *testing.T) {
	gated(t, server.Config{Limits: server.Limits{InFlightPerSession: 2}}, func(s *site, g *gate) {
		sess := s.session()
		var replies []<-chan reply
		for i := range 2 {
			replies = append(replies, s.async(s.request(s.ctx(), http.MethodPost, raw(fmt.Sprint(i), "tools/call", `{"name":"wait"}`), sess)))
			<-g.entered
		}
		got := s.post(raw("9", "tools/call", `{"name":"wait"}`), sess)
		equal(t, "body", got.body, `{"jsonrpc":"2.0","id":9,"error":{"code":1006,"message":"2 requests in flight (limits.inFlightPerSession); the request was not sent",`+
			`"data":{"source":"gateway","outcome":"not_dispatched"}}}`)
		if got.status != 429 || got.header.Get("Retry-After") == "" {
			t.Errorf("status %d, Retry-After %q; want 429 and one", got.status, got.header.Get("Retry-After"))
		}
		close(g.release)
		for _, r := range replies {
			if got := <-r; got.status != 200 {
				t.Errorf("%d %s", got.status, got.body)
			}
		}
	})
}

// Cancelling ends that request and its stream only, without an answer. I24, C6.
//
// C6- 2026-07-28 basic/patterns/cancellation: "Invalid cancellation notifications
// SHOULD be ignored"
func TestCancel(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		sess := s.session()
		one := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess))
		two := s.async(s.request(s.ctx(), http.MethodPost, raw(`"1"`, "tools/call", `{"name":"wait"}`), sess))
		<-g.entered
		<-g.entered
		for _, id := range []string{"7", "1", "1", "null", "{}"} {
			if got := s.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`, sess); got.status != 202 {
				t.Errorf("cancel of %s: %d, want 202", id, got.status)
			}
		}
		if got := <-one; got.status != 200 || got.body != "" {
			t.Errorf("the cancelled request: %d %q; want an empty stream", got.status, got.body)
		}
		if err := <-g.cause; err == nil || !strings.Contains(err.Error(), "cancelled") {
			t.Errorf("its context ended with %v", err)
		}
		close(g.release)
		if got := <-two; got.body != `{"jsonrpc":"2.0","id":"1","result":{"content":[]}}` {
			t.Errorf("the other request: %s", got.body)
		}
	})
}

// J11: only 2025-03-26 has batches, and each message of one counts separately.
//
// J11+ 2025-03-26 basic/index: "MCP implementations **MAY** support sending JSON-RPC
// batches, but **MUST** support receiving JSON-RPC batches."
//
// J11- 2025-03-26 basic/lifecycle: "The `initialize` request **MUST NOT** be part of a
// JSON-RPC"
func TestBatch(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"echo": fixedResult(`{"content":[]}`)})
	bubble(t, h, server.Config{Limits: server.Limits{Batch: 9}}, func(s *site) {
		sess := s.handshake(opening("2025-03-26"))
		got := s.post(`[{"jsonrpc":"2.0","method":"notifications/initialized"},`+
			strings.Join([]string{
				raw("1", "tools/call", `{"name":"echo"}`), raw("2", "ping", ""), raw("3", "no/such", ""),
				initialize, raw("1.5", "ping", ""), `{"jsonrpc":"2.0","id":77,"result":{}}`, raw(`"1"`, "tools/call", `{"name":"echo"}`),
			}, ",")+`]`, sess)
		events := got.events(t)
		slices.Sort(events)
		want := []string{
			wireError("0", "-32600", "initialize must not be part of a batch"),
			wireError("3", "-32601", `unknown method "no/such"`),
			`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`,
			`{"jsonrpc":"2.0","id":"1","result":{"content":[]}}`,
			`{"jsonrpc":"2.0","id":2,"result":{}}`,
		}
		slices.Sort(want)
		i := slices.IndexFunc(events, func(e string) bool { return strings.Contains(e, "-32600") && strings.Contains(e, "fraction") })
		if i < 0 {
			t.Fatalf("no error for the id 1.5 in %q", events)
		}
		equal(t, "events", strings.Join(slices.Delete(events, i, i+1), "\n"), strings.Join(want, "\n"))

		got = s.post(`[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":7,"result":{}}]`, sess)
		if got.status != 202 || got.body != "" {
			t.Errorf("a batch without requests: %d %q; want 202", got.status, got.body)
		}
		got = s.post(`[`+strings.Repeat(raw("1", "ping", "")+",", 9)+raw("1", "ping", "")+`]`, sess)
		if got.status != 400 || !strings.Contains(got.body, "more than 9 messages") {
			t.Errorf("a batch of ten: %d %s; want 400", got.status, got.body)
		}
		if got := s.post(`[]`, headers{"Mcp-Session-Id": "x"}); got.status != 404 {
			t.Errorf("a batch in an unknown session: %d, want 404", got.status)
		}
	})
}

// A ping in a batch is refused like any other request while its id is in flight in the same
// batch, and answered if its id is not.
func TestPingOfABatchWithAnIDInFlight(t *testing.T) {
	var gate chan struct{} // of the bubble
	h := tools(map[string]mcp.HandlerFunc{"slow": func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
		<-gate
		return mcp.NewResult([]byte(`{"content":[]}`))
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.handshake(opening("2025-03-26"))
		gate = make(chan struct{})
		time.AfterFunc(time.Second, func() { close(gate) })
		events := s.post(`[`+raw("1", "tools/call", `{"name":"slow"}`)+`,`+raw("1", "ping", "")+`,`+raw("2", "ping", "")+`]`, sess).events(t)
		slices.Sort(events)
		want := []string{
			wireError("1", "-32600", "a request with id 1 is in flight"),
			`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`,
			`{"jsonrpc":"2.0","id":2,"result":{}}`,
		}
		slices.Sort(want)
		equal(t, "events", strings.Join(events, "\n"), strings.Join(want, "\n"))
	})
}
