// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// refusalCase is a request that the server refuses itself.
type refusalCase struct {
	name   string
	method string // POST if empty
	path   string
	body   string
	header headers
	status int
	want   string    // the whole body
	also   [2]string // a header of the response
}

func invalid(message string) string {
	return `{"jsonrpc":"2.0","error":{"code":-32600,"message":` + string(jsonscan.AppendString(nil, message)) + `}}`
}

func wireError(id, code, message string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":` + code + `,"message":` + string(jsonscan.AppendString(nil, message)) + `}}`
}

func (s *site) wantRefusal(tt refusalCase) {
	s.t.Helper()
	method := tt.method
	if method == "" {
		method = http.MethodPost
	}
	r := s.request(s.ctx(), method, tt.body, tt.header)
	r.URL.RawQuery = tt.path
	got := s.do(r)
	if got.status != tt.status {
		s.t.Errorf("%s: status %d, want %d", tt.name, got.status, tt.status)
	}
	equal(s.t, tt.name, got.body, tt.want)
	if k := tt.also[0]; k != "" {
		equal(s.t, tt.name+": "+k, got.header.Get(k), tt.also[1])
	}
}

// never is a Handler that must not be reached.
func never(t *testing.T) mcp.Handler {
	return tools(map[string]mcp.HandlerFunc{"echo": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		t.Errorf("%s %s reached the handler", req.Method, req.Params.Bytes())
		return result(`{}`)
	}})
}

// Refusals of the HTTP request itself, in the order of the checks. FAULTS 1, 2, 14, 15, 16;
// T1, T2, T11, T12; A6.
//
// T2- 2026-07-28 basic/transports/streamable-http: "If the `Origin` header is present
// and invalid, servers **MUST** respond with HTTP 403 Forbidden. The HTTP response
// body **MAY** comprise a JSON-RPC _error response_ that has no `id`."
//
// T5- 2026-07-28 basic/transports/streamable-http: "The server **MUST** provide a
// single HTTP endpoint path (hereafter referred to as the **MCP endpoint**) that
// supports POST."
//
// T6- 2025-11-25 basic/transports: "The client **MUST** include an `Accept` header,
// listing `text/event-stream` as a supported content type."
//
// T11- own: "The Host of every request is one that is served here"
//
// T12- own: "A message is sent as application/json and nothing else"
//
// J14- 2026-07-28 basic/transports/streamable-http: "The client **MUST** include an
// `Accept` header listing both `application/json` and `text/event-stream` as supported
// content types."
func TestHTTPRefusals(t *testing.T) {
	echo := modern("1", "tools/call", `"name":"echo"`)
	h := modernHeaders("tools/call", "echo")
	with := func(kv ...string) headers {
		out := maps.Clone(h)
		for i := 0; i < len(kv); i += 2 {
			out[kv[i]] = kv[i+1]
		}
		return out
	}
	var tests []refusalCase
	for _, host := range []string{"evil.example", "evil.example:80", "localhost.evil.com", "127.0.0.1.evil.com", "localhost.", "10.0.0.1", "[::2]", "0.0.0.0"} {
		tests = append(tests, refusalCase{name: "host " + host, body: echo, header: with("Host", host), status: 403,
			want: invalid(`host "` + host + `" is not allowed (allowedHosts)`)})
	}
	for _, origin := range []string{"null", "http://evil.example", "http://localhost:81", "HTTP://localhost", "http://localhost.",
		"http://localhost.evil.com", "http://127.0.0.1.evil.com", "http://[::2]", "http://localhost/", "http://user@localhost", "file://localhost", "localhost"} {
		tests = append(tests, refusalCase{name: "origin " + origin, body: echo, header: with("Origin", origin), status: 403,
			want: invalid(`origin "` + origin + `" is not allowed (allowedOrigins)`)})
	}
	tests = append(tests,
		refusalCase{name: "method", method: "PUT", status: 405, want: invalid(`method "PUT" is not allowed`), also: [2]string{"Allow", "GET, POST, DELETE"}},
		refusalCase{name: "preflight", method: "OPTIONS", status: 405, want: invalid(`method "OPTIONS" is not allowed`)},
		refusalCase{name: "origin before method", method: "OPTIONS", header: headers{"Origin": "http://evil.example"}, status: 403,
			want: invalid(`origin "http://evil.example" is not allowed (allowedOrigins)`)},
		refusalCase{name: "token in the query", path: "access_token=x", body: echo, header: h, status: 401,
			want: invalid("tokens in the query are not accepted"), also: [2]string{"WWW-Authenticate", "Bearer"}},
		refusalCase{name: "token in the query, in disguise", path: "a=b&access%5Ftoken=x", body: echo, header: h, status: 401,
			want: invalid("tokens in the query are not accepted")},
		refusalCase{name: "token in the query, in another case", path: "ACCESS_TOKEN=x", body: echo, header: h, status: 401,
			want: invalid("tokens in the query are not accepted")},
		refusalCase{name: "token in a query that cannot be read", path: "a;access_token=x", body: echo, header: h, status: 401,
			want: invalid("tokens in the query are not accepted")},
		refusalCase{name: "text/plain", body: echo, header: with("Content-Type", "text/plain"), status: 415,
			want: invalid(`content type must be application/json, not "text/plain"`)},
		refusalCase{name: "no content type", body: echo, header: with("Content-Type", "-"), status: 415,
			want: invalid(`content type must be application/json, not ""`)},
		refusalCase{name: "two content types", body: echo, header: with("Content-Type", "application/json, text/plain"), status: 415,
			want: invalid(`content type must be application/json, not "application/json, text/plain"`)},
		refusalCase{name: "gzip", body: echo, header: with("Content-Encoding", "gzip"), status: 415,
			want: invalid(`request encodings are not accepted (content-encoding: "gzip")`)},
		refusalCase{name: "no accept", body: echo, header: with("Accept", "-"), status: 406,
			want: invalid("accept must list both application/json and text/event-stream")},
		refusalCase{name: "half an accept", body: echo, header: with("Accept", "application/json"), status: 406,
			want: invalid("accept must list both application/json and text/event-stream")},
		refusalCase{name: "the other half", body: echo, header: with("Accept", "text/event-stream"), status: 406,
			want: invalid("accept must list both application/json and text/event-stream")},
		refusalCase{name: "length over the limit", body: strings.Repeat(" ", 4<<20+1), header: h, status: 413,
			want: invalid("body exceeds 4 MiB (limits.requestBody)")},
		refusalCase{name: "GET without accept", method: "GET", header: headers{"Accept": "application/json"}, status: 406,
			want: invalid("accept must list text/event-stream")},
	)
	bubble(t, never(t), server.Config{}, func(s *site) {
		for _, tt := range tests {
			s.wantRefusal(tt)
		}
		if got := s.server.Stats().Refused; got != uint64(len(tests)) {
			t.Errorf("refused = %d, want %d", got, len(tests))
		}
	})
}

