// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/configpath"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// SignInOptions are those of Prepare.
type SignInOptions struct {
	// RedirectURI is where the authorization server sends the browser.
	RedirectURI string

	// Scopes are those of a *Missing; nil is those of a first sign-in.
	Scopes []string
}

// SignIn is a sign-in that has begun. It is immutable, and is completed once at most.
type SignIn struct {
	// Authorization has the URL for the browser, and checks the response.
	*oauth.Authorization

	Principal string
	Server    *oauth.Server
	Client    *oauth.Registration

	// Previous is the issuer of the principal's grant if the backend has another authorization
	// server now, and else "".
	Previous string
}

// Prepare begins a sign-in of a principal: it finds the authorization server of the backend, and
// the gateway's client there: the configured one, or else the one with a metadata document where
// the server supports that, or else a kept registration with the redirect URI, or else a new one,
// which it keeps. Nothing of the principal is sent.
//
// The caller checks the response with Authorization.Check, and passes its code to Complete.
func (s *Source) Prepare(ctx context.Context, principal string, o SignInOptions) (*SignIn, error) {
	d, err := s.discover(ctx)
	if err != nil {
		return nil, s.failure(err)
	}
	reg, err := s.registration(ctx, d.Server, o.RedirectURI)
	if err != nil {
		return nil, s.notRegistered(d.Server, o.RedirectURI, err)
	}
	s.mu.Lock()
	challenge := s.challenge
	s.mu.Unlock()
	a, err := oauth.Begin(oauth.AuthorizationRequest{
		Server: d.Server, Registration: reg, RedirectURI: o.RedirectURI,
		Resource: resourceOf(s.cfg.Resource, d), Scopes: s.scopes(o.Scopes, challenge, d), Parameters: s.cfg.Parameters,
	})
	if err != nil {
		return nil, s.failure(err)
	}
	in := &SignIn{Authorization: a, Principal: principal, Server: d.Server, Client: reg}
	if before, err := s.read(principal, s.cfg.Vault.Grants); err == nil && before != nil && before.Issuer != d.Server.Issuer {
		in.Previous = before.Issuer
		s.mu.Lock()
		h := s.holderLocked(principal)
		s.mu.Unlock()
		s.noteIssuer(ctx, h, before.Issuer, d.Server.Issuer)
	}
	return in, nil
}

// scopes returns the scopes to request.
func (s *Source) scopes(wanted []string, challenge oauth.Bearer, d *oauth.Discovery) []string {
	sources := oauth.ScopeSources{
		Configured: s.cfg.Scopes, Challenge: challenge.Scopes, Resource: d.Scopes, Server: d.Server, Offline: true,
	}
	if len(wanted) > 0 {
		sources.Granted = wanted
		sources.Challenge = append(append([]string{}, challenge.Scopes...), s.cfg.Scopes...)
	}
	return sources.Scopes()
}

// Redirects returns the redirect URI that the configured client is registered with, or "", and
// for a gateway on the machine of its users, those that the gateway has registered itself with.
func (s *Source) Redirects(ctx context.Context, isLocal bool) (fixed string, registered []string, err error) {
	switch {
	case s.cfg.Client.ClientID != "":
		return s.cfg.RedirectURI, nil, nil
	case isLocal:
		registered, err = s.RedirectURIs(ctx)
	}
	return "", registered, err
}

// RedirectURIs returns the redirect URIs with which the gateway is registered at the authorization
// server of the backend, so that one of them can be used again.
func (s *Source) RedirectURIs(ctx context.Context) ([]string, error) {
	d, err := s.discover(ctx)
	if err != nil {
		return nil, s.failure(err)
	}
	all, err := s.cfg.Vault.Registrations(ctx, d.Server.Issuer)
	if err != nil {
		return nil, s.failure(&errVault{err})
	}
	var uris []string
	for _, r := range all {
		uris = append(uris, r.RedirectURI)
	}
	return uris, nil
}

// registration returns the client for a sign-in.
func (s *Source) registration(ctx context.Context, srv *oauth.Server, redirectURI string) (*oauth.Registration, error) {
	if s.cfg.Client.ClientID != "" {
		return s.given(ctx, srv)
	}
	options := oauth.RegistrationOptions{
		MetadataURL: s.cfg.MetadataURL,
		Metadata:    oauth.ClientMetadata{RedirectURIs: []string{redirectURI}},
	}
	if s.cfg.MetadataURL != "" && srv.MetadataID {
		return s.cfg.OAuth.Registration(ctx, srv, options)
	}
	kept := &vault.Registration{Issuer: srv.Issuer, RedirectURI: redirectURI}
	l, err := s.cfg.Vault.Lock(ctx, kept)
	if err != nil {
		return nil, &errVault{err}
	}
	defer l.Unlock() // other processes wait, and use what is registered here
	if err := l.Load(ctx, kept); err == nil {
		options.Held = registrationOf(kept)
	} else if !errors.Is(err, vault.ErrNotFound) {
		return nil, &errVault{err}
	}
	reg, err := s.cfg.OAuth.Registration(ctx, srv, options)
	if err != nil || reg == options.Held {
		return reg, err
	}
	kept.Client, kept.Secret, kept.SecretExpires, kept.AuthMethod, kept.Registered = reg.ClientID, reg.Secret, reg.SecretExpires, reg.Method, time.Now()
	if err := l.Save(ctx, kept); err != nil {
		return nil, &errVault{err}
	}
	return reg, nil
}

