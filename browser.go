// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/access"
	"github.com/signalbox-mcp/signalbox/internal/auth"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/oidc"
	"github.com/signalbox-mcp/signalbox/internal/signin"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// useBrowser has the pages identify their users at the identity provider of auth.browser, if
// there is one.
func (g *Gateway) useBrowser(out *signin.Config, cfg *config.Config) error {
	b, iss := cfg.Auth.Browser, cfg.Auth.BrowserIssuer()
	if b == nil || iss == nil {
		return nil
	}
	requests, err := oauth.New(oauth.Config{Backend: iss.Issuer, Issuer: iss.Issuer})
	if err != nil {
		return config.Problems{cfg.Problem("auth.browser.issuer", err.Error(), "")}
	}
	client, err := access.Client(iss.Issuer, b.ClientID, b.ClientSecret, b.ClientKey)
	if err != nil {
		return config.Problems{cfg.Problem("auth.browser.clientKey", err.Error(), "")}
	}
	client.Source = oauth.SourceGiven
	out.Provider = oidc.New(oidc.Config{
		Client: client, Scopes: b.Scopes, OAuth: requests, Logger: g.log,
		Verify: func(ctx context.Context, nonce string, token mcp.Token) (string, time.Time, error) {
			return g.auth.VerifyIDToken(ctx, auth.IDTokenRequest{Issuer: iss.Name, ClientID: b.ClientID, Nonce: nonce}, token)
		},
	})
	g.signIns.idTokens = oidc.NewTokens(g.openVault, iss.Issuer, b.ClientID, g.log)
	out.IDTokens, out.Keep = g.signIns.idTokens, g.keepIDToken
	g.idTokens = g.signIns.idTokens
	if len(cfg.Auth.Tokens) == 0 {
		out.Identify = nil // every user has an account at the provider
	}
	return nil
}

// keepIDToken keeps the ID token of a user if a backend is called with what it proves. Without one,
// it is for the page alone.
func (g *Gateway) keepIDToken(ctx context.Context, id *oidc.Identity) error {
	isUsed := func(srv config.Backend) bool {
		return srv.OAuth != nil && srv.OAuth.GrantType() == config.GrantIDJAG && !srv.OAuth.IsGateway()
	}
	if !slices.ContainsFunc(g.view.Load().cfg.Servers, isUsed) {
		return nil
	}
	return g.signIns.idTokens.Keep(ctx, id)
}

// runIDTokens deletes ID tokens when they expire.
func (g *Gateway) runIDTokens() {
	if tokens := g.signIns.idTokens; tokens != nil {
		g.wg.Go(func() { tokens.Run(g.ctx) }) // ends with g.ctx; stop waits for it
	}
}

// signsIn are the credentials of a backend at which users may have to sign in first.
type signsIn interface {
	backendCredentials
	// dialog returns the dialog with a user, without what concerns one request.
	dialog() (*signin.Handler, error)
	// hasPages reports whether users can sign in with a browser, and gate serves the tool with
	// which they do if the backend lists nothing before.
	hasPages() bool
	gate(ctx context.Context, req *mcp.Request, b *activeBackend) (*mcp.Result, error)
}

func (c *userCredentials) hasPages() bool { return c.g.signIns.desk.HasPages() }

// dialog returns the dialog in which a user signs in at the authorization server of the backend.
func (c *userCredentials) dialog() (*signin.Handler, error) {
	source, err := c.grants()
	if err != nil {
		return nil, err
	}
	return &signin.Handler{Source: source, IsSingle: c.isSingle, Wait: c.oauth.Wait}, nil
}

// browserSecrets returns the credentials of the gateway's client at the identity provider.
func browserSecrets(cfg *config.Config) []string {
	if cfg.Auth.Browser == nil {
		return nil
	}
	return revealed([]config.Secret{cfg.Auth.Browser.ClientSecret, cfg.Auth.Browser.ClientKey})
}
