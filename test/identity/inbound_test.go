// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/signalbox-mcp/signalbox/test/browser"
	"github.com/signalbox-mcp/signalbox/test/canary"
	"github.com/signalbox-mcp/signalbox/test/identity/provider"
	"github.com/signalbox-mcp/signalbox/test/tap"
)

// issuer is an entry of auth.issuers for which each request needs mcp:use.
func issuer(name, address string) object {
	return object{"name": name, "issuer": address, "scopes": []string{"mcp:use"}}
}

// trusting are the keys of a gateway with these issuers.
func trusting(issuers ...object) object { return object{"auth": object{"issuers": issuers}} }

// watched starts a provider behind a proxy that records what passes.
func watched(t *testing.T, s provider.Settings) (*provider.Provider, *tap.Tap) {
	t.Helper()
	between := tap.New(t)
	between.KeepHost = true
	s.Issuer = between.URL
	p := provider.Start(t, s)
	between.To(t, p.URL)
	return p, between
}

// secrets adds all that the token endpoint of a provider has issued to users or taken from
// them.
func secrets(t *testing.T, set *canary.Set, between *tap.Tap) (found int) {
	t.Helper()
	for _, e := range between.Passed() {
		if e.Path != "/token" || e.Status != http.StatusOK || e.Form().Get("grant_type") == "client_credentials" {
			continue
		}
		var tokens provider.Tokens
		if err := json.Unmarshal([]byte(e.Response), &tokens); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"access token": tokens.Access, "refresh token": tokens.Refresh, "ID token": tokens.ID, "code": e.Form().Get("code"),
		} {
			if text != "" {
				set.Add(t, name, text)
				found++
			}
		}
	}
	return found
}

// leaks returns the secrets in all that a gateway has written or sent to its server.
func (g *gateway) leaks(t *testing.T, set *canary.Set) []canary.Leak {
	t.Helper()
	found := g.written(t, set)
	for _, path := range []string{"/status", "/metrics"} {
		got := g.send(t, http.MethodGet, path, "")
		found = append(found, set.Scan(path, fmt.Sprint(got))...)
	}
	return found
}

// The clients of other projects sign in with nothing but the URL of the gateway (identity
// I1), and nothing of their tokens goes further than the gateway (I3, N1).
func TestClientsSignIn(t *testing.T) {
	p, between := watched(t, provider.Settings{})
	g := startGateway(t, trusting(issuer("corp", p.Issuer)))
	t.Run("clients", func(t *testing.T) {
		for _, s := range sdks(t) {
			for _, version := range s.versions {
				t.Run(s.name+"/"+version, func(t *testing.T) {
					t.Parallel()
					j := job{URL: g.URL, Version: version, Redirect: redirect, Calls: []call{{Name: "read"}}}
					r, err := s.play(t.Context(), j, browser.New("ann"))
					if err != nil {
						t.Fatal(err)
					}
					want := []result{{Text: "read with "}}
					if r.Error != "" || r.Version != version || !slices.Equal(r.Tools, []string{"read", "write"}) || !slices.Equal(r.Calls, want) {
						t.Errorf("got %+v\n%s", r, r.Error)
					}
					if len(r.Opened) != 1 || !strings.HasPrefix(r.Opened[0], p.Issuer) {
						t.Errorf("opened %q", r.Opened)
					}
				})
			}
		}
	})
	var set canary.Set
	if n := secrets(t, &set, between); n < 3 {
		t.Fatalf("%d secrets", n)
	}
	for _, leak := range g.leaks(t, &set) {
		t.Error(leak)
	}
	if record, err := os.ReadFile(filepath.Join(g.folder, "audit.jsonl")); err != nil || !strings.Contains(string(record), `"corp:ann"`) {
		t.Errorf("the audit record does not name the principal: %v\n%s", err, record)
	}
}