// A body of any other content type, however similar, is not read, in either era.
//
// T12- own: "A body with another type is not read, so that no check of messages is
// bypassed."
func TestOtherContentTypes(t *testing.T) {
	bubble(t, never(t), server.Config{}, func(s *site) {
		for _, kind := range []string{
			"text/json", "application/jsonx", "application/json-rpc", "application/problem+json", "application/ld+json", "application/json5",
			"application/*", "*/*", "application", "json", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded",
			"text/plain; application/json", "application/json text/plain", "application/json; a=b; a=c",
		} {
			for era, got := range map[string]reply{
				"modern": s.post(modern("1", "tools/call", `"name":"echo"`), modernHeaders("tools/call", "echo"), headers{"Content-Type": kind}),
				"legacy": s.post(raw("1", "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`), headers{"Content-Type": kind}),
			} {
				if got.status != http.StatusUnsupportedMediaType {
					t.Errorf("%s, %q: %d %s", era, kind, got.status, got.body)
				}
			}
		}
	})
}

// T2- 2025-11-25 basic/transports: "If the `Origin` header is present and invalid,
// servers **MUST** respond with HTTP 403 Forbidden."
func TestTwoOriginsAreRefused(t *testing.T) {
	bubble(t, never(t), server.Config{AllowedOrigins: []string{"https://app.example"}}, func(s *site) {
		r := s.request(s.ctx(), http.MethodPost, modern("1", "tools/call", `"name":"echo"`), modernHeaders("tools/call", "echo"))
		r.Header["Origin"] = []string{"https://app.example", "https://app.example"}
		got := s.do(r)
		equal(t, "body", got.body, invalid(`origin "https://app.example, https://app.example" is not allowed (allowedOrigins)`))
	})
}

// FAULTS 2: a second header must not hide behind the first.
func TestSecondEncodingIsRefused(t *testing.T) {
	bubble(t, never(t), server.Config{}, func(s *site) {
		r := s.request(s.ctx(), http.MethodPost, modern("1", "tools/call", `"name":"echo"`), modernHeaders("tools/call", "echo"))
		r.Header["Content-Encoding"] = []string{"identity", "gzip"}
		got := s.do(r)
		equal(t, "body", got.body, invalid(`request encodings are not accepted (content-encoding: "identity, gzip")`))
	})
}

// What passes the checks: spellings of loopback, configured hosts and origins, a page of
// the same origin, content types with parameters.
//
// T2+ 2026-07-28 basic/transports/streamable-http: "If the `Origin` header is present
// and invalid, servers **MUST** respond with HTTP 403 Forbidden."
//
// H6+ 2026-07-28 basic/transports/streamable-http: "servers **MUST** decode an encoded
// `Mcp-Name` or `Mcp-Param-{Name}` value before comparing it to the corresponding
// request body value"
//
// T11+ own: "The Host of every request is one that is served here"
//
// T12+ own: "A message is sent as application/json and nothing else"
//
// J12+ 2026-07-28 basic/transports/streamable-http: "The body of the HTTP POST
// **MUST** be a single JSON-RPC _request_ or _notification_."
func TestAcceptedHeaders(t *testing.T) {
	cfg := server.Config{AllowedHosts: []string{"mcp.example", "other.example:8443"}, AllowedOrigins: []string{"https://app.example"}}
	tests := []headers{
		{"Host": "LOCALHOST:7777"},
		{"Host": "127.0.0.1:80"},
		{"Host": "127.8.9.1"},
		{"Host": "[::1]:7777"},
		{"Host": "[::1]"},
		{"Host": "mcp.example"},
		{"Host": "MCP.example:99"},
		{"Host": "other.example:8443"},
		{"Origin": "https://app.example"},
		{"Host": "localhost:7777", "Origin": "http://localhost:7777"},
		{"Host": "localhost:7777", "Origin": "http://127.0.0.1:7777"},
		{"Host": "mcp.example", "Origin": "https://mcp.example"},
		{"Content-Type": "Application/JSON; charset=utf-8"},
		{"Content-Encoding": "identity"},
		{"Accept": "text/event-stream;q=0.5, application/json"},
		{"Accept": "*/*"},
		{"Accept": "Application/*, text/*"},
		{"Last-Event-ID": "garbage", "Mcp-Session-Id": "garbage"}, // without meaning in the modern era
		{"mcp-method": "tools/call"},
		{"Mcp-Name": "=?base64?ZWNobw==?="},
		{"Mcp-Name": "  echo "},
	}
	h := tools(map[string]mcp.HandlerFunc{"echo": fixedResult(`{"content":[]}`)})
	bubble(t, h, cfg, func(s *site) {
		for _, hs := range tests {
			got := s.post(modern("1", "tools/call", `"name":"echo"`), modernHeaders("tools/call", "echo"), hs)
			if got.status != 200 {
				t.Errorf("%v: %d %s", hs, got.status, got.body)
			}
		}
		got := s.post(modern("1", "tools/call", `"name":"echo"`), modernHeaders("tools/call", "echo"), headers{"Host": "other.example:1"})
		equal(t, "another port", got.body, invalid(`host "other.example:1" is not allowed (allowedHosts)`))
	})
}

// FAULTS 6, 7, 8, 9, 10, 12: bodies that are no message. The text is the parser's; the test
// checks that it is returned, with the id if that could be read.
//
// J12- 2026-07-28 basic/transports/streamable-http: "The body of the HTTP POST
// **MUST** be a single JSON-RPC _request_ or _notification_."
func TestMessageRefusals(t *testing.T) {
	h := modernHeaders("ping", "")
	tests := []refusalCase{
		{name: "empty", body: "", status: 400},
		{name: "truncated", body: `{"jsonrpc":"2.0","id":1`, status: 400},
		{name: "trailing", body: `{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, status: 400},
		{name: "null id", body: `{"jsonrpc":"2.0","id":null,"method":"ping"}`, status: 400},
		{name: "fraction", body: `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, status: 400},
		{name: "twice", body: `{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}`, status: 400},
		{name: "deep", body: `{"jsonrpc":"2.0","id":7,"method":"ping","params":` + strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 200) + `}`, status: 400},
	}
	bubble(t, never(t), server.Config{}, func(s *site) {
		for _, tt := range tests {
			got := s.post(tt.body, h)
			_, err := mcp.Parse([]byte(tt.body), mcp.Limits{})
			pe, ok := errors.AsType[*mcp.ParseError](err)
			if !ok {
				t.Fatalf("%s: the parser accepts it", tt.name)
			}
			reason := string(jsonscan.AppendString(nil, pe.Reason))
			if got.status != 400 || !strings.Contains(got.body, reason[1:len(reason)-1]) {
				t.Errorf("%s: %d %s; want 400 and %q", tt.name, got.status, got.body, pe.Error())
			}
		}
		deep := s.post(tests[len(tests)-1].body, h) // the text of FAULTS 8 and the key
		if !strings.Contains(deep.body, "nesting is deeper than 128 ") || !strings.Contains(deep.body, " (limits.depth)") {
			t.Errorf("%s; want the bound and its key", deep.body)
		}
		if !strings.HasPrefix(deep.body, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,`) {
			t.Errorf("M197: %s; want an error with id 7", deep.body)
		}
		equal(t, "batch", s.post(`[]`, h).body, invalid("only 2025-03-26 has batches"))
	})
}

// A body without a Content-Length is rejected as soon as it exceeds the limit, and is not
// kept.
func TestLongBodyWithoutLength(t *testing.T) {
	bubble(t, never(t), server.Config{Limits: server.Limits{RequestBody: 10 << 10}}, func(s *site) {
		r := s.request(s.ctx(), http.MethodPost, "")
		r.Body, r.ContentLength = noLength{strings.NewReader(strings.Repeat(" ", 20<<10))}, -1
		equal(t, "body", s.do(r).body, invalid("body exceeds 10 KiB (limits.requestBody)"))
	})
}

// FAULTS 3: a body that arrives too slowly.
func TestSlowBody(t *testing.T) {
	bubble(t, never(t), server.Config{}, func(s *site) {
		r := s.request(s.ctx(), http.MethodPost, "")
		r.Body, r.ContentLength = noLength{&slowBody{every: time.Second}}, -1
		start := time.Now()
		got := s.do(r)
		equal(t, "body", got.body, invalid("the body arrived too slowly: less than 1 KiB per second"))
		if got.status != 408 || time.Since(start) > 15*time.Second {
			t.Errorf("status %d after %v, want 408 after 10s", got.status, time.Since(start))
		}
	})
}

// A slow body that keeps to the minimum rate is accepted, however long it takes.
func TestSteadyBody(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"echo": fixedResult(`{"content":[]}`)})
	bubble(t, h, server.Config{}, func(s *site) {
		r := s.request(s.ctx(), http.MethodPost, "", modernHeaders("tools/call", "echo"))
		body := modern("1", "tools/call", `"name":"echo"`) + strings.Repeat(" ", 60<<10)
		r.Body, r.ContentLength = noLength{&slowBody{every: time.Second, text: body, piece: 1100}}, -1
		start := time.Now()
		if got := s.do(r); got.status != 200 || time.Since(start) < 50*time.Second {
			t.Errorf("%d %s after %v; want 200 after about a minute", got.status, got.body, time.Since(start))
		}
	})
}

// T4+ 2026-07-28 basic/transports/streamable-http: "Servers **SHOULD** implement
// proper authentication for all connections."
func TestAuthentication(t *testing.T) {
	cfg := server.Config{Authenticate: identified(func(r *http.Request) (string, error) {
		switch r.Header.Get("Authorization") {
		case "Bearer good":
			return "alice", nil
		case "Bearer narrow":
			return "", &server.Denial{Status: 403, Challenge: `Bearer error="insufficient_scope"`, Message: "more scope is needed"}
		case "Bearer old":
			return "", &server.Denial{Message: "the token has expired"}
		default:
			return "", errors.New("secret of the token")
		}
	})}
	var seen string
	h := tools(map[string]mcp.HandlerFunc{"who": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		seen = req.Principal
		return result(`{}`)
	}})
	bubble(t, h, cfg, func(s *site) {
		body := modern("1", "tools/call", `"name":"who"`)
		mh := modernHeaders("tools/call", "who")
		tests := []struct {
			auth, body, challenge string
			status                int
		}{
			{"-", invalid("not authenticated"), "Bearer", 401},
			{"Bearer bad", invalid("not authenticated"), "Bearer", 401},
			{"Bearer old", invalid("the token has expired"), "Bearer", 401},
			{"Bearer narrow", invalid("more scope is needed"), `Bearer error="insufficient_scope"`, 403},
		}
		for _, tt := range tests {
			got := s.post(body, mh, headers{"Authorization": tt.auth})
			equal(t, tt.auth, got.body, tt.body)
			equal(t, tt.auth, got.header.Get("WWW-Authenticate"), tt.challenge)
			if got.status != tt.status {
				t.Errorf("%s: status %d, want %d", tt.auth, got.status, tt.status)
			}
			for _, method := range []string{http.MethodGet, http.MethodDelete} {
				if got := s.do(s.request(s.ctx(), method, "", headers{"Authorization": tt.auth})); got.status != tt.status {
					t.Errorf("%s %s: status %d, want %d", method, tt.auth, got.status, tt.status)
				}
			}
		}
		if got := s.post(body, mh, headers{"Authorization": "Bearer good"}); got.status != 200 || seen != "alice" {
			t.Errorf("%d %s as %q; want 200 as alice", got.status, got.body, seen)
		}
	})
}
