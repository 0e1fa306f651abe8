// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/vault"
)

// startLocked returns the renewal in progress, which it starts if necessary. A forced one renews a
// token that is not due.
func (s *Source) startLocked(h *holder, isForced bool) (*flight, error) {
	if h.flight != nil {
		return h.flight, nil
	}
	if s.closed {
		return nil, errClosed
	}
	f := &flight{isForced: isForced, done: make(chan struct{})}
	h.flight = f
	held := held{grant: h.grant, serial: h.serial, unsaved: h.unsaved, base: h.base, signOuts: h.signOuts, isForced: isForced, isLost: h.isLost}
	s.wg.Go(func() { // bounded by its context; Close waits for it
		ctx, cancel := context.WithTimeout(s.ctx, requestTimeout)
		defer cancel()
		s.finish(ctx, h, f, held, s.renew(ctx, held))
	})
	return f, nil
}

// held is what a renewal starts with.
type held struct {
	grant    *vault.Grant
	serial   uint64
	unsaved  bool
	base     uint64
	signOuts uint64 // by then
	isForced bool
	isLost   bool
}

// renewed is the result of a renewal.
type renewed struct {
	grant   *vault.Grant // in use from now on; nil for none
	isKept  bool         // the grant in use stays, because of err
	unsaved bool
	base    uint64
	asked   bool   // the authorization server was asked
	isLost  bool   // its answer may have been lost
	why     Reason // of the end of the grant
	err     error
}

// outcome returns the error of a renewal that was tried: also of a grant that has ended without a
// request.
func (r *renewed) outcome() error {
	if r.err == nil && r.grant == nil {
		return errGrantEnded
	}
	return r.err
}

var errGrantEnded = errors.New("the grant has ended")

func keep(err error) renewed { return renewed{isKept: true, err: err} }

// renew renews a grant. From reading it to saving it, it has the lock of the record, so that no
// process sends a refresh token that another one has sent.
func (s *Source) renew(ctx context.Context, h held) renewed {
	srv, err := s.server(ctx, h.grant.Issuer)
	if err != nil {
		return keep(err)
	}
	reg, err := s.clientOf(ctx, srv, h.grant.Client)
	if err != nil {
		return keep(err)
	}
	l, err := s.cfg.Vault.Lock(ctx, h.grant)
	if err != nil {
		return keep(&errVault{err})
	}
	defer l.Unlock()
	current := &vault.Grant{GrantKey: h.grant.GrantKey}
	err = l.Load(ctx, current)
	switch {
	case err != nil && !errors.Is(err, vault.ErrNotFound):
		return keep(&errVault{err})
	case h.unsaved && s.hasSignedOut(h.grant.Principal, h.signOuts): // before the lock was held
		return renewed{why: NeverSignedIn}
	case h.unsaved && current.Generation == h.base:
		copied := *h.grant
		copied.Meta = current.Meta
		current = &copied
	case err != nil:
		return renewed{why: NeverSignedIn} // signed out by another process
	case h.isForced && current.AccessToken.Reveal() != h.grant.AccessToken.Reveal():
		return renewed{grant: current}
	}
	if !h.isForced && !isDue(current, time.Now()) {
		if h.unsaved {
			return s.save(ctx, l, current)
		}
		return renewed{grant: current}
	}
	if current.RefreshToken.IsZero() {
		return renewed{grant: current, err: &errNoRefresh{}}
	}
	if reg == nil {
		return s.end(ctx, l, current, ClientGone, nil)
	}
	return s.refresh(ctx, l, current, srv, reg, h.isLost)
}

// hasSignedOut is hasSignedOutLocked for the holder of a principal.
func (s *Source) hasSignedOut(principal string, since uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holderLocked(principal).hasSignedOutLocked(since)
}