// Tokens of a real provider: those for the gateway pass on every route, others do not
// (identity I2).
func TestTokensOfProvider(t *testing.T) {
	web, machine := provider.Web("app"), provider.Machine("batch", "batch-secret-0123456789")
	p, _ := watched(t, provider.Settings{Clients: []provider.Client{web, machine}})
	g := startGateway(t, trusting(issuer("corp", p.Issuer)))
	ctx, ann := t.Context(), browser.New("ann")
	user, err := p.UserTokens(ctx, ann, web, g.URL, "openid offline_access mcp:use")
	if err != nil {
		t.Fatal(err)
	}
	other, err := p.UserTokens(ctx, ann, web, resource, "mcp:use")
	if err != nil {
		t.Fatal(err)
	}
	less, err := p.UserTokens(ctx, ann, web, g.URL, "mcp:write")
	if err != nil {
		t.Fatal(err)
	}
	batch, err := p.MachineToken(ctx, machine, g.URL, "mcp:use")
	if err != nil {
		t.Fatal(err)
	}
	const invalid = `error="invalid_token", error_description="the token is `
	for _, tt := range []struct {
		name, token string
		status      int
		challenge   string
	}{
		{"of a user", user.Access, http.StatusOK, ""},
		{"of a machine", batch.Access, http.StatusOK, ""},
		{"for another server", other.Access, http.StatusUnauthorized, invalid + `for another audience"`},
		{"with another scope", less.Access, http.StatusForbidden, `error="insufficient_scope", scope="mcp:use"`},
		{"an ID token", user.ID, http.StatusUnauthorized, invalid},
		{"a refresh token", user.Refresh, http.StatusUnauthorized, `error="invalid_token"`},
		{"changed", flip(user.Access), http.StatusUnauthorized, invalid + `not verified"`},
		{"without its signature", user.Access[:strings.LastIndex(user.Access, ".")+1], http.StatusUnauthorized, `error="invalid_token"`},
	} {
		got := g.with(t, tt.token)
		if got.status != tt.status || !strings.Contains(got.challenge, tt.challenge) {
			t.Errorf("%s: got %d %s %s", tt.name, got.status, got.challenge, got.body)
		}
	}
}

// flip changes one bit of the signature of a token.
func flip(token string) string {
	b := []byte(token)
	if i := len(b) - 10; b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	return string(b)
}

// routes are those that need a token.
var routes = []struct{ method, path, body string }{
	{http.MethodPost, "/mcp", initialize},
	{http.MethodGet, "/mcp", ""},
	{http.MethodDelete, "/mcp", ""},
	{http.MethodGet, "/sse", ""},
	{http.MethodPost, "/sse", initialize},
	{http.MethodPost, "/mcp/p/other", initialize},
	{http.MethodGet, "/mcp/p/other", ""},
}

