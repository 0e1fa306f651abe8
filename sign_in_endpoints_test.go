// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// A grant of an authorization server at the fixed paths of 2025-03-26 is renewed there after a
// restart of the gateway.
func TestSignInAtFixedEndpointsIsRenewed(t *testing.T) {
	p := newSignInPeers(t)
	response := func(q url.Values) { q.Del("iss") } // came later than that revision
	p.response.Store(&response)
	var renewed atomic.Int64
	backend := p.backend.Config.Handler
	atServer := http.NewServeMux()
	atServer.Handle("/mcp", backend)
	atServer.Handle("/authorize", p.issuer.Config.Handler)
	atServer.Handle("/register", p.issuer.Config.Handler)
	atServer.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("grant_type") == "refresh_token" {
			renewed.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token": %q, "token_type": "Bearer", "expires_in": 0, "refresh_token": "canary-refresh-token"}`, userToken)
	})
	p.backend.Config.Handler = atServer
	more := fmt.Sprintf(`, "oauth": {"endpoints": "2025-03-26"}}}, "credentials": {"dir": %q, "keys": ["a key of thirty-two characters or more"]}`, filepath.Join(t.TempDir(), "credentials"))

	g := p.open(more)
	retried(t, g.Gateway, "down")
	res := g.call("", "tools/call", "crm__sign_in", withURL, "")
	page := pageURL.FindString(res)
	if page == "" {
		t.Fatalf("result %s", res)
	}
	if status, html := newBrowser(t).post(page, g.edge.URL, nil); status != 200 || !strings.Contains(html, "You are signed in to crm") {
		t.Fatalf("status %d\n%s", status, html)
	}
	retried(t, g.Gateway, "live")
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	renewed.Store(0)

	g = p.open(more)
	retried(t, g.Gateway, "live")
	if res = g.call("", "tools/call", "crm__find", `{}`, ""); !strings.Contains(res, `"content":[]`) || renewed.Load() == 0 {
		t.Errorf("result %s after %d renewals", res, renewed.Load())
	}
	wantRefreshes(t, g.Gateway, "ok", fmt.Sprint(renewed.Load()))
	wantRefreshes(t, g.Gateway, "failed", "0")
}
