// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant_test

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/vault"
)

// A request that finds the grant deleted before the renewal that has deleted it is settled takes
// nothing from that: the reason is kept for the next request.
func TestReadBeforeTheEndOfAGrantIsSettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.closing(t, nil)
	signIn(t, s, "ann")
	ctx, req := t.Context(), requestOf(t, "ann")
	sent, err := s.For(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	w.set(func() { clear(w.clients) })
	// The renewal deletes the grant, and then waits for the lock of the registration.
	other, err := openVault(w.folder)
	if err != nil {
		t.Fatal(err)
	}
	registration, err := other.Lock(ctx, &vault.Registration{Issuer: w.URL, RedirectURI: redirect})
	if err != nil {
		t.Fatal(err)
	}
	defer registration.Unlock()
	refused := make(chan error, 1)
	go func() { refused <- s.Refused(ctx, req, sent, client.Refusal{Status: 401}) }() // ends with the lock
	for err == nil && ctx.Err() == nil {
		_, err = s.Held(ctx, "ann", 0)
	}
	_ = wantMissing(t, err, grant.NeverSignedIn)
	registration.Unlock()
	_ = wantMissing(t, <-refused, grant.ClientGone)
	_, err = s.For(ctx, req)
	_ = wantMissing(t, err, grant.ClientGone)
}