// Every route tells a client without a token how to get one, and its metadata is there
// (identity I1).
func TestChallenges(t *testing.T) {
	z := startZitadel(t)
	g := startGateway(t, trusting(issuer("corp", z.URL)))
	if got := g.with(t, z.token(g.URL).sign(t)); got.status != http.StatusOK {
		t.Fatalf("got %d %s", got.status, got.challenge)
	}
	for _, r := range routes {
		for _, field := range [][]string{nil, {"Authorization", "Bearer " + z.token(resource).sign(t)}} {
			got := g.send(t, r.method, r.path, r.body, field...)
			at, _, found := strings.Cut(after(got.challenge, `resource_metadata="`), `"`)
			if got.status != http.StatusUnauthorized || !found || !strings.Contains(got.challenge, `scope="mcp:use"`) {
				t.Errorf("%s %s with %d fields: got %d %s %s", r.method, r.path, len(field), got.status, got.challenge, got.body)
				continue
			}
			var doc struct {
				Resource string   `json:"resource"`
				Servers  []string `json:"authorization_servers"`
				Scopes   []string `json:"scopes_supported"`
				Methods  []string `json:"bearer_methods_supported"`
			}
			getJSON(t, at, &doc)
			if doc.Resource != g.Base+r.path || !slices.Equal(doc.Servers, []string{z.URL}) || !slices.Equal(doc.Scopes, []string{"mcp:use"}) || !slices.Equal(doc.Methods, []string{"header"}) {
				t.Errorf("%s: the metadata at %s is %+v", r.path, at, doc)
			}
		}
	}
	if n := z.fetched(); n > 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

// after returns what follows a text, or "".
func after(s, before string) string {
	_, rest, _ := strings.Cut(s, before)
	return rest
}

// Tokens that no provider issues (identity I2, attacks 1 and 3 to 9), on the main route; the
// others share its check.
func TestPlacedTokens(t *testing.T) {
	z := startZitadel(t)
	g := startGateway(t, trusting(issuer("corp", z.URL)))
	aud := g.URL
	now := time.Now()
	stranger := ellipticKey(t, "stranger")
	for _, tt := range []struct {
		name, token string
		status      int
		why         string // of a 401
	}{
		{"valid", z.token(aud).sign(t), http.StatusOK, ""},
		{"typ JWT", z.token(aud).head("typ", "JWT").sign(t), http.StatusOK, ""},
		{"without typ", z.token(aud).head("typ", nil).sign(t), http.StatusOK, ""},
		{"another typ", z.token(aud).head("typ", "dpop+jwt").sign(t), http.StatusUnauthorized, ""},
		{"alg none", z.token(aud).unsigned(t, "none", func(string) []byte { return nil }), http.StatusUnauthorized, ""},
		{"alg none with a signature", z.token(aud).unsigned(t, "none", func(string) []byte { return []byte("signature") }), http.StatusUnauthorized, "not verified"},
		{"HS256 with the public key", hs256(t, z.token(aud), pemOf(t, z.keys.current())), http.StatusUnauthorized, "not verified"},
		{"the key of another type", z.token(aud).by(stranger).sign(t), http.StatusUnauthorized, "not verified"},
		{"an unknown key", z.token(aud).head("kid", stranger.id).by(stranger).sign(t), http.StatusUnauthorized, "not verified"},
		{"PS256 by the RSA key", z.token(aud).by(&key{z.keys.current().id, jose.PS256, z.keys.current().private}).sign(t), http.StatusUnauthorized, ""},
		{"crit", z.token(aud).head("crit", []string{"b64"}).head("b64", true).sign(t), http.StatusUnauthorized, ""},
		{"another issuer", z.token(aud).with("iss", "https://other.example").sign(t), http.StatusUnauthorized, "of an unknown issuer"},
		{"the issuer with a slash", z.token(aud).with("iss", z.URL+"/").sign(t), http.StatusUnauthorized, "of an unknown issuer"},
		{"a sibling", z.token(g.Base + "/other").sign(t), http.StatusUnauthorized, "for another audience"},
		{"ours second", z.token(aud).with("aud", []string{resource, aud}).sign(t), http.StatusOK, ""},
		{"no audience", z.token(aud).with("aud", nil).sign(t), http.StatusUnauthorized, ""},
		{"an empty audience", z.token(aud).with("aud", []string{}).sign(t), http.StatusUnauthorized, ""},
		{"a slash", z.token(aud + "/").sign(t), http.StatusOK, ""},
		{"two slashes", z.token(aud + "//").sign(t), http.StatusUnauthorized, "for another audience"},
		{"upper case", z.token(strings.ToUpper(aud)).sign(t), http.StatusUnauthorized, "for another audience"},
		{"expired", z.token(aud).with("exp", now.Add(-time.Minute).Unix()).sign(t), http.StatusUnauthorized, "has expired"},
		{"expired within the skew", z.token(aud).with("exp", now.Add(-10*time.Second).Unix()).sign(t), http.StatusOK, ""},
		{"without expiry", z.token(aud).with("exp", nil).sign(t), http.StatusUnauthorized, ""},
		{"expiry as text", z.token(aud).with("exp", "9999999999").sign(t), http.StatusUnauthorized, ""},
		{"not yet valid", z.token(aud).with("nbf", now.Add(time.Minute).Unix()).sign(t), http.StatusUnauthorized, "not valid yet"},
		{"issued in the future", z.token(aud).with("iat", now.Add(time.Minute).Unix()).sign(t), http.StatusUnauthorized, "not valid yet"},
		{"an ID token", z.token(aud).with("nonce", "n").sign(t), http.StatusUnauthorized, ""},
		{"bound to a key", z.token(aud).with("cnf", object{"jkt": "x"}).sign(t), http.StatusUnauthorized, ""},
		{"without a subject", z.token(aud).with("sub", nil).sign(t), http.StatusUnauthorized, ""},
		{"an empty subject", z.token(aud).with("sub", "").sign(t), http.StatusUnauthorized, ""},
		{"scp as a list", z.token(aud).with("scope", nil).with("scp", []string{"mcp:use"}).sign(t), http.StatusOK, ""},
		{"scp as a text", z.token(aud).with("scope", nil).with("scp", "a mcp:use").sign(t), http.StatusOK, ""},
		{"another scope", z.token(aud).with("scope", "mcp:user").sign(t), http.StatusForbidden, ""},
		{"no scope", z.token(aud).with("scope", nil).sign(t), http.StatusForbidden, ""},
		{"what the provider issues to a machine", z.issued(t), http.StatusUnauthorized, "for another audience"},
		{"20 KiB", z.token(aud).with("padding", strings.Repeat("x", 20<<10)).sign(t), http.StatusUnauthorized, ""},
		{"no token", "a.b.c", http.StatusUnauthorized, ""},
		{"a text", "text", http.StatusUnauthorized, ""},
	} {
		got := g.with(t, tt.token)
		if got.status != tt.status {
			t.Errorf("%s: got %d %s %s", tt.name, got.status, got.challenge, got.body)
			continue
		}
		switch tt.status {
		case http.StatusUnauthorized:
			if !strings.Contains(got.challenge, `error="invalid_token"`) || !strings.Contains(got.challenge, tt.why+`"`) {
				t.Errorf("%s: got %s", tt.name, got.challenge)
			}
		case http.StatusForbidden:
			if !strings.Contains(got.challenge, `error="insufficient_scope", scope="mcp:use"`) {
				t.Errorf("%s: got %s", tt.name, got.challenge)
			}
		}
	}
	// A random key id costs one request in a while (attack 2); what does not verify costs none.
	if n := z.fetched(); n > 2 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

// hs256 signs a token with the text of a public key, which is no secret.
func hs256(t *testing.T, k *token, secret []byte) string {
	t.Helper()
	return k.unsigned(t, "HS256", func(input string) []byte {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(input))
		return mac.Sum(nil)
	})
}

// Several credentials, and credentials in other places (attack 8).
func TestPlacedCredentials(t *testing.T) {
	z := startZitadel(t)
	g := startGateway(t, trusting(issuer("corp", z.URL)))
	valid := z.token(g.URL).sign(t)
	for name, fields := range map[string][]string{
		"two headers":        {"Authorization", "Bearer " + valid, "Authorization", "Bearer " + valid},
		"twice":              {"Authorization", "Bearer Bearer " + valid},
		"two tokens":         {"Authorization", "Bearer " + valid + " " + valid},
		"a list":             {"Authorization", "Bearer " + valid + ", Bearer " + valid},
		"Basic":              {"Authorization", "Basic " + valid},
		"no scheme":          {"Authorization", valid},
		"100 KiB":            {"Authorization", "Bearer " + valid + strings.Repeat("x", 100<<10)},
		"another header":     {"X-Authorization", "Bearer " + valid},
		"an access proxy's":  {"Cf-Access-Jwt-Assertion", valid},
		"a forwarded user":   {"X-Forwarded-User", "ann"},
		"a cookie":           {"Cookie", "token=" + valid},
		"a forwarded header": {"X-Forwarded-Authorization", "Bearer " + valid},
	} {
		got := g.send(t, http.MethodPost, "/mcp", initialize, fields...)
		if got.status != http.StatusUnauthorized || strings.Contains(got.body+got.challenge, valid[:20]) {
			t.Errorf("%s: got %d %s %s", name, got.status, got.challenge, got.body)
		}
	}
	for _, path := range []string{"/mcp?access_token=" + valid, "/mcp?token=" + valid} {
		if got := g.send(t, http.MethodPost, path, initialize); got.status != http.StatusUnauthorized || strings.Contains(got.body, valid[:20]) {
			t.Errorf("in the query: got %d %s", got.status, got.body)
		}
		if got := g.send(t, http.MethodPost, path, initialize, "Authorization", "Bearer "+valid); path[5] == 'a' && got.status != http.StatusUnauthorized {
			t.Errorf("in the query and the header: got %d %s", got.status, got.body)
		}
	}
}

// A new key is served with its first token, and an old key until it leaves the set (attack
// 3). While the provider is down its known keys go on (attack 4).
func TestKeysOfProvider(t *testing.T) {
	z := startZitadel(t)
	g := startGateway(t, trusting(issuer("corp", z.URL)))
	first := z.token(g.URL)
	if got := g.with(t, first.sign(t)); got.status != http.StatusOK {
		t.Fatalf("got %d %s", got.status, got.challenge)
	}
	before := z.fetched()
	z.rotate(t)
	if got := g.with(t, z.token(g.URL).sign(t)); got.status != http.StatusOK {
		t.Errorf("with the new key: got %d %s", got.status, got.challenge)
	}
	if got := g.with(t, first.with("jti", "2").sign(t)); got.status != http.StatusOK {
		t.Errorf("with the old key: got %d %s", got.status, got.challenge)
	}
	if n := z.fetched() - before; n != 1 {
		t.Errorf("%d fetches for the new key", n)
	}
	z.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "<html>down</html>", http.StatusInternalServerError)
		return true
	})
	if got := g.with(t, first.with("jti", "3").sign(t)); got.status != http.StatusOK {
		t.Errorf("while it is down: got %d %s", got.status, got.challenge)
	}
}

