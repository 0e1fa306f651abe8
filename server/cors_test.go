// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

const (
	app     = "https://app.example"
	exposes = "Mcp-Session-Id, WWW-Authenticate, Retry-After"
	takes   = "Authorization, Content-Type, Accept, Last-Event-Id, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name"
)

// crossOrigin returns the headers of an answer that matter to a browser.
func crossOrigin(h http.Header) map[string][]string {
	out := map[string][]string{}
	for k, v := range h {
		if k == "Vary" || strings.HasPrefix(k, "Access-Control-") {
			out[k] = v
		}
	}
	return out
}

// authenticated accepts alice and sends the others a challenge.
func authenticated(r *http.Request) (string, error) {
	if r.Header.Get("Authorization") == "Bearer alice" {
		return "alice", nil
	}
	return "", errors.New("nobody")
}

// All headers for a browser, by origin, method and kind of request; none of the requests
// has credentials (Fetch standard, "CORS protocol"; 2026-07-28,
// basic/transports/streamable-http, "Security & Endpoint": 403 for an Origin that is not
// valid).
func TestCORSHeaders(t *testing.T) {
	vary := map[string][]string{"Vary": {"Origin"}}
	seen := map[string][]string{"Vary": {"Origin"}, "Access-Control-Allow-Origin": {app}, "Access-Control-Expose-Headers": {exposes}}
	permitted := func(more string) map[string][]string {
		return map[string][]string{
			"Vary": {"Origin", "Access-Control-Request-Headers"}, "Access-Control-Allow-Origin": {app},
			"Access-Control-Allow-Methods": {"GET, POST, DELETE"}, "Access-Control-Allow-Headers": {takes + more}, "Access-Control-Max-Age": {"7200"},
		}
	}
	asks := func(method, names string) headers {
		return headers{"Access-Control-Request-Method": method, "Access-Control-Request-Headers": names}
	}
	tests := []struct {
		name, origin, method string
		header               headers
		status               int
		want                 map[string][]string
	}{
		{"preflight of a POST", app, "OPTIONS", asks("POST", "authorization,content-type,mcp-method"), 204, permitted("")},
		{"preflight of a GET", app, "OPTIONS", headers{"Access-Control-Request-Method": "GET"}, 204, permitted("")},
		{"preflight of what is not served", app, "OPTIONS", asks("PUT", "x-other"), 204, permitted("")},
		{"preflight of a tool's headers", app, "OPTIONS", asks("POST", "mcp-param-region, content-type,Mcp-Param-tenant_id"), 204,
			permitted(", Mcp-Param-Region, Mcp-Param-Tenant_id")},
		{"preflight of a header without a name", app, "OPTIONS", asks("POST", "mcp-param-,x-mcp-param-a,,*"), 204, permitted("")},
		{"preflight for a private network", app, "OPTIONS",
			headers{"Access-Control-Request-Method": "POST", "Access-Control-Request-Private-Network": "true"}, 204, permitted("")},
		{"preflight with a token in the query", app, "OPTIONS", headers{"Access-Control-Request-Method": "POST", "?": "access_token=x"}, 204, permitted("")},
		{"preflight for a foreign host", app, "OPTIONS", headers{"Access-Control-Request-Method": "POST", "Host": "evil.example"}, 403, seen},
		{"OPTIONS that is no preflight", app, "OPTIONS", nil, 405, seen},
		{"without credentials", app, "POST", nil, 401, seen},
		{"stream without credentials", app, "GET", nil, 401, seen},
		{"goodbye without credentials", app, "DELETE", nil, 401, seen},
		{"wrong method", app, "PUT", nil, 405, seen},
		{"token in the query", app, "POST", headers{"?": "access_token=x"}, 401, seen},
		{"wrong type", app, "POST", headers{"Authorization": "Bearer alice", "Content-Type": "text/plain"}, 415, seen},
		{"unknown session", app, "GET", headers{"Authorization": "Bearer alice", "Mcp-Session-Id": "x"}, 404, seen},
		{"result", app, "POST", headers{"Authorization": "Bearer alice"}, 200, seen},

		{"foreign preflight", "https://evil.example", "OPTIONS", asks("POST", "mcp-param-a"), 403, vary},
		{"foreign POST", "https://evil.example", "POST", nil, 403, vary},
		{"foreign POST with credentials", "https://evil.example", "POST", headers{"Authorization": "Bearer alice"}, 403, vary},
		{"foreign GET", "https://evil.example", "GET", nil, 403, vary},
		{"foreign DELETE", "https://evil.example", "DELETE", nil, 403, vary},
		{"preflight of no origin at all", "null", "OPTIONS", asks("POST", ""), 403, vary},
		{"preflight of almost the origin", app + ".evil.example", "OPTIONS", asks("POST", ""), 403, vary},
		{"preflight of the origin without TLS", "http://app.example", "OPTIONS", asks("POST", ""), 403, vary},
		{"preflight of the origin in capitals", "https://APP.example", "OPTIONS", asks("POST", ""), 403, vary},
		{"preflight of the origin at another port", app + ":8443", "OPTIONS", asks("POST", ""), 403, vary},

		{"own page", "http://localhost", "POST", headers{"Authorization": "Bearer alice"}, 200, vary},
		{"own page under another name", "http://127.0.0.1", "OPTIONS", asks("POST", ""), 405, vary},
		{"no page", "-", "POST", headers{"Authorization": "Bearer alice"}, 200, vary},
		{"OPTIONS of no page", "-", "OPTIONS", asks("POST", ""), 405, vary},
	}
	h := tools(map[string]mcp.HandlerFunc{"echo": fixedResult(`{"content":[]}`)})
	bubble(t, h, server.Config{AllowedOrigins: []string{"https://other.example", app}, Authenticate: identified(authenticated)}, func(s *site) {
		for _, tt := range tests {
			body := ""
			if tt.method == http.MethodPost {
				body = modern("1", "tools/call", `"name":"echo"`)
			}
			hs := maps.Clone(tt.header)
			query := hs["?"]
			delete(hs, "?")
			r := s.request(s.ctx(), tt.method, body, modernHeaders("tools/call", "echo"), headers{"Origin": tt.origin}, hs)
			r.URL.RawQuery = query
			got := s.do(r)
			if got.status != tt.status {
				t.Errorf("%s: %d %s; want %d", tt.name, got.status, got.body, tt.status)
			}
			if diff := cmp.Diff(tt.want, crossOrigin(got.header)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.name, diff)
			}
			if got.status == 204 && (got.body != "" || got.header.Get("Content-Type") != "") {
				t.Errorf("%s: a body %q of type %q; want none", tt.name, got.body, got.header.Get("Content-Type"))
			}
		}
	})
}

