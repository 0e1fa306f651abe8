// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// raw returns a request with exactly these params.
func raw(id, method, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `"` + params + `}`
}

// The metadata of each request, and the headers that mirror it. FAULTS 30, 31, 32; H1 to
// H7; V1. Checked in this order: what the body lacks, headers that differ from it, what is
// not supported.
//
// H1- 2026-07-28 basic/index: "A request missing any required field is malformed; the
// server MUST reject it with JSON-RPC error code -32602 (Invalid params). On HTTP, the
// response status MUST be 400 Bad Request."
//
// H2- 2026-07-28 basic/transports/streamable-http: "The header value MUST match the
// io.modelcontextprotocol/protocolVersion field carried in the request body's _meta.
// If the values do not match, the server MUST reject the request with 400 Bad Request
// and a HeaderMismatch JSON-RPC error"
//
// H7- 2026-07-28 basic/transports/streamable-http: "Servers that process the request
// body MUST reject requests where the values specified in the headers do not match the
// corresponding values in the request body."
//
// H15- 2026-07-28 basic/transports/streamable-http: "If the server does not implement
// the requested RPC method, it MUST respond with 404 Not Found and a JSON-RPC error
// with code -32601 (Method not found)."
//
// V1- 2026-07-28 basic/transports/streamable-http: "it MUST respond with 400 Bad
// Request and an UnsupportedProtocolVersionError listing its supported versions."
//
// J9+ 2026-07-28 basic/index: "**MUST** use defined codes only with their specified
// meanings."
//
// J12- 2026-07-28 basic/transports/streamable-http: "The client **MUST NOT** send
// JSON-RPC _responses_."
//
// V6+ 2026-07-28 basic/versioning: "SHOULD name the protocol versions it supports in
// any error it returns to an initialize request, on any transport"
func TestModernRefusals(t *testing.T) {
	const lacks = "params._meta lacks %q; every request must have it"
	version, caps := mcp.MetaVersion.Key(), mcp.MetaClientCapabilities.Key()
	only := func(kv ...string) string { return `{"name":"echo","_meta":{` + strings.Join(kv, ",") + `}}` }
	v := func(s string) string { return fmt.Sprintf(`%q:%s`, version, s) }
	c := fmt.Sprintf(`%q:{}`, caps)
	h := modernHeaders("tools/call", "echo")
	hv := func(k, val string) headers {
		out := maps.Clone(h)
		out[k] = val
		return out
	}
	const unsupported = `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"unsupported protocol version \"1900-01-01\"",` +
		`"data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"1900-01-01"}}}`
	good := only(v(`"2026-07-28"`), c)
	tests := []refusalCase{
		{name: "no params", body: raw("1", "tools/call", ""), header: h, status: 400, want: wireError("1", "-32602", fmt.Sprintf(lacks, version))},
		{name: "no _meta", body: raw("1", "tools/call", `{"name":"echo"}`), header: h, status: 400, want: wireError("1", "-32602", fmt.Sprintf(lacks, version))},
		{name: "no version", body: raw("1", "tools/call", only(c)), header: h, status: 400, want: wireError("1", "-32602", fmt.Sprintf(lacks, version))},
		{name: "version is no string", body: raw("1", "tools/call", only(v(`1`), c)), header: h, status: 400, want: wireError("1", "-32602", fmt.Sprintf(lacks, version))},
		{name: "no capabilities", body: raw("1", "tools/call", only(v(`"2026-07-28"`))), header: h, status: 400, want: wireError("1", "-32602", fmt.Sprintf(lacks, caps))},
		{name: "capabilities are no object", body: raw("1", "tools/call", only(v(`"2026-07-28"`), fmt.Sprintf(`%q:[]`, caps))), header: h, status: 400, want: wireError("1", "-32602", fmt.Sprintf(lacks, caps))},

		{name: "no version header", body: raw("1", "tools/call", good), header: hv("MCP-Protocol-Version", "-"), status: 400,
			want: wireError("1", "-32020", `MCP-Protocol-Version header is missing; the body has "2026-07-28"`)},
		{name: "another version header", body: raw("1", "tools/call", good), header: hv("MCP-Protocol-Version", "2025-11-25"), status: 400,
			want: wireError("1", "-32020", `MCP-Protocol-Version header is "2025-11-25"; the body has "2026-07-28"`)},
		{name: "the body's version is unknown, and the header says another", body: raw("1", "tools/call", only(v(`"1900-01-01"`), c)), header: h, status: 400,
			want: wireError("1", "-32020", `MCP-Protocol-Version header is "2026-07-28"; the body has "1900-01-01"`)},
		{name: "no method header", body: raw("1", "tools/call", good), header: hv("Mcp-Method", "-"), status: 400,
			want: wireError("1", "-32020", `Mcp-Method header is missing; the body has "tools/call"`)},
		{name: "method header in another case", body: raw("1", "tools/call", good), header: hv("Mcp-Method", "TOOLS/CALL"), status: 400,
			want: wireError("1", "-32020", `Mcp-Method header is "TOOLS/CALL"; the body has "tools/call"`)},
		{name: "no name header", body: raw("1", "tools/call", good), header: hv("Mcp-Name", "-"), status: 400,
			want: wireError("1", "-32020", `Mcp-Name header is missing; the body has "echo"`)},
		{name: "harmless header, dangerous body", body: raw("1", "tools/call", good), header: hv("Mcp-Name", "harmless"), status: 400,
			want: wireError("1", "-32020", `Mcp-Name header is "harmless"; the body has "echo"`)},
		{name: "bad base64", body: raw("1", "tools/call", good), header: hv("Mcp-Name", "=?base64?a?="), status: 400,
			want: wireError("1", "-32020", `Mcp-Name header "=?base64?a?=": header value: invalid base64 between =?base64? and ?=; the body has "echo"`)},
		{name: "upper case sentinel is a literal", body: raw("1", "tools/call", good), header: hv("Mcp-Name", "=?BASE64?ZWNobw==?="), status: 400,
			want: wireError("1", "-32020", `Mcp-Name header is "=?BASE64?ZWNobw==?="; the body has "echo"`)},
		{name: "a long value is cut", body: raw("1", "tools/call", good), header: hv("Mcp-Name", strings.Repeat("x", 100)), status: 400,
			want: wireError("1", "-32020", `Mcp-Name header is "`+strings.Repeat("x", 64)+`"...; the body has "echo"`)},
		{name: "no name at all", body: raw("1", "tools/call", `{"_meta":{`+meta+`}}`), header: h, status: 400,
			want: wireError("1", "-32602", `params.name must be a string`)},

		{name: "unknown version", body: raw("1", "tools/call", only(v(`"1900-01-01"`), c)), header: hv("MCP-Protocol-Version", "1900-01-01"), status: 400, want: unsupported},
		{name: "unknown version, in the header alone", body: raw("1", "tools/list", ""), header: headers{"MCP-Protocol-Version": "zzz"}, status: 400,
			want: strings.ReplaceAll(unsupported, "1900-01-01", "zzz")},
		{name: "a version that begins with initialize", body: raw("1", "tools/call", only(v(`"2025-11-25"`), c)), header: hv("MCP-Protocol-Version", "2025-11-25"), status: 400,
			want: strings.ReplaceAll(strings.Replace(unsupported, `unsupported protocol version \"1900-01-01\"`, `\"2025-11-25\" is not served without a session; begin with initialize`, 1), "1900-01-01", "2025-11-25")},
		{name: "log level", body: raw("1", "tools/call", only(v(`"2026-07-28"`), c, `"io.modelcontextprotocol/logLevel":"loud"`)), header: h, status: 400,
			want: wireError("1", "-32602", `unknown log level "loud" in _meta`)},
		{name: "log level that is no text", body: raw("1", "tools/call", only(v(`"2026-07-28"`), c, `"io.modelcontextprotocol/logLevel":7`)), header: h, status: 400,
			want: wireError("1", "-32602", `params._meta["io.modelcontextprotocol/logLevel"] must be a string`)},
		{name: "a response", body: `{"jsonrpc":"2.0","id":1,"result":{}}`, header: h, status: 400, want: invalid("the body is a response; send a request")},
	}
	for _, method := range []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"} {
		tests = append(tests, refusalCase{name: method, body: modern("1", method, ""), header: modernHeaders(method, ""), status: 404,
			want: wireError("1", "-32601", fmt.Sprintf("method %q does not exist in 2026-07-28; it belongs to 2025-11-25 and before", method))})
	}
	tests = append(tests, refusalCase{name: "unknown method", body: modern("1", "no/such", ""), header: modernHeaders("no/such", ""), status: 404,
		want: wireError("1", "-32601", `unknown method "no/such"`)})
	bubble(t, never(t), server.Config{}, func(s *site) {
		for _, tt := range tests {
			s.wantRefusal(tt)
		}
	})
}

