// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// wantMissing checks that an error asks for a sign-in.
func wantMissing(t *testing.T, err error, why grant.Reason) *grant.Missing {
	t.Helper()
	m, ok := errors.AsType[*grant.Missing](err)
	if !ok || m.Reason != why {
		t.Fatalf("error %v, want that a sign-in is missing (%s)", err, why)
	}
	if strings.Contains(err.Error(), "IGNORE") || strings.Contains(err.Error(), "-token-") {
		t.Errorf("error %v has text of the authorization server", err)
	}
	return m
}

// wantBearer checks the token of a principal.
func wantBearer(t *testing.T, s *grant.Source, principal, want string) client.Credential {
	t.Helper()
	c, err := s.For(t.Context(), requestOf(t, principal))
	if err != nil || bearer(c) != want {
		t.Fatalf("token %q, error %v, want %q", bearer(c), err, want)
	}
	return c
}

// A request of a principal without a grant is not sent. After the sign-in it is, with the token
// of that principal, also by a Source that is started later (5.8, N2).
func TestSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.closing(t, nil)
	c := w.client(t, s)
	serve := func(principal string) error {
		_, err := c.Serve(t.Context(), requestOf(t, principal), nil)
		return err
	}
	for range 2 {
		err := serve("corp:alice")
		m := wantMissing(t, err, grant.NeverSignedIn)
		wantFault(t, err, "tickets", "you have to sign in first")
		if m.Principal != "corp:alice" || m.Backend != "tickets" {
			t.Errorf("missing %+v", m)
		}
	}
	if slices.ContainsFunc(w.backend.seen(), func(s string) bool { return s != "" }) {
		t.Errorf("the backend got the tokens %q", w.backend.seen())
	}
	signIn(t, s, "corp:alice")
	if err := serve("corp:alice"); err != nil {
		t.Fatal(err)
	}
	wantMissing(t, serve("corp:bob"), grant.NeverSignedIn)
	form := w.seen().tokenForms[0]
	if form.Get("resource") != w.backend.URL+"/mcp" || w.seen().authorizations[0].Get("resource") != w.backend.URL+"/mcp" || w.seen().authorizations[0].Get("scope") != "read offline_access" {
		t.Errorf("requests %v and %v", w.seen().authorizations[0], form)
	}
	signIn(t, s, "corp:bob")
	if err := serve("corp:bob"); err != nil {
		t.Fatal(err)
	}
	if len(w.seen().registrations) != 1 {
		t.Errorf("%d registrations, want 1 that is kept", len(w.seen().registrations))
	}
	later := w.closing(t, nil)
	alice, bob := wantBearer(t, later, "corp:alice", "access-token-3"), wantBearer(t, later, "corp:bob", "access-token-6")
	if alice.Origin != w.backend.URL || bob.Origin != w.backend.URL {
		t.Errorf("origins %q, %q", alice.Origin, bob.Origin)
	}
}

// Requests of the gateway itself have no credential, and are not a principal's.
func TestRequestsOfTheGateway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.closing(t, nil)
	ctx := t.Context()
	if c, err := s.For(ctx, requestOf(t, "")); err != nil || len(c.Header) != 0 {
		t.Errorf("credential %v, error %v, want none", c, err)
	}
	if err := s.Refused(ctx, requestOf(t, ""), client.Credential{}, client.Refusal{Status: 401}); !errors.Is(err, client.ErrRefused) {
		t.Errorf("error %v, want ErrRefused", err)
	}
	// At an endpoint without authentication "" is a person.
	s = w.closing(t, func(cfg *grant.SourceConfig) { cfg.Anonymous = true })
	_, err := s.For(ctx, requestOf(t, ""))
	wantMissing(t, err, grant.NeverSignedIn)
	lists := requestOf(t, "")
	lists.Method = "tools/list"
	if c, err := s.For(ctx, lists); err != nil || len(c.Header) != 0 {
		t.Errorf("credential %v, error %v, want none", c, err)
	}
	signIn(t, s, "")
	if c, err := s.For(ctx, lists); err != nil || bearer(c) == "" {
		t.Errorf("credential %v, error %v, want that of the person", c, err)
	}
	// A backend that may not require any gets requests without one until it refuses one.
	s = w.closing(t, func(cfg *grant.SourceConfig) { cfg.Optional = true })
	req := requestOf(t, "ann")
	if c, err := s.For(ctx, req); err != nil || len(c.Header) != 0 {
		t.Errorf("credential %v, error %v, want none", c, err)
	}
	refusal := client.Refusal{Status: 401, Challenges: []string{`Bearer scope="a b"`}}
	wantMissing(t, s.Refused(ctx, req, client.Credential{}, refusal), grant.NeverSignedIn)
	_, err = s.For(ctx, req)
	wantMissing(t, err, grant.NeverSignedIn)
	begin(t, s, "ann")
	if got := w.seen().authorizations[len(w.seen().authorizations)-1].Get("scope"); got != "a b offline_access" {
		t.Errorf("scopes %q, want those of the challenge", got)
	}
}

