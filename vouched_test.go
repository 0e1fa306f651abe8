// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/vault"
)

// vouched is an authorization server that trusts an identity provider.
type vouched struct {
	*httptest.Server

	mu         sync.Mutex
	assertions []string
}

func newVouched(t *testing.T) *vouched {
	t.Helper()
	s := new(vouched)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"issuer":%q,"token_endpoint":%q}`, s.URL, s.URL+"/token")
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"unsupported_grant_type"}`)
			return
		}
		s.assertions = append(s.assertions, r.FormValue("assertion"))
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": userToken, "token_type": "Bearer", "expires_in": 3600}) // the client has disconnected
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// A user of a backend that trusts the identity provider signs in there alone: the call goes on, the
// tools are listed, and the ID token is that of the user (identity I14; N2, N7).
func TestVouchedUserSignsIn(t *testing.T) {
	p, idp, server := newSignInPeers(t), newIdentityProvider(t), newVouched(t)
	p.issuer.Close() // the first authorization server takes no part
	p.issuer = server.Server
	var subjects []string
	idp.exchange = func(r *http.Request) any {
		idp.mu.Lock()
		defer idp.mu.Unlock()
		subjects = append(subjects, r.FormValue("subject_token"))
		jag := idp.signAs("oauth-id-jag+jwt", map[string]any{
			"aud": r.FormValue("audience"), "resource": r.FormValue("resource"), "client_id": "gw-as", "sub": "ann", "jti": "1", "exp": time.Now().Add(time.Minute).Unix(),
		})
		return map[string]any{"access_token": jag, "token_type": "N_A", "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"}
	}
	g := p.openAs(idp, fmt.Sprintf(`{"grant": "idJag", "issuer": %q, "clientId": "gw-web", "clientSecret": "${T_WEB}", "lists": "shared", "authorizationServer": {"issuer": %q, "clientId": "gw-as"}}`, idp.URL, server.URL), "")
	if s := retried(t, g.Gateway, "down"); s.Code != "SB_AUTH_SIGN_IN" {
		t.Fatalf("code %s, reason %s", s.Code, s.Reason)
	}
	token := func(user string) string {
		return idp.sign(map[string]any{"aud": g.edge.URL + "/mcp", "sub": user})
	}
	page, state := g.begun(token("ann"))

	bob := idp.signedIn("bob")
	if status, html := bob.post(page, g.edge.URL, toProvider); status != 404 {
		t.Errorf("bob: status %d\n%s", status, html)
	}
	ann := idp.signedIn("ann")
	status, html := ann.post(page, g.edge.URL, toProvider)
	if status != 200 || !strings.Contains(html, "You are signed in at ") {
		t.Fatalf("ann: status %d\n%s", status, html)
	}
	res := g.call(token("ann"), "tools/call", "crm__sign_in", withURL, `,"requestState":"`+state+`","inputResponses":{"signin":{"action":"accept"}}`)
	if !strings.Contains(res, "You are signed in") {
		t.Fatalf("ann's call: %s", res)
	}
	if list := g.call(token("ann"), "tools/list", "", `{}`, ""); !strings.Contains(list, `"crm__find"`) {
		t.Errorf("tools %s", list)
	}
	if res := g.call(token("ann"), "tools/call", "crm__find", `{}`, ""); !strings.Contains(res, `"content":[]`) {
		t.Errorf("ann's next call: %s", res)
	}
	// Bob is known from the page of ann, and needs no further sign-in.
	if res := g.call(token("bob"), "tools/call", "crm__find", `{}`, ""); !strings.Contains(res, `"content":[]`) {
		t.Errorf("bob's call: %s", res)
	}
	if res := g.call(token("eve"), "tools/call", "crm__find", withURL, ""); !pageURL.MatchString(res) {
		t.Errorf("eve's call: %s", res)
	}
	idp.mu.Lock()
	if len(subjects) != 2 || subjects[0] != idp.issued[1] || subjects[1] != idp.issued[0] {
		t.Errorf("%d ID tokens were exchanged, of %d", len(subjects), len(idp.issued))
	}
	idp.mu.Unlock()
	kept, err := vault.Open(t.Context(), vault.NewOptions("", [][]byte{[]byte("a key of thirty-two characters or more")}, p.folder, slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	if all, err := kept.List(t.Context()); err != nil || len(all.IDTokens) != 2 || len(all.Grants) != 0 {
		t.Errorf("kept %+v, %v", all, err)
	}
	if p.asked.Load() != 0 || p.issued.Load() != 0 {
		t.Error("another authorization server was asked")
	}
}
