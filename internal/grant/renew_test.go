// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
)

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
	t.Parallel()
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

// A renewal is tried once more if its answer is lost. If the server calls that a reuse, the user
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
		_ = wantMissing(t, err, grant.Ended)
		if n := len(w.seen().tokenForms); n != 2 {
			t.Errorf("%d token requests, want 2", n)
		}
		if left, err := w.vault.Grants(t.Context(), "ann", "tickets"); err != nil || len(left) != 0 {
			t.Errorf("%d grants are left, error %v", len(left), err)
		}
	})
}

// A grant of another process is used, whether that has renewed it before this one has the lock, or
// without any lock: a store for several machines has leases that expire (N8).
func TestAnotherProcessWon(t *testing.T) {
	t.Parallel()
	t.Run("before", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
			other := w.source(t, nil)
			defer other.Close()
			signIn(t, s, "ann")
			wantBearer(t, other, "ann", "access-token-3")
			time.Sleep(time.Hour)
			wantBearer(t, other, "ann", "access-token-5")
			wantBearer(t, s, "ann", "access-token-5")
			if n := w.seen().renewals; n != 1 {
				t.Errorf("%d renewals, want 1", n)
			}
		})
	})
	t.Run("without a lock", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		records := map[string]vault.Sealed{}
		mine, other := &memory{records: records, locks: map[string]chan struct{}{}}, &memory{records: records, locks: map[string]chan struct{}{}}
		var err error
		if w.vault, err = vault.New(mine, [][]byte{make([]byte, vault.MinKey)}, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		others, err := vault.New(other, [][]byte{make([]byte, vault.MinKey)}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			s := w.source(t, nil)
			defer s.Close()
			signIn(t, s, "ann")
			time.Sleep(time.Hour)
			g := grantOf(t, w, "ann")
			ctx := context.WithoutCancel(t.Context()) // the server is outside the bubble
			w.set(func() {
				w.refuse = "invalid_grant"
				w.fault = func() at { // meanwhile the other one has renewed it
					g.AccessToken, g.RefreshToken = mcp.NewToken("access-token-x"), mcp.NewToken("refresh-token-x")
					g.Expires, g.Refreshed = g.Expires.Add(time.Hour), g.SignedIn.Add(time.Hour)
					if err := others.Save(ctx, g); err != nil {
						t.Error(err)
					}
					return nowhere
				}
			})
			wantBearer(t, s, "ann", "access-token-x")
			if kinds := w.events.kinds(); len(kinds) != 0 {
				t.Errorf("events %v", kinds)
			}
			if got := grantOf(t, w, "ann").RefreshToken.Reveal(); got != "refresh-token-x" {
				t.Errorf("the vault has %q", got)
			}
		})
	})
}

// A renewal that is refused for a reason that a sign-in may mend deletes nothing: the token is used
// while it lasts.
func TestRenewalIsRefused(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		signIn(t, s, "ann")
		w.set(func() { w.refuse = "invalid_scope" })
		time.Sleep(time.Hour - 3*time.Second)
		for range 2 {
			wantBearer(t, s, "ann", "access-token-3")
		}
		time.Sleep(3 * time.Second)
		for range 2 {
			_, err := s.For(t.Context(), requestOf(t, "ann"))
			_ = wantMissing(t, err, grant.Ended)
		}
		grantOf(t, w, "ann")
		if kinds := w.events.kinds(); len(kinds) != 0 {
			t.Errorf("events %v of a grant that has not ended", kinds)
		}
	})
}

// A sign-in while the grant before is renewed, and refused, is the one that is used.
func TestSignInDuringRenewal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.closing(t, nil)
	w.set(func() { w.life = 0 })
	signIn(t, s, "ann")
	wantBearer(t, s, "ann", "access-token-3")
	in, code := begin(t, s, "ann")
	asked, hang := make(chan struct{}), make(chan struct{})
	w.set(func() {
		w.life, w.refuse = 3600, "invalid_grant"
		w.fault = func() at {
			w.set(func() { w.fault = nil })
			close(asked)
			<-hang
			return nowhere
		}
	})
	var all sync.WaitGroup
	all.Go(func() {
		_, _ = s.For(t.Context(), requestOf(t, "ann")) // of the grant that ends, or of the sign-in
	})
	<-asked
	all.Go(func() {
		if err := s.Complete(t.Context(), in, code); err != nil {
			t.Error(err)
		}
	})
	close(hang)
	all.Wait()
	if err := s.Check(t.Context(), "ann"); err != nil {
		t.Error(err)
	}
	if g := grantOf(t, w, "ann"); g.Expires.Before(time.Now()) {
		t.Errorf("the vault has the grant %v", g.AccessToken)
	}
}