func TestModernHeaderTwice(t *testing.T) {
	bubble(t, never(t), server.Config{}, func(s *site) {
		r := s.request(s.ctx(), http.MethodPost, modern("1", "tools/call", `"name":"echo"`), modernHeaders("tools/call", "echo"))
		r.Header.Add("Mcp-Name", "echo")
		equal(t, "body", s.do(r).body, wireError("1", "-32020", `Mcp-Name header appears 2 times; the body has "echo"`))
	})
}

// The members that the server adds to a modern result, and those that stay unmodified.
//
// J8+ 2026-07-28 basic/index: "The `result` **MUST** include a `resultType` field to
// indicate the type of the result."
//
// G1+ 2026-07-28 server/utilities/caching: "Servers MUST include caching hints on
// results with `resultType: "complete"` returned by the following operations"
//
// G1- 2026-07-28 server/utilities/caching: "Interim results with `resultType:
// "input_required"` (see multi round-trip requests) are not cacheable and carry no
// caching hints."
func TestModernResults(t *testing.T) {
	const list = `"tools":[ {"name" : "a"} ]`
	tests := []struct{ name, method, result, want string }{
		{"type", "tools/call", `{"content":[]}`, `{"content":[],"resultType":"complete"}`},
		{"type is there", "tools/call", `{"resultType":"complete"}`, `{"resultType":"complete"}`},
		{"input required", "tools/call", `{"resultType":"input_required","inputRequests":{}}`, `{"resultType":"input_required","inputRequests":{}}`},
		{"hints", "tools/list", `{` + list + `}`, `{` + list + `,"resultType":"complete","ttlMs":0,"cacheScope":"private"}`},
		{"hints are there", "tools/list", `{"ttlMs":5,"cacheScope":"public","resultType":"complete"}`, `{"ttlMs":5,"cacheScope":"public","resultType":"complete"}`},
		{"no hints on what is not complete", "resources/read", `{"resultType":"input_required","requestState":"x"}`, `{"resultType":"input_required","requestState":"x"}`},
		{"number texts", "tools/call", `{"x":1.0e+2,"y":9007199254740993,"resultType":"complete"}`, `{"x":1.0e+2,"y":9007199254740993,"resultType":"complete"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := mcp.HandlerFunc(func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) { return result(tt.result) })
			params, name := "", ""
			if f := mcp.NameField(tt.method); f != mcp.FieldNone {
				params, name = `"`+f.Key()+`":"n"`, "n"
			}
			bubble(t, h, server.Config{}, func(s *site) {
				got := s.post(modern("1", tt.method, params), modernHeaders(tt.method, name))
				equal(t, "body", got.body, `{"jsonrpc":"2.0","id":1,"result":`+tt.want+`}`)
			})
		})
	}
}

// The server knows which revisions the endpoint supports; the Handler does not.
//
// V1+ 2026-07-28 basic/versioning: "it MUST respond with an
// UnsupportedProtocolVersionError listing the versions it does support"
func TestDiscoverNamesAllVersions(t *testing.T) {
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		got := s.post(modern("1", "server/discover", ""), modernHeaders("server/discover", ""))
		const want = `"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`
		if !strings.Contains(got.body, want) {
			t.Errorf("discover: %s; want %s", got.body, want)
		}
	})
}

