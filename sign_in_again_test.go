// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A server that does not list anything with the access of the first sign-in has its user sign in
// again during the same call of the tool for that.
func TestSignInAgainForLists(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, challenge, want string
		status                int
	}{
		{"refused", `Bearer error="invalid_token"`, "", http.StatusUnauthorized},
		{"more scopes", `Bearer error="insufficient_scope", scope="files:list"`, "files:list", http.StatusForbidden},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newSignInPeers(t)
			const first = "canary-access-token-of-the-first-sign-in"
			backend, issuer := p.backend.Config.Handler, p.issuer.Config.Handler
			p.issuer.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/token" && p.issued.CompareAndSwap(0, 1) {
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, `{"access_token": %q, "token_type": "Bearer", "expires_in": 3600, "refresh_token": "canary-refresh-token"}`, first)
					return
				}
				issuer.ServeHTTP(w, r)
			})
			p.backend.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") == "Bearer "+first {
					w.Header().Set("WWW-Authenticate", tt.challenge)
					w.WriteHeader(tt.status)
					return
				}
				backend.ServeHTTP(w, r)
			})
			g := p.open(keyed)
			retried(t, g.Gateway, "down")
			res, accept := g.call("", "tools/call", "crm__sign_in", withURL, ""), ""
			for range 2 {
				page, state := pageURL.FindString(res), stateOf.FindStringSubmatch(res)
				if page == "" || len(state) != 2 {
					t.Fatalf("result %s", res)
				}
				b := newBrowser(t)
				if accept != "" {
					if _, html, _ := b.get(page); !strings.Contains(html, tt.want) {
						t.Errorf("the second page has no %q:\n%s", tt.want, html)
					}
				}
				if status, html := b.post(page, g.edge.URL, nil); status != http.StatusOK {
					t.Fatalf("status %d\n%s", status, html)
				}
				accept = `,"requestState":"` + state[1] + `","inputResponses":{"signin":{"action":"accept"}}`
				res = g.call("", "tools/call", "crm__sign_in", withURL, accept)
			}
			if !strings.Contains(res, "You are signed in") {
				t.Errorf("result %s", res)
			}
			if list := g.call("", "tools/list", "", `{}`, ""); !strings.Contains(list, `"crm__find"`) {
				t.Errorf("tools %s", list)
			}
		})
	}
}
