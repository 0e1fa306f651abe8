// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/vault"
)

// identityProvider is an OpenID provider. A browser is signed in there by a cookie with the name of
// its user.
type identityProvider struct {
	*httptest.Server
	t   *testing.T
	key *ecdsa.PrivateKey

	mu     sync.Mutex
	codes  map[string]url.Values
	users  map[string]string // by code
	issued []string          // ID tokens

	exchange func(r *http.Request) any // answers an exchange of tokens, or is nil
}

const providerUser = "provider-user"

func newIdentityProvider(t *testing.T) *identityProvider {
	t.Helper()
	p := &identityProvider{t: t, codes: make(map[string]url.Values), users: make(map[string]string)}
	var err error
	if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // the client has disconnected
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "1", Use: "sig"}}})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		user, err := r.Cookie(providerUser)
		if err != nil {
			_, _ = fmt.Fprint(w, "the login page") // the client has disconnected
			return
		}
		p.mu.Lock()
		code, q := "canary-code-"+rand.Text(), r.URL.Query()
		p.codes[code], p.users[code] = q, user.Value
		p.mu.Unlock()
		back := url.Values{"state": {q.Get("state")}, "iss": {p.URL}, "code": {code}}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if p.exchange != nil && r.FormValue("grant_type") == "urn:ietf:params:oauth:grant-type:token-exchange" {
			answer(w, p.exchange(r))
			return
		}
		id, secret, _ := r.BasicAuth()
		p.mu.Lock()
		code := r.FormValue("code")
		q, user := p.codes[code], p.users[code]
		delete(p.codes, code)
		p.mu.Unlock()
		if q == nil || id != "gw-web" || secret != "canary-token-of-t_web" {
			w.WriteHeader(http.StatusBadRequest)
			answer(w, map[string]string{"error": "invalid_grant"})
			return
		}
		token := p.sign(map[string]any{"aud": "gw-web", "sub": user, "nonce": q.Get("nonce")})
		p.mu.Lock()
		p.issued = append(p.issued, token)
		p.mu.Unlock()
		answer(w, map[string]any{"access_token": "canary-access-token", "token_type": "Bearer", "id_token": token})
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// sign returns a token with claims.
func (p *identityProvider) sign(claims map[string]any) string {
	p.t.Helper()
	return p.signAs("JWT", claims)
}

// signAs is sign for another type of token.
func (p *identityProvider) signAs(typ string, claims map[string]any) string {
	p.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: p.key}, &jose.SignerOptions{ExtraHeaders: map[jose.HeaderKey]any{"kid": "1", "typ": typ}})
	if err != nil {
		p.t.Fatal(err)
	}
	all := map[string]any{"iss": p.URL, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	payload, err := json.Marshal(all)
	if err != nil {
		p.t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		p.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

// signedIn returns the browser of a user that is signed in at the provider.
func (p *identityProvider) signedIn(user string) *browser {
	p.t.Helper()
	b := newBrowser(p.t)
	u, err := url.Parse(p.URL)
	if err != nil {
		p.t.Fatal(err)
	}
	b.Jar.SetCookies(u, []*http.Cookie{{Name: providerUser, Value: user, Path: "/authorize"}})
	return b
}

// openWith starts a gateway for users with accounts at a provider. more are further members of its
// auth.
func (p *signInPeers) openWith(idp *identityProvider, more string) *signInGateway {
	p.t.Helper()
	return p.openAs(idp, `{}`, more)
}

// openAs is openWith with an oauth of the backend.
func (p *signInPeers) openAs(idp *identityProvider, oauth, more string) *signInGateway {
	p.t.Helper()
	var g *signalbox.Gateway
	edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.IsSignIn(r.URL.Path) {
			g.ServeSignIn(w, r)
			return
		}
		g.ServeHTTP(w, r)
	}))
	text := fmt.Sprintf(`{"publicURL": %q, "mcpServers": {"crm": {"url": "%s/mcp", "oauth": %s`, edge.URL, p.backend.URL, oauth) + keyed +
		fmt.Sprintf(`, "auth": {"issuers": [{"name": "corp", "issuer": %q}], "browser": {"issuer": "corp", "clientId": "gw-web", "clientSecret": "${T_WEB}"}%s}}`, idp.URL, more)
	env := func(name string) (string, bool) {
		return "canary-token-of-" + strings.ToLower(name), strings.HasPrefix(name, "T_")
	}
	cfg, err := config.Parse("x.json", []byte(text), env)
	if err != nil {
		p.t.Fatal(err)
	}
	log := newSyncBuffer()
	if g, err = signalbox.New(*cfg, signalbox.Options{StateFolder: p.folder, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		edge.Close()
		if err := g.Close(); err != nil {
			p.t.Error(err)
		}
		for _, secret := range append(idp.issued, "canary") {
			if strings.Contains(log.String(), secret) {
				p.t.Errorf("the log has a credential:\n%s", log)
			}
		}
	})
	return &signInGateway{g, p.t, edge, log, ""}
}

var toProvider = url.Values{"provider": {"1"}}