// refresh sends the refresh token of a grant, and saves the answer.
func (s *Source) refresh(ctx context.Context, l *vault.Lock, g *vault.Grant, srv *oauth.Server, reg *oauth.Registration, isLost bool) renewed {
	request, err := oauth.Refresh(g.Issuer, g.RefreshToken, g.Resource, g.Scopes).With(s.cfg.Parameters)
	if err != nil {
		return keep(err)
	}
	// Not even Close ends it: the refresh token may be valid only once.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	tokens, err := s.cfg.OAuth.Token(whole, srv, reg, request)
	temporary, isTemporary := errors.AsType[*oauth.TemporaryError](err)
	switch {
	case err == nil:
	case isTemporary:
		return renewed{isKept: true, asked: true, isLost: isLost || temporary.Sent && temporary.Status == 0, err: err}
	case oauth.HasCode(err, oauth.CodeInvalidGrant) && isLost:
		return s.end(ctx, l, g, AnswerLost, err)
	case oauth.HasCode(err, oauth.CodeInvalidGrant):
		return s.end(ctx, l, g, Ended, err)
	case oauth.HasCode(err, oauth.CodeInvalidClient) && reg.Source == oauth.SourceRegistered:
		ended := s.end(ctx, l, g, ClientGone, err)
		l.Unlock()
		s.forgetClient(ctx, reg)
		return ended
	default:
		return renewed{isKept: true, asked: true, err: err}
	}
	next := *g
	next.AccessToken, next.Scopes, next.Expires, next.Refreshed = tokens.Access, tokens.Scopes, tokens.Expires, time.Now()
	if !tokens.Refresh.IsZero() {
		next.RefreshToken = tokens.Refresh
	}
	r := s.save(ctx, l, &next)
	r.asked = true
	return r
}

// save saves a grant. If it cannot be saved it is used all the same, and saved later.
func (s *Source) save(ctx context.Context, l *vault.Lock, g *vault.Grant) renewed {
	// The answer of the authorization server is not to be lost because it was late.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	base := g.Generation
	if err := l.Save(ctx, g); err != nil {
		s.cfg.Logger.ErrorContext(ctx, "a renewed grant could not be saved: it is used, and lost if the gateway ends before that succeeds",
			slog.String("backend", s.cfg.Backend), slog.String("principal", g.Principal), slog.Any("error", err))
		return renewed{grant: g, unsaved: true, base: base}
	}
	return renewed{grant: g}
}

// end deletes a grant that the authorization server does not renew. A newer one is used instead.
func (s *Source) end(ctx context.Context, l *vault.Lock, g *vault.Grant, why Reason, cause error) renewed {
	err := l.Delete(ctx, g)
	if errors.Is(err, vault.ErrConflict) {
		newer := &vault.Grant{GrantKey: g.GrantKey}
		if err = l.Load(ctx, newer); err == nil {
			return renewed{grant: newer, asked: true}
		}
	}
	if err != nil {
		s.cfg.Logger.ErrorContext(ctx, "a grant that has ended could not be deleted",
			slog.String("backend", s.cfg.Backend), slog.String("principal", g.Principal), slog.Any("error", err))
	}
	return renewed{asked: true, why: why, err: cause}
}

// finish records the result of a renewal.
func (s *Source) finish(ctx context.Context, h *holder, f *flight, was held, r renewed) {
	s.mu.Lock()
	before := h.grant
	ended := s.settleLocked(h, f, was, r)
	isGone := before != nil && h.grant == nil && r.why == NeverSignedIn && h.leaving == 0
	if r.asked || r.err != nil {
		s.stats.Last = Attempt{At: time.Now(), Issuer: was.grant.Issuer, Resource: was.grant.Resource, Err: r.err}
	}
	s.mu.Unlock()
	defer close(f.done) // what waits for it comes after the event
	if s.cfg.Tried != nil && (r.asked || r.isKept) {
		s.cfg.Tried(r.outcome())
	}
	if ended != nil {
		s.cfg.Logger.InfoContext(ctx, "a grant has ended: its principal has to sign in again", slog.String("backend", s.cfg.Backend),
			slog.String("principal", h.principal), slog.String("reason", string(r.why)), slog.Any("error", r.err))
		s.event(ctx, Event{Kind: GrantEnded, Principal: h.principal, Issuer: ended.Issuer, Detail: string(r.why)})
	} else if isGone {
		s.eventGone(ctx, before, notKept)
	} else if r.err != nil {
		s.cfg.Logger.WarnContext(ctx, "a grant was not renewed", slog.String("backend", s.cfg.Backend),
			slog.String("principal", h.principal), slog.Any("error", r.err))
	}
}