// notRegistered returns the error of a client that was not found or registered. It has the lines
// of the configuration that do without a registration.
func (s *Source) notRegistered(srv *oauth.Server, redirectURI string, err error) error {
	_, isRefused := errors.AsType[*oauth.ServerError](err)
	check, isCheck := errors.AsType[*oauth.CheckError](err)
	if s.cfg.Client.ClientID != "" || !isRefused && (!isCheck || check.Check != oauth.CheckRegistration) {
		return s.failure(err)
	}
	text := fmt.Sprintf("its authorization server %+.200q registers no client of the gateway; register one with the redirect URI %q there by hand, and write its id as oauth.clientId of %s",
		srv.Issuer, redirectURI, configpath.Server(s.cfg.Backend))
	return &Error{text, err}
}

// Complete exchanges the code of a sign-in for a grant, makes it durable, and then wakes those
// that watch the principal. It ends with ctx only before the code is sent: that cannot be
// repeated. If the principal signs out meanwhile, the grant is not kept.
func (s *Source) Complete(ctx context.Context, in *SignIn, code mcp.Token) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	request, err := in.Grant(code).With(s.cfg.Parameters)
	if err != nil {
		return s.failure(err)
	}
	h, since := s.beginCompletion(in.Principal)
	defer s.endCompletion(h)
	tokens, err := s.cfg.OAuth.Token(ctx, in.Server, in.Client, request)
	if err != nil {
		return s.notCompleted(ctx, in, err)
	}
	now := time.Now()
	g := &vault.Grant{
		GrantKey: vault.GrantKey{
			Principal: in.Principal, Backend: s.cfg.Backend,
			Issuer: in.Issuer, Resource: in.Resource, Client: in.Client.ClientID,
		},
		URL: s.cfg.URL, AccessToken: tokens.Access, RefreshToken: tokens.Refresh, TokenType: "Bearer",
		Scopes: tokens.Scopes, Expires: tokens.Expires, SignedIn: now,
	}
	if !s.replace(ctx, h, since, g) {
		if err := s.revoke(ctx, g); err != nil {
			s.cfg.Logger.WarnContext(ctx, "the grant of a sign-in is not kept, because its principal has signed out, and could not be revoked",
				slog.String("backend", s.cfg.Backend), slog.String("principal", g.Principal), slog.Any("error", err))
		}
		return &Error{"you have signed out while the sign-in was being completed: start again", nil}
	}
	return nil
}

// beginCompletion returns the holder of a principal, which stays until endCompletion, and how often
// the principal has signed out.
func (s *Source) beginCompletion(principal string) (h *holder, signOuts uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h = s.holderLocked(principal)
	h.completing++
	return h, h.signOuts
}

func (s *Source) endCompletion(h *holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.completing--
}

// replace saves a grant of a sign-in in place of any that has its key, and takes it into use. If it
// cannot be saved, it is used all the same, and saved later. It reports false, and keeps nothing, if
// the principal has signed out since beginCompletion has returned since.
func (s *Source) replace(ctx context.Context, h *holder, since uint64, g *vault.Grant) bool {
	l, err := s.cfg.Vault.Lock(ctx, g)
	if s.hasSignedOut(g.Principal, since) {
		if err == nil {
			l.Unlock()
		}
		return false
	}
	var base uint64
	if err == nil {
		defer l.Unlock() // a sign-out that begins after take finds the grant in the vault
		base, err = saveOver(ctx, l, g)
	}
	if !s.take(h, since, g, base, err == nil) {
		if err != nil { // nothing is saved
			return false
		}
		if err := l.Delete(ctx, g); err != nil {
			s.cfg.Logger.ErrorContext(ctx, "the grant of a sign-in could not be deleted, although its principal has signed out",
				slog.String("backend", s.cfg.Backend), slog.String("principal", g.Principal), slog.Any("error", err))
		}
		return false
	}
	if err != nil {
		s.cfg.Logger.ErrorContext(ctx, "the grant of a sign-in could not be saved: it is used, and lost if the gateway ends before that succeeds",
			slog.String("backend", s.cfg.Backend), slog.String("principal", g.Principal), slog.Any("error", err))
	}
	return true
}

// saveOver saves a grant in place of any that has its key, and returns the generation of that.
func saveOver(ctx context.Context, l *vault.Lock, g *vault.Grant) (base uint64, err error) {
	before := &vault.Grant{GrantKey: g.GrantKey}
	if err := l.Load(ctx, before); err != nil && !errors.Is(err, vault.ErrNotFound) {
		return 0, err
	}
	g.Meta = before.Meta
	return before.Generation, l.Save(ctx, g)
}

