// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/metrics"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// trusting is a backend with an authorization server that trusts an identity provider.
type trusting struct {
	provider, server, backend *httptest.Server

	mu     sync.Mutex
	seen   map[string]string // what each server has got: the form or the Authorization header
	refuse string            // the error of the identity provider, or ""
	n      int
}

// unsigned returns a JWT with these claims. The peers of this test verify none.
func unsigned(typ string, claims map[string]any) string {
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // the claims are constants of the test
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	return part(map[string]string{"alg": "none", "typ": typ}) + "." + part(claims) + ".canarysignature"
}

func newTrusting(t *testing.T) *trusting {
	t.Helper()
	p := &trusting{seen: map[string]string{}}
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v) // the client has disconnected
	}
	issuer := func(of **httptest.Server, name string, reply func(w http.ResponseWriter, r *http.Request)) {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
			answer(w, 200, map[string]any{"issuer": (*of).URL, "token_endpoint": (*of).URL + "/token"})
		})
		mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm() // an invalid form has no values
			p.mu.Lock()
			defer p.mu.Unlock()
			p.n++
			p.seen[name] += r.Header.Get("Authorization") + " " + r.PostForm.Encode() + "\n"
			reply(w, r)
		})
		*of = httptest.NewServer(mux)
		t.Cleanup((*of).Close)
	}
	issuer(&p.provider, "provider", func(w http.ResponseWriter, r *http.Request) {
		if p.refuse != "" {
			answer(w, 400, map[string]any{"error": p.refuse, "error_description": "<script>" + r.PostForm.Get("subject_token")})
			return
		}
		assertion := unsigned("oauth-id-jag+jwt", map[string]any{
			"iss": p.provider.URL, "aud": r.PostForm.Get("audience"), "resource": r.PostForm.Get("resource"), "client_id": "gw-as", "exp": time.Now().Add(time.Minute).Unix(),
		})
		answer(w, 200, map[string]any{"access_token": assertion, "token_type": "N_A", "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"})
	})
	issuer(&p.server, "server", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"access_token": fmt.Sprintf("canary-access-%d", p.n), "token_type": "Bearer", "expires_in": 3600, "scope": "read"})
	})
	server := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/list": func(x *faultyserver.Exchange) {
		x.Result(`{"resultType":"complete","tools":[{"name":"find","inputSchema":{"type":"object"}}]}`)
	}}}
	p.backend = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := r.Header.Get("Authorization")
		p.mu.Lock()
		p.seen["backend"] += got + "\n"
		p.mu.Unlock()
		switch {
		case r.URL.Path == "/.well-known/oauth-protected-resource/mcp":
			answer(w, 200, map[string]any{"resource": p.backend.URL + "/mcp", "authorization_servers": []string{p.server.URL}})
		case !strings.HasPrefix(got, "Bearer canary-access-"):
			w.WriteHeader(http.StatusUnauthorized)
		default:
			server.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(p.backend.Close)
	return p
}

func (p *trusting) idToken(user string) string {
	return unsigned("JWT", map[string]any{"iss": p.provider.URL, "sub": user, "exp": time.Now().Add(time.Hour).Unix()})
}