// Codes that a modern client must not receive, and the HTTP status of an error before the
// first byte. J9.
func TestModernErrors(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		status int
		want   string
	}{
		{"invalid params is an answer", mcp.Errorf(-32602, "no"), 200, `{"code":-32602,"message":"no"}`},
		{"resource not found", mcp.Errorf(-32002, "no"), 200, `{"code":-32602,"message":"no"}`},
		{"url elicitation", mcp.Errorf(-32042, "no"), 200, `{"code":1005,"message":"no"}`},
		{"reserved", mcp.Errorf(-32050, "no"), 200, `{"code":-32603,"message":"no"}`},
		{"reserved, as it came", &mcp.Error{Code: -32050, Message: "no", Data: []byte(`{"a":1}`), Raw: []byte(`{"code":-32050,"message":"no","data":{"a":1}}`)},
			200, `{"code":-32603,"message":"no","data":{"a":1}}`},
		{"as it came", &mcp.Error{Code: -1, Message: "no", Raw: []byte(`{"message":"no", "code":-1}`)}, 200, `{"message":"no", "code":-1}`},
		{"header mismatch", mcp.Errorf(-32020, "no"), 400, `{"code":-32020,"message":"no"}`},
		{"capability", mcp.Errorf(-32021, "no"), 400, `{"code":-32021,"message":"no"}`},
		{"method", mcp.Errorf(-32601, "no"), 404, `{"code":-32601,"message":"no"}`},
		{"wrapped", fmt.Errorf("calling: %w", mcp.Errorf(-32601, "no")), 404, `{"code":-32601,"message":"no"}`},
		{"fault", &mcp.Fault{Code: 1001, Outcome: mcp.NotDispatched, Backend: "b", Message: "is down", Cause: fmt.Errorf("secret")}, 200,
			`{"code":1001,"message":"backend \"b\": is down; the request was not sent","data":{"source":"gateway","outcome":"not_dispatched","backend":"b"}}`},
		{"fault that an error caused", &mcp.Fault{Code: 1002, Outcome: mcp.Unknown, Backend: "b", Message: "is lost", Cause: mcp.Errorf(-32601, "secret")}, 200,
			`{"code":1002,"message":"backend \"b\": is lost; the request may have been executed","data":{"source":"gateway","outcome":"unknown","backend":"b"}}`},
		{"wrapped fault that a wrapped error caused", fmt.Errorf("calling: %w", &mcp.Fault{Code: 1001, Outcome: mcp.NotDispatched, Message: "is down",
			Cause: fmt.Errorf("shaking hands: %w", mcp.Errorf(-32020, "secret"))}), 200,
			`{"code":1001,"message":"is down; the request was not sent","data":{"source":"gateway","outcome":"not_dispatched"}}`},
		{"error that a fault explains", fmt.Errorf("%w (%w)", mcp.Errorf(-32601, "no"), &mcp.Fault{Code: 1001, Outcome: mcp.NotDispatched, Message: "is down"}), 200,
			`{"code":1001,"message":"is down; the request was not sent","data":{"source":"gateway","outcome":"not_dispatched"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := tools(map[string]mcp.HandlerFunc{"f": func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) { return nil, tt.err }})
			bubble(t, h, server.Config{}, func(s *site) {
				got := s.call("f")
				equal(t, "body", got.body, `{"jsonrpc":"2.0","id":1,"error":`+tt.want+`}`)
				if got.status != tt.status {
					t.Errorf("status %d, want %d", got.status, tt.status)
				}
			})
		})
	}
}

// The fields of a modern request in the Handler.
//
// H1+ 2026-07-28 basic/index: "Client requests carry the following
// io.modelcontextprotocol/* fields in _meta; fields marked as required MUST be
// included on every request."
func TestModernRequest(t *testing.T) {
	var got mcp.Request
	h := tools(map[string]mcp.HandlerFunc{"f": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		got = *req
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		body := raw("1", "tools/call", `{"name":"f","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/logLevel":"error"}}`)
		s.post(body, modernHeaders("tools/call", "f"), headers{"Mcp-Param-Region": "eu", "Mcp-Session-Id": "x"})
	})
	equal(t, "version", string(got.Client.Version), "2026-07-28")
	equal(t, "info", string(got.Client.Info), `{"name":"c"}`)
	equal(t, "capabilities", string(got.Client.Capabilities), `{"roots":{}}`)
	equal(t, "level", got.LogLevel.String(), "error")
	equal(t, "headers", fmt.Sprint(got.ParamHeaders), "map[Mcp-Param-Region:[eu]]")
	if got.Scope != nil || !got.TakesInputRequired {
		t.Errorf("scope %v, takes input_required %v; want none, true", got.Scope, got.TakesInputRequired)
	}
}

// ParamHeaders is not nil for a request without parameter headers: nil would mean that
// there is nothing to check.
func TestModernRequestWithoutParamHeaders(t *testing.T) {
	missing := true
	h := tools(map[string]mcp.HandlerFunc{"f": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		missing = req.ParamHeaders == nil
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) { s.call("f") })
	if missing {
		t.Error("ParamHeaders is nil")
	}
}

// U2, U9, C8: only what the request asked for is sent, and only its own messages.
//
// U2+ 2026-07-28 basic/transports/streamable-http: "These notifications MUST relate to
// the originating client request."
//
// U9+ 2026-07-28 server/utilities/logging: "When the field is present, the server MAY
// send `notifications/message` notifications at or above the requested level on the
// response stream of that request, before the final response."
//
// J14+ 2026-07-28 basic/transports/streamable-http: "If the body is a JSON-RPC
// _request_, the server **MUST** return either `Content-Type: application/json` (a
// single JSON object) or `Content-Type: text/event-stream` (an SSE response stream)."
func TestModernNotifications(t *testing.T) {
	notify := func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		for _, n := range []struct{ method, params string }{
			{"notifications/progress", `{"progressToken":"mine","progress":1}`},
			{"notifications/progress", `{"progressToken":"other","progress":1}`},
			{"notifications/message", `{"level":"info","data":1}`},
			{"notifications/message", `{"level":"error","data":2}`},
			{"notifications/message", `{"level":"strange","data":3}`},
		} {
			if err := c.Notify(ctx, note(t, n.method, n.params)); err != nil {
				return nil, err
			}
		}
		return result(`{}`)
	}
	const (
		progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":1}}`
		loud     = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":2}}`
		end      = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`
	)
	tests := []struct {
		name, meta string
		want       []string
	}{
		{"nothing asked for", ``, nil},
		{"progress", `,"progressToken":"mine"`, []string{progress, end}},
		{"errors", `,"io.modelcontextprotocol/logLevel":"warning"`, []string{loud, end}},
		{"both", `,"progressToken":"mine","io.modelcontextprotocol/logLevel":"error"`, []string{progress, loud, end}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, tools(map[string]mcp.HandlerFunc{"say": notify}), server.Config{}, func(s *site) {
				got := s.post(raw("1", "tools/call", `{"name":"say","_meta":{`+meta+tt.meta+`}}`), modernHeaders("tools/call", "say"))
				if tt.want == nil {
					equal(t, "body", got.body, end)
					return
				}
				equal(t, "events", strings.Join(got.events(t), "\n"), strings.Join(tt.want, "\n"))
				equal(t, "buffering", got.header.Get("X-Accel-Buffering"), "no")
				equal(t, "caching", got.header.Get("Cache-Control"), "no-store")
			})
		})
	}
}

// J12+ 2026-07-28 basic/transports/streamable-http: "The body of the HTTP POST
// **MUST** be a single JSON-RPC _request_ or _notification_."
//
// J13+ 2026-07-28 basic/transports/streamable-http: "If the server accepts it, the
// server **MUST** return HTTP status code `202 Accepted` with no body."
func TestModernNotificationIsAccepted(t *testing.T) {
	bubble(t, never(t), server.Config{}, func(s *site) {
		got := s.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, headers{"MCP-Protocol-Version": "2026-07-28"})
		if got.status != 202 || got.body != "" {
			t.Errorf("%d %q, want 202 without a body", got.status, got.body)
		}
		equal(t, "length", got.header.Get("Content-Length"), "0")
	})
}

// U1: a modern client is never sent a request, and some requests offer no other way to ask
// ("Servers MUST NOT send InputRequiredResult responses on any other client requests",
// basic/patterns/mrtr).
//
// U1- 2026-07-28 basic/patterns/mrtr: "Servers MUST NOT send `InputRequiredResult`
// responses on any other client requests."
func TestModernClientIsNotAskedDuringAList(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"tools/list": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		res, err := mcp.Ask(ctx, c, &mcp.Request{Method: "roots/list"})
		sleep(time.Second) // a question to the client would have been sent by then
		return res, err
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		got := s.post(modern("1", "tools/list", ""), modernHeaders("tools/list", ""))
		if !strings.HasPrefix(got.body, `{"jsonrpc":"2.0","id":1,"error":{"code":1005,"message":"roots/list cannot be sent to a client of 2026-07-28 during tools/list`) {
			t.Errorf("%s; want nothing but an error that names what is missing", got.body)
		}
	})
}

