// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox"
)

// own sends a request of a program about the access of its user, and returns the answer.
func (g *signInGateway) own(method, path, token string, header ...string) (int, string) {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, g.edge.URL+"/oauth/credentials"+path, http.NoBody)
	if err != nil {
		g.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	if resp.Header.Get("Access-Control-Allow-Origin") != "" || resp.Header.Get("Set-Cookie") != "" {
		g.t.Errorf("header %v", resp.Header)
	}
	return resp.StatusCode, string(text)
}

type ownSignIn struct {
	State, SignIn, URL string
	Credential         map[string]any
}

func (g *signInGateway) ownSignIn(method, path, token string) (s ownSignIn) {
	g.t.Helper()
	status, text := g.own(method, path, token)
	if err := json.Unmarshal([]byte(text), &s); err != nil || status != http.StatusOK {
		g.t.Fatalf("%s %s: status %d, %s", method, path, status, text)
	}
	return s
}

const ann, bob = "canary-token-of-t_ann", "canary-token-of-t_bob"

// A program with the token of a user begins a sign-in, and the ticket makes a browser that of the
// user, without its token. The program learns the end, lists the access of the user, and ends it.
// Another user sees nothing of it.
func TestSignInWithTicket(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(withTokens)
	retried(t, g.Gateway, "down")
	for _, path := range []string{"", "/crm"} {
		for _, token := range []string{"", "wrong"} {
			if status, _ := g.own(http.MethodGet, path, token); status != http.StatusUnauthorized {
				t.Errorf("%q with the token %q: status %d", path, token, status)
			}
		}
	}
	begun := g.ownSignIn(http.MethodPost, "/crm", ann)
	page, query, _ := strings.Cut(begun.URL, "?")
	values, err := url.ParseQuery(query)
	ticket := values.Get("ticket")
	if err != nil || begun.State != "open" || pageURL.FindString(begun.URL) != page || len(ticket) != 26 {
		t.Fatalf("%+v", begun)
	}
	b := newBrowser(t)
	if status, html, _ := b.get(begun.URL); status != 200 || !strings.Contains(html, "<strong>ann</strong>") || strings.Contains(html, ticket) {
		t.Errorf("status %d\n%s", status, html)
	}
	if status, html, _ := newBrowser(t).get(begun.URL); status != 200 || !strings.Contains(html, `type="password"`) {
		t.Errorf("the ticket again: status %d\n%s", status, html)
	}
	// The call that comes meanwhile waits for the same sign-in.
	if other, _ := g.begun(ann); other != page {
		t.Errorf("a call has the page %s, want %s", other, page)
	}
	if s := g.ownSignIn(http.MethodGet, "/crm?signin="+begun.SignIn, bob); s.State != "ended" || s.Credential != nil {
		t.Errorf("another user: %+v", s)
	}
	ended := make(chan ownSignIn, 1)
	go func() { ended <- g.ownSignIn(http.MethodGet, "/crm?signin="+begun.SignIn, ann) }()
	if status, html := b.post(page, g.edge.URL, nil); status != 200 || !strings.Contains(html, "You are signed in to crm") {
		t.Fatalf("status %d\n%s", status, html)
	}
	s := <-ended
	if s.State != "done" || s.Credential["principal"] != "ann" || s.Credential["issuer"] != p.issuer.URL {
		t.Errorf("%+v", s)
	}
	if s := g.ownSignIn(http.MethodPost, "/crm", ann); s.State != "done" || s.URL != "" || s.Credential["backend"] != "crm" {
		t.Errorf("signed in already: %+v", s)
	}
	_, list := g.own(http.MethodGet, "", ann)
	if _, other := g.own(http.MethodGet, "", bob); !strings.Contains(list, `"backend":"crm","principal":"ann"`) || strings.TrimSpace(other) != `{"credentials":[]}` {
		t.Errorf("lists %s, %s", list, other)
	}
	if strings.Contains(list, "canary") {
		t.Errorf("the list has a token: %s", list)
	}
	if _, text := g.own(http.MethodDelete, "/crm", bob); !strings.Contains(text, `"deleted":0`) {
		t.Errorf("another user signs out: %s", text)
	}
	if n := endedGrants(t, g); n != "0" {
		t.Errorf("%s grants have ended", n)
	}
	if _, text := g.own(http.MethodDelete, "/crm", ann); !strings.Contains(text, `"deleted":1`) || !strings.Contains(text, `"noRevocation":true`) {
		t.Errorf("signs out: %s", text)
	}
	if n := endedGrants(t, g); n != "1" {
		t.Errorf("%s grants have ended, want 1 that was revoked", n)
	}
	if res := g.call(ann, "tools/call", "crm__sign_in", withURL, ""); !strings.Contains(res, `"input_required"`) {
		t.Errorf("after the sign-out: %s", res)
	}
	if strings.Contains(g.log.String(), ticket) {
		t.Error("the log has the ticket")
	}
}