// inWorld runs a test with a Source and its own time. The servers are outside of the bubble.
func inWorld(t *testing.T, change func(*grant.SourceConfig), f func(t *testing.T, w *world, s *grant.Source)) {
	t.Helper()
	t.Parallel()
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		s := w.source(t, change)
		defer s.Close()
		f(t, w, s)
	})
}

// forAll returns the tokens of n concurrent calls.
func forAll(t *testing.T, s *grant.Source, principal string, n int) []string {
	t.Helper()
	var all sync.WaitGroup
	tokens := make([]string, n)
	for i := range n {
		all.Go(func() {
			c, err := s.For(t.Context(), requestOf(t, principal))
			if err != nil {
				t.Error(err)
			}
			tokens[i] = bearer(c)
		})
	}
	all.Wait()
	slices.Sort(tokens)
	return slices.Compact(tokens)
}

// An access token is renewed once for all calls, when a tenth of its life is left, and at its end
// at the latest (identity attack 26).
func TestRenewsOnce(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		signIn(t, s, "ann")
		time.Sleep(54*time.Minute + 59*time.Second)
		if got := forAll(t, s, "ann", 100); !slices.Equal(got, []string{"access-token-3"}) || w.seen().renewals != 0 {
			t.Fatalf("tokens %q, %d renewals", got, w.seen().renewals)
		}
		time.Sleep(2 * time.Second)
		if got := forAll(t, s, "ann", 100); !slices.Contains(got, "access-token-3") || slices.ContainsFunc(got, func(s string) bool { return s != "access-token-3" && s != "access-token-5" }) {
			t.Fatalf("tokens %q while the token lasts", got)
		}
		synctest.Wait()
		wantBearer(t, s, "ann", "access-token-5")
		if w.seen().renewals != 1 {
			t.Fatalf("%d renewals, want 1", w.seen().renewals)
		}
		time.Sleep(time.Hour)
		if got := forAll(t, s, "ann", 100); !slices.Equal(got, []string{"access-token-7"}) || w.seen().renewals != 2 || w.seen().reused != 0 {
			t.Errorf("tokens %q, %d renewals, %d reused", got, w.seen().renewals, w.seen().reused)
		}
		form := w.seen().tokenForms[len(w.seen().tokenForms)-1]
		if form.Get("resource") != w.backend.URL+"/mcp" || form.Get("scope") != "read offline_access" {
			t.Errorf("renewal with %v, want resource and scope", form)
		}
		if got := s.Stats(); got.Renewals != 2 || got.Failures != 0 || got.Last.Issuer != w.URL || got.Last.Err != nil {
			t.Errorf("stats %+v", got)
		}
	})
}

// outage is a fault of all token requests.
func (w *world) outage(where at) {
	w.set(func() {
		w.fault = func() at { return where }
		if where == nowhere {
			w.fault = nil
		}
	})
}

// While the authorization server fails, nothing is deleted, the token is used while it lasts, and
// renewals are less and less often (identity attack 27).
func TestRenewalFails(t *testing.T) {
	for name, where := range map[string]at{"500": status500, "cut": cutBefore} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
				signIn(t, s, "ann")
				w.outage(where)
				time.Sleep(59 * time.Minute)
				for range 60 {
					wantBearer(t, s, "ann", "access-token-3")
					time.Sleep(time.Second - time.Millisecond)
				}
				before := len(w.seen().tokenForms)
				time.Sleep(time.Minute)
				for range 600 {
					_, err := s.For(t.Context(), requestOf(t, "ann"))
					if _, ok := errors.AsType[*grant.Error](err); !ok || !strings.Contains(err.Error(), "cannot be reached") {
						t.Fatalf("error %v", err)
					}
					time.Sleep(time.Second)
				}
				if n := len(w.seen().tokenForms) - before; n < 9 || n > 12 {
					t.Errorf("%d requests in ten minutes", n)
				}
				w.outage(nowhere)
				time.Sleep(time.Minute)
				wantBearer(t, s, "ann", "access-token-5")
				if kinds := w.events.kinds(); len(kinds) != 0 {
					t.Errorf("events %v", kinds)
				}
			})
		})
	}
}

