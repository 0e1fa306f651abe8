// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A registration that the server does not know any more is given up with its grants: the next
// sign-in registers a client anew, once (identity attack 33).
func TestClientIsGone(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		signIn(t, s, "ann")
		w.set(func() { clear(w.clients) })
		time.Sleep(time.Hour)
		_, err := s.For(t.Context(), requestOf(t, "ann"))
		_ = wantMissing(t, err, grant.ClientGone)
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
	t.Parallel()
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
				_ = wantMissing(t, err, grant.OtherIssuer)
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
				if left, err := w.vault.Grants(ctx, "ann", "tickets"); err != nil || len(left) != 1 {
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
		_ = wantMissing(t, s.Check(t.Context(), "ann"), grant.NeverSignedIn)
		_ = wantMissing(t, other.Check(t.Context(), "ann"), grant.NeverSignedIn)
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

// What another process has changed is known at once after Reread, and wakes those that wait for it.
func TestReread(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		other := w.source(t, nil)
		defer other.Close()
		_ = wantMissing(t, s.Check(t.Context(), "ann"), grant.NeverSignedIn)
		woken := s.Watch(t.Context(), "ann")
		signIn(t, other, "ann")
		began := time.Now()
		if err := s.Reread(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-woken
		wantBearer(t, s, "ann", "access-token-3")
		if n, err := other.SignOut(t.Context(), "ann"); n != 1 || err != nil {
			t.Errorf("%d signed out, error %v", n, err)
		}
		if err := s.Reread(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = wantMissing(t, s.Check(t.Context(), "ann"), grant.NeverSignedIn)
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}

// A sign-out is an event once, in the process that signs out and in one that has used the grant. A
// second sign-in is not one.
func TestSignOutIsAnEvent(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		elsewhere := new(eventList)
		other := w.source(t, func(cfg *grant.SourceConfig) { cfg.Event = elsewhere.add })
		defer other.Close()
		want := func(where string, l *eventList, n int, principal, why string) {
			t.Helper()
			got := l.list()
			if len(got) != n || n > 0 && got[n-1] != (grant.Event{Kind: grant.GrantEnded, Backend: "tickets", Principal: principal, Issuer: w.URL, Detail: why}) {
				t.Errorf("%s: events %+v, want %d, the last one of %s", where, got, n, principal)
			}
		}
		signIn(t, s, "ann")
		signIn(t, s, "ann")
		want("signed in twice", w.events, 0, "", "")
		for range 2 {
			if _, err := s.SignOut(t.Context(), "ann"); err != nil {
				t.Fatal(err)
			}
			want("signed out", w.events, 1, "ann", "signed out")
		}
		signIn(t, other, "bob")
		if _, err := s.Held(t.Context(), "bob", 0); err != nil {
			t.Fatal(err)
		}
		if _, err := other.SignOut(t.Context(), "bob"); err != nil {
			t.Fatal(err)
		}
		want("in the other process", elsewhere, 1, "bob", "signed out")
		for range 2 {
			if err := s.Reread(t.Context()); err != nil {
				t.Fatal(err)
			}
			want("found", w.events, 2, "bob", "not kept any more")
		}
		// A renewal finds it, too, between two reads.
		signIn(t, other, "eve")
		time.Sleep(55*time.Minute - 200*time.Millisecond)
		if _, err := s.Held(t.Context(), "eve", 0); err != nil {
			t.Fatal(err)
		}
		if _, err := other.SignOut(t.Context(), "eve"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		if _, err := s.For(t.Context(), requestOf(t, "eve")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want("found by a renewal", w.events, 3, "eve", "not kept any more")
	})
}

// slowStore is a store that returns its next list of names late.
type slowStore struct {
	vault.Store

	next chan chan struct{} // what a list of names waits for
}

func (s *slowStore) Names(ctx context.Context, prefix string) ([]string, error) {
	names, err := s.Store.Names(ctx, prefix)
	select {
	case late := <-s.next:
		<-late
	default:
	}
	return names, err
}

// A read that began before the change does not hide it from Reread.
func TestRereadDuringARead(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, other *grant.Source) {
		folder, err := vault.OpenFolder(w.folder)
		if err != nil {
			t.Fatal(err)
		}
		store := &slowStore{folder, make(chan chan struct{}, 1)}
		kept, err := vault.New(store, [][]byte{make([]byte, vault.MinKey)}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		s := w.source(t, func(cfg *grant.SourceConfig) { cfg.Vault = kept })
		defer s.Close()
		late := make(chan struct{})
		store.next <- late
		go func() { _ = s.Check(t.Context(), "ann") }() // ends below
		synctest.Wait()
		signIn(t, other, "ann")
		reread := make(chan error, 1)
		go func() { reread <- s.Reread(t.Context()) }()
		synctest.Wait()
		close(late)
		if err := <-reread; err != nil {
			t.Fatal(err)
		}
		wantBearer(t, s, "ann", "access-token-3")
	})
}

// A grant of a sign-in by another process is used within a second, and one that it signs out is
// not used any more.
func TestOtherProcessSignsInAndOut(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		other := w.source(t, nil)
		defer other.Close()
		_ = wantMissing(t, s.Check(t.Context(), "ann"), grant.NeverSignedIn)
		signIn(t, other, "ann")
		time.Sleep(time.Second)
		wantBearer(t, s, "ann", "access-token-3")
		if n, err := other.SignOut(t.Context(), "ann"); n != 1 || err != nil || !slices.Equal(w.seen().revoked, []string{"refresh-token-4"}) {
			t.Errorf("%d signed out, error %v, revoked %q", n, err, w.seen().revoked)
		}
		_ = wantMissing(t, other.Check(t.Context(), "ann"), grant.NeverSignedIn)
		time.Sleep(time.Second)
		_ = wantMissing(t, s.Check(t.Context(), "ann"), grant.NeverSignedIn)
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

// What a principal holds is read again when the last read is old, and for many principals at once. A
// renewal is another token of the same sign-in.
func TestHeld(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		other := w.source(t, nil)
		defer other.Close()
		held := func(principal string, age time.Duration) (grant.Held, error) {
			return s.Held(t.Context(), principal, age)
		}
		_, err := held("ann", time.Second)
		_ = wantMissing(t, err, grant.NeverSignedIn)
		signIn(t, other, "ann")
		time.Sleep(time.Minute)
		_, err = held("ann", time.Hour)
		_ = wantMissing(t, err, grant.NeverSignedIn)
		if err := s.Look(t.Context(), []string{"ann", "bob"}); err != nil {
			t.Fatal(err)
		}
		first, err := held("ann", time.Hour)
		if err != nil || first.Serial == 0 || first.SignedIn.IsZero() {
			t.Errorf("held %+v, error %v", first, err)
		}
		_, err = held("bob", time.Hour)
		_ = wantMissing(t, err, grant.NeverSignedIn)
		time.Sleep(59 * time.Minute)
		if _, err := s.For(t.Context(), requestOf(t, "ann")); err != nil {
			t.Fatal(err)
		}
		if again, err := held("ann", time.Hour); err != nil || again.Serial == first.Serial || !again.SignedIn.Equal(first.SignedIn) {
			t.Errorf("held %+v after a renewal, error %v; before it %+v", again, err, first)
		}
		if _, err := other.SignOut(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		if err := s.Look(t.Context(), []string{"ann"}); err != nil {
			t.Fatal(err)
		}
		_, err = held("ann", time.Hour)
		_ = wantMissing(t, err, grant.NeverSignedIn)
	})
}

// A sign-in is completed although its browser has left.
func TestBrowserLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.closing(t, nil)
	in, code := begin(t, s, "ann")
	ctx, cancel := context.WithCancel(t.Context())
	w.set(func() { w.fault = func() at { cancel(); return nowhere } })
	if err := s.Complete(ctx, in, code); err != nil {
		t.Fatal(err)
	}
	wantBearer(t, s, "ann", "access-token-3")
	if err := s.Complete(ctx, in, code); !errors.Is(err, context.Canceled) || len(w.seen().tokenForms) != 1 {
		t.Errorf("error %v, want that of the context, and no request", err)
	}
}

// An authorization server at fixed paths, of 2025-03-26, is found again after a restart.
func TestFixedEndpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fixed := func(cfg *grant.SourceConfig) {
		cfg.URL, cfg.FixedEndpoints = w.URL+"/mcp", true
		var err error
		if cfg.OAuth, err = oauth.New(oauth.Config{Backend: cfg.URL, FixedEndpoints: true}); err != nil {
			t.Fatal(err)
		}
	}
	w.set(func() { w.life, w.metadata = 0, map[string]any{"issuer": "http://other"} })
	signIn(t, w.closing(t, fixed), "ann")
	s := w.closing(t, fixed)
	wantBearer(t, s, "ann", "access-token-3")
	wantBearer(t, s, "ann", "access-token-5")
}

// A grant of a client that is not known any more cannot be renewed, and nothing is sent.
func TestRegistrationIsGone(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		signIn(t, s, "ann")
		all, err := w.vault.Registrations(t.Context(), w.URL)
		if err != nil || len(all) != 1 {
			t.Fatalf("%d registrations, error %v", len(all), err)
		}
		if err := w.vault.Delete(t.Context(), all[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		_, err = s.For(t.Context(), requestOf(t, "ann"))
		_ = wantMissing(t, err, grant.ClientGone)
		if n := len(w.seen().tokenForms); n != 1 {
			t.Errorf("%d token requests, want 1", n)
		}
	})
}

// Refusals for many principals cause one discovery in 30 seconds (N11).
func TestRediscoveryIsBounded(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		w.set(func() { w.noRefresh = true })
		ctx, refused := t.Context(), client.Refusal{Status: 401}
		for i := range 20 {
			signIn(t, s, fmt.Sprint("user", i))
		}
		time.Sleep(30 * time.Second)
		before := w.backend.documents()
		for i := range 20 {
			req := requestOf(t, fmt.Sprint("user", i))
			sent, err := s.For(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			_ = wantMissing(t, s.Refused(ctx, req, sent, refused), grant.RefusedAnyway)
		}
		if n := w.backend.documents() - before; n != 1 {
			t.Errorf("%d discoveries, want 1", n)
		}
	})
}