// The deadline for reading the body ends with the body, and does not bound the answer.
func TestModernCallOutlivesTheBodyDeadline(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		st := s.open(s.ctx(), http.MethodPost, modern("1", "tools/call", `"name":"wait"`), modernHeaders("tools/call", "wait"))
		s.advance(time.Hour)
		close(g.release)
		equal(t, "result", st.next(), `{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`)
		st.end()
	})
}

// A large result passes as JSON and on a stream, with what is added to it and what is
// beside it. Its line breaks do not end an event.
func TestLargeResult(t *testing.T) {
	text := `{"resultType":"complete","x":"` + strings.Repeat("0123456789", 100_000) + `"}`
	pretty := strings.Replace(text, ",", ",\r\n  ", 1)
	untyped := strings.Replace(pretty, `"resultType":"complete"`, `"y":1`, 1)
	for name, tt := range map[string]struct{ result, beside, want string }{
		"plain":                 {text, "", text},
		"line breaks":           {pretty, "", pretty},
		"line breaks, edited":   {untyped, "", strings.TrimSuffix(untyped, "}") + `,"resultType":"complete"}`},
		"line breaks beside it": {text, ",\"z\":\n1", text},
	} {
		t.Run(name, func(t *testing.T) {
			answer := func() (*mcp.Result, error) {
				m, err := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"result":`+tt.result+tt.beside+`}`), mcp.Limits{})
				return &m.Result, err
			}
			h := tools(map[string]mcp.HandlerFunc{
				"json": func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) { return answer() },
				"sse": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
					if err := c.Notify(ctx, note(t, "notifications/x", `{}`)); err != nil {
						return nil, err
					}
					return answer()
				},
			})
			want := `{"jsonrpc":"2.0","id":1,"result":` + tt.want + tt.beside + `}`
			bubble(t, h, server.Config{}, func(s *site) {
				if got := s.call("json").body; got != want {
					t.Errorf("JSON: %d bytes, want %d", len(got), len(want))
				}
				events := s.call("sse").events(t)
				flat := strings.NewReplacer("\r", " ", "\n", " ")
				if len(events) != 2 || flat.Replace(events[1]) != flat.Replace(want) {
					t.Errorf("SSE: %d events; want the result as the second", len(events))
				}
			})
		})
	}
}