// A provider that was never reached refuses only its own tokens, with 503 and not 401, and
// the gateway starts without it (attack 4, N10). The same subject of two providers is two
// principals (attack 7).
func TestProviderDown(t *testing.T) {
	up, down := startZitadel(t), startZitadel(t)
	failing := func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "<html>down</html>", http.StatusInternalServerError)
		return true
	}
	down.Fail(failing)
	g := startGateway(t, trusting(issuer("up", up.URL), issuer("down", down.URL)))
	if got := g.with(t, up.token(g.URL).sign(t)); got.status != http.StatusOK {
		t.Errorf("of the other: got %d %s", got.status, got.challenge)
	}
	got := g.with(t, down.token(g.URL).sign(t))
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "down") {
		t.Errorf("of the one that is down: got %d %v %s", got.status, got.header, got.body)
	}
}

// Two users of one provider do not share sessions (attack 12), and a session goes on with a
// new token of its user (attack 11).
func TestSessionOfPrincipal(t *testing.T) {
	z := startZitadel(t)
	g := startGateway(t, trusting(issuer("corp", z.URL)))
	as := func(user string) []string {
		return []string{"Authorization", "Bearer " + z.token(g.URL).with("sub", user).sign(t)}
	}
	opened := g.send(t, http.MethodPost, "/mcp", initialize, as("ann")...)
	session := opened.header.Get("Mcp-Session-Id")
	if opened.status != http.StatusOK || session == "" {
		t.Fatalf("got %d %v %s", opened.status, opened.header, opened.body)
	}
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	within := func(user string) answer {
		fields := slices.Concat(as(user), []string{"Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25"})
		return g.send(t, http.MethodPost, "/mcp", list, fields...)
	}
	if got := within("ann"); got.status != http.StatusOK || !strings.Contains(got.body, `"read"`) {
		t.Errorf("ann: got %d %s", got.status, got.body)
	}
	if got := within("bob"); got.status != http.StatusNotFound {
		t.Errorf("bob: got %d %s", got.status, got.body)
	}
	if got := within("ann"); got.status != http.StatusOK {
		t.Errorf("ann with another token: got %d %s", got.status, got.body)
	}
}