// entry returns the configuration of the backend.
func (p *trusting) entry(t *testing.T, more string) *config.Config {
	t.Helper()
	text := fmt.Sprintf(`{
		"mcpServers": {"crm": {"url": "%s/mcp", "oauth": {"as": "gateway", "grant": "idJag", "issuer": %q, "clientId": "gw-idp", "clientSecret": "canary-provider-secret",
			"scopes": ["read"], %s, "authorizationServer": {"clientId": "gw-as", "clientSecret": "canary-server-secret"}}}},
		"auth": {"tokens": [{"principal": "ci", "env": "CI_TOKEN"}]}
	}`, p.backend.URL, p.provider.URL, more)
	env := func(name string) (string, bool) { return "canary-inbound-token-of-ci", name == "CI_TOKEN" }
	cfg, err := config.Parse("x.json", []byte(text), env)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// got returns what a server has got.
func (p *trusting) got(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[name]
}

// lockedBuffer is a bytes.Buffer for several writers.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// The backend of a gateway with an ID token in a file is called with access that the identity
// provider vouches for. The ID token is sent to that provider alone, the assertion to the
// authorization server alone, and neither is in the status or the log (I14, N1, N3).
func TestIDJAGAsGateway(t *testing.T) {
	p, log := newTrusting(t), new(lockedBuffer)
	file := filepath.Join(t.TempDir(), "id-token")
	if err := os.WriteFile(file, []byte(p.idToken("robot")), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := p.entry(t, fmt.Sprintf(`"idToken": %q`, file))
	p.refuse = "access_denied"
	g, err := New(*cfg, Options{Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	s, err := g.RetryBackend(t.Context(), "crm")
	if err != nil || s.State != "down" || s.Code != "SB_AUTH_BACKEND" || !strings.Contains(s.Reason, "does not vouch for the user (access_denied)") || strings.Contains(s.Reason, "script") {
		t.Errorf("state %s, reason %q, code %s, %v", s.State, s.Reason, s.Code, err)
	}
	p.mu.Lock()
	p.refuse = ""
	p.mu.Unlock()
	for deadline := time.Now().Add(10 * time.Second); s.State != "live" && time.Now().Before(deadline); { // an attempt that had begun before may end now
		if s, err = g.RetryBackend(t.Context(), "crm"); err != nil {
			t.Fatal(err)
		}
	}
	o := s.OAuth
	if s.State != "live" || o == nil || o.As != "gateway" || o.Grant != "idJag" || o.Issuer != p.server.URL || o.Outcome != "ok" || strings.Join(o.Scopes, " ") != "read" || o.Until.Before(time.Now()) {
		t.Errorf("state %s, reason %q, status %+v", s.State, s.Reason, o)
	}
	status, err := json.Marshal(g.Status())
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"the status": string(status), "the log": log.String()} {
		if strings.Contains(text, "canary") {
			t.Errorf("%s has a credential:\n%s", what, text)
		}
	}
	for _, leak := range []struct{ at, secret string }{
		{"backend", "canarysignature"}, {"backend", "secret"}, {"server", p.idToken("robot")}, {"server", "provider-secret"}, {"provider", "server-secret"}, {"provider", "oauth-id-jag"},
	} {
		if text := p.got(leak.at); text == "" || strings.Contains(text, leak.secret) {
			t.Errorf("the %s has got %q:\n%s", leak.at, leak.secret, text)
		}
	}
}

// users are the ID tokens of users.
type users map[string]string

func (u users) IDToken(_ context.Context, principal string) (mcp.Token, error) {
	if u[principal] == "" {
		return mcp.Token{}, grant.ErrNoIDToken
	}
	return mcp.NewToken(u[principal]), nil
}

// A user without an ID token has to sign in at the identity provider, before anything is sent.
func TestIDJAGOfUsers(t *testing.T) {
	p := newTrusting(t)
	cfg := p.entry(t, `"idToken": "unused"`)
	srv := &cfg.Servers[0]
	srv.OAuth.As, srv.OAuth.IDToken = config.AsUser, ""
	counts, err := metrics.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{log: slog.New(slog.DiscardHandler), idTokens: users{"corp:ann": p.idToken("ann")}, metrics: counts}
	access := g.credentialsFor(srv)
	defer access.close()
	call := func(principal string) (client.Credential, error) {
		return access.For(t.Context(), &mcp.Request{Method: "tools/call", Principal: principal, Identity: &mcp.Identity{Principal: principal}})
	}
	if _, err := call("corp:ann"); err != nil {
		t.Errorf("a user with an ID token: %v", err)
	}
	sent := p.got("provider")
	_, err = call("corp:bob")
	f, ok := errors.AsType[*mcp.Fault](err)
	if !ok || f.Reason != "SB_AUTH_SIGN_IN" || f.Outcome != mcp.NotDispatched || !strings.Contains(f.Error(), "identity provider") {
		t.Errorf("a user without: %v", err)
	}
	if now := p.got("provider"); now != sent {
		t.Errorf("the identity provider was asked:\n%s", now)
	}
	if s := access.status(); s.As != config.AsUser || s.Grant != config.GrantIDJAG || s.Issuer != p.server.URL || s.Scopes != nil || !access.PerPrincipal() {
		t.Errorf("status %+v", s)
	}
}
