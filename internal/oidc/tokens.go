// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oidc

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Tokens keeps the ID tokens of users in a vault, until they expire or are deleted. It keeps none
// in memory, so that a deletion by another process counts at once. Its methods may be called
// concurrently.
type Tokens struct {
	open           func() (*vault.Vault, error)
	issuer, client string
	log            *slog.Logger
	kept           chan struct{} // of capacity 1: a token was kept

	mu       sync.Mutex
	watchers map[string]map[chan struct{}]bool // by principal
}

var _ grant.IDTokens = (*Tokens)(nil)

// NewTokens returns the ID tokens that an issuer has issued to a client. open returns the vault,
// and is called for each use. log may be nil.
func NewTokens(open func() (*vault.Vault, error), issuer, client string, log *slog.Logger) *Tokens {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Tokens{open: open, issuer: issuer, client: client, log: log, kept: make(chan struct{}, 1), watchers: make(map[string]map[chan struct{}]bool)}
}

// margin is how long before its expiry an ID token is no longer given out: the provider has to
// accept it after its way there.
const margin = 10 * time.Second

// IDToken returns the ID token of a principal, or grant.ErrNoIDToken. An expired one is deleted.
func (s *Tokens) IDToken(ctx context.Context, principal string) (mcp.Token, error) {
	t, err := s.load(ctx, principal)
	if err != nil {
		return mcp.Token{}, err
	}
	return t.Token, nil
}

func (s *Tokens) load(ctx context.Context, principal string) (*vault.IDToken, error) {
	v, err := s.open()
	if err != nil {
		return nil, err
	}
	t := s.key(principal)
	switch err := v.Load(ctx, t); {
	case errors.Is(err, vault.ErrNotFound):
		return nil, grant.ErrNoIDToken
	case err != nil:
		return nil, err
	case !time.Now().Before(t.Expires.Add(-margin)):
		s.remove(ctx, v, t)
		return nil, grant.ErrNoIDToken
	}
	return t, nil
}

func (s *Tokens) key(principal string) *vault.IDToken {
	return &vault.IDToken{Principal: principal, Issuer: s.issuer, Client: s.client}
}

// remove deletes an expired token. A newer one stays.
func (s *Tokens) remove(ctx context.Context, v *vault.Vault, t *vault.IDToken) {
	if err := v.Delete(ctx, t); err != nil && !errors.Is(err, vault.ErrConflict) {
		s.log.WarnContext(ctx, "an expired ID token could not be deleted", slog.Any("error", err))
	}
}

// Keep keeps the ID token of a sign-in in place of an earlier one of its principal. When it
// returns nil the token is durable, and those that watch the principal are woken.
func (s *Tokens) Keep(ctx context.Context, id *Identity) error {
	v, err := s.open()
	if err != nil {
		return err
	}
	if err := s.save(ctx, v, id); err != nil {
		return err
	}
	s.mu.Lock()
	for c := range s.watchers[id.Principal] {
		close(c)
	}
	delete(s.watchers, id.Principal)
	s.mu.Unlock()
	select {
	case s.kept <- struct{}{}:
	default: // Run has not looked yet
	}
	return nil
}

func (s *Tokens) save(ctx context.Context, v *vault.Vault, id *Identity) error {
	t := s.key(id.Principal)
	l, err := v.Lock(ctx, t)
	if err != nil {
		return err
	}
	defer l.Unlock()
	if err := l.Load(ctx, t); err != nil && !errors.Is(err, vault.ErrNotFound) {
		return err
	}
	t.Token, t.Expires, t.SignedIn = id.Token, id.Expires, id.SignedIn
	return l.Save(ctx, t)
}

// Run deletes tokens when they expire, until ctx ends. It begins with the first token that is kept,
// and then includes those of former processes. It may be called once.
func (s *Tokens) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last, next time.Time // of the sweeps, or zero
	for {
		var due <-chan time.Time
		if !next.IsZero() {
			timer.Reset(max(0, time.Until(next), time.Until(last.Add(sweepInterval))))
			due = timer.C
		}
		select {
		case <-s.kept:
			next = time.Now() // its expiry may be the next one
		case <-due:
			last, next = time.Now(), s.sweep(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// sweepInterval is the least time between two searches for expired tokens.
const sweepInterval = time.Minute

// sweep deletes the expired tokens of all principals, also those of other issuers and clients. It
// returns when the next one expires; zero is never.
func (s *Tokens) sweep(ctx context.Context) (next time.Time) {
	v, err := s.open()
	if err != nil {
		return time.Time{} // no token can have been kept
	}
	all, err := v.List(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.log.WarnContext(ctx, "expired ID tokens cannot be looked for", slog.Any("error", err))
		}
		return time.Now().Add(time.Hour)
	}
	now := time.Now()
	for _, t := range all.IDTokens {
		switch {
		case !now.Before(t.Expires):
			s.remove(ctx, v, t)
		case next.IsZero() || t.Expires.Before(next):
			next = t.Expires
		}
	}
	return next
}

// Has reports whether there is an ID token of a principal, from a sign-in after a time.
func (s *Tokens) Has(ctx context.Context, principal string, after time.Time) bool {
	t, err := s.load(ctx, principal)
	return err == nil && !t.SignedIn.Before(after)
}

// Watch returns a channel that is closed when this Tokens next keeps a token of a principal, and
// is left open when ctx ends.
func (s *Tokens) Watch(ctx context.Context, principal string) <-chan struct{} {
	c := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers[principal] == nil {
		s.watchers[principal] = make(map[chan struct{}]bool)
	}
	s.watchers[principal][c] = true
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if of := s.watchers[principal]; of != nil {
			delete(of, c)
			if len(of) == 0 {
				delete(s.watchers, principal)
			}
		}
	})
	return c
}

// Delete deletes the ID tokens of a principal in a vault, of all issuers and clients, and returns
// how many there were.
func Delete(ctx context.Context, v *vault.Vault, principal string) (n int, err error) {
	all, err := v.IDTokens(ctx, principal)
	if err != nil {
		return 0, err
	}
	for _, t := range all {
		if err := v.Delete(ctx, t); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