// A page is for the principal of the call, which a browser proves at the identity provider. To
// others it does not exist, and the sign-in goes on without them (identity attack 23; N7, I4).
func TestBrowserIsIdentified(t *testing.T) {
	p, idp := newSignInPeers(t), newIdentityProvider(t)
	g := p.openWith(idp, "")
	retried(t, g.Gateway, "down")
	token := func(user string) string {
		return idp.sign(map[string]any{"aud": g.edge.URL + "/mcp", "sub": user})
	}
	page, state := g.begun(token("ann"))

	stranger := newBrowser(t)
	status, html, header := stranger.get(page)
	if status != 200 || !strings.Contains(html, strings.TrimPrefix(idp.URL, "http://")) || strings.Contains(html, "crm") || strings.Contains(html, "password") || header.Get("Set-Cookie") != "" {
		t.Errorf("a browser that is not known: status %d, header %v\n%s", status, header, html)
	}
	if _, html = stranger.post(page, g.edge.URL, toProvider); html != "the login page" {
		t.Errorf("a browser that is not signed in: %s", html)
	}
	if status, _ = stranger.post(page, "https://evil.example", toProvider); status != http.StatusForbidden {
		t.Errorf("another origin: status %d", status)
	}
	if status, html = stranger.post(page, g.edge.URL, url.Values{"token": {token("ann")}}); strings.Contains(html, "corp:ann") {
		t.Errorf("a token identifies: status %d\n%s", status, html)
	}

	bob := idp.signedIn("bob")
	status, html = bob.post(page, g.edge.URL, toProvider)
	statusOther, htmlOther, _ := bob.get(page[:strings.LastIndex(page, "/")+1] + strings.Repeat("A", 26))
	if status != 404 || statusOther != 404 || html != htmlOther {
		t.Errorf("another principal: status %d and %d\n%s\n%s", status, statusOther, html, htmlOther)
	}
	w, r := httptest.NewRecorder(), operatorRequest(t, "/metrics")
	r.Header.Set("Authorization", "Bearer "+token("ann"))
	g.Operations().ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), `signalbox_events_total{kind="foreign_signin"} 1`) || p.asked.Load() != 0 {
		t.Errorf("no event, or the authorization server was asked: status %d", w.Code)
	}

	ann := idp.signedIn("ann")
	status, html = ann.post(page, g.edge.URL, toProvider)
	if status != 200 || !strings.Contains(html, "<strong>corp:ann</strong>") || !strings.Contains(html, "files:read") {
		t.Fatalf("the principal: status %d\n%s", status, html)
	}
	if status, html = ann.post(page, g.edge.URL, nil); status != 200 || !strings.Contains(html, "You are signed in to crm") {
		t.Errorf("the principal signs in: status %d\n%s", status, html)
	}
	res := g.call(token("ann"), "tools/call", "crm__sign_in", withURL, `,"requestState":"`+state+`","inputResponses":{"signin":{"action":"accept"}}`)
	if !strings.Contains(res, "You are signed in") {
		t.Errorf("ann: %s", res)
	}
	if res := g.call(token("bob"), "tools/call", "crm__sign_in", withURL, ""); !strings.Contains(res, `"input_required"`) {
		t.Errorf("bob: %s", res)
	}
	// No ID token is kept without a backend that needs it, and none is a credential for requests.
	kept, err := vault.Open(t.Context(), vault.NewOptions("", [][]byte{[]byte("a key of thirty-two characters or more")}, p.folder, slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	if all, err := kept.List(t.Context()); err != nil || len(all.IDTokens) != 0 || len(all.Grants) != 1 {
		t.Errorf("kept %+v, %v", all, err)
	}
	if res := g.call(idp.issued[0], "tools/list", "", `{}`, ""); !strings.Contains(res, "another audience") {
		t.Errorf("an ID token as a credential: %s", res)
	}
}

// Users with a token of the configuration enter it as before.
func TestTokensBesideProvider(t *testing.T) {
	p, idp := newSignInPeers(t), newIdentityProvider(t)
	g := p.openWith(idp, `, "tokens": [{"principal": "ci", "env": "T_CI"}]`)
	retried(t, g.Gateway, "down")
	page, _ := g.begun("canary-token-of-t_ci")
	ci := newBrowser(t)
	if status, html := ci.post(page, g.edge.URL, url.Values{"token": {"canary-token-of-t_ci"}}); status != 200 || !strings.Contains(html, "<strong>ci</strong>") {
		t.Errorf("status %d\n%s", status, html)
	}
	if status, html := idp.signedIn("ann").post(page, g.edge.URL, toProvider); status != 404 {
		t.Errorf("a user of the provider: status %d\n%s", status, html)
	}
}

// Without auth.browser, there is nothing at its redirect URI.
func TestNoProvider(t *testing.T) {
	g := newSignInPeers(t).open(keyed)
	if status, _, _ := newBrowser(t).get(g.edge.URL + "/oauth/identity?state=x&code=y"); status != 404 {
		t.Errorf("status %d", status)
	}
}