// A renewal whose answer is lost is tried once more. If the server calls that a reuse, the user
// signs in, and is told why (identity attack 27).
func TestAnswerIsLost(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		signIn(t, s, "ann")
		time.Sleep(time.Hour)
		w.outage(cutAfter)
		_, err := s.For(t.Context(), requestOf(t, "ann"))
		if _, ok := errors.AsType[*grant.Error](err); !ok {
			t.Fatalf("error %v, want one that passes", err)
		}
		w.outage(nowhere)
		time.Sleep(time.Second)
		for range 2 {
			_, err = s.For(t.Context(), requestOf(t, "ann"))
			if m := wantMissing(t, err, grant.AnswerLost); !slices.Equal(m.Scopes, []string{"read", "offline_access"}) || m.Issuer != w.URL {
				t.Errorf("missing %+v", m)
			}
		}
		if kinds := w.events.kinds(); !slices.Equal(kinds, []grant.EventKind{grant.GrantEnded}) {
			t.Errorf("events %v", kinds)
		}
		signIn(t, s, "ann")
		if err := s.Check(t.Context(), "ann"); err != nil {
			t.Error(err)
		}
	})
	t.Run("without rotation", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
			w.set(func() { w.noRotate = true })
			signIn(t, s, "ann")
			time.Sleep(time.Hour)
			w.outage(cutAfter)
			_, _ = s.For(t.Context(), requestOf(t, "ann")) // the request above
			w.outage(nowhere)
			time.Sleep(time.Second)
			if c, err := s.For(t.Context(), requestOf(t, "ann")); err != nil || bearer(c) == "access-token-3" {
				t.Errorf("token %q, error %v", bearer(c), err)
			}
		})
	})
}

// A grant that the server does not renew is deleted, unless another process has a newer one.
func TestInvalidGrant(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		signIn(t, s, "ann")
		w.set(func() { w.refuse = "invalid_grant" })
		time.Sleep(time.Hour)
		_, err := s.For(t.Context(), requestOf(t, "ann"))
		wantMissing(t, err, grant.Ended)
		if n := len(w.seen().tokenForms); n != 2 {
			t.Errorf("%d token requests, want 2", n)
		}
		if left, err := w.vault.Grants(t.Context(), vault.Owner{Principal: "ann"}, "tickets"); err != nil || len(left) != 0 {
			t.Errorf("%d grants are left, error %v", len(left), err)
		}
	})
	for _, when := range []string{"before", "after"} {
		t.Run("another process "+when, func(t *testing.T) {
			inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
				other := w.source(t, nil)
				defer other.Close()
				signIn(t, s, "ann")
				wantBearer(t, other, "ann", "access-token-3")
				time.Sleep(time.Hour)
				if when == "before" {
					wantBearer(t, other, "ann", "access-token-5")
				} else {
					// The record is changed while this process has no lock, as by a store that
					// is not this folder: the winner is used all the same.
					w.set(func() {
						w.fault = func() at {
							w.set(func() { w.refuse = "invalid_grant" })
							return nowhere
						}
					})
					_, err := s.For(t.Context(), requestOf(t, "ann"))
					wantMissing(t, err, grant.Ended)
					w.set(func() { w.fault, w.refuse = nil, "" })
					signIn(t, other, "ann")
					time.Sleep(time.Second)
				}
				if c, err := s.For(t.Context(), requestOf(t, "ann")); err != nil || bearer(c) == "access-token-3" {
					t.Errorf("token %q, error %v, want that of the other process", bearer(c), err)
				}
			})
		})
	}
}

// A registration that the server does not know any more is given up with its grants: the next
// sign-in registers a client anew, once (identity attack 33).
func TestClientIsGone(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		signIn(t, s, "ann")
		w.set(func() { clear(w.clients) })
		time.Sleep(time.Hour)
		_, err := s.For(t.Context(), requestOf(t, "ann"))
		wantMissing(t, err, grant.ClientGone)
		signIn(t, s, "ann")
		if len(w.seen().registrations) != 2 {
			t.Errorf("%d registrations, want 2", len(w.seen().registrations))
		}
		// A server that does not know what it has just registered is not asked for ever.
		for i, want := range []string{"start again", "oauth.clientId of mcpServers.tickets"} {
			in, code := begin(t, s, "bob")
			w.set(func() { clear(w.clients) })
			if err := s.Complete(t.Context(), in, code); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one with %q", err, want)
			}
			if len(w.seen().registrations) != 2+i {
				t.Errorf("%d registrations, want %d", len(w.seen().registrations), 2+i)
			}
		}
	})
}

// A configured client that is refused ends no grant: a sign-in would not mend that.
func TestConfiguredClientIsRefused(t *testing.T) {
	given := func(cfg *grant.SourceConfig) {
		cfg.Client = oauth.Registration{ClientID: "gw", Secret: mcp.NewToken("client-secret")}
	}
	inWorld(t, given, func(t *testing.T, w *world, s *grant.Source) {
		signIn(t, s, "ann")
		w.set(func() { w.clients["gw"] = "other" })
		time.Sleep(time.Hour)
		_, err := s.For(t.Context(), requestOf(t, "ann"))
		if _, ok := errors.AsType[*grant.Error](err); !ok || !strings.Contains(err.Error(), "oauth.clientSecret") || strings.Contains(err.Error(), "IGNORE") {
			t.Fatalf("error %v", err)
		}
		w.set(func() { w.clients["gw"] = "client-secret" })
		time.Sleep(time.Minute)
		wantBearer(t, s, "ann", "access-token-4")
		if len(w.seen().registrations) != 0 {
			t.Error("a client was registered")
		}
	})
}

