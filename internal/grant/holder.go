// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/vault"
)

// holderLocked returns the holder of a principal, and adds it if necessary.
func (s *Source) holderLocked(principal string) *holder {
	h := s.holders[principal]
	if h == nil {
		if len(s.holders) >= maxHolders {
			s.evictLocked()
		}
		h = &holder{principal: principal}
		s.holders[principal] = h
	}
	h.used = time.Now()
	return h
}

// evictLocked removes a holder that was not used for long: the oldest of a few that the map
// returns in random order. What the vault does not have stays.
func (s *Source) evictLocked() {
	const look = 32
	var oldest *holder
	n := 0
	for _, h := range s.holders {
		if n++; n > look && oldest != nil {
			break
		}
		if !h.unsaved && h.completing == 0 && h.leaving == 0 && h.flight == nil && h.looking == nil && len(h.watchers) == 0 && (oldest == nil || h.used.Before(oldest.used)) {
			oldest = h
		}
	}
	if oldest != nil {
		delete(s.holders, oldest.principal)
	}
}

// hasSignedOutLocked reports whether the principal is signing out, or has done so after signOuts was
// since.
func (h *holder) hasSignedOutLocked(since uint64) bool { return h.leaving > 0 || h.signOuts != since }

// token returns the grant of a principal with a token that may be sent, and its serial. It
// renews the token if that is due.
func (s *Source) token(ctx context.Context, principal string) (*vault.Grant, uint64, error) {
	if s.isLookDue(principal, lookInterval) {
		if err := s.look(ctx, principal); err != nil {
			return nil, 0, err
		}
	}
	s.mu.Lock()
	h := s.holderLocked(principal)
	now := time.Now()
	if err := s.withheldLocked(h, now); err != nil {
		s.mu.Unlock()
		return nil, 0, err
	}
	g, serial := h.grant, h.serial
	left := g.Expires.Sub(now)
	isValid := left > 0
	if !isValid && !h.spent && lifeOf(g) <= 0 { // it is for one request
		h.spent = true
		s.mu.Unlock()
		return g, serial, nil
	}
	switch {
	case !h.isDue(now), isValid && g.RefreshToken.IsZero() && !h.unsaved:
		s.mu.Unlock()
		return g, serial, nil
	case g.RefreshToken.IsZero() && !isValid:
		defer s.mu.Unlock()
		return nil, 0, s.endedWith(g, Expired)
	case h.flight == nil && now.Before(h.retryAt):
		defer s.mu.Unlock()
		if isValid {
			return g, serial, nil
		}
		return nil, 0, s.failure(h.failure)
	}
	f, err := s.startLocked(h, false) //nolint:contextcheck // a renewal does not end with a request
	s.mu.Unlock()
	if err != nil {
		return nil, 0, err
	}
	if left > waitBelow {
		return g, serial, nil
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	switch {
	case f.err == nil:
		return f.grant, f.serial, nil
	case f.grant != nil && time.Now().Before(g.Expires):
		return g, serial, nil
	}
	return nil, 0, s.failure(f.err)
}

// withheldLocked returns an error if the principal has no grant that may be sent.
func (s *Source) withheldLocked(h *holder, now time.Time) error {
	switch {
	case h.grant == nil:
		return s.missingLocked(h)
	case h.refused == h.serial && now.Sub(h.refusedAt) < refusedFor,
		s.found != nil && now.Before(s.found.Until) && s.found.Server.Issuer != h.grant.Issuer:
		return s.refusedLocked(h)
	}
	return nil
}

// endedWith returns the *Missing of a grant that is not valid any more.
func (s *Source) endedWith(g *vault.Grant, why Reason) *Missing {
	return &Missing{Backend: s.cfg.Backend, Principal: g.Principal, Reason: why, Scopes: g.Scopes, Issuer: g.Issuer}
}

// issuedAt returns when the access token of a grant was issued.
func issuedAt(g *vault.Grant) time.Time {
	if g.Refreshed.After(g.SignedIn) {
		return g.Refreshed
	}
	return g.SignedIn
}

// lifeOf returns the life that the access token of a grant had when it was issued.
func lifeOf(g *vault.Grant) time.Duration { return g.Expires.Sub(issuedAt(g)) }

// isDue reports whether the grant should be renewed, or saved.
func (h *holder) isDue(now time.Time) bool { return h.unsaved || isDue(h.grant, now) }

// isDue reports whether an access token should be renewed: when a tenth of its life is left,
// within bounds, and at most half of it.
func isDue(g *vault.Grant, now time.Time) bool {
	life := lifeOf(g)
	margin := min(max(life/10, minMargin), maxMargin, life/2)
	return !now.Before(g.Expires.Add(-margin))
}

// isLookDue reports whether the vault is to be read for a principal, because another process may
// have changed its grant since the last read, which was longer ago than age.
func (s *Source) isLookDue(principal string, age time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.holders[principal]
	return h == nil || time.Since(h.looked) >= age || h.looking != nil && h.grant == nil
}

// look reads the grant of a principal from the vault, or waits for a read in progress.
func (s *Source) look(ctx context.Context, principal string) error {
	return s.lookIn(ctx, principal, s.cfg.Vault.Grants)
}

// readGrants reads the grants of a principal from the vault.
type readGrants func(ctx context.Context, principal, backend string) ([]*vault.Grant, error)

func (s *Source) lookIn(ctx context.Context, principal string, read readGrants) error {
	s.mu.Lock()
	h := s.holderLocked(principal)
	if r := h.looking; r != nil {
		s.mu.Unlock()
		select {
		case <-r.done:
			return r.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r := &running{done: make(chan struct{})}
	h.looking, h.looked = r, time.Now()
	version := h.version
	s.mu.Unlock()

	g, err := s.read(principal, read)
	if gone := s.settleRead(ctx, h, r, version, g, err); gone != nil {
		s.eventGone(ctx, gone, notKept)
	}
	return r.err
}

// settleRead applies what was read to a holder. It returns the grant that is not kept any more.
func (s *Source) settleRead(ctx context.Context, h *holder, r *running, version uint64, g *vault.Grant, err error) (gone *vault.Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(r.done)
	h.looking = nil
	switch {
	case err != nil && h.grant != nil: // it is used from memory
		s.cfg.Logger.WarnContext(ctx, "the grants of users cannot be read", slog.String("backend", s.cfg.Backend), slog.Any("error", err))
		return nil
	case err != nil:
		h.looked = time.Time{}
		r.err = &Error{"the grants of users cannot be read: ask the operator of the gateway", fmt.Errorf("read the grants for %s: %w", s.cfg.Backend, err)}
		return nil
	case h.version != version: // it was changed by this process meanwhile
		return nil
	case h.unsaved && (g == nil || g.Generation == h.base):
		return nil
	case g == nil && h.leaving == 0:
		gone = h.grant
	}
	s.adoptLocked(h, g)
	return gone
}

// read returns the grant of a principal that is in use, or nil: of those that this backend can
// use as it is configured, the one with the latest sign-in.
func (s *Source) read(principal string, read readGrants) (*vault.Grant, error) {
	grants, err := read(s.ctx, principal, s.cfg.Backend)
	if err != nil {
		return nil, err
	}
	var latest *vault.Grant
	for _, g := range grants {
		if s.isUsable(g) && (latest == nil || g.SignedIn.After(latest.SignedIn)) {
			latest = g
		}
	}
	return latest, nil
}

// isUsable reports whether a grant is for the backend as it is configured.
func (s *Source) isUsable(g *vault.Grant) bool {
	return g.URL == s.cfg.URL &&
		(s.cfg.Issuer == "" || s.cfg.Issuer == g.Issuer) &&
		(s.cfg.Client.ClientID == "" || s.cfg.Client.ClientID == g.Client) &&
		(s.cfg.Resource == "" && g.Resource != "" || s.cfg.Resource == g.Resource || s.cfg.Resource == NoResource && g.Resource == "")
}

// adoptLocked makes a grant the one in use, or nil for no grant.
func (s *Source) adoptLocked(h *holder, g *vault.Grant) {
	before := h.grant
	h.grant, h.unsaved = g, false
	switch {
	case g == nil && before == nil:
		return
	case g == nil:
		h.serial, h.lists = 0, nil
	case before != nil && before.AccessToken.Reveal() == g.AccessToken.Reveal():
		return
	default:
		s.serial++
		h.serial, h.spent, h.ended, h.lists = s.serial, false, nil, nil
	}
	if before == nil || g == nil || before.RefreshToken.Reveal() != g.RefreshToken.Reveal() {
		h.isLost = false
	}
	h.failure, h.failures, h.retryAt = nil, 0, time.Time{}
	for watcher := range h.watchers {
		close(watcher)
	}
	if len(h.watchers) > 0 {
		h.watchers = nil
		s.watched--
	}
}
