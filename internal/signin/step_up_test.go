// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// hold gives ann a grant with a new token, as a renewal or a sign-in by another process does.
func (f *fixture) hold(t *testing.T, token string, signedIn time.Time, scopes ...string) {
	t.Helper()
	g := &vault.Grant{GrantKey: vault.GrantKey{
		Principal: "ann", Backend: "crm", Issuer: "https://as.example", Resource: backendURL, Client: "c",
	}}
	if old, err := f.vault.Grants(t.Context(), g.Principal, "crm"); err != nil {
		t.Fatal(err)
	} else if len(old) > 0 {
		g = old[0]
	}
	g.URL, g.TokenType, g.Scopes = backendURL, "Bearer", scopes
	g.AccessToken, g.Expires, g.SignedIn, g.Refreshed = mcp.NewToken(token), time.Now().Add(time.Hour), signedIn, time.Now()
	if err := f.vault.Save(t.Context(), g); err != nil {
		t.Fatal(err)
	}
}

// A grant that is renewed while its user signs in for more scopes does not have them: the page
// stays, and what waits goes on waiting. A grant with the scopes ends the pending.
func TestStepUpOutlivesRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.close()
		began := time.Now()
		f.hold(t, "t1", began, "read")
		if err := f.source.Check(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		m := &grant.Missing{Backend: "crm", Principal: "ann", Reason: grant.NeedsMoreScope, Scopes: []string{"read", "write"}}
		p, err := f.desk.begin(t.Context(), m, f.source)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan outcome, 1)
		go func() { got <- f.desk.wait(t.Context(), p, Lifetime/2, func() {}) }()
		synctest.Wait()
		f.hold(t, "t2", began, "read")
		time.Sleep(time.Minute)
		if f.desk.find(p.id) == nil {
			t.Fatal("the pending has ended with the renewal")
		}
		f.hold(t, "t3", time.Now(), "write", "read")
		time.Sleep(time.Minute)
		if how := <-got; how != done || f.desk.find(p.id) != nil {
			t.Errorf("outcome %d, and the pending is there: %v", how, f.desk.find(p.id) != nil)
		}
	})
}

// A backend whose entry has changed is another one: a sign-in that has begun at its former
// authorization server does not serve its users.
func TestPendingsAreOfTheirBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.close()
		former, err := f.begin("ann", "crm")
		if err != nil {
			t.Fatal(err)
		}
		const moved = "https://crm.example/v2"
		requests, err := oauth.New(oauth.Config{Backend: moved})
		if err != nil {
			t.Fatal(err)
		}
		other, err := grant.NewSource(grant.SourceConfig{Backend: "crm", URL: moved, OAuth: requests, Vault: f.vault.Vault})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		p, err := f.desk.begin(t.Context(), &grant.Missing{Backend: "crm", Principal: "ann"}, other)
		if err != nil {
			t.Fatal(err)
		}
		if p == former || p.source != other || f.desk.find(former.id) != nil || f.open.Load() != 1 {
			t.Errorf("the former one: %v, with its source: %v, kept: %v, pages %d", p == former, p.source == former.source, f.desk.find(former.id) != nil, f.open.Load())
		}
	})
}

// Another call that needs more scopes does not spoil the sign-in of a user that is at the
// authorization server. The next page asks for them.
func TestStepUpDuringSignIn(t *testing.T) {
	f := newFixture(t)
	defer f.close()
	const nothing = "http://127.0.0.1:1/mcp" // without an authorization server
	requests, err := oauth.New(oauth.Config{Backend: nothing})
	if err != nil {
		t.Fatal(err)
	}
	source, err := grant.NewSource(grant.SourceConfig{Backend: "crm", URL: nothing, OAuth: requests, Vault: f.vault.Vault, Anonymous: true})
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	step := func(scope string) *pending {
		m := &grant.Missing{Backend: "crm", Principal: "", Reason: grant.NeedsMoreScope, Scopes: []string{scope}}
		p, err := f.desk.begin(t.Context(), m, source)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := step("write")
	in := &grant.SignIn{Authorization: &oauth.Authorization{State: "s"}}
	secret := "secret"
	f.desk.mu.Lock()
	p.signIn, p.isBegun, p.cookie = in, true, sha256.Sum256([]byte(secret))
	f.desk.byState["s"] = p
	f.desk.mu.Unlock()
	if step("delete") != p {
		t.Fatal("another pending")
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, PathCallback, http.NoBody)
	r.AddCookie(cookie(p.base, signInCookie(p.id), secret, Lifetime))
	if taken, got := f.desk.take(r, "s"); taken != p || got != in {
		t.Error("the response of the authorization server is not taken any more")
	}
	p = step("delete")
	f.desk.mu.Lock()
	p.signIn, p.isStale = in, true
	f.desk.mu.Unlock()
	if got, err := f.desk.prepared(t.Context(), p); got == in || err == nil {
		t.Errorf("the page shows the sign-in without the scope: %v", err)
	}
}
