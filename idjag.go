// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/access"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/signin"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// idJAGCredentials are those of a backend that trusts the assertions of an identity provider.
type idJAGCredentials struct {
	grantCredentials

	g     *Gateway
	name  string // of the backend
	oauth *config.OAuth
}

func newIDJAGCredentials(srv *config.Backend, g *Gateway) (*idJAGCredentials, error) {
	o, server := srv.OAuth, srv.OAuth.AuthorizationServer
	if server == nil {
		return nil, errors.New("the grant idJag needs the authorization server of the server")
	}
	requests, err := oauth.New(oauth.Config{Backend: srv.URL, Issuer: server.Issuer})
	if err != nil {
		return nil, err
	}
	provider, err := oauth.New(oauth.Config{Backend: srv.URL, Issuer: o.Issuer})
	if err != nil {
		return nil, err
	}
	cfg := grant.IDJAGConfig{
		Backend: srv.Name, URL: srv.URL, OAuth: requests, ProviderOAuth: provider, Issuer: o.Issuer,
		Scopes: o.Scopes, Resource: access.Resource(o), Parameters: access.Parameters(o), IDTokens: g.idTokens,
		SharedLists: o.Lists == config.ListsShared, Listed: func() { g.listAgain(srv.Name) }, Logger: g.log, Tried: g.countRefreshes(srv.Name),
	}
	if o.IsGateway() {
		cfg.File = o.IDToken
	}
	if cfg.ProviderClient, err = access.Client(o.Issuer, o.ClientID, o.ClientSecret, o.ClientKey); err != nil {
		return nil, err
	}
	if cfg.Client, err = access.Client(server.Issuer, server.ClientID, server.ClientSecret, server.ClientKey); err != nil {
		return nil, err
	}
	tokens, err := grant.NewIDJAG(cfg)
	if err != nil {
		return nil, err
	}
	return &idJAGCredentials{grantCredentials{tokens, oauthStatusOf(o)}, g, srv.Name, o}, nil
}

// listAgain has the lists of a server fetched now.
func (g *Gateway) listAgain(name string) {
	if b, ok := g.view.Load().backend(name); ok {
		b.Retry()
	}
}

// For returns the access of the sender of a request.
func (c *idJAGCredentials) For(ctx context.Context, req *mcp.Request) (client.Credential, error) {
	sent, err := c.tokens.For(ctx, req)
	return sent, explainIDJAG(err)
}

// Refused requests the access again, or returns the error of a user that has to sign in.
func (c *idJAGCredentials) Refused(ctx context.Context, req *mcp.Request, sent client.Credential, r client.Refusal) error {
	if r.Status == http.StatusUnauthorized && !c.oauth.IsGateway() && req.Principal == "" && req.Identity == nil && sent.Header == nil {
		return explainIDJAG(&grant.Missing{Backend: c.name, Reason: grant.NoIDToken}) // the lists are those of users
	}
	return explainIDJAG(c.tokens.Refused(ctx, req, sent, r))
}

// explainIDJAG returns the error of a user without an ID token as a fault with its code.
func explainIDJAG(err error) error {
	missing, ok := errors.AsType[*grant.Missing](err)
	if !ok {
		return err
	}
	return signInFault(missing.Backend, fmt.Sprintf("%v, which vouches for the users of this server", missing), err)
}

// dialog returns the dialog in which a user signs in at the identity provider.
func (c *idJAGCredentials) dialog() (*signin.Handler, error) { //nolint:unparam // as the interface has it
	return &signin.Handler{Wait: c.oauth.Wait}, nil
}

func (c *idJAGCredentials) hasPages() bool {
	return !c.oauth.IsGateway() && c.g.signIns.idTokens != nil && c.g.signIns.desk.HasPages()
}

// gate serves the tool to sign in.
func (c *idJAGCredentials) gate(ctx context.Context, req *mcp.Request, b *activeBackend) (*mcp.Result, error) {
	has := func() error {
		_, err := c.For(ctx, req)
		return err
	}
	if err := has(); err != nil {
		return nil, err
	}
	if c.isPerUser() {
		return c.g.gateOfUser(ctx, req, b, has)
	}
	if err := c.g.awaitListsAfterSignIn(ctx, b, has); err != nil {
		return nil, err
	}
	return signedIn(b, "")
}

// isPerUser reports whether users have lists of their own.
func (c *idJAGCredentials) isPerUser() bool {
	return !c.oauth.IsGateway() && c.oauth.Lists != config.ListsShared && c.g.onlyClient == nil
}

// held returns the access of a principal: its ID token.
func (c *idJAGCredentials) held(ctx context.Context, principal string, _ time.Duration) (grant.Held, error) {
	if c.g.idTokens == nil {
		return grant.Held{}, &grant.Missing{Backend: c.name, Principal: principal, Reason: grant.NoIDToken}
	}
	token, err := c.g.idTokens.IDToken(ctx, principal)
	if err != nil {
		return grant.Held{}, &grant.Missing{Backend: c.name, Principal: principal, Reason: grant.NoIDToken, Err: err}
	}
	sum := sha256.Sum256([]byte(token.Reveal()))
	return grant.Held{Serial: binary.BigEndian.Uint64(sum[:])}, nil
}

func (*idJAGCredentials) look(context.Context, []string) {}

func (*idJAGCredentials) identity(string) *mcp.Identity { return nil }
