// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/vault"
)

// pausingStore is a store that can delay its next lock, or its next change, until goOn.
type pausingStore struct {
	vault.Store

	lease, swap atomic.Bool

	reached, goOn chan struct{} // of no bubble
}

func (s *pausingStore) pause() {
	close(s.reached)
	<-s.goOn
}

func (s *pausingStore) pauseOnce(at *atomic.Bool) {
	if at.Swap(false) {
		s.pause()
	}
}

func (s *pausingStore) Lease(ctx context.Context, names ...string) (vault.Lease, error) {
	s.pauseOnce(&s.lease)
	l, err := s.Store.Lease(ctx, names...)
	return pausingLease{l, s}, err
}

type pausingLease struct {
	vault.Lease
	store *pausingStore
}

func (l pausingLease) Swap(ctx context.Context, name string, old uint64, record vault.Sealed) error {
	l.store.pauseOnce(&l.store.swap)
	return l.Lease.Swap(ctx, name, old, record)
}

// withPauses is inWorld with a pausingStore.
func withPauses(t *testing.T, f func(t *testing.T, w *world, s *grant.Source, store *pausingStore)) {
	t.Helper()
	store := &pausingStore{reached: make(chan struct{}), goOn: make(chan struct{})}
	inWorld(t, nil, func(t *testing.T, w *world, _ *grant.Source) {
		folder, err := vault.OpenFolder(w.folder)
		if err != nil {
			t.Fatal(err)
		}
		store.Store = folder
		kept, err := vault.New(store, [][]byte{make([]byte, vault.MinKey)}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		s := w.source(t, func(cfg *grant.SourceConfig) { cfg.Vault = kept })
		defer s.Close()
		f(t, w, s, store)
	})
}

// wantSignedOut checks that no grant of ann is in use or kept, now and when the vault is read again.
func wantSignedOut(t *testing.T, w *world, s *grant.Source) {
	t.Helper()
	synctest.Wait()
	for range 2 {
		_ = wantMissing(t, s.Check(t.Context(), "ann"), grant.NeverSignedIn)
		kept, err := w.vault.Grants(t.Context(), "ann", "tickets")
		if err != nil || len(kept) > 0 {
			t.Errorf("%d grants are kept, %v", len(kept), err)
		}
		if err := s.Reread(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A sign-in that is being completed while its principal signs out keeps nothing, and its tokens are revoked:
// whether its code is being exchanged, or its grant is being saved (N8).
func TestSignOutDuringSignIn(t *testing.T) {
	for _, during := range []string{"exchange", "lock", "save"} {
		t.Run(during, func(t *testing.T) {
			withPauses(t, func(t *testing.T, w *world, s *grant.Source, store *pausingStore) {
				in, code := begin(t, s, "ann")
				switch during {
				case "lock":
					store.lease.Store(true)
				case "save":
					store.swap.Store(true)
				default:
					w.set(func() { w.fault = func() at { store.pause(); return nowhere } })
				}
				done := make(chan error, 1)
				go func() { done <- s.Complete(t.Context(), in, code) }() // ends below
				<-store.reached
				if n, err := s.SignOut(t.Context(), "ann"); n != 0 || err != nil {
					t.Errorf("%d grants, %v", n, err)
				}
				close(store.goOn)
				if err := <-done; err == nil || !strings.Contains(err.Error(), "signed out") {
					t.Errorf("completed with %v", err)
				}
				wantSignedOut(t, w, s)
				if want := []string{"refresh-token-4"}; !slices.Equal(w.seen().revoked, want) {
					t.Errorf("revoked %q, want %q", w.seen().revoked, want)
				}
				w.set(func() { w.fault = nil })
				signIn(t, s, "ann") // a later one counts
				wantBearer(t, s, "ann", "access-token-6")
			})
		})
	}
}

// A grant that could not be saved at first is not saved after its principal has signed out.
func TestSignOutBeforeTheGrantIsSaved(t *testing.T) {
	withPauses(t, func(t *testing.T, w *world, s *grant.Source, store *pausingStore) {
		signIn(t, s, "ann")
		if _, err := s.SignOut(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		unblock := blocked(t, w)
		signIn(t, s, "ann")
		unblock()
		store.lease.Store(true)
		if _, err := s.For(t.Context(), requestOf(t, "ann")); err != nil { // makes it be saved
			t.Fatal(err)
		}
		<-store.reached
		if n, err := s.SignOut(t.Context(), "ann"); n != 1 || err != nil {
			t.Errorf("%d grants, %v", n, err)
		}
		close(store.goOn)
		wantSignedOut(t, w, s)
	})
}
