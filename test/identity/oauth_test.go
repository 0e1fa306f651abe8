// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/browser"
	"github.com/signalbox-mcp/signalbox/test/identity/provider"
)

// challenged returns the challenge of a server.
func challenged(ctx context.Context, t *testing.T, address string) oauth.Bearer {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	challenge, ok := oauth.BearerChallenge(res.Header)
	if !ok || res.StatusCode != http.StatusUnauthorized {
		t.Fatalf("got %s and no challenge", res.Status)
	}
	return challenge
}

// account is what a sign-in of our client has come to.
type account struct {
	client       *oauth.Client
	found        *oauth.Discovery
	registration *oauth.Registration
	tokens       *oauth.Tokens
}

// signInWith signs a user in with our client.
func signInWith(ctx context.Context, t *testing.T, address string, b *browser.Browser, o oauth.RegistrationOptions) *account {
	t.Helper()
	c, err := oauth.New(oauth.Config{Backend: address})
	if err != nil {
		t.Fatal(err)
	}
	challenge := challenged(ctx, t, address)
	found, err := c.Discover(ctx, oauth.DiscoverOptions{Challenge: challenge, Code: true})
	if err != nil {
		t.Fatal(err)
	}
	o.Metadata.RedirectURIs = []string{redirect}
	reg, err := c.Registration(ctx, found.Server, o)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := oauth.Begin(oauth.AuthorizationRequest{
		Server: found.Server, Registration: reg, RedirectURI: redirect, Resource: found.Resource,
		Scopes: oauth.ScopeSources{Challenge: challenge.Scopes, Resource: found.Scopes, Server: found.Server, Offline: true}.Scopes(),
	})
	if err != nil {
		t.Fatal(err)
	}
	at, err := signIn(ctx, b, asked.URL)
	if err != nil {
		t.Fatal(err)
	}
	code, err := asked.Check(query(t, at))
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := c.Token(ctx, found.Server, reg, asked.Grant(code))
	if err != nil {
		t.Fatal(err)
	}
	return &account{c, found, reg, tokens}
}

// Our client registers itself at a provider, gets a refresh token there, and goes on with it
// for the same resource and scopes. The provider gives no refresh token to a client that does
// not ask for consent with offline_access (OpenID Connect Core, section 11).
func TestOurClientAtProvider(t *testing.T) {
	p := provider.Start(t, provider.Settings{Lifetime: 60})
	address, _ := reference(t, p)
	ctx := t.Context()
	a := signInWith(ctx, t, address, browser.New("ann"), oauth.RegistrationOptions{})
	if a.registration.Source != oauth.SourceRegistered || a.found.Resource != address {
		t.Errorf("got the client %+v for %s", a.registration, a.found.Resource)
	}
	if _, err := verify(ctx, p, a.tokens.Access.Reveal(), address); err != nil {
		t.Error(err)
	}
	if !slices.Contains(a.tokens.Scopes, "mcp:use") || time.Until(a.tokens.Expires) > time.Minute {
		t.Errorf("scopes %q until %v", a.tokens.Scopes, a.tokens.Expires)
	}
	if a.tokens.Refresh.IsZero() {
		t.Fatal("no refresh token")
	}
	issuer := a.found.Server.Issuer
	next, err := a.client.Token(ctx, a.found.Server, a.registration, oauth.Refresh(issuer, a.tokens.Refresh, a.found.Resource, a.tokens.Scopes))
	if err != nil {
		t.Fatal(err)
	}
	if next.Refresh.IsZero() || next.Refresh.Reveal() == a.tokens.Refresh.Reveal() || !slices.Equal(next.Scopes, a.tokens.Scopes) {
		t.Errorf("after the refresh: %+v", next)
	}
	if _, err := verify(ctx, p, next.Access.Reveal(), address); err != nil {
		t.Error(err)
	}
	_, err = a.client.Token(ctx, a.found.Server, a.registration, oauth.Refresh(issuer, a.tokens.Refresh, a.found.Resource, a.tokens.Scopes))
	if !oauth.HasCode(err, oauth.CodeInvalidGrant) {
		t.Errorf("a refresh token twice: %v", err)
	}
}

// The client of the gateway itself gets tokens with its secret.
func TestOurMachineAtProvider(t *testing.T) {
	p := provider.Start(t, provider.Settings{Clients: []provider.Client{provider.Machine("gateway", "gateway-secret-0123456789")}})
	address, _ := reference(t, p)
	ctx := t.Context()
	c, err := oauth.New(oauth.Config{Backend: address, Issuer: p.Issuer})
	if err != nil {
		t.Fatal(err)
	}
	found, err := c.Discover(ctx, oauth.DiscoverOptions{Challenge: challenged(ctx, t, address)})
	if err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]string{"gateway-secret-0123456789": "", "wrong": oauth.CodeInvalidClient} {
		reg := &oauth.Registration{Issuer: p.Issuer, ClientID: "gateway", Secret: mcp.NewToken(secret), Source: oauth.SourceGiven}
		got, err := c.Token(ctx, found.Server, reg, oauth.ClientCredentials(p.Issuer, found.Resource, []string{"mcp:use"}))
		if want != "" {
			if !oauth.HasCode(err, want) {
				t.Errorf("with the secret %q: got %v", secret, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := verify(ctx, p, got.Access.Reveal(), address); err != nil {
			t.Error(err)
		}
	}
}

// A provider reads our metadata document at its address, and takes that for the client id.
func TestOurMetadataDocumentAtProvider(t *testing.T) {
	var read atomic.Int32
	var document []byte // set before the first request
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		read.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document)
	}))
	t.Cleanup(s.Close)
	id := s.URL + "/oauth/client.json"
	var err error
	document, err = oauth.MetadataDocument(id, oauth.ClientMetadata{RedirectURIs: []string{redirect}})
	if err != nil {
		t.Fatal(err)
	}
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NODE_EXTRA_CA_CERTS", authority)
	p := provider.Start(t, provider.Settings{NoRegistration: true})
	address, _ := reference(t, p)
	a := signInWith(t.Context(), t, address, browser.New("ann"), oauth.RegistrationOptions{MetadataURL: id})
	if a.registration.ClientID != id || a.registration.Source != oauth.SourceMetadata || read.Load() == 0 {
		t.Errorf("got the client %+v, and the document was read %d times", a.registration, read.Load())
	}
	if a.tokens.Refresh.IsZero() {
		t.Error("no refresh token")
	}
}
