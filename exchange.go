// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// exchangeCredentials are those of a backend that is called with the tokens of users, exchanged.
type exchangeCredentials struct {
	*grant.Exchange
	oauth *config.OAuth
}

func newExchangeCredentials(srv *config.Backend, g *Gateway) (*exchangeCredentials, error) {
	o := srv.OAuth
	requests, err := oauth.New(oauth.Config{Backend: srv.URL, Issuer: o.Issuer})
	if err != nil {
		return nil, err
	}
	cfg := grant.ExchangeConfig{
		Backend: srv.Name, URL: srv.URL, OAuth: requests, Issuer: o.Issuer,
		Client: oauth.Registration{Issuer: o.Issuer, ClientID: o.ClientID, Secret: o.ClientSecret.Token()},
		Scopes: o.Scopes, Resource: o.Resource, Audience: o.Audience, Parameters: make(map[string]string),
		SharedLists: o.Lists == config.ListsShared, Logger: g.log,
	}
	if o.Resource == config.ResourceAuto {
		cfg.Resource = ""
	}
	if !o.ClientKey.IsZero() {
		if cfg.Client.Key, err = oauth.ParseSigningKey([]byte(o.ClientKey.Reveal())); err != nil {
			return nil, err
		}
	}
	for name, value := range o.Parameters {
		cfg.Parameters[name] = value.Reveal()
	}
	tokens, err := grant.NewExchange(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.SharedLists {
		g.exchanges.Store(true)
	}
	return &exchangeCredentials{tokens, o}, nil
}

func (c *exchangeCredentials) close() { c.Close() }

func (c *exchangeCredentials) retry() { c.Retry() }

func (c *exchangeCredentials) status() *OAuthStatus {
	s := oauthStatusOf(c.oauth)
	s.record(c.Last())
	return s
}

// noteLister has lists that are the same for all users fetched with the token of
// a sender, if there was none with a valid token before.
func (g *Gateway) noteLister(req *mcp.Request) {
	if req.Identity == nil || req.Identity.Token.IsZero() || !g.exchanges.Load() {
		return
	}
	for _, b := range g.view.Load().backends {
		if users, ok := b.access.(*exchangeCredentials); ok && users.Offer(req.Identity) {
			b.Retry()
		}
	}
}