// A configured client belongs to the authorization server that it was first used with (B8), and
// nothing of it goes to another one (identity attack 20, N3).
func TestBackendMoves(t *testing.T) {
	given := func(cfg *grant.SourceConfig) {
		cfg.Client = oauth.Registration{ClientID: "gw", Secret: mcp.NewToken("client-secret")}
	}
	for name, change := range map[string]func(*grant.SourceConfig){"given": given, "registered": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, attacker := newWorld(t), newIdentityServer(t)
			synctest.Test(t, func(t *testing.T) {
				s := w.source(t, change)
				defer s.Close()
				signIn(t, s, "ann")
				time.Sleep(time.Hour)
				w.backend.set(func() { w.backend.issuer = attacker })
				sent, err := s.For(t.Context(), requestOf(t, "ann"))
				if err != nil {
					t.Fatal(err)
				}
				refused := client.Refusal{Status: 401}
				ctx, req := t.Context(), requestOf(t, "ann")
				if err := s.Refused(ctx, req, sent, refused); err != nil {
					t.Fatal(err)
				}
				sent, err = s.For(ctx, req)
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					m := wantMissing(t, s.Refused(ctx, req, sent, refused), grant.OtherIssuer)
					if m.Issuer != w.URL || m.Scopes != nil {
						t.Errorf("missing %+v", m)
					}
				}
				_, err = s.For(ctx, req)
				wantMissing(t, err, grant.OtherIssuer)
				if got := w.events.list(); len(got) != 1 || got[0].Kind != grant.IssuerChanged || got[0].Issuer != attacker.URL || got[0].Detail != w.URL || got[0].Principal != "ann" {
					t.Errorf("events %+v", got)
				}
				in, err := s.Prepare(ctx, "ann", grant.SignInOptions{RedirectURI: redirect})
				if name == "given" {
					if err == nil || !strings.Contains(err.Error(), "another authorization server") || !strings.Contains(err.Error(), "oauth.issuer") {
						t.Errorf("error %v", err)
					}
				} else if err != nil || in.Previous != w.URL || !strings.HasPrefix(in.URL, attacker.URL) || len(attacker.seen().registrations) != 1 {
					t.Errorf("sign-in %+v, error %v", in, err)
				}
				if len(attacker.seen().tokenForms)+len(attacker.seen().authorizations) != 0 {
					t.Error("the other authorization server has got a request")
				}
				if left, err := w.vault.Grants(ctx, vault.Owner{Principal: "ann"}, "tickets"); err != nil || len(left) != 1 {
					t.Errorf("%d grants are left, error %v, want 1", len(left), err)
				}
			})
		})
	}
}

// A grant is not for a backend that the configuration has at another URL, or with another issuer,
// client or resource (N3).
func TestGrantIsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	signIn(t, w.closing(t, nil), "ann")
	for name, change := range map[string]func(*grant.SourceConfig){
		"url":      func(cfg *grant.SourceConfig) { cfg.URL += "/v2" },
		"issuer":   func(cfg *grant.SourceConfig) { cfg.Issuer = "http://127.0.0.1:1" },
		"client":   func(cfg *grant.SourceConfig) { cfg.Client.ClientID = "gw" },
		"resource": func(cfg *grant.SourceConfig) { cfg.Resource = grant.NoResource },
		"name":     func(cfg *grant.SourceConfig) { cfg.Backend = "other" },
	} {
		_, err := w.closing(t, change).For(t.Context(), requestOf(t, "ann"))
		if m, ok := errors.AsType[*grant.Missing](err); !ok || m.Reason != grant.NeverSignedIn {
			t.Errorf("%s: error %v", name, err)
		}
	}
	wantBearer(t, w.closing(t, nil), "ann", "access-token-3")
}

// A token that the backend refuses is renewed and sent again once. One that it refuses anyway asks
// for one sign-in, and is not sent for a while (identity attack 29).
func TestRefusedForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.closing(t, nil)
	c := w.client(t, s)
	signIn(t, s, "ann")
	serve := func() error {
		_, err := c.Serve(t.Context(), requestOf(t, "ann"), nil)
		return err
	}
	if err := serve(); err != nil {
		t.Fatal(err)
	}
	w.set(func() { delete(w.access, "access-token-3") })
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if err := serve(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if w.seen().renewals != 1 {
		t.Fatalf("%d renewals, want 1", w.seen().renewals)
	}
	w = newWorld(t)
	s = w.closing(t, nil)
	c = w.client(t, s)
	signIn(t, s, "ann")
	w.backend.set(func() { w.backend.never = true })
	for range 20 {
		err := serve()
		wantMissing(t, err, grant.RefusedAnyway)
		wantFault(t, err, "sign in again")
	}
	if n := slices.Compact(slices.DeleteFunc(w.backend.seen(), func(s string) bool { return s == "" })); w.seen().renewals != 1 || len(n) != 2 {
		t.Errorf("%d renewals, and the tokens %q were sent, want 1 and 2", w.seen().renewals, w.backend.seen())
	}
	signIn(t, s, "ann")
	w.backend.set(func() { w.backend.never = false })
	if err := serve(); err != nil {
		t.Error(err)
	}
}

