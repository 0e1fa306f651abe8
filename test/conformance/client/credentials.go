// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/browser"
)

const (
	// redirect is where the authorization server sends the browser. Nothing listens there: the
	// browser is part of this program.
	redirect = "http://127.0.0.1:1/callback"

	// metadataURL is the client id for servers that read the metadata of a client from its id.
	// The suite knows it, and does not read it.
	metadataURL = "https://conformance-test.local/client-metadata.json"

	// maxSteps bounds the authorization requests for more scopes after the first.
	maxSteps = 2
)

// grantor gets tokens at an authorization server. The challenge is that of the server of
// which the last token, if any, was not enough.
type grantor func(ctx context.Context, a *account, challenge oauth.Bearer, more bool) error

// account is the client's account at one server: an example of Credentials, which keeps all
// in memory.
type account struct {
	server string // its URL
	origin string
	oauth  *oauth.Client
	grant  grantor
	given  *oauth.Registration // by the context of the scenario, or nil

	mu         sync.Mutex
	held       *oauth.Registration
	tokens     *oauth.Tokens
	issuer     string // of tokens
	generation uint64
	steps      int
}

func newAccount(server string, given *oauth.Registration, fixed bool, grant grantor) (*account, error) {
	c, err := oauth.New(oauth.Config{Backend: server, FixedEndpoints: fixed})
	if err != nil {
		return nil, err
	}
	origin, err := client.OriginOf(server)
	return &account{server: server, origin: origin, oauth: c, given: given, grant: grant}, err
}

// PerPrincipal returns false: there is one user.
func (a *account) PerPrincipal() bool { return false }

// For returns the access token, if there is one.
func (a *account) For(context.Context, *mcp.Request) (client.Credential, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tokens == nil {
		return client.Credential{}, nil
	}
	return client.Credential{
		Header: map[string]mcp.Token{"Authorization": mcp.NewToken("Bearer " + a.tokens.Access.Reveal())},
		Origin: a.origin, Generation: a.generation,
	}, nil
}

// Refused gets a token, or one with more scopes.
func (a *account) Refused(ctx context.Context, _ *mcp.Request, sent client.Credential, r client.Refusal) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if sent.Generation != a.generation {
		return nil // another request has got a token since
	}
	challenge, ok := oauth.BearerChallenge(http.Header{"Www-Authenticate": r.Challenges})
	more := r.Status == http.StatusForbidden
	switch {
	case more && (!ok || challenge.Error != oauth.ErrorInsufficientScope || a.steps == maxSteps):
		return client.ErrRefused
	case more:
		a.steps++
	}
	if err := a.grant(ctx, a, challenge, more); err != nil {
		return err
	}
	a.generation++
	return nil
}

// registrations returns the issuers that a client is registered at.
func (a *account) registrations() []string {
	if a.held == nil {
		return nil
	}
	return []string{a.held.Issuer}
}

// byCode is the grant of a user, in a browser.
func byCode(ctx context.Context, a *account, challenge oauth.Bearer, more bool) error {
	d, err := a.oauth.Discover(ctx, oauth.DiscoverOptions{Challenge: challenge, Held: a.registrations(), Code: true})
	if err != nil {
		return err
	}
	scopes := oauth.ScopeSources{Challenge: challenge.Scopes, Resource: d.Scopes, Server: d.Server, Offline: true}
	if more && a.tokens != nil && a.issuer == d.Server.Issuer {
		scopes.Granted = a.tokens.Scopes
	}
	reg, err := a.oauth.Registration(ctx, d.Server, oauth.RegistrationOptions{
		Given: a.given, MetadataURL: metadataURL, Held: a.held, Metadata: oauth.ClientMetadata{RedirectURIs: []string{redirect}},
	})
	if err != nil {
		return err
	}
	if reg.Source == oauth.SourceRegistered {
		a.held = reg
	}
	asked, err := oauth.Begin(oauth.AuthorizationRequest{
		Server: d.Server, Registration: reg, RedirectURI: redirect, Resource: d.Resource, Scopes: scopes.Scopes(),
	})
	if err != nil {
		return err
	}
	answer, err := answerOf(ctx, asked.URL)
	if err != nil {
		return err
	}
	code, err := asked.Check(answer)
	if err != nil {
		return err
	}
	return a.redeem(ctx, d, reg, asked.Grant(code))
}

// answerOf opens an authorization request in a browser and returns the answer.
func answerOf(ctx context.Context, address string) (url.Values, error) {
	b := browser.New("user")
	b.Until = func(u *url.URL) bool { return strings.HasPrefix(u.String(), redirect) }
	page, err := b.SignIn(ctx, address)
	if err != nil {
		return nil, err
	}
	if page.Status != 0 {
		return nil, fmt.Errorf("the sign-in ended with %d", page.Status)
	}
	return page.URL.Query(), nil
}

// redeem exchanges a grant for tokens.
func (a *account) redeem(ctx context.Context, d *oauth.Discovery, reg *oauth.Registration, g oauth.Grant) error {
	tokens, err := a.oauth.Token(ctx, d.Server, reg, g)
	if err != nil {
		return err
	}
	a.tokens, a.issuer = tokens, d.Server.Issuer
	return nil
}

var errNoClient = errors.New("the scenario gives no client")

// discoverGiven discovers the server, at which the client is the given one.
func (a *account) discoverGiven(ctx context.Context, challenge oauth.Bearer) (*oauth.Discovery, *oauth.Registration, error) {
	if a.given == nil {
		return nil, nil, errNoClient
	}
	d, err := a.oauth.Discover(ctx, oauth.DiscoverOptions{Challenge: challenge})
	if err != nil {
		return nil, nil, err
	}
	reg, err := a.oauth.Registration(ctx, d.Server, oauth.RegistrationOptions{Given: a.given})
	return d, reg, err
}

// byIdentity is the grant of an ID token of the user's organisation: its identity provider
// gives an assertion for the server.
func byIdentity(idp *oauth.Registration, subject mcp.Token) grantor {
	return func(ctx context.Context, a *account, challenge oauth.Bearer, _ bool) error {
		d, reg, err := a.discoverGiven(ctx, challenge)
		if err != nil {
			return err
		}
		provider, err := oauth.New(oauth.Config{Backend: a.server, Issuer: idp.Issuer})
		if err != nil {
			return err
		}
		at, err := provider.Server(ctx, idp.Issuer, false)
		if err != nil {
			return err
		}
		exchange := oauth.Exchange{
			Issuer: idp.Issuer, Subject: subject, SubjectType: oauth.TypeIDToken, Audience: d.Server.Issuer, Resource: d.Resource,
		}
		got, err := provider.Token(ctx, at, idp, exchange.IDJAG())
		if err != nil {
			return err
		}
		if err := oauth.CheckIDJAG(got.Access, d.Server, d.Resource, reg.ClientID); err != nil {
			return err
		}
		return a.redeem(ctx, d, reg, oauth.JWTBearer(d.Server.Issuer, got.Access, d.Resource, nil))
	}
}