// settleLocked applies a result to the holder and the flight. It returns the *Missing of a grant
// that has ended now.
func (s *Source) settleLocked(h *holder, f *flight, was held, r renewed) (ended *Missing) {
	h.flight = nil
	if r.asked && r.err == nil && r.grant != nil {
		s.stats.Renewals++
	}
	if h.serial != was.serial && (h.grant != nil || r.isKept || r.grant != nil) { // signed in or out meanwhile, which is newer
		f.grant, f.serial = h.grant, h.serial
		if h.grant == nil {
			f.err = s.missingLocked(h)
		}
		return nil
	}
	h.version++
	switch {
	case r.isKept:
		s.stats.Failures++
		h.isLost = r.isLost || h.isLost
		if isRefusal(r.err) {
			m := s.endedWith(h.grant, Ended)
			m.Err = r.err
			r.err = m
		}
		s.delayLocked(h, r.err)
		f.grant, f.serial, f.err = h.grant, h.serial, r.err
	case r.grant == nil:
		if r.why != NeverSignedIn {
			s.stats.Ended++
			ended = s.endedWith(was.grant, r.why) // a read may have found it deleted already
			ended.Err = r.err
			h.ended = ended
		}
		s.adoptLocked(h, nil)
		f.err = s.missingLocked(h)
	default:
		s.adoptLocked(h, r.grant)
		h.unsaved, h.base = r.unsaved, r.base
		if h.unsaved {
			s.delayLocked(h, &errVault{errUnsaved})
		}
		h.spent = !was.isForced // those that wait for it use it
		f.grant, f.serial = h.grant, h.serial
		if _, ok := errors.AsType[*errNoRefresh](r.err); ok {
			f.err = s.endedWith(h.grant, Expired)
		}
	}
	return ended
}

// delayLocked delays the next renewal after a failure.
func (s *Source) delayLocked(h *holder, err error) {
	wait := min(minRetry<<min(h.failures, 16), maxRetry)
	if temporary, ok := errors.AsType[*oauth.TemporaryError](err); ok {
		wait = max(wait, min(temporary.RetryAfter, maxRetry))
	}
	h.failure, h.retryAt = err, time.Now().Add(wait)
	h.failures++
}

var errUnsaved = errors.New("a renewed grant could not be saved")

// errVault is a failure of the vault.
type errVault struct{ err error }

func (e *errVault) Error() string { return "the grants of users: " + e.err.Error() }
func (e *errVault) Unwrap() error { return e.err }

// errNoRefresh is the error of a grant without a refresh token.
type errNoRefresh struct{}

func (*errNoRefresh) Error() string { return "the grant has no refresh token" }

// isRefusal reports whether an authorization server has refused to renew a grant for a reason that
// a sign-in may mend: not for one that concerns the client, and not without a code, as a proxy
// before the server does.
func isRefusal(err error) bool {
	refused, ok := errors.AsType[*oauth.ServerError](err)
	return ok && refused.Code != "" && refused.Code != oauth.CodeInvalidClient
}

func isMissing(err error) bool {
	_, ok := errors.AsType[*Missing](err)
	return ok
}

// failure returns the error of a request for lack of a token.
func (s *Source) failure(err error) error {
	_, isVault := errors.AsType[*errVault](err)
	_, isError := errors.AsType[*Error](err)
	switch {
	case isMissing(err), isError, errors.Is(err, errClosed), errors.Is(err, context.Canceled) && !oauth.IsTemporary(err):
		return err
	case isVault:
		return &Error{"the grants of users cannot be read or changed: ask the operator of the gateway", err}
	}
	text, keys := reasonOf(err)
	return newError(err, s.cfg.Backend, text, keys...)
}

// server returns the metadata of an authorization server.
func (s *Source) server(ctx context.Context, issuer string) (*oauth.Server, error) {
	now := time.Now()
	s.mu.Lock()
	known := s.servers[issuer]
	s.mu.Unlock()
	switch {
	case known.Server != nil && now.Before(known.until):
		return known.Server, nil
	case s.cfg.FixedEndpoints: // without metadata
		d, err := s.discover(ctx)
		if err != nil {
			return nil, err
		}
		return d.Server, nil
	}
	srv, err := s.cfg.OAuth.Server(ctx, issuer, true)
	if err != nil {
		return nil, err
	}
	s.keepServer(srv, now.Add(time.Hour))
	return srv, nil
}

// maxServers bounds the kept metadata of authorization servers of a backend.
const maxServers = 100

func (s *Source) keepServer(srv *oauth.Server, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.servers) >= maxServers {
		clear(s.servers)
	}
	s.servers[srv.Issuer] = server{srv, until}
}

