// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/browser"
	"github.com/signalbox-mcp/signalbox/test/canary"
	"github.com/signalbox-mcp/signalbox/test/foreign"
	"github.com/signalbox-mcp/signalbox/test/identity/provider"
)

const webSecret = "pages-secret-0123456789"

// pages is the client of the pages of a gateway at an address.
func pages(at string) provider.Client {
	return provider.Client{
		ID: "gw-web", Secret: webSecret, Redirects: []string{"http://" + at + "/oauth/identity"}, Responses: []string{"code"},
		Grants: []string{"authorization_code"}, AuthMethod: "client_secret_basic", Application: "web",
	}
}

// withPages are the keys of a gateway with pages that identify their users at an issuer.
func withPages(iss object, servers object) object {
	return object{
		"auth":       object{"issuers": []object{iss}, "browser": object{"issuer": iss["name"], "clientId": "gw-web", "clientSecret": webSecret}},
		"mcpServers": servers,
	}
}

// call calls a tool as a modern client without elicitation, and returns the response.
func (g *gateway) call(t *testing.T, token, name string) answer {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, name)
	return g.send(t, http.MethodPost, "/mcp", body, "Authorization", "Bearer "+token, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", name)
}

// A user signs in at a real identity provider for a page of the gateway, and then at the authorization
// server of a backend. The page does not exist for another user, and the sign-in goes on without that
// one (identity I4, attack 23; N7).
func TestBrowserSignsIn(t *testing.T) {
	at, app := foreign.FreeAddress(t), provider.Web("app")
	p, between := watched(t, provider.Settings{Clients: []provider.Client{pages(at), app}})
	address, _ := reference(t, p)
	g := startGatewayAt(t, at, withPages(issuer("corp", p.Issuer), object{"tools": object{"url": address, "prefix": "", "oauth": object{}}}))
	token := func(user string) string {
		tokens, err := p.UserTokens(t.Context(), browser.New(user), app, g.URL, "openid mcp:use")
		if err != nil {
			t.Fatal(err)
		}
		return tokens.Access
	}
	anns, bobs := token("ann"), token("bob")
	got := g.call(t, anns, "sign_in")
	page := signInPage.FindString(got.body)
	if got.status != http.StatusOK || page == "" {
		t.Fatalf("the call: %+v", got)
	}

	// Bob has to sign in first, and then there is no such page.
	bob := browser.New("bob")
	shown, err := bob.Open(t.Context(), page)
	if err != nil || shown.Status != http.StatusOK || strings.Contains(shown.Body, "tools") || !strings.Contains(shown.Body, strings.TrimPrefix(p.Issuer, "http://")) {
		t.Errorf("bob, not known: %v, %+v", err, shown)
	}
	end, err := bob.SignIn(t.Context(), page)
	if err != nil || end.Status != http.StatusNotFound || end.URL.String() != page {
		t.Errorf("bob: %v, %+v", err, end)
	}
	if again, err := bob.Open(t.Context(), page); err != nil || again.Status != http.StatusNotFound {
		t.Errorf("bob, known: %v, %+v", err, again)
	}
	events := g.send(t, http.MethodGet, "/metrics", "", "Authorization", "Bearer "+anns)
	if !strings.Contains(events.body, `signalbox_events_total{kind="foreign_signin"} 2`) || !strings.Contains(events.body, "signalbox_pending_sign_ins 1") {
		t.Errorf("the metrics lack the event or the sign-in: %d", events.status)
	}

	ann := browser.New("ann")
	if end, err = ann.SignIn(t.Context(), page); err != nil || end.Status != http.StatusOK || !strings.Contains(end.Body, "You are signed in to tools") {
		t.Fatalf("ann: %v, %+v", err, end)
	}
	visited := strings.Join(ann.Visited, "\n")
	if !strings.Contains(visited, "/oauth/identity?") || !strings.Contains(visited, "/oauth/callback?") || strings.Count(visited, "nonce=") == 0 {
		t.Errorf("ann was at\n%s", visited)
	}
	if got := g.call(t, anns, "sign_in"); !strings.Contains(got.body, "You are signed in") {
		t.Errorf("ann's call: %+v", got)
	}
	if got := g.call(t, bobs, "sign_in"); !signInPage.MatchString(got.body) {
		t.Errorf("bob's call: %+v", got)
	}
	// A page of another sign-in needs no second proof within ten minutes.
	other := signInPage.FindString(g.call(t, bobs, "sign_in").body)
	if end, err = bob.Open(t.Context(), other); err != nil || !strings.Contains(end.Body, "<strong>corp:bob</strong>") {
		t.Errorf("bob's own page: %v, %+v", err, end)
	}
	var set canary.Set
	set.Add(t, "the secret of the client", webSecret)
	if secrets(t, &set, between) < 4 {
		t.Fatal("few secrets")
	}
	for _, leak := range set.Scan("output", g.output.String()) {
		t.Error(leak)
	}
}

