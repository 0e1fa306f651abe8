// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/browser"
	"github.com/signalbox-mcp/signalbox/test/foreign"
	"github.com/signalbox-mcp/signalbox/test/identity/provider"
	"github.com/signalbox-mcp/signalbox/test/tap"
)

const resource = "https://mcp.example.com/mcp"

func TestLockFile(t *testing.T) { foreign.CheckLock(t) }

// decode returns a part of a JSON Web Token, without a look at its signature.
func decode(t *testing.T, token string, part int) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("a token of %d parts", len(parts))
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[part])
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// What the other tests take from the provider: it demands PKCE, names itself in the answer,
// binds tokens to a resource, rotates refresh tokens and revokes all at the second use of
// one.
func TestProvider(t *testing.T) {
	between := tap.New(t)
	between.KeepHost = true
	web, machine := provider.Web("app"), provider.Machine("batch", "batch-secret-0123456789")
	p := provider.Start(t, provider.Settings{
		Issuer: between.URL, Clients: []provider.Client{web, machine}, Groups: map[string][]string{"ann": {"staff"}},
	})
	between.To(t, p.URL)
	ctx := t.Context()

	meta, err := p.Metadata(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"issuer": between.URL, "authorization_response_iss_parameter_supported": true, "client_id_metadata_document_supported": true,
		"token_endpoint": between.URL + "/token", "registration_endpoint": between.URL + "/reg", "introspection_endpoint": between.URL + "/token/introspection",
	} {
		if meta[key] != want {
			t.Errorf("%s: got %v, want %v", key, meta[key], want)
		}
	}

	ann := browser.New("ann")
	got, err := p.UserTokens(ctx, ann, web, resource, "openid offline_access mcp:use mcp:other")
	if err != nil {
		t.Fatal(err)
	}
	if header := decode(t, got.Access, 0); header["typ"] != "at+jwt" || header["alg"] != "ES256" || header["kid"] == nil {
		t.Errorf("the header is %v", header)
	}
	claims := decode(t, got.Access, 1)
	if claims["sub"] != "ann" || claims["aud"] != resource || claims["iss"] != between.URL || claims["scope"] != "mcp:use" {
		t.Errorf("the claims are %v", claims)
	}
	if groups, _ := claims["groups"].([]any); !slices.Equal(groups, []any{"staff"}) {
		t.Errorf("the groups are %v", claims["groups"])
	}
	if id := decode(t, got.ID, 1); id["aud"] != "app" {
		t.Errorf("the ID token is %v", id)
	}

	second, err := p.Refresh(ctx, web, got.Refresh, resource)
	if err != nil {
		t.Fatal(err)
	}
	if second.Refresh == got.Refresh || second.Refresh == "" {
		t.Error("the refresh token was not rotated")
	}
	if _, err := p.Refresh(ctx, web, got.Refresh, resource); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("a refresh token twice: got %v", err)
	}
	if _, err := p.Refresh(ctx, web, second.Refresh, resource); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("the newer one after the second use: got %v", err)
	}

	if _, err := p.MachineToken(ctx, machine, resource, "mcp:use"); err != nil {
		t.Error(err)
	}
	if _, err := p.MachineToken(ctx, provider.Machine("batch", "wrong"), resource, "mcp:use"); err == nil {
		t.Error("a wrong secret is accepted")
	}
	form := url.Values{"response_type": {"code"}, "client_id": {"app"}, "redirect_uri": {web.Redirects[0]}, "state": {"x"}}
	ann.Until = func(u *url.URL) bool { return u.Host == "127.0.0.1:1" }
	page, err := ann.Open(ctx, p.Issuer+"/auth?"+form.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if q := page.URL.Query(); q.Get("error") != "invalid_request" || q.Get("iss") != p.Issuer {
		t.Errorf("without PKCE: got %v", q)
	}

	var tokenRequests int
	for _, e := range between.Passed() {
		if e.Method == http.MethodPost && e.Path == "/token" {
			tokenRequests++
		}
	}
	if tokenRequests != 6 {
		t.Errorf("the proxy saw %d token requests, want 6", tokenRequests)
	}
}

func TestProviderDenies(t *testing.T) {
	web := provider.Web("app")
	p := provider.Start(t, provider.Settings{Clients: []provider.Client{web}})
	ann := browser.New("ann")
	ann.Press = "deny"
	_, err := p.UserTokens(t.Context(), ann, web, resource, "mcp:use")
	if err == nil || !strings.Contains(err.Error(), "access_denied") {
		t.Errorf("got %v", err)
	}
}
