// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/browser"
	"github.com/signalbox-mcp/signalbox/test/canary"
	"github.com/signalbox-mcp/signalbox/test/identity/provider"
	"github.com/signalbox-mcp/signalbox/test/tap"
)

const machineSecret = "gateway-secret-0123456789"

// behind are the keys of a gateway in front of a protected server, which it calls as itself.
func behind(p *provider.Provider, address string) object {
	oauth := object{"as": "gateway", "issuer": p.Issuer, "clientId": "gateway", "clientSecret": machineSecret, "scopes": []string{"mcp:use"}}
	return object{"mcpServers": object{"tools": object{"url": address, "prefix": "", "oauth": oauth}}}
}

// issuedTokens returns how many tokens a provider has issued to the gateway, and the scopes
// of each request.
func issuedTokens(between *tap.Tap) (scopes []string) {
	for _, e := range between.Passed() {
		if e.Path == "/token" && e.Form().Get("grant_type") == "client_credentials" {
			scopes = append(scopes, e.Form().Get("scope"))
		}
	}
	return scopes
}

// anonymous calls tools of a gateway without a token, in each era.
func anonymous(t *testing.T, g *gateway, version string, calls ...string) []result {
	t.Helper()
	j := job{URL: g.URL, Version: version}
	for _, name := range calls {
		j.Calls = append(j.Calls, call{Name: name})
	}
	r := new(report)
	if err := playGoWith(t.Context(), j, nil, r); err != nil {
		t.Fatal(err)
	}
	return r.Calls
}

// The gateway calls a protected server with tokens of its own, which it requests once for
// all, and asks for more scopes when the server wants them (identity I14).
func TestGatewayAsItself(t *testing.T) {
	p, between := watched(t, provider.Settings{Clients: []provider.Client{provider.Machine("gateway", machineSecret)}})
	address, server := reference(t, p)
	g := startGateway(t, behind(p, address))
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		for _, got := range anonymous(t, g, version, "read", "read") {
			token, ok := strings.CutPrefix(got.Text, "read with Bearer ")
			if !ok {
				t.Fatalf("%s: got %+v", version, got)
			}
			info, err := verify(t.Context(), p, token, address)
			if err != nil || info.UserID != "gateway" {
				t.Errorf("%s: got the token of %+v, %v", version, info, err)
			}
		}
	}
	if got := issuedTokens(between); !slices.Equal(got, []string{"mcp:use"}) {
		t.Errorf("requests for the scopes %q", got)
	}
	if got := anonymous(t, g, "2026-07-28", "write", "read", "write"); len(got) != 3 || !strings.HasPrefix(got[0].Text, "write with Bearer ") {
		t.Errorf("write: got %+v", got)
	}
	if got := issuedTokens(between); len(got) != 2 || !slices.Equal(sorted(got[1]), []string{"mcp:use", "mcp:write"}) {
		t.Errorf("then requests for the scopes %q", got)
	}
	for _, e := range between.Passed() {
		if e.Path == "/token" && e.Form().Get("resource") != address {
			t.Errorf("a request for the resource %q", e.Form().Get("resource"))
		}
	}
	var set canary.Set
	set.Add(t, "the secret of the client", machineSecret)
	var sent []canary.Leak
	for _, e := range server.Passed() {
		sent = append(sent, set.Scan("server", e.Body+e.Header.Get("Authorization"))...)
	}
	sent = append(sent, set.Scan("output", g.output.String())...)
	for _, leak := range sent {
		t.Error(leak)
	}
}

func sorted(scopes string) []string {
	all := strings.Fields(scopes)
	slices.Sort(all)
	return all
}

// A server that refuses every token costs one token and one more attempt (attack 29), and one
// that refuses one token is asked again.
func TestServerRefusesTokens(t *testing.T) {
	p, between := watched(t, provider.Settings{Clients: []provider.Client{provider.Machine("gateway", machineSecret)}})
	address, server := reference(t, p)
	g := startGateway(t, behind(p, address))
	if got := anonymous(t, g, "2026-07-28", "read"); len(got) != 1 || got[0].Failed {
		t.Fatalf("got %+v", got)
	}
	var refusals atomic.Int32
	refuse := func(n int32) tap.Fault {
		refusals.Store(0)
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost || r.Header.Get("Authorization") == "" || refusals.Add(1) > n {
				return false
			}
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
	}
	before := len(issuedTokens(between))
	server.Fail(refuse(1))
	if got := anonymous(t, g, "2026-07-28", "read"); len(got) != 1 || got[0].Failed {
		t.Errorf("after one refusal: got %+v", got)
	}
	if n := len(issuedTokens(between)) - before; n != 1 {
		t.Errorf("after one refusal: %d tokens", n)
	}
	const forever = 1 << 30
	before = len(issuedTokens(between))
	server.Fail(refuse(forever))
	j := job{URL: g.URL, Version: "2026-07-28", Calls: []call{{Name: "read"}}}
	r := new(report)
	err := playGoWith(t.Context(), j, nil, r)
	if err == nil && (len(r.Calls) != 1 || !r.Calls[0].Failed) {
		t.Errorf("after refusals only: got %+v", r)
	}
	if n := len(issuedTokens(between)) - before; n > 1 {
		t.Errorf("after refusals only: %d tokens", n)
	}
}

// With users and a machine at one provider, no token of a user reaches the server (I3, N1).
func TestTokensOfUsersStay(t *testing.T) {
	web := provider.Web("app")
	p, between := watched(t, provider.Settings{Clients: []provider.Client{provider.Machine("gateway", machineSecret), web}})
	address, server := reference(t, p)
	keys := behind(p, address)
	keys["auth"] = object{"issuers": []object{issuer("corp", p.Issuer)}}
	g := startGateway(t, keys)
	j := job{URL: g.URL, Version: "2026-07-28", Redirect: redirect, Client: web.ID, Calls: []call{{Name: "read"}}}
	r, err := playGo(t.Context(), j, browser.New("ann"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Error != "" || len(r.Calls) != 1 || !strings.HasPrefix(r.Calls[0].Text, "read with Bearer ") {
		t.Fatalf("got %+v", r)
	}
	info, err := verify(t.Context(), p, strings.TrimPrefix(r.Calls[0].Text, "read with Bearer "), address)
	if err != nil || info.UserID != "gateway" {
		t.Errorf("the server got the token of %+v, %v", info, err)
	}
	var set canary.Set
	if secrets(t, &set, between) == 0 {
		t.Fatal("no secrets")
	}
	g.backend = server
	for _, leak := range g.leaks(t, &set) {
		t.Error(leak)
	}
}
