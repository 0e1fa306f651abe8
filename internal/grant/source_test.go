// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/grant"
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
	_ = wantMissing(t, serve("corp:bob"), grant.NeverSignedIn)
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
	_ = wantMissing(t, err, grant.NeverSignedIn)
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
	_ = wantMissing(t, s.Refused(ctx, req, client.Credential{}, refusal), grant.NeverSignedIn)
	_, err = s.For(ctx, req)
	_ = wantMissing(t, err, grant.NeverSignedIn)
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
		_ = wantMissing(t, err, grant.RefusedAnyway)
		wantFault(t, err, "sign in again")
	}
	if sent := slices.DeleteFunc(w.backend.seen(), func(s string) bool { return s == "" }); w.seen().renewals != 1 || len(sent) != 2 {
		t.Errorf("%d renewals, and the tokens %q were sent, want 1 and 2", w.seen().renewals, sent)
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
		_ = wantMissing(t, s.Refused(ctx, req, sent, refused), grant.RefusedAnyway)
		_, err := s.For(ctx, req)
		_ = wantMissing(t, err, grant.RefusedAnyway)
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

// A backend that requires scopes of an access that has them gets its 403 through: a sign-in would
// change nothing.
func TestNoStepUpForGrantedScopes(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		w.set(func() { w.scope = func(string) any { return "read write" } })
		signIn(t, s, "ann")
		ctx, req := t.Context(), requestOf(t, "ann")
		sent, err := s.For(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		refused := client.Refusal{Status: 403, Challenges: []string{`Bearer error="insufficient_scope", scope="write read"`}}
		for range 3 {
			err := s.Refused(ctx, req, sent, refused)
			if own, ok := errors.AsType[*grant.Error](err); !ok || !strings.Contains(own.Error(), "has them") || !strings.Contains(own.Error(), `"write read"`) {
				t.Errorf("error %v, want one with the scopes", err)
			}
		}
		if kinds := w.events.kinds(); len(kinds) != 0 {
			t.Errorf("events %v", kinds)
		}
		signIn(t, s, "ann") // meanwhile: the request is sent again
		if err := s.Refused(ctx, req, sent, refused); err != nil {
			t.Errorf("with another token: %v", err)
		}
	})
}

// That the lists are refused is known for the principal and for the access token with which they were.
func TestListsAreRefused(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		ctx := t.Context()
		_ = wantMissing(t, s.CheckLists(ctx, "ann"), grant.NeverSignedIn)
		sent := make(map[string]uint64)
		refuse := func(principal string) {
			s.RefuseLists(&grant.Missing{Backend: "tickets", Principal: principal, Reason: grant.NeedsMoreScope}, sent[principal])
		}
		wantAccepted := func(principal string) {
			t.Helper()
			if err := s.CheckLists(ctx, principal); err != nil {
				t.Errorf("%s: %v", principal, err)
			}
		}
		for _, principal := range []string{"ann", "bob"} {
			signIn(t, s, principal)
			c, err := s.For(ctx, requestOf(t, principal))
			if err != nil {
				t.Fatal(err)
			}
			sent[principal] = c.Generation
			wantAccepted(principal)
		}
		refuse("ann")
		refuse("eve") // has never been here
		for range 2 {
			if m := wantMissing(t, s.CheckLists(ctx, "ann"), grant.NeedsMoreScope); m.Principal != "ann" {
				t.Errorf("missing for %s", m.Principal)
			}
		}
		wantAccepted("bob")
		_ = wantMissing(t, s.CheckLists(ctx, "eve"), grant.NeverSignedIn)
		signIn(t, s, "ann")
		wantAccepted("ann")
		refuse("ann") // it was sent before the sign-in
		wantAccepted("ann")
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
		_ = wantMissing(t, ask("write"), grant.NeedsMoreScope)
		// A 403 for another reason is the backend's own answer.
		if err := s.Refused(ctx, req, client.Credential{}, client.Refusal{Status: 403, Challenges: []string{"Bearer"}}); !errors.Is(err, client.ErrRefused) {
			t.Errorf("error %v", err)
		}
	})
}