// After a refusal the token is sent again later, in case the backend was mistaken.
func TestRefusalPasses(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		signIn(t, s, "ann")
		ctx, req, refused := t.Context(), requestOf(t, "ann"), client.Refusal{Status: 401}
		sent := wantBearer(t, s, "ann", "access-token-3")
		if err := s.Refused(ctx, req, sent, refused); err != nil {
			t.Fatal(err)
		}
		if err := s.Refused(ctx, req, sent, refused); err != nil {
			t.Errorf("error %v, want that the newer token is sent", err)
		}
		sent = wantBearer(t, s, "ann", "access-token-5")
		wantMissing(t, s.Refused(ctx, req, sent, refused), grant.RefusedAnyway)
		_, err := s.For(ctx, req)
		wantMissing(t, err, grant.RefusedAnyway)
		time.Sleep(time.Minute)
		wantBearer(t, s, "ann", "access-token-5")
		// The next renewal fails: that is no refusal.
		w.outage(status500)
		for range 2 {
			if err := s.Refused(ctx, req, sent, refused); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
				t.Errorf("error %v", err)
			}
		}
	})
}

// Scopes that the backend requires are asked for with those that were granted, at most twice for an
// item in ten minutes (identity attack 30).
func TestStepUpOfUser(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		w.set(func() { w.scope = func(string) any { return "read" } }) // never more
		signIn(t, s, "ann")
		ctx, req := t.Context(), requestOf(t, "ann")
		ask := func(scope string) error {
			sent, err := s.For(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			return s.Refused(ctx, req, sent, client.Refusal{Status: 403, Challenges: []string{fmt.Sprintf(`Bearer error="insufficient_scope", scope=%q`, scope)}})
		}
		for i, scope := range []string{"write", "admin"} {
			for range 3 { // until the user has signed in
				m := wantMissing(t, ask(scope), grant.NeedsMoreScope)
				if !slices.Equal(m.Scopes, []string{"read", scope}) {
					t.Errorf("scopes %q", m.Scopes)
				}
			}
			signIn(t, s, "ann", "read", scope)
			if got := w.seen().authorizations[i+1].Get("scope"); got != "read "+scope+" offline_access" {
				t.Errorf("scope %q was requested", got)
			}
		}
		for _, scope := range []string{"write", "admin"} {
			err := ask(scope)
			if _, ok := errors.AsType[*grant.Error](err); !ok || !strings.Contains(err.Error(), scope) {
				t.Errorf("error %v, want one with the scope", err)
			}
		}
		if len(w.seen().authorizations) != 3 || w.seen().renewals != 0 {
			t.Errorf("%d authorization requests, %d renewals", len(w.seen().authorizations), w.seen().renewals)
		}
		if kinds := w.events.kinds(); !slices.Equal(kinds, []grant.EventKind{grant.StepUp, grant.StepUp}) {
			t.Errorf("events %v", kinds)
		}
		time.Sleep(10 * time.Minute)
		wantMissing(t, ask("write"), grant.NeedsMoreScope)
		// A 403 for another reason is the backend's own answer.
		if err := s.Refused(ctx, req, client.Credential{}, client.Refusal{Status: 403, Challenges: []string{"Bearer"}}); !errors.Is(err, client.ErrRefused) {
			t.Errorf("error %v", err)
		}
	})
}

