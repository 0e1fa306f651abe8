// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/access"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// backendCredentials are the client.Credentials of a backend, with what else the gateway does
// with them.
type backendCredentials interface {
	client.Credentials
	status() *OAuthStatus
	retry() // an operator wants to know now
	close()
}

// userAccess are the Credentials of a backend that is called as users with access of their own.
type userAccess interface {
	backendCredentials

	// isPerUser reports whether the users have lists of their own if the backend does not list
	// for anybody.
	isPerUser() bool

	// held returns the access of a principal, or a *grant.Missing, as it was at most age ago. It
	// waits for no more than a read of the vault. look makes it known for many principals.
	held(ctx context.Context, principal string, age time.Duration) (grant.Held, error)
	look(ctx context.Context, principals []string)

	// identity returns that with which the access of a principal is used, or nil.
	identity(principal string) *mcp.Identity
}

// OAuthStatus is how the gateway gets access tokens for a backend, or the headers that a program
// prints. It contains no token.
type OAuthStatus struct {
	As    string `json:"as"`    // the owner of the access: user or gateway
	Grant string `json:"grant"` // as in the configuration, or headersHelper

	Issuer   string   `json:"issuer,omitempty"`   // the authorization server, once it is known
	Resource string   `json:"resource,omitempty"` // that tokens are requested for
	Scopes   []string `json:"scopes,omitempty"`   // of the latest token

	Requested time.Time `json:"requested,omitzero"` // when a token was last requested
	Outcome   string    `json:"outcome,omitempty"`  // of that request: ok, or what failed
	Until     time.Time `json:"until,omitzero"`     // when the latest token ends

	// Deviations are settings with which less is checked or sent than the specification
	// asks for.
	Deviations []string `json:"deviations,omitempty"`
}

// credentialsFor returns the Credentials of a server, or nil if it has none.
func (g *Gateway) credentialsFor(srv *config.Backend) backendCredentials {
	var made backendCredentials
	var err error
	switch o := srv.OAuth; {
	case srv.HeadersHelper != nil:
		made, err = newHelperCredentials(srv, g)
	case o != nil && o.GrantType() == config.GrantIDJAG:
		made, err = newIDJAGCredentials(srv, g)
	case o != nil && o.IsGateway():
		made, err = newOwnCredentials(srv, g)
	case o != nil && o.GrantType() == config.GrantExchange:
		made, err = newExchangeCredentials(srv, g)
	default:
		if users := g.usersFor(srv); users != nil {
			return users
		}
		return nil
	}
	switch {
	case err == nil:
		return made
	case srv.HeadersHelper != nil:
		return &brokenCredentials{helperStatus(), err}
	default:
		return &brokenCredentials{oauthStatusOf(srv.OAuth), err}
	}
}

// newHelperCredentials returns the headers that a program prints.
func newHelperCredentials(srv *config.Backend, g *Gateway) (*grantCredentials, error) {
	h := srv.HeadersHelper
	helper, err := grant.NewHelper(grant.HelperConfig{
		Backend: srv.Name, URL: srv.URL, Command: h.Command, Env: environ(h.Env), Every: h.Every, Logger: g.log, Tried: g.countRefreshes(srv.Name),
	})
	if err != nil {
		return nil, err
	}
	return &grantCredentials{helper, helperStatus()}, nil
}

// grantCredentials are the Credentials of package grant, with what the configuration alone determines of
// their status.
type grantCredentials struct {
	tokens
	known *OAuthStatus
}

// tokens obtains the credentials of a backend.
type tokens interface {
	client.Credentials
	Last() grant.Attempt
	Retry()
	Close()
}

func (c *grantCredentials) close() { c.Close() }

func (c *grantCredentials) retry() { c.Retry() }

func (c *grantCredentials) status() *OAuthStatus {
	s := *c.known
	s.record(c.Last())
	return &s
}

func helperStatus() *OAuthStatus { return &OAuthStatus{As: config.AsGateway, Grant: "headersHelper"} }

// record sets what is known of the last request for a credential.
func (s *OAuthStatus) record(last grant.Attempt) {
	if last.At.IsZero() {
		return
	}
	if last.Issuer != "" {
		s.Issuer = last.Issuer
	}
	s.Resource, s.Scopes, s.Requested, s.Until, s.Outcome = last.Resource, last.Scopes, last.At, last.Until, "ok"
	if last.Err != nil {
		s.Outcome = last.Err.Error()
	}
}

// newOwnCredentials returns those of a backend that the gateway calls as itself.
func newOwnCredentials(srv *config.Backend, g *Gateway) (*grantCredentials, error) {
	o := srv.OAuth
	requests, err := oauth.New(oauth.Config{Backend: srv.URL, Issuer: o.Issuer, FixedEndpoints: o.Endpoints == config.Endpoints20250326})
	if err != nil {
		return nil, err
	}
	cfg := grant.Config{
		Backend: srv.Name, URL: srv.URL, OAuth: requests,
		Scopes: o.Scopes, Resource: access.Resource(o), Parameters: access.Parameters(o), Logger: g.log, Tried: g.countRefreshes(srv.Name),
	}
	if cfg.Client, err = access.Client(o.Issuer, o.ClientID, o.ClientSecret, o.ClientKey); err != nil {
		return nil, err
	}
	if o.GrantType() == config.GrantJWTBearer {
		cfg.Assertion = o.Assertion
	}
	if o.Audience != "" {
		cfg.Parameters["audience"] = o.Audience
	}
	tokens, err := grant.New(cfg)
	if err != nil {
		return nil, err
	}
	return &grantCredentials{tokens, oauthStatusOf(o)}, nil
}

// oauthStatusOf returns what the configuration alone determines.
func oauthStatusOf(o *config.OAuth) *OAuthStatus {
	s := &OAuthStatus{As: config.AsUser, Grant: o.GrantType(), Issuer: o.Issuer}
	if o.IsGateway() {
		s.As = config.AsGateway
	}
	if o.Resource == config.ResourceNone {
		s.Deviations = append(s.Deviations, "resource: none (tokens may be valid for other servers)")
	}
	if o.Endpoints == config.Endpoints20250326 {
		s.Deviations = append(s.Deviations, "endpoints: 2025-03-26 (no metadata is checked)")
	}
	return s
}

// oauthSecrets returns the secrets in the oauth and the headersHelper of a server, which are
// removed from logs.
func oauthSecrets(srv *config.Backend) []string {
	var secrets []config.Secret
	if o := srv.OAuth; o != nil {
		secrets = slices.AppendSeq([]config.Secret{o.ClientSecret, o.ClientKey}, maps.Values(o.Parameters))
		if a := o.AuthorizationServer; a != nil {
			secrets = append(secrets, a.ClientSecret, a.ClientKey)
		}
	}
	if h := srv.HeadersHelper; h != nil {
		secrets = slices.AppendSeq(secrets, maps.Values(h.Env))
	}
	return revealed(secrets)
}

// brokenCredentials are those of an entry that Validate would have refused.
type brokenCredentials struct {
	state *OAuthStatus
	err   error
}

func (c *brokenCredentials) PerPrincipal() bool { return false }

func (c *brokenCredentials) For(context.Context, *mcp.Request) (client.Credential, error) {
	return client.Credential{}, c.err
}

func (c *brokenCredentials) Refused(context.Context, *mcp.Request, client.Credential, client.Refusal) error {
	return c.err
}

func (c *brokenCredentials) status() *OAuthStatus { return c.state }

func (c *brokenCredentials) close() {}

func (c *brokenCredentials) retry() {}
