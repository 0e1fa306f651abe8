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
	switch {
	case srv.HeadersHelper != nil:
		h := srv.HeadersHelper
		helper, err := grant.NewHelper(grant.HelperConfig{
			Backend: srv.Name, URL: srv.URL, Command: h.Command, Env: environ(h.Env), Every: h.Every, Logger: g.log, Tried: g.countRefreshes(srv.Name),
		})
		if err != nil {
			return &brokenCredentials{helperStatus(), err}
		}
		return &helperCredentials{helper}
	case srv.OAuth != nil && srv.OAuth.GrantType() == config.GrantIDJAG:
		vouched, err := newIDJAGCredentials(srv, g)
		if err != nil {
			return &brokenCredentials{oauthStatusOf(srv.OAuth), err}
		}
		return vouched
	case srv.OAuth != nil && srv.OAuth.IsGateway():
		own, err := newOwnCredentials(srv, g)
		if err != nil {
			return &brokenCredentials{oauthStatusOf(srv.OAuth), err}
		}
		return own
	case srv.OAuth != nil && srv.OAuth.GrantType() == config.GrantExchange:
		users, err := newExchangeCredentials(srv, g)
		if err != nil {
			return &brokenCredentials{oauthStatusOf(srv.OAuth), err}
		}
		return users
	}
	if users := g.usersFor(srv); users != nil {
		return users
	}
	return nil
}

// helperCredentials are the headers that a program prints.
type helperCredentials struct{ *grant.Helper }

func (c *helperCredentials) close() { c.Close() }

func (c *helperCredentials) retry() { c.Retry() }

func (c *helperCredentials) status() *OAuthStatus {
	s := helperStatus()
	s.record(c.Last())
	return s
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

// ownCredentials are those of a backend that the gateway calls as itself.
type ownCredentials struct {
	*grant.Gateway
	oauth *config.OAuth
}

func newOwnCredentials(srv *config.Backend, g *Gateway) (*ownCredentials, error) {
	o := srv.OAuth
	requests, err := oauth.New(oauth.Config{Backend: srv.URL, Issuer: o.Issuer, FixedEndpoints: o.Endpoints == config.Endpoints20250326})
	if err != nil {
		return nil, err
	}
	cfg := grant.Config{
		Backend: srv.Name, URL: srv.URL, OAuth: requests,
		Client: oauth.Registration{Issuer: o.Issuer, ClientID: o.ClientID, Secret: o.ClientSecret.Token()},
		Scopes: o.Scopes, Resource: o.Resource, Parameters: make(map[string]string), Logger: g.log, Tried: g.countRefreshes(srv.Name),
	}
	if o.Resource == config.ResourceAuto {
		cfg.Resource = ""
	}
	if o.GrantType() == config.GrantJWTBearer {
		cfg.Assertion = o.Assertion
	}
	if !o.ClientKey.IsZero() {
		if cfg.Client.Key, err = oauth.ParseSigningKey([]byte(o.ClientKey.Reveal())); err != nil {
			return nil, err
		}
	}
	for name, value := range o.Parameters {
		cfg.Parameters[name] = value.Reveal()
	}
	if o.Audience != "" {
		cfg.Parameters["audience"] = o.Audience
	}
	tokens, err := grant.New(cfg)
	if err != nil {
		return nil, err
	}
	return &ownCredentials{tokens, o}, nil
}

func (c *ownCredentials) close() { c.Close() }

func (c *ownCredentials) retry() { c.Retry() }

func (c *ownCredentials) status() *OAuthStatus {
	s := oauthStatusOf(c.oauth)
	s.record(c.Last())
	return s
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
