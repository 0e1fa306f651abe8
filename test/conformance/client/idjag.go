// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"sync"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// assertion is the Credentials of a user whose organisation vouches for the user: its
// identity provider gives an assertion for an ID token, and the authorization server of the
// server a token for that (MCP extension enterprise-managed authorization).
type assertion struct {
	server  string // its URL
	known   *oauth.Registration
	idp     *oauth.Registration // at the identity provider
	idToken mcp.Token

	mu     sync.Mutex
	access *oauth.Tokens
}

// PerPrincipal returns false: there is one user.
func (a *assertion) PerPrincipal() bool { return false }

// For returns the access token, if there is one.
func (a *assertion) For(context.Context, *mcp.Request) (client.Credential, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.access == nil {
		return client.Credential{}, nil
	}
	origin, err := client.OriginOf(a.server)
	return client.Credential{
		Header: map[string]mcp.Token{"Authorization": mcp.NewToken("Bearer " + a.access.Access.Reveal())},
		Origin: origin, Generation: 1,
	}, err
}

// Refused gets the token.
func (a *assertion) Refused(ctx context.Context, _ *mcp.Request, sent client.Credential, r client.Refusal) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case sent.Generation != 0:
		return client.ErrRefused
	case a.access != nil:
		return nil // another request has got it since
	}
	challenge, _ := oauth.BearerChallenge(http.Header{"Www-Authenticate": r.Challenges}) // without one, it is discovered
	got, err := a.exchange(ctx, challenge)
	a.access = got
	return err
}

func (a *assertion) exchange(ctx context.Context, challenge oauth.Bearer) (*oauth.Tokens, error) {
	c, err := oauth.New(oauth.Config{Backend: a.server})
	if err != nil {
		return nil, err
	}
	d, err := c.Discover(ctx, oauth.DiscoverOptions{Challenge: challenge})
	if err != nil {
		return nil, err
	}
	reg, err := c.Registration(ctx, d.Server, oauth.RegistrationOptions{Given: a.known})
	if err != nil {
		return nil, err
	}
	vouched, err := a.vouch(ctx, d, reg)
	if err != nil {
		return nil, err
	}
	return c.Token(ctx, d.Server, reg, oauth.JWTBearer(d.Server.Issuer, vouched, d.Resource, nil))
}

// vouch returns the assertion of the identity provider.
func (a *assertion) vouch(ctx context.Context, d *oauth.Discovery, reg *oauth.Registration) (mcp.Token, error) {
	c, err := oauth.New(oauth.Config{Backend: a.server, Issuer: a.idp.Issuer})
	if err != nil {
		return mcp.Token{}, err
	}
	at, err := c.Server(ctx, a.idp.Issuer, false)
	if err != nil {
		return mcp.Token{}, err
	}
	exchange := oauth.Exchange{
		Issuer: a.idp.Issuer, Subject: a.idToken, SubjectType: oauth.TypeIDToken, Audience: d.Server.Issuer, Resource: d.Resource,
	}
	got, err := c.Token(ctx, at, a.idp, exchange.IDJAG())
	if err != nil {
		return mcp.Token{}, err
	}
	return got.Access, oauth.CheckIDJAG(got.Access, d.Server, d.Resource, reg.ClientID)
}