// login answers the authorization and token requests of a zitadel as a user, with a token that has a
// fault.
type login struct {
	mu    sync.Mutex
	query url.Values // of the last authorization request
	token func(nonce string) string
	back  func(url.Values)
}

// serve is a fault of the proxy before zitadel.
func (l *login) serve(w http.ResponseWriter, r *http.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case strings.HasSuffix(r.URL.Path, "/authorize"):
		l.query = r.URL.Query()
		back := url.Values{"state": {l.query.Get("state")}, "code": {"c"}}
		if l.back != nil {
			l.back(back)
		}
		http.Redirect(w, r, l.query.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	case strings.HasSuffix(r.URL.Path, "/oauth/token"):
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"access_token": "a", "token_type": "Bearer", "id_token": l.token(l.query.Get("nonce"))}) // the client may have left
	default:
		return false
	}
	return true
}

// Nothing of an ID token or a response with a fault is used: the browser is not identified, and can
// start again (identity attacks 1, 6, 21, 22).
func TestPlacedIDTokens(t *testing.T) {
	z := startZitadel(t)
	p, _ := watched(t, provider.Settings{}) // of the backend
	address, _ := reference(t, p)
	g := startGateway(t, withPages(issuer("corp", z.URL), object{"tools": object{"url": address, "prefix": "", "oauth": object{}}}))
	page := signInPage.FindString(g.call(t, z.token(g.URL).sign(t), "sign_in").body)
	if page == "" {
		t.Fatal("no page")
	}
	l := new(login)
	z.Fail(l.serve)
	id := func(change func(*token)) func(string) string {
		return func(nonce string) string {
			k := z.token("gw-web").head("typ", nil).with("nonce", nonce).with("scope", nil)
			change(k)
			return k.sign(t)
		}
	}
	stranger := ellipticKey(t, "stranger")
	z.rotate(t) // after the gateway has fetched the keys
	for _, tt := range []struct {
		name  string
		token func(nonce string) string
		back  func(url.Values)
		good  bool
	}{
		{name: "with a new key", token: id(func(*token) {}), good: true},
		{name: "another nonce", token: id(func(k *token) { k.with("nonce", "x") })},
		{name: "no nonce", token: id(func(k *token) { k.with("nonce", nil) })},
		{name: "another client", token: id(func(k *token) { k.with("aud", "other") })},
		{name: "the gateway as audience", token: id(func(k *token) { k.with("aud", g.URL) })},
		{name: "two audiences", token: id(func(k *token) { k.with("aud", []string{"gw-web", "other"}) })},
		{name: "azp", token: id(func(k *token) { k.with("azp", "other") })},
		{name: "expired", token: id(func(k *token) { k.with("exp", 1) })},
		{name: "another issuer", token: id(func(k *token) { k.with("iss", p.Issuer) })},
		{name: "an access token", token: id(func(k *token) { k.head("typ", "at+jwt") })},
		{name: "an unknown key", token: id(func(k *token) { k.head("kid", "stranger").by(stranger) })},
		{name: "none", token: func(nonce string) string {
			return z.token("gw-web").with("nonce", nonce).unsigned(t, "none", func(string) []byte { return nil })
		}},
		{name: "HS256 with the public key", token: func(nonce string) string {
			return hs256(t, z.token("gw-web").with("nonce", nonce), pemOf(t, z.keys.current()))
		}},
		{name: "HS256 with the secret", token: func(nonce string) string { return hs256(t, z.token("gw-web").with("nonce", nonce), []byte(webSecret)) }},
		{name: "another state", token: id(func(*token) {}), back: func(q url.Values) { q.Set("state", "x") }},
		{name: "another iss", token: id(func(*token) {}), back: func(q url.Values) { q.Set("iss", p.Issuer) }},
		{name: "no code", token: id(func(*token) {}), back: func(q url.Values) { q.Del("code") }},
		{name: "as it should be, at last", token: id(func(*token) {}), good: true},
	} {
		l.mu.Lock()
		l.token, l.back = tt.token, tt.back
		l.mu.Unlock()
		ann := browser.New("ann")
		end, err := ann.Open(t.Context(), page)
		if err == nil {
			end, err = ann.Submit(t.Context(), end)
		}
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		isKnown := strings.Contains(end.Body, "<strong>corp:ann</strong>")
		again, err := ann.Open(t.Context(), page)
		if err != nil {
			t.Fatal(err)
		}
		if after := strings.Contains(again.Body, "<strong>corp:ann</strong>"); isKnown != tt.good || after != tt.good || !tt.good && end.Status != http.StatusBadRequest {
			t.Errorf("%s: status %d, known: %t and %t\n%s", tt.name, end.Status, isKnown, after, end.Body)
		}
	}
}