// take makes the grant of a sign-in the one in use, unless its principal has signed out.
func (s *Source) take(h *holder, since uint64, g *vault.Grant, base uint64, saved bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.hasSignedOutLocked(since) {
		return false
	}
	h.version++
	h.looked = g.SignedIn
	s.adoptLocked(h, g)
	h.unsaved, h.base = !saved, base
	s.stats.Last = Attempt{At: g.SignedIn, Issuer: g.Issuer, Resource: g.Resource}
	return true
}

// notCompleted returns the error of a code that was not exchanged.
func (s *Source) notCompleted(ctx context.Context, in *SignIn, err error) error {
	s.mu.Lock()
	s.stats.Last = Attempt{At: time.Now(), Issuer: in.Issuer, Resource: in.Resource, Err: err}
	s.mu.Unlock()
	switch {
	case oauth.HasCode(err, oauth.CodeInvalidClient) && in.Client.Source == oauth.SourceRegistered:
		if s.mayRegisterAnew(in.Issuer) {
			s.forgetClient(ctx, in.Client)
			return &Error{"the authorization server does not know the gateway any more: start again", err}
		}
		return newError(err, s.cfg.Backend, "the authorization server does not accept the client that it has registered", "clientId")
	case oauth.HasCode(err, oauth.CodeInvalidGrant):
		return &Error{"the authorization server does not accept the sign-in any more: start again", err}
	}
	return s.failure(err)
}

// mayRegisterAnew reports whether a client may be registered anew at an issuer, and counts it.
func (s *Source) mayRegisterAnew(issuer string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if at, ok := s.anew[issuer]; ok && now.Sub(at) < maxClientAnew {
		return false
	}
	if len(s.anew) >= maxServers {
		clear(s.anew)
	}
	s.anew[issuer] = now
	return true
}

// SignOut deletes the grants of a principal, also those of former authorization servers, and
// revokes them where the server supports that (RFC 7009). n is the number of those deleted. The
// error is of those that could not be revoked or deleted; one that could not be revoked is
// deleted all the same. A sign-in of the principal that is being completed by this process keeps no
// grant.
func (s *Source) SignOut(ctx context.Context, principal string) (n int, err error) {
	// First: a grant that is taken into use before is in the vault, or unsaved, and none is later.
	unsaved, base := s.leave(principal)
	grants, err := s.cfg.Vault.Grants(ctx, principal, s.cfg.Backend)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.holderLocked(principal).leaving--
		return 0, err
	}
	if unsaved != nil && !slices.ContainsFunc(grants, func(g *vault.Grant) bool { return g.GrantKey == unsaved.GrantKey }) {
		grants = append(grants, unsaved)
	}
	var errs []error
	for _, g := range grants {
		deleted, err := s.signOutOf(ctx, g.GrantKey, unsaved, base)
		if deleted {
			n++
			s.eventGone(ctx, g, signedOut)
		}
		errs = append(errs, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.holderLocked(principal)
	h.leaving--
	h.version++
	h.ended = nil
	s.adoptLocked(h, nil)
	return n, errors.Join(errs...)
}

// leave begins a sign-out. It returns the grant in use if the vault does not have it, but the
// generation base.
func (s *Source) leave(principal string) (unsaved *vault.Grant, base uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.holderLocked(principal)
	h.leaving++
	h.signOuts++
	if h.unsaved {
		unsaved = h.grant
	}
	return unsaved, h.base
}

// signOutOf deletes one grant. It has the lock, so that no renewal brings the grant back. unsaved, if not
// nil, is a grant that is in use instead of the generation base in the vault.
func (s *Source) signOutOf(ctx context.Context, key vault.GrantKey, unsaved *vault.Grant, base uint64) (deleted bool, err error) {
	current := &vault.Grant{GrantKey: key}
	l, err := s.cfg.Vault.Lock(ctx, current)
	if err != nil {
		return false, err
	}
	defer l.Unlock()
	err = l.Load(ctx, current)
	isUnsaved := unsaved != nil && unsaved.GrantKey == key && current.Generation == base
	switch {
	case err == nil:
		if err := l.Delete(ctx, current); err != nil {
			return false, err
		}
	case !errors.Is(err, vault.ErrNotFound):
		return false, err
	case !isUnsaved:
		return false, nil
	}
	if isUnsaved {
		current = unsaved
	}
	if err := s.revoke(ctx, current); err != nil {
		return true, fmt.Errorf("deleted, but not revoked at %+.200q: %w", current.Issuer, err)
	}
	return true, nil
}

// revoke revokes a grant.
func (s *Source) revoke(ctx context.Context, g *vault.Grant) error {
	srv, err := s.server(ctx, g.Issuer)
	if err != nil {
		return err
	}
	reg, err := s.clientOf(ctx, srv, g.Client)
	if err != nil {
		return err
	}
	if reg == nil {
		return errors.New("the client of the grant is not known any more")
	}
	token, isRefresh := g.RefreshToken, true
	if token.IsZero() {
		token, isRefresh = g.AccessToken, false
	}
	return s.cfg.OAuth.Revoke(ctx, srv, reg, g.Issuer, token, isRefresh)
}
