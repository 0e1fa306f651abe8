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

// OAuthStatus is how the gateway gets access tokens for a backend. It contains no token.
type OAuthStatus struct {
	As    string `json:"as"`    // whose access it is: user or gateway
	Grant string `json:"grant"` // as in the configuration

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
	if srv.OAuth == nil || !srv.OAuth.IsGateway() {
		if users := g.usersFor(srv); users != nil {
			return users
		}
		return nil
	}
	own, err := newOwnCredentials(srv, g)
	if err != nil {
		return &brokenCredentials{oauthStatusOf(srv.OAuth), err}
	}
	return own
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
		Scopes: o.Scopes, Resource: o.Resource, Parameters: make(map[string]string), Logger: g.log,
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
	s, last := oauthStatusOf(c.oauth), c.Last()
	if last.At.IsZero() {
		return s
	}
	if last.Issuer != "" {
		s.Issuer = last.Issuer
	}
	s.Resource, s.Scopes, s.Requested, s.Until, s.Outcome = last.Resource, last.Scopes, last.At, last.Until, "ok"
	if last.Err != nil {
		s.Outcome = last.Err.Error()
	}
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

// oauthSecrets returns the secrets in the oauth of a server, which are removed from logs.
func oauthSecrets(srv *config.Backend) []string {
	if srv.OAuth == nil {
		return nil
	}
	secrets := []config.Secret{srv.OAuth.ClientSecret, srv.OAuth.ClientKey}
	return revealed(slices.AppendSeq(secrets, maps.Values(srv.OAuth.Parameters)))
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