// clientOf returns the client with an id at an authorization server: the configured one, the one
// with a metadata document, or a registered one. The result is nil for an unknown id.
func (s *Source) clientOf(ctx context.Context, srv *oauth.Server, id string) (*oauth.Registration, error) {
	switch id {
	case s.cfg.Client.ClientID:
		return s.given(ctx, srv)
	case s.cfg.MetadataURL:
		return &oauth.Registration{Issuer: srv.Issuer, ClientID: id, Method: oauth.MethodNone, Source: oauth.SourceMetadata}, nil
	}
	all, err := s.cfg.Vault.Registrations(ctx, srv.Issuer)
	if err != nil {
		return nil, &errVault{err}
	}
	for _, r := range all {
		if r.Client == id {
			return registrationOf(r), nil
		}
	}
	return nil, nil
}

// given returns the configured client. It belongs to the issuer that it was first used with.
func (s *Source) given(ctx context.Context, srv *oauth.Server) (*oauth.Registration, error) {
	given := s.cfg.Client
	if given.Issuer == "" {
		var err error
		if given.Issuer, err = s.cfg.Vault.Bind(ctx, s.cfg.Backend, given.ClientID, srv.Issuer); err != nil {
			return nil, &errVault{err}
		}
	}
	return s.cfg.OAuth.Registration(ctx, srv, oauth.RegistrationOptions{Given: &given})
}

// registrationOf returns a kept registration as package oauth has it.
func registrationOf(r *vault.Registration) *oauth.Registration {
	return &oauth.Registration{
		Issuer: r.Issuer, ClientID: r.Client, Secret: r.Secret, Method: r.AuthMethod,
		RedirectURIs: []string{r.RedirectURI}, SecretExpires: r.SecretExpires, Source: oauth.SourceRegistered,
	}
}

// forgetClient deletes a registration that the authorization server does not know any more, so
// that the next sign-in registers a client anew.
func (s *Source) forgetClient(ctx context.Context, reg *oauth.Registration) {
	all, err := s.cfg.Vault.Registrations(ctx, reg.Issuer)
	for _, r := range all {
		if r.Client == reg.ClientID {
			err = errors.Join(err, s.cfg.Vault.Delete(ctx, r))
		}
	}
	if err != nil && !errors.Is(err, vault.ErrConflict) {
		s.cfg.Logger.ErrorContext(ctx, "a registration that is not valid any more could not be deleted",
			slog.String("backend", s.cfg.Backend), slog.Any("error", err))
	}
}

// discover returns the authorization server of the backend, which it finds if it is not known.
func (s *Source) discover(ctx context.Context) (*oauth.Discovery, error) {
	select {
	case s.lookup <- struct{}{}:
		defer func() { <-s.lookup }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	found, challenge := s.found, s.challenge
	isKnown := found != nil && time.Now().Before(found.Until)
	s.mu.Unlock()
	if isKnown {
		return found, nil
	}
	held, err := s.issuers(ctx)
	if err != nil {
		return nil, &errVault{err}
	}
	found, err = s.cfg.OAuth.Discover(ctx, oauth.DiscoverOptions{Challenge: challenge, Held: held, Code: true})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.found = found
	s.mu.Unlock()
	s.keepServer(found.Server, found.Until)
	return found, nil
}

// issuers returns the issuers at which there is a client of the gateway: one that was registered
// for any backend, or the configured one of this backend.
func (s *Source) issuers(ctx context.Context) ([]string, error) {
	c, err := s.cfg.Vault.List(ctx)
	if err != nil {
		return nil, err
	}
	var issuers []string
	for _, b := range c.Bindings {
		if b.Backend == s.cfg.Backend && b.Client == s.cfg.Client.ClientID {
			issuers = append(issuers, b.Issuer)
		}
	}
	if s.cfg.Client.ClientID != "" {
		return issuers, nil
	}
	for _, r := range c.Registrations {
		issuers = append(issuers, r.Issuer)
	}
	return issuers, nil
}

// rediscover finds the authorization server again because the backend refuses tokens, at most
// every 30 seconds.
func (s *Source) rediscover(ctx context.Context) {
	s.mu.Lock()
	if time.Since(s.tried) < rediscoverInterval {
		s.mu.Unlock()
		return
	}
	s.found, s.tried = nil, time.Now()
	s.mu.Unlock()
	if _, err := s.discover(ctx); err != nil {
		s.cfg.Logger.WarnContext(ctx, "the authorization server of a backend that refuses tokens was not found",
			slog.String("backend", s.cfg.Backend), slog.Any("error", err))
	}
}