// A server without AllowedOrigins serves no foreign pages, and no answer depends on an
// origin.
func TestNoOriginsNoCORS(t *testing.T) {
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		for origin, status := range map[string]int{"-": 405, "http://localhost": 405, app: 403} {
			r := s.request(s.ctx(), http.MethodOptions, "", headers{"Origin": origin, "Access-Control-Request-Method": "POST"})
			got := s.do(r)
			if h := crossOrigin(got.header); got.status != status || len(h) > 0 {
				t.Errorf("%s: %d with %v; want %d with nothing for browsers", origin, got.status, h, status)
			}
		}
	})
}

// The second of two origins must not hide behind an allowed one.
func TestPreflightOfTwoOrigins(t *testing.T) {
	bubble(t, tools(nil), server.Config{AllowedOrigins: []string{app}}, func(s *site) {
		r := s.request(s.ctx(), http.MethodOptions, "", headers{"Access-Control-Request-Method": "POST"})
		r.Header["Origin"] = []string{app, app}
		got := s.do(r)
		if got.status != 403 || got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%d %v; want 403 and no leave", got.status, got.header)
		}
	})
}

// A preflight is not authenticated, and is counted neither as a request nor as a refusal.
func TestPreflightIsNotAuthenticated(t *testing.T) {
	auth := func(r *http.Request) (string, error) {
		t.Errorf("%s was to be authenticated", r.Method)
		return "", errors.New("nobody")
	}
	bubble(t, never(t), server.Config{AllowedOrigins: []string{app}, Authenticate: identified(auth)}, func(s *site) {
		r := s.request(s.ctx(), http.MethodOptions, "", headers{"Origin": app, "Access-Control-Request-Method": "POST"})
		if got := s.do(r); got.status != 204 {
			t.Errorf("%d %s; want 204", got.status, got.body)
		}
		if got := s.server.Stats(); got.Requests != 0 || got.Refused != 0 {
			t.Errorf("%d requests, %d refused; want none", got.Requests, got.Refused)
		}
	})
}

// A page can use a whole legacy session: it can read its session id, the stream, and the
// error while the server drains.
func TestSessionOfAForeignPage(t *testing.T) {
	bubble(t, tools(nil), server.Config{AllowedOrigins: []string{app}}, func(s *site) {
		page := headers{"Origin": app}
		got := s.post(initialize, page)
		id := got.header.Get("Mcp-Session-Id")
		if names := strings.Split(got.header.Get("Access-Control-Expose-Headers"), ", "); id == "" || !slices.Contains(names, "Mcp-Session-Id") {
			t.Fatalf("session %q, readable are %q", id, names)
		}
		sess := headers{"Mcp-Session-Id": id}
		ctx, cancel := context.WithCancel(s.ctx())
		defer cancel()
		st := s.open(ctx, http.MethodGet, "", sess, page)
		equal(t, "stream", st.res.Header.Get("Access-Control-Allow-Origin"), app)
		st.close()
		gone := s.do(s.request(s.ctx(), http.MethodDelete, "", sess, page))
		equal(t, "goodbye", gone.header.Get("Access-Control-Allow-Origin"), app)
		s.server.Quiesce()
		late := s.post(initialize, page)
		if late.status != 503 || late.header.Get("Access-Control-Allow-Origin") != app || late.header.Get("Retry-After") == "" {
			t.Errorf("while draining: %d %v; want 503 that the page can read", late.status, late.header)
		}
	})
}

// Pages behind Guard are for operators: foreign pages that may call tools may not read
// them.
func TestGuardHasNoCORS(t *testing.T) {
	bubble(t, tools(nil), server.Config{AllowedOrigins: []string{app}}, func(s *site) {
		s.http.Handler = s.server.Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
		got := s.do(s.request(s.ctx(), http.MethodGet, "", headers{"Origin": app}))
		if h := crossOrigin(got.header); got.status != 200 || len(h) > 0 {
			t.Errorf("%d with %v; want 200 with nothing for browsers", got.status, h)
		}
	})
}