// What authorization servers do differently (identity attack 32).
func TestTokensOfServers(t *testing.T) {
	refused := func(t *testing.T, s *grant.Source, want grant.Reason) {
		t.Helper()
		_, err := s.For(t.Context(), requestOf(t, "ann"))
		wantMissing(t, err, want)
	}
	for name, test := range map[string]struct {
		set  func(w *world)
		then func(t *testing.T, w *world, s *grant.Source)
	}{
		"no refresh token": {func(w *world) { w.noRefresh = true }, func(t *testing.T, _ *world, s *grant.Source) {
			time.Sleep(time.Hour - time.Second)
			wantBearer(t, s, "ann", "access-token-3")
			time.Sleep(2 * time.Second)
			refused(t, s, grant.Expired)
		}},
		"10 years": {func(w *world) { w.life = 315360000 }, func(t *testing.T, w *world, s *grant.Source) {
			time.Sleep(24*time.Hour - 6*time.Minute)
			wantBearer(t, s, "ann", "access-token-3")
			time.Sleep(time.Hour)
			wantBearer(t, s, "ann", "access-token-5")
		}},
		"absent": {func(w *world) { w.life = nil }, func(t *testing.T, w *world, s *grant.Source) {
			time.Sleep(time.Hour)
			wantBearer(t, s, "ann", "access-token-5")
		}},
		"0": {func(w *world) { w.life = 0 }, func(t *testing.T, w *world, s *grant.Source) {
			wantBearer(t, s, "ann", "access-token-3")
			wantBearer(t, s, "ann", "access-token-5")
			wantBearer(t, s, "ann", "access-token-7")
		}},
		"0 without refresh token": {func(w *world) { w.life, w.noRefresh = 0, true }, func(t *testing.T, w *world, s *grant.Source) {
			wantBearer(t, s, "ann", "access-token-3")
			refused(t, s, grant.Expired)
		}},
		"short": {func(w *world) { w.life = 20 }, func(t *testing.T, w *world, s *grant.Source) {
			time.Sleep(9 * time.Second)
			wantBearer(t, s, "ann", "access-token-3")
			synctest.Wait()
			if w.seen().renewals != 0 {
				t.Error("renewed in the first half of its life")
			}
			time.Sleep(7 * time.Second)
			wantBearer(t, s, "ann", "access-token-5")
		}},
		"scopes are dropped": {func(w *world) {
			w.scope = func(asked string) any {
				if asked == "" {
					return ""
				}
				return asked
			}
		}, func(t *testing.T, w *world, s *grant.Source) {
			time.Sleep(time.Hour)
			wantBearer(t, s, "ann", "access-token-5")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
				w.set(func() { test.set(w) })
				signIn(t, s, "ann")
				test.then(t, w, s)
			})
		})
	}
	t.Run("MAC", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
			w.set(func() { w.tokenType = "MAC" })
			in, code := begin(t, s, "ann")
			if err := s.Complete(t.Context(), in, code); err == nil || !strings.Contains(err.Error(), "token_type") {
				t.Errorf("error %v", err)
			}
			refused(t, s, grant.NeverSignedIn)
		})
	})
	t.Run("resource is refused", func(t *testing.T) {
		inWorld(t, func(cfg *grant.SourceConfig) { cfg.Resource = grant.NoResource }, func(t *testing.T, w *world, s *grant.Source) {
			signIn(t, s, "ann")
			time.Sleep(time.Hour)
			wantBearer(t, s, "ann", "access-token-5")
			for _, form := range append(w.seen().tokenForms, w.seen().authorizations...) {
				if form.Has("resource") {
					t.Errorf("request with a resource: %v", form)
				}
			}
		})
	})
}

// The order of registrations, and what makes one of them useless (identity attack 33).
func TestRegistration(t *testing.T) {
	t.Parallel()
	prepare := func(t *testing.T, s *grant.Source, uri string) (*grant.SignIn, error) {
		t.Helper()
		return s.Prepare(t.Context(), "ann", grant.SignInOptions{RedirectURI: uri})
	}
	client := func(t *testing.T, s *grant.Source, uri string) string {
		t.Helper()
		in, err := prepare(t, s, uri)
		if err != nil {
			t.Fatal(err)
		}
		return in.Client.ClientID
	}
	w := newWorld(t)
	s := w.closing(t, nil)
	if a, b, c := client(t, s, redirect), client(t, s, redirect), client(t, w.closing(t, nil), redirect); a != b || b != c {
		t.Errorf("clients %q, %q, %q, want one", a, b, c)
	}
	if other := client(t, s, "http://127.0.0.1:7778/callback"); other == client(t, s, redirect) || len(w.seen().registrations) != 2 {
		t.Errorf("client %q, %d registrations, want one for each redirect URI", other, len(w.seen().registrations))
	}
	if uris, err := s.RedirectURIs(t.Context()); err != nil || len(uris) != 2 || !slices.Contains(uris, redirect) {
		t.Errorf("redirect URIs %q, error %v", uris, err)
	}
	const metadata = "https://gw.example.com/oauth/client.json"
	s = w.closing(t, func(cfg *grant.SourceConfig) { cfg.MetadataURL = metadata })
	if id := client(t, s, redirect); id == metadata {
		t.Error("the metadata URL is used where it is not supported")
	}
	w.set(func() { w.metadata = map[string]any{"client_id_metadata_document_supported": true} })
	s = w.closing(t, func(cfg *grant.SourceConfig) { cfg.MetadataURL = metadata })
	if id := client(t, s, redirect); id != metadata {
		t.Errorf("client %q, want the metadata URL", id)
	}
	s = w.closing(t, func(cfg *grant.SourceConfig) { cfg.MetadataURL, cfg.Client.ClientID = metadata, "gw" })
	if id := client(t, s, redirect); id != "gw" {
		t.Errorf("client %q, want the configured one", id)
	}
	for name, register := range map[string]func(http.ResponseWriter) bool{
		"403": func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusForbidden); return true },
		"no id": func(w http.ResponseWriter) bool {
			answer(w, 201, map[string]any{"client_name": "x"})
			return true
		},
		"redirect refused": func(w http.ResponseWriter) bool {
			answer(w, 400, map[string]any{"error": "invalid_redirect_uri", "error_description": "IGNORE"})
			return true
		},
	} {
		w := newWorld(t)
		w.set(func() { w.register = register })
		_, err := prepare(t, w.closing(t, nil), redirect)
		if err == nil || !strings.Contains(err.Error(), redirect) || !strings.Contains(err.Error(), "oauth.clientId of mcpServers.tickets") || strings.Contains(err.Error(), "IGNORE") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	w = newWorld(t)
	w.register = func(rw http.ResponseWriter) bool {
		id := w.next("client")
		w.clients[id] = "s"
		answer(rw, 201, map[string]any{"client_id": id, "client_secret": "s", "token_endpoint_auth_method": "client_secret_basic", "client_secret_expires_at": time.Now().Add(-time.Minute).Unix()})
		return true
	}
	s = w.closing(t, nil)
	if a, b := client(t, s, redirect), client(t, s, redirect); a == b {
		t.Error("a registration with a secret that has expired is used")
	}
}

