// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// A backend that names another authorization server than before has its user asked on a page with
// the host of the new one and of the former one. The new one gets nothing of the former
// (identity attack 20).
func TestSignInPageAfterAMove(t *testing.T) {
	t.Parallel()
	p, other := newSignInPeers(t), newSignInPeers(t)
	var moved atomic.Bool
	issuer, backend := p.issuer.Config.Handler, p.backend.Config.Handler
	p.issuer.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" && r.FormValue("grant_type") == "refresh_token" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, userToken)
			return
		}
		issuer.ServeHTTP(w, r)
	})
	p.backend.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if moved.Load() && strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource") {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q]}`, p.backend.URL+"/mcp", other.issuer.URL)
			return
		}
		backend.ServeHTTP(w, r)
	})
	next, sent := other.issuer.Config.Handler, newSyncBuffer()
	other.issuer.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // what cannot be parsed is in the form as far as it can
		fmt.Fprintln(sent, r.Method, r.URL, r.Header, r.Form)
		next.ServeHTTP(w, r)
	})
	g := p.open(keyed)
	retried(t, g.Gateway, "down")
	g.signIn("")
	retried(t, g.Gateway, "live")
	if res := g.call("", "tools/call", "crm__find", `{}`, ""); !strings.Contains(res, `"content":[]`) {
		t.Fatalf("before the move: %s", res)
	}
	moved.Store(true)
	p.revoked.Store(true)
	res := g.call("", "tools/call", "crm__find", withURL, "")
	page := pageURL.FindString(res)
	if page == "" {
		t.Fatalf("after the move: %s", res)
	}
	host := func(url string) string { return strings.TrimPrefix(url, "http://") }
	b := newBrowser(t)
	if _, html, _ := b.get(page); !strings.Contains(html, "You will sign in at <strong>"+host(other.issuer.URL)+"</strong>") ||
		!strings.Contains(html, "Before, it was "+host(p.issuer.URL)+".") {
		t.Errorf("the page:\n%s", html)
	}
	b.start(page, g.edge.URL)
	for _, secret := range []string{userToken, "canary-refresh-token"} {
		if got := sent.String(); !strings.Contains(got, "/authorize") || strings.Contains(got, secret) {
			t.Errorf("the new authorization server got %s", got)
		}
	}
}