// Random key ids, many at once, cost one request, and the tokens of others pass meanwhile
// (attack 2, N11).
func TestRandomKeyIDs(t *testing.T) {
	const senders, each = 8, 50
	z := startZitadel(t)
	g := startGateway(t, trusting(issuer("corp", z.URL)))
	valid := z.token(g.URL).sign(t)
	if got := g.with(t, valid); got.status != http.StatusOK {
		t.Fatalf("got %d %s", got.status, got.challenge)
	}
	before := z.fetched()
	stranger := ellipticKey(t, "stranger")
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for range each {
				if got := g.with(t, z.token(g.URL).head("kid", rand.Text()).by(stranger).sign(t)); got.status != http.StatusUnauthorized {
					t.Errorf("a random key id: got %d", got.status)
				}
			}
		})
	}
	for range each {
		if got := g.with(t, valid); got.status != http.StatusOK {
			t.Errorf("the token of another: got %d %s", got.status, got.challenge)
		}
	}
	wg.Wait()
	if n := z.fetched() - before; n > 1 {
		t.Errorf("%d fetches", n)
	}
}

// A scope includes others by the configuration, over several steps (identity I5).
func TestScopesThatImply(t *testing.T) {
	z := startZitadel(t)
	corp := issuer("corp", z.URL)
	corp["implies"] = object{"mcp:owner": []string{"mcp:admin"}, "mcp:admin": []string{"mcp:use", "mcp:write"}}
	g := startGateway(t, trusting(corp))
	for scope, want := range map[string]int{
		"mcp:owner": http.StatusOK, "mcp:admin": http.StatusOK, "mcp:use": http.StatusOK, "mcp:write": http.StatusForbidden, "mcp:adm": http.StatusForbidden,
	} {
		if got := g.with(t, z.token(g.URL).with("scope", scope).sign(t)); got.status != want {
			t.Errorf("%s: got %d %s", scope, got.status, got.challenge)
		}
	}
}