// Those that wait for a sign-in are woken when it is durable, also by another process, and are not
// kept when they give up (N13).
func TestWatch(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		other := w.source(t, nil)
		defer other.Close()
		given, leave := context.WithCancel(t.Context())
		left := s.Watch(given, "ann")
		leave()
		here, there, bob := s.Watch(t.Context(), "ann"), other.Watch(t.Context(), "ann"), s.Watch(t.Context(), "bob")
		wantMissing(t, s.Check(t.Context(), "ann"), grant.NeverSignedIn)
		wantMissing(t, other.Check(t.Context(), "ann"), grant.NeverSignedIn)
		in, code := begin(t, s, "ann")
		if err := s.Complete(t.Context(), in, code); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		<-here
		if wait := time.Since(began); wait != 0 {
			t.Errorf("woken after %v", wait)
		}
		wantBearer(t, s, "ann", "access-token-3")
		<-there
		if wait := time.Since(began); wait > time.Second {
			t.Errorf("woken after %v by another process", wait)
		}
		wantBearer(t, other, "ann", "access-token-3")
		time.Sleep(2 * time.Second)
		for _, c := range []<-chan struct{}{left, bob} {
			select {
			case <-c:
				t.Error("another watch was woken")
			default:
			}
		}
	})
}

// A grant of a sign-in by another process is used within a second, and one that it signs out is
// not used any more.
func TestOtherProcessSignsInAndOut(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		other := w.source(t, nil)
		defer other.Close()
		wantMissing(t, s.Check(t.Context(), "ann"), grant.NeverSignedIn)
		signIn(t, other, "ann")
		time.Sleep(time.Second)
		wantBearer(t, s, "ann", "access-token-3")
		if n, err := other.SignOut(t.Context(), "ann"); n != 1 || err != nil || !slices.Equal(w.seen().revoked, []string{"refresh-token-4"}) {
			t.Errorf("%d signed out, error %v, revoked %q", n, err, w.seen().revoked)
		}
		wantMissing(t, other.Check(t.Context(), "ann"), grant.NeverSignedIn)
		time.Sleep(time.Second)
		wantMissing(t, s.Check(t.Context(), "ann"), grant.NeverSignedIn)
		if n, err := other.SignOut(t.Context(), "ann"); n != 0 || err != nil {
			t.Errorf("%d signed out, error %v", n, err)
		}
		// Without the server the grant is deleted all the same.
		signIn(t, other, "ann")
		w.set(func() { w.metadata = map[string]any{"revocation_endpoint": nil} })
		time.Sleep(time.Hour)
		if n, err := other.SignOut(t.Context(), "ann"); n != 1 || err == nil || !strings.Contains(err.Error(), "not revoked") {
			t.Errorf("%d signed out, error %v", n, err)
		}
	})
}

// A renewal is not lost because the Source is closed meanwhile.
func TestCloseDuringRenewal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.source(t, nil)
	w.set(func() { w.life = 0 })
	signIn(t, s, "ann")
	wantBearer(t, s, "ann", "access-token-3")
	asked, go1 := make(chan struct{}), make(chan struct{})
	w.set(func() {
		w.life = 3600
		w.fault = func() at { close(asked); <-go1; return nowhere }
	})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := s.For(ctx, requestOf(t, "ann")); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
	<-asked
	cancel()
	all.Wait()
	all.Go(s.Close)
	close(go1)
	all.Wait()
	w.outage(nowhere)
	wantBearer(t, w.closing(t, nil), "ann", "access-token-5")
}

