// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant_test

import (
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/grant"
)

// A backend that moves right after a sign-in is noticed at once: the user is not asked to sign in
// at its former authorization server again.
func TestBackendMovesAtOnce(t *testing.T) {
	w, other := newWorld(t), newIdentityServer(t)
	synctest.Test(t, func(t *testing.T) {
		s := w.source(t, nil)
		defer s.Close()
		signIn(t, s, "ann")
		w.backend.set(func() { w.backend.issuer = other })
		ctx, req := t.Context(), requestOf(t, "ann")
		for range 2 { // the second one after the renewal
			sent, err := s.For(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Refused(ctx, req, sent, client.Refusal{Status: 401}); err != nil {
				_ = wantMissing(t, err, grant.OtherIssuer)
				return
			}
		}
		t.Error("the token is refused, and nothing comes of it")
	})
}
