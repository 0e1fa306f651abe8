// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oidc_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/oidc"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const issuer = "https://id.example.com"

// provider is an identity provider, as an http.RoundTripper.
type provider struct {
	reads, tokens int
	isDown        bool
	form          url.Values // of the last token request
	response      string     // to it
}

func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := 200, ""
	switch {
	case p.isDown:
		p.reads++
		status = 500
	case r.URL.Path == "/.well-known/oauth-authorization-server":
		p.reads++
		body = `{"issuer":"` + issuer + `","authorization_endpoint":"` + issuer + `/a","token_endpoint":"` + issuer + `/t","code_challenge_methods_supported":["S256"]}`
	case r.URL.Path == "/t":
		p.tokens++
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if p.form, err = url.ParseQuery(string(raw)); err != nil {
			return nil, err
		}
		body = p.response
	default:
		status = 404
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

func newProvider(t *testing.T, peer *provider) *oidc.Provider {
	t.Helper()
	requests, err := oauth.New(oauth.Config{Backend: issuer, Issuer: issuer, Transport: peer})
	if err != nil {
		t.Fatal(err)
	}
	return oidc.New(oidc.Config{
		Client: oauth.Registration{Issuer: issuer, ClientID: "gw"}, OAuth: requests,
		Verify: func(_ context.Context, nonce string, token mcp.Token) (string, time.Time, error) {
			if token.Reveal() != "id-"+nonce {
				return "", time.Time{}, errors.New("another nonce")
			}
			return "corp:ann", time.Now().Add(time.Minute), nil
		},
	})
}

// The metadata is read once an hour; while that fails, the last good one counts for a day, and the
// provider is asked once in five seconds.
func TestMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &provider{isDown: true}
		p := newProvider(t, peer)
		begin := func() error {
			_, err := p.Begin(t.Context(), "https://mcp.example.com/oauth/identity")
			return err
		}
		step := func(name string, wait time.Duration, reads int, isGood bool) {
			t.Helper()
			time.Sleep(wait)
			peer.reads = 0
			for range 3 {
				if err := begin(); (err == nil) != isGood {
					t.Errorf("%s: %v", name, err)
				}
			}
			if peer.reads != reads {
				t.Errorf("%s: read %d times, want %d", name, peer.reads, reads)
			}
		}
		step("it is down", 0, 1, false)
		peer.isDown = false
		step("at once", time.Second, 0, false)
		step("later", 5*time.Second, 1, true)
		step("within the hour", 59*time.Minute, 0, true)
		peer.isDown = true
		step("down after an hour", 2*time.Minute, 1, true)
		step("down for a day", 24*time.Hour, 1, false)
	})
}

// Each request has a state, a nonce and a verifier of its own, and the nonce is what the ID token is
// verified with.
func TestSignIn(t *testing.T) {
	peer := new(provider)
	p := newProvider(t, peer)
	seen := make(map[string]bool)
	for range 2 {
		r, err := p.Begin(t.Context(), "https://mcp.example.com/oauth/identity")
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(r.URL)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		for _, name := range []string{"state", "nonce", "code_challenge"} {
			if value := q.Get(name); len(value) < 22 || seen[value] {
				t.Errorf("%s is %q", name, value)
			} else {
				seen[value] = true
			}
		}
		response := url.Values{"state": {r.State}, "code": {"c"}}
		peer.response = `{"access_token":"a","token_type":"Bearer"}`
		if _, err := p.Complete(t.Context(), r, response); !errors.Is(err, oidc.ErrNoToken) {
			t.Errorf("no ID token: %v", err)
		}
		peer.response = `{"access_token":"a","token_type":"Bearer","id_token":"id-` + q.Get("nonce") + `"}`
		id, err := p.Complete(t.Context(), r, response)
		if err != nil || id.Principal != "corp:ann" || id.Token.Reveal() != "id-"+q.Get("nonce") {
			t.Errorf("%+v, %v", id, err)
		}
		if peer.form.Get("code_verifier") == "" || peer.form.Has("resource") || peer.form.Get("redirect_uri") != "https://mcp.example.com/oauth/identity" {
			t.Errorf("the token request is %v", peer.form)
		}
		before := peer.tokens
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.Complete(gone, r, response); !errors.Is(err, context.Canceled) || peer.tokens != before {
			t.Errorf("a browser that has left: %v, %d requests", err, peer.tokens-before)
		}
	}
	if p.Host() != "id.example.com" {
		t.Errorf("host %q", p.Host())
	}
}

// A vault that cannot be opened, and one that cannot be written, are errors, and not sign-outs.
func TestTokensWithoutVault(t *testing.T) {
	broken := errors.New("broken")
	s := oidc.NewTokens(func() (*vault.Vault, error) { return nil, broken }, issuer, "gw", nil)
	if _, err := s.IDToken(t.Context(), "corp:ann"); !errors.Is(err, broken) {
		t.Errorf("read: %v", err)
	}
	if err := s.Keep(t.Context(), &oidc.Identity{Principal: "corp:ann"}); !errors.Is(err, broken) {
		t.Errorf("keep: %v", err)
	}
	if s.Has(t.Context(), "corp:ann", time.Time{}) {
		t.Error("there is a token")
	}
}

// A token is of one issuer and client: those of a former configuration are not given out, and Delete
// finds them, too.
func TestTokensOfIssuers(t *testing.T) {
	v, err := vault.Open(t.Context(), vault.Options{Folder: filepath.Join(t.TempDir(), "credentials"), Keys: [][]byte{make([]byte, vault.MinKey)}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	open := func() (*vault.Vault, error) { return v.Vault, nil }
	now := time.Now()
	for _, s := range []*oidc.Tokens{oidc.NewTokens(open, issuer, "gw", nil), oidc.NewTokens(open, issuer, "former", nil), oidc.NewTokens(open, "https://former.example.com", "gw", nil)} {
		if _, err := s.IDToken(t.Context(), "corp:ann"); !errors.Is(err, grant.ErrNoIDToken) {
			t.Errorf("before: %v", err)
		}
		if err := s.Keep(t.Context(), &oidc.Identity{Principal: "corp:ann", Token: mcp.NewToken("t"), Expires: now.Add(time.Hour), SignedIn: now}); err != nil {
			t.Fatal(err)
		}
		if token, err := s.IDToken(t.Context(), "corp:ann"); err != nil || token.Reveal() != "t" {
			t.Errorf("after: %v", err)
		}
		if _, err := s.IDToken(t.Context(), "corp:bob"); !errors.Is(err, grant.ErrNoIDToken) {
			t.Errorf("bob: %v", err)
		}
	}
	if n, err := oidc.Delete(t.Context(), v.Vault, "corp:ann"); n != 3 || err != nil {
		t.Errorf("%d deleted, %v", n, err)
	}
	if n, err := oidc.Delete(t.Context(), v.Vault, "corp:ann"); n != 0 || err != nil {
		t.Errorf("then %d deleted, %v", n, err)
	}
}
