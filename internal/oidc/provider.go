// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package oidc identifies users by a sign-in at an identity provider, in a browser (OpenID
// Connect Core 1.0, with the authorization code flow), and keeps the ID tokens of those sign-ins.
//
//	Begin > the browser is sent to the provider, and back > Complete: an Identity > Tokens: Keep
//
// The package knows no browser: its caller makes sure that a response came with the browser that
// the request was for, and that each Request is completed once.
package oidc

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/url"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Config is the configuration of a Provider.
type Config struct {
	// Client is the gateway's client at the provider, and its Issuer the provider.
	Client oauth.Registration

	// Scopes are requested besides openid.
	Scopes []string

	// OAuth sends the requests.
	OAuth *oauth.Client

	// Verify verifies an ID token with the nonce that it was requested with, and returns the
	// principal of its user, and when the token ends.
	Verify func(ctx context.Context, nonce string, token mcp.Token) (principal string, expires time.Time, err error)

	// Logger may be nil.
	Logger *slog.Logger
}

// Provider is an identity provider. Its methods may be called concurrently.
type Provider struct {
	cfg      Config
	metadata *oauth.Metadata
}

// New returns a Provider.
func New(cfg Config) *Provider {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Provider{cfg, oauth.NewMetadata(cfg.OAuth, cfg.Client.Issuer)}
}

// Host returns the host of the provider, for its users.
func (p *Provider) Host() string {
	u, err := url.Parse(p.cfg.Client.Issuer)
	if err != nil {
		return ""
	}
	return u.Host
}

// Request is a sign-in that has begun. It is immutable, and is completed once at most.
type Request struct {
	// Authorization has the URL for the browser, and the state.
	*oauth.Authorization

	nonce  string
	server *oauth.Server
}

// Identity is what a sign-in has proved.
type Identity struct {
	Principal string
	Token     mcp.Token // the ID token
	Expires   time.Time // of the token
	SignedIn  time.Time
}

// ErrNoToken is the error of a sign-in after which the provider has sent no ID token.
var ErrNoToken = errors.New("the identity provider has sent no ID token: the client has to be one of OpenID Connect, and may request the scope openid")

// Begin begins a sign-in, with PKCE, a state and a nonce of its own. The redirect URI is the one
// that the client is registered with. Nothing of a user is sent.
func (p *Provider) Begin(ctx context.Context, redirectURI string) (*Request, error) {
	srv, err := p.metadata.Get(ctx)
	if err != nil {
		return nil, err
	}
	nonce := rand.Text() + rand.Text()
	a, err := oauth.Begin(oauth.AuthorizationRequest{
		Server: srv, Registration: &p.cfg.Client, RedirectURI: redirectURI,
		Scopes: append([]string{"openid"}, p.cfg.Scopes...), Nonce: nonce,
	})
	if err != nil {
		return nil, err
	}
	return &Request{a, nonce, srv}, nil
}

// completeTimeout bounds the requests after a response.
const completeTimeout = 30 * time.Second

// Complete returns the identity that a response proves, which is the query of its redirect. The
// checks of Authorization.Check come first; then the code is exchanged, and the ID token verified.
// A refusal by the provider is an *oauth.ServerError. It ends with ctx only before the code is
// sent, because that cannot be repeated.
func (p *Provider) Complete(ctx context.Context, r *Request, response url.Values) (*Identity, error) {
	code, err := r.Check(response)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), completeTimeout)
	defer cancel()
	now := time.Now()
	tokens, err := p.cfg.OAuth.Token(ctx, r.server, &p.cfg.Client, r.Grant(code))
	if err != nil {
		return nil, &exchangeError{err}
	}
	if tokens.ID.IsZero() {
		return nil, ErrNoToken
	}
	principal, expires, err := p.cfg.Verify(ctx, r.nonce, tokens.ID)
	if err != nil {
		return nil, err
	}
	return &Identity{principal, tokens.ID, expires, now}, nil
}

// exchangeError is the failure of the exchange of a code. It hides an *oauth.ServerError, which would
// be taken for the refusal of a user.
type exchangeError struct{ err error }

// Error returns the text of the cause.
func (e *exchangeError) Error() string { return "the code of the sign-in: " + e.err.Error() }