// While a renewal hangs, the token is used as long as it lasts.
func TestRenewalHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set(func() { w.life = 60 })
	s := w.closing(t, nil)
	signIn(t, s, "ann")
	g := grantOf(t, w, "ann")
	g.Expires, g.SignedIn = time.Now().Add(25*time.Second), time.Now().Add(-25*time.Second)
	if err := w.vault.Save(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	hang := make(chan struct{})
	w.set(func() { w.fault = func() at { <-hang; return cutBefore } })
	s = w.closing(t, nil)
	for range 10 {
		wantBearer(t, s, "ann", "access-token-3")
	}
	close(hang)
}

// A grant that cannot be saved is used, and saved later (identity attack 28).
func TestVaultIsFull(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Log("the folder is made unusable by a file in its place, since root may write to all")
	}
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		signIn(t, s, "ann")
		time.Sleep(time.Hour)
		// A folder in the place of the file that is written first.
		blocked := blockWrites(t, w.folder)
		wantBearer(t, s, "ann", "access-token-5")
		wantBearer(t, s, "ann", "access-token-5")
		if g := grantOf(t, w, "ann"); g.AccessToken.Reveal() != "access-token-3" {
			t.Fatalf("the vault has %q", g.AccessToken.Reveal())
		}
		for _, name := range blocked {
			if err := os.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		wantBearer(t, s, "ann", "access-token-5")
		synctest.Wait()
		if g := grantOf(t, w, "ann"); g.AccessToken.Reveal() != "access-token-5" {
			t.Errorf("the vault has %q", g.AccessToken.Reveal())
		}
		if w.seen().renewals != 1 {
			t.Errorf("%d renewals, want 1", w.seen().renewals)
		}
	})
}

// blockWrites puts a folder in the place of each file that a change writes first.
func blockWrites(t *testing.T, folder string) []string {
	t.Helper()
	locks, err := filepath.Glob(folder + "/*.lock")
	if err != nil {
		t.Fatal(err)
	}
	var blocked []string
	for _, lock := range locks {
		name := strings.TrimSuffix(lock, ".lock") + ".new"
		if err := os.MkdirAll(name+"/full", 0o700); err != nil {
			t.Fatal(err)
		}
		blocked = append(blocked, name)
	}
	return blocked
}

// grantOf returns the grant of a principal in the vault.
func grantOf(t *testing.T, w *world, principal string) *vault.Grant {
	t.Helper()
	all, err := w.vault.Grants(t.Context(), vault.Owner{Principal: principal}, "tickets")
	if err != nil || len(all) != 1 {
		t.Fatalf("%d grants, error %v, want 1", len(all), err)
	}
	return all[0]
}

// Several processes that need a token at the same moment renew it once (identity attack 26).
func TestProcessesRenewOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	signIn(t, w.closing(t, nil), "ann")
	g := grantOf(t, w, "ann")
	g.Expires, g.SignedIn = time.Now().Add(-time.Minute), time.Now().Add(-time.Hour)
	if err := w.vault.Save(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const processes = 4 // three gateways and a command
	var all sync.WaitGroup
	var ready sync.WaitGroup
	start := make(chan struct{})
	ready.Add(processes)
	for range processes {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), grant.ChildEnv)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			lines := bufio.NewScanner(out)
			_, _ = fmt.Fprintf(in, "%s\n%s\n", w.folder, w.backend.URL) // the next line tells
			lines.Scan()
			ready.Done()
			<-start
			_, _ = fmt.Fprintln(in, "go") // as above
			for lines.Scan() {
				if lines.Text() != "access-token-5" {
					t.Errorf("a process has the token %q", lines.Text())
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	ready.Wait()
	close(start)
	all.Wait()
	if w.seen().renewals != 1 || w.seen().reused != 0 {
		t.Errorf("%d renewals, %d reused, want one renewal", w.seen().renewals, w.seen().reused)
	}
}

var _ = grant.SetChildTask(renewInChild)

// renewInChild is the process of that test: many calls at once.
func renewInChild(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Scan()
	folder := lines.Text()
	lines.Scan()
	backend := lines.Text()
	v, err := openVault(folder)
	if err != nil {
		return err
	}
	s, err := newSource(grant.SourceConfig{Backend: "tickets", URL: backend + "/mcp", Vault: v, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer s.Close()
	req, err := mcp.NewRequest("tools/call", []byte(`{"name":"x"}`))
	if err != nil {
		return err
	}
	req.Principal = "ann"
	_, _ = fmt.Fprintln(out, "ready") // the parent notices
	lines.Scan()
	var all sync.WaitGroup
	errs := make([]error, 34)
	texts := make([]string, len(errs))
	for i := range errs {
		all.Go(func() {
			c, err := s.For(context.Background(), req)
			texts[i], errs[i] = bearer(c), err
		})
	}
	all.Wait()
	_, _ = fmt.Fprintln(out, strings.Join(slices.Compact(texts), " ")) // the parent notices
	return errors.Join(errs...)
}
