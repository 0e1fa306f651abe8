// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/principal"
	"github.com/signalbox-mcp/signalbox/server"
)

// described returns a Chain with metadata, which is not run.
func described(t testing.TB, path string) *Chain {
	t.Helper()
	e, err := principal.Compile("claims", "claims.sub")
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{PublicURL: "https://mcp.example.com", Path: path, Name: "signalbox", Issuers: []Issuer{
		{Name: "corp", URL: "https://id.example.com/realms/corp", Principal: e, Scopes: []string{"mcp:use"}},
		{Name: "partner", URL: "https://partner.example", Principal: e, Scopes: []string{"mcp:use", "mcp:read"}},
		{Name: "proxy", URL: "https://team.proxy.example", Principal: e, Header: "Cf-Access-Jwt-Assertion", Audiences: []string{"app"}, Scopes: []string{"internal"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Requirement I1: the metadata of each path, and the challenge that leads there.
func TestMetadata(t *testing.T) {
	const rest = `,"authorization_servers":["https://id.example.com/realms/corp","https://partner.example"],"scopes_supported":["mcp:use","mcp:read"],"bearer_methods_supported":["header"],"resource_name":"signalbox"}`
	for _, tt := range []struct {
		path, at string // of the endpoint, and what follows the well-known path
		resource string // of the metadata, or ""
	}{
		{"/mcp", "/mcp", "/mcp"},
		{"/mcp", "", "/mcp"},
		{"/mcp", "/mcp/p/chat", "/mcp/p/chat"},
		{"/mcp", "/sse", "/sse"},
		{"/mcp", "/sse/p/chat", "/sse/p/chat"},
		{"/mcp", "/", ""},
		{"/mcp", "/mcp/", ""},
		{"/mcp", "/mcp/p/", ""},
		{"/mcp", "/mcp/p/a/b", ""},
		{"/mcp", "/mcp/p/A\"b", ""},
		{"/mcp", "/mcp/p/..", ""},
		{"/mcp", "/other", ""},
		{"/mcp", "mcp", ""},
		{"/", "", "/"},
		{"/", "/p/chat", "/p/chat"},
		{"/", "/mcp", ""},
		{"/a/b", "/a/b", "/a/b"},
		{"/a/b", "/a/b/p/chat", "/a/b/p/chat"},
	} {
		c := described(t, tt.path)
		if got := c.IsMetadata(wellKnown + tt.at); got != (tt.resource != "") {
			t.Errorf("%s: metadata at %q: %v", tt.path, tt.at, got)
		}
		w := httptest.NewRecorder()
		r := request(wellKnown+strings.ReplaceAll(tt.at, `"`, "%22"), "X-Forwarded-Host: evil.example", "X-Forwarded-Proto: http", "Forwarded: host=evil.example")
		r.Method = http.MethodGet
		c.ServeMetadata(w, r)
		if tt.resource == "" {
			if w.Code != http.StatusNotFound {
				t.Errorf("%s: %q: status %d", tt.path, tt.at, w.Code)
			}
			continue
		}
		want := `{"resource":"https://mcp.example.com` + tt.resource + `"` + rest + "\n"
		if got := w.Body.String(); w.Code != 200 || got != want {
			t.Errorf("%s: %q: %d\n got %s\nwant %s", tt.path, tt.at, w.Code, got, want)
		}
		for name, want := range map[string]string{"Content-Type": "application/json", "Cache-Control": "max-age=300", "Access-Control-Allow-Origin": "*"} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %q: %s is %q", tt.path, tt.at, name, got)
			}
		}
		if tt.at == "" {
			continue
		}
		// The challenge at the resource names this document.
		r = request(tt.resource)
		if _, profile, ok := strings.Cut(tt.resource, "/p/"); ok {
			r = r.WithContext(server.WithProfile(r.Context(), profile))
		}
		wantChallenge := `Bearer resource_metadata="https://mcp.example.com` + wellKnown + tt.at + `", scope="mcp:use mcp:read"`
		if got := c.Challenge(r); got != wantChallenge {
			t.Errorf("challenge:\n got %s\nwant %s", got, wantChallenge)
		}
	}
}

func TestMetadataMethods(t *testing.T) {
	c := described(t, "/mcp")
	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "OPTIONS": 204, "POST": 405, "DELETE": 405} {
		r := request(wellKnown+"/mcp", "Origin: https://app.example")
		r.Method = method
		w := httptest.NewRecorder()
		c.ServeMetadata(w, r)
		if w.Code != want || w.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %v", method, w.Code, w.Header())
		}
	}
}

// Without issuers there are no metadata, and challenges are as before.
func TestNoMetadataWithoutIssuers(t *testing.T) {
	c := NewBearer([]Token{{"ann", "sesame-open-sesame", nil}})
	if c.IsMetadata(wellKnown + "/mcp") {
		t.Error("there are metadata")
	}
	if got := c.Challenge(request("/mcp")); got != "Bearer" {
		t.Errorf("challenge %q", got)
	}
	if got, want := c.ScopeChallenge("", []string{"a", "b"}, "x"), `Bearer error="insufficient_scope", scope="a b", error_description="x"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestScopeChallenge(t *testing.T) {
	got := described(t, "/mcp").ScopeChallenge("chat", []string{"mcp:use", "mcp:write"}, "jira\"__\\create\r\nX: é needs mcp:write")
	const want = `Bearer error="insufficient_scope", scope="mcp:use mcp:write", resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp/p/chat", error_description="jira\"__\\create??X: ? needs mcp:write"`
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func BenchmarkKeptToken(b *testing.B) {
	c, p := benchmarked(b)
	r := request("/mcp", "Authorization: Bearer "+p.token(nil))
	if _, err := c.Authenticate(r); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Authenticate(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStaticToken(b *testing.B) {
	c, _ := benchmarked(b)
	r := request("/mcp", "Authorization: Bearer a-token-of-the-configuration")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Authenticate(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFirstToken(b *testing.B) {
	for _, alg := range []string{"ES256", "RS256"} {
		b.Run(alg, func(b *testing.B) {
			c, p := benchmarked(b)
			key := map[string]string{"ES256": "ec", "RS256": "rsa"}[alg]
			r := request("/mcp", "Authorization: Bearer "+sign(b, alg, key, map[string]any{"kid": key}, p.claims(nil)))
			b.ReportAllocs()
			for b.Loop() {
				c.verified.kept = nil
				if _, err := c.Authenticate(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// benchmarked returns a Chain with pinned keys.
func benchmarked(b testing.TB) (*Chain, *provider) {
	p := &provider{t: b, url: "https://id.example.com"}
	c, err := New(Config{
		Tokens:    []Token{{"ci", "a-token-of-the-configuration", nil}},
		PublicURL: "https://mcp.example.com", Path: "/mcp",
		Issuers: []Issuer{{Name: "corp", URL: p.url, Principal: expression(b, "claims.sub"), Scopes: []string{"mcp:use"}, KeySet: keySetOf(b, "ec", "rsa")}},
	})
	if err != nil {
		b.Fatal(err)
	}
	return c, p
}

// Requirement I19: a kept token costs as many allocations as a token of the configuration with
// its length.
func TestKeptTokenAllocations(t *testing.T) {
	c, p := benchmarked(t)
	count := func(token string) float64 {
		r := request("/mcp", "Authorization: Bearer "+token)
		return testing.AllocsPerRun(100, func() {
			if _, err := c.Authenticate(r); err != nil {
				t.Fatal(err)
			}
		})
	}
	signed := p.token(nil)
	long := strings.Repeat("x", len(signed))
	c.tokens = newStaticTokens([]Token{{"ci", long, nil}})
	kept, static := count(signed), count(long)
	if kept > static || kept > 1 {
		t.Errorf("%v allocations, and %v with a token of the configuration", kept, static)
	}
}