// A grant in memory is used while the vault cannot be read, and one that is not in memory is not
// missing.
func TestVaultCannotBeRead(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		signIn(t, s, "ann")
		if err := os.Rename(w.folder, w.folder+".away"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(w.folder, nil, 0o600); err != nil { // no folder
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		wantBearer(t, s, "ann", "access-token-3")
		for range 2 {
			_, err := s.For(t.Context(), requestOf(t, "bob"))
			if _, ok := errors.AsType[*grant.Error](err); !ok || strings.Contains(err.Error(), w.folder) {
				t.Errorf("error %v", err)
			}
		}
		time.Sleep(time.Hour)
		if _, err := s.For(t.Context(), requestOf(t, "ann")); err == nil || isMissing(err) {
			t.Errorf("error %v, want one of the vault", err)
		}
		if n := len(w.seen().tokenForms); n != 1 {
			t.Errorf("%d token requests without a lock", n-1)
		}
	})
}

func isMissing(err error) bool {
	_, ok := errors.AsType[*grant.Missing](err)
	return ok
}

// What authorization servers do differently (identity attack 32).
func TestTokensOfServers(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, s *grant.Source, want grant.Reason) {
		t.Helper()
		_, err := s.For(t.Context(), requestOf(t, "ann"))
		_ = wantMissing(t, err, want)
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
	asked, hang := make(chan struct{}), make(chan struct{})
	w.set(func() { w.fault = func() at { close(asked); <-hang; return cutBefore } })
	s = w.closing(t, nil)
	for range 10 {
		wantBearer(t, s, "ann", "access-token-3")
	}
	<-asked
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

// Each renewal is reported once, with its error, however many requests wait for it, and a sign-in
// is not.
func TestRenewalsAreReported(t *testing.T) {
	var tried []string
	note := func(err error) {
		switch {
		case err == nil:
			tried = append(tried, "ok")
		case oauth.IsTemporary(err):
			tried = append(tried, "temporary")
		case oauth.HasCode(err, oauth.CodeInvalidGrant):
			tried = append(tried, "ended")
		default:
			tried = append(tried, err.Error())
		}
	}
	inWorld(t, func(cfg *grant.SourceConfig) { cfg.Tried = note }, func(t *testing.T, w *world, s *grant.Source) {
		want := func(all ...string) {
			t.Helper()
			if !slices.Equal(tried, all) {
				t.Errorf("reported %q, want %q", tried, all)
			}
		}
		signIn(t, s, "ann")
		want()
		time.Sleep(2 * time.Hour)
		for range 3 {
			wantBearer(t, s, "ann", "access-token-5")
		}
		want("ok")
		time.Sleep(2 * time.Hour)
		w.outage(status500)
		if _, err := s.For(t.Context(), requestOf(t, "ann")); err == nil {
			t.Error("a token without the authorization server")
		}
		want("ok", "temporary")
		time.Sleep(time.Minute)
		w.outage(nowhere)
		w.set(func() { w.refuse = "invalid_grant" })
		_, err := s.For(t.Context(), requestOf(t, "ann"))
		_ = wantMissing(t, err, grant.Ended)
		want("ok", "temporary", "ended")
		w.set(func() { w.refuse = "" })
		signIn(t, s, "ann")
		time.Sleep(2 * time.Hour)
		w.Close()
		if _, err := s.For(t.Context(), requestOf(t, "ann")); err == nil {
			t.Error("a token without the authorization server's metadata")
		}
		want("ok", "temporary", "ended", "temporary")
	})
}

// A sign-out revokes the tokens that are in use, also if the vault does not have them (N8).
func TestSignOutOfUnsavedGrant(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, s *grant.Source) {
		signIn(t, s, "ann")
		time.Sleep(time.Hour)
		unblock := blocked(t, w)
		wantBearer(t, s, "ann", "access-token-5") // a renewal
		unblock()
		if n, err := s.SignOut(t.Context(), "ann"); n != 1 || err != nil {
			t.Errorf("%d grants, %v", n, err)
		}
		unblock = blocked(t, w)
		signIn(t, s, "ann")
		unblock()
		if n, err := s.SignOut(t.Context(), "ann"); n != 1 || err != nil {
			t.Errorf("%d grants of a sign-in, %v", n, err)
		}
		if want := []string{"refresh-token-6", "refresh-token-9"}; !slices.Equal(w.seen().revoked, want) {
			t.Errorf("revoked %q, want %q", w.seen().revoked, want)
		}
		_, err := s.For(t.Context(), requestOf(t, "ann"))
		_ = wantMissing(t, err, grant.NeverSignedIn)
	})
}

// blocked makes the vault of a world refuse changes until the result is called.
func blocked(t *testing.T, w *world) (unblock func()) {
	t.Helper()
	names := blockWrites(t, w.folder)
	return func() {
		for _, name := range names {
			if err := os.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}
