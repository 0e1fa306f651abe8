// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/browser"
	"github.com/signalbox-mcp/signalbox/test/canary"
	"github.com/signalbox-mcp/signalbox/test/identity/provider"
	"github.com/signalbox-mcp/signalbox/test/tap"
)

// introspected returns the tokens that a provider was asked about, in order.
func introspected(between *tap.Tap) (tokens []string) {
	for _, e := range between.Passed() {
		if e.Path == "/token/introspection" {
			tokens = append(tokens, e.Form().Get("token"))
		}
	}
	return tokens
}

// revoke revokes a token of a client at a provider.
func revoke(ctx context.Context, t *testing.T, p *provider.Provider, client, token string) {
	t.Helper()
	form := url.Values{"client_id": {client}, "token": {token}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Issuer+"/token/revocation", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("revocation: %s", res.Status)
	}
}

// A real provider is asked about opaque tokens (RFC 7662): its response decides, and is kept
// for a while. Nothing of a token goes further (identity I2, I3).
func TestIntrospection(t *testing.T) {
	web, gw := provider.Web("app"), provider.Machine("gateway", machineSecret)
	p, between := watched(t, provider.Settings{Format: "opaque", Clients: []provider.Client{web, gw}})
	corp := issuer("corp", p.Issuer)
	corp["introspect"] = object{"clientId": gw.ID, "clientSecret": gw.Secret}
	g := startGateway(t, trusting(corp))
	tokens := func(user, resource, scope string) *provider.Tokens {
		got, err := p.UserTokens(t.Context(), browser.New(user), web, resource, scope)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	ann := tokens("ann", g.URL, "openid offline_access mcp:use")
	if strings.Count(ann.Access, ".") == 2 {
		t.Fatalf("the provider issues a JWT")
	}
	for range 3 {
		if got := g.with(t, ann.Access); got.status != http.StatusOK {
			t.Fatalf("ann: %d %s %s", got.status, got.challenge, got.body)
		}
	}
	if asked := introspected(between); len(asked) != 1 || asked[0] != ann.Access {
		t.Errorf("the provider was asked %d times", len(asked))
	}

	// The principal is the subject, and so a session is that of its user.
	bob := tokens("bob", g.URL, "mcp:use")
	opened := g.with(t, ann.Access)
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	for user, want := range map[string]int{ann.Access: http.StatusOK, bob.Access: http.StatusNotFound, tokens("ann", g.URL, "mcp:use").Access: http.StatusOK} {
		got := g.send(t, http.MethodPost, "/mcp", list, "Authorization", "Bearer "+user, "Mcp-Session-Id", opened.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25")
		if got.status != want {
			t.Errorf("the session of ann: got %d, want %d: %s", got.status, want, got.body)
		}
	}

	revoked := tokens("ann", g.URL, "mcp:use").Access
	revoke(t.Context(), t, p, web.ID, revoked)
	machine, err := p.MachineToken(t.Context(), gw, g.URL, "mcp:use")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, token string
		status      int
		why         string
	}{
		{"for another resource", tokens("ann", resource, "mcp:use").Access, http.StatusUnauthorized, "for another audience"},
		{"for the provider itself", tokens("ann", "", "openid").Access, http.StatusUnauthorized, ""},
		{"another scope", tokens("ann", g.URL, "mcp:write").Access, http.StatusForbidden, `error="insufficient_scope", scope="mcp:use"`},
		{"revoked", revoked, http.StatusUnauthorized, "is not active"},
		{"a refresh token", ann.Refresh, http.StatusUnauthorized, `error="invalid_token"`},
		{"an ID token", ann.ID, http.StatusUnauthorized, `error="invalid_token"`},
		{"a text", "text", http.StatusUnauthorized, "is not active"},
		{"a machine", machine.Access, http.StatusUnauthorized, ""},
	} {
		got := g.with(t, tt.token)
		if got.status != tt.status || !strings.Contains(got.challenge, tt.why) {
			t.Errorf("%s: got %d %s %s", tt.name, got.status, got.challenge, got.body)
		}
	}

	// What is kept counts while the provider does not answer; of others nothing is known.
	z := tokens("ann", g.URL, "mcp:use").Access
	between.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/token/introspection" {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	if got := g.with(t, ann.Access); got.status != http.StatusOK {
		t.Errorf("a token that is kept: got %d %s", got.status, got.body)
	}
	if got := g.with(t, z); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("another one: got %d %v", got.status, got.header)
	}
	between.Fail(nil)
	if got := g.with(t, z); got.status != http.StatusOK {
		t.Errorf("when it answers again: got %d %s", got.status, got.body)
	}

	var set canary.Set
	set.Add(t, "the secret of the client", machineSecret)
	if secrets(t, &set, between) == 0 {
		t.Fatal("no secrets")
	}
	for _, leak := range set.Scan("output", g.output.String()) {
		t.Error(leak)
	}
}