// endedGrants returns the number of the events grant_ended.
func endedGrants(t *testing.T, g *signInGateway) string {
	t.Helper()
	w := httptest.NewRecorder()
	signalbox.Local(g.Operations()).ServeHTTP(w, operatorRequest(t, "/metrics"))
	_, rest, _ := strings.Cut(w.Body.String(), "\nsignalbox_events_total{kind=\"grant_ended\"} ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// Pages cannot begin or end the access of a user, and no answer differs between a server that is
// hidden and one that does not exist (N5, N16).
func TestOwnAccessIsForPrograms(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(`, "oauth": {}}, "wiki": {"url": "http://127.0.0.1:1/mcp", "oauth": {}` + strings.TrimPrefix(withTokens, `, "oauth": {}`) +
		`, "policy": {"otherwise": "deny", "rules": [{"name": "ann", "allow": "principal.name == 'ann'"}]}, "profiles": {"other": {"servers": ["wiki"]}}`)
	retried(t, g.Gateway, "down")
	for _, header := range [][]string{{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Origin", g.edge.URL}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "none"}} {
		if status, _ := g.own(http.MethodPost, "/crm", ann, header...); status != http.StatusForbidden {
			t.Errorf("%q: status %d", header, status)
		}
	}
	status, text := g.own(http.MethodPost, "/crm", bob)
	statusOther, other := g.own(http.MethodPost, "/none", bob)
	if status != http.StatusNotFound || statusOther != status || strings.ReplaceAll(other, "none", "crm") != text {
		t.Errorf("hidden: %d %s; unknown: %d %s", status, text, statusOther, other)
	}
	if strings.Contains(g.log.String(), "signin_begun") {
		t.Error("a sign-in has begun")
	}
	if status, _ := g.own(http.MethodPost, "/crm?profile=other", ann); status != http.StatusNotFound {
		t.Errorf("a profile without the server: status %d", status)
	}
	for _, path := range []string{"/crm", ""} {
		if status, _ := g.own(http.MethodPut, path, ann); status != http.StatusMethodNotAllowed {
			t.Errorf("PUT %q: status %d", path, status)
		}
	}
	if status, _ := g.own(http.MethodPost, "/crm", ann); status != http.StatusOK {
		t.Errorf("ann: status %d", status)
	}
}

// Without auth each browser on this machine is the user's, and no ticket is needed. A server that
// has not asked for a sign-in has none.
func TestOwnAccessWithoutAuth(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(keyed)
	retried(t, g.Gateway, "down")
	begun := g.ownSignIn(http.MethodPost, "/crm", "")
	if pageURL.FindString(begun.URL) != begun.URL {
		t.Errorf("%+v", begun)
	}
	if status, html := newBrowser(t).post(begun.URL, g.edge.URL, nil); status != 200 {
		t.Errorf("status %d\n%s", status, html)
	}
	if s := g.ownSignIn(http.MethodGet, "/crm?signin="+begun.SignIn, ""); s.State != "done" || s.Credential["principal"] != "" {
		t.Errorf("%+v", s)
	}
}
