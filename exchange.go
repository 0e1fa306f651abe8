// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/access"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// exchangeCredentials are those of a backend that is called with the tokens of users, exchanged.
type exchangeCredentials struct {
	grantCredentials // of exchange

	exchange *grant.Exchange
	oauth    *config.OAuth
	g        *Gateway
	name     string // of the backend

	mu      sync.RWMutex
	senders map[string]sender // by principal, of those with lists of their own
}

// sender is the latest identity of a principal with a token that may be exchanged.
type sender struct {
	*mcp.Identity

	serial uint64 // counts them
}

// maxSenders bounds the senders of one backend. Others have no lists of their own.
const maxSenders = 10_000

func newExchangeCredentials(srv *config.Backend, g *Gateway) (*exchangeCredentials, error) {
	o := srv.OAuth
	requests, err := oauth.New(oauth.Config{Backend: srv.URL, Issuer: o.Issuer})
	if err != nil {
		return nil, err
	}
	cfg := grant.ExchangeConfig{
		Backend: srv.Name, URL: srv.URL, OAuth: requests, Issuer: o.Issuer,
		Scopes: o.Scopes, Resource: access.Resource(o), Audience: o.Audience, Parameters: access.Parameters(o),
		SharedLists: o.Lists == config.ListsShared, Logger: g.log, Tried: g.countRefreshes(srv.Name),
	}
	if cfg.Client, err = access.Client(o.Issuer, o.ClientID, o.ClientSecret, o.ClientKey); err != nil {
		return nil, err
	}
	tokens, err := grant.NewExchange(cfg)
	if err != nil {
		return nil, err
	}
	g.exchanges.Store(true)
	return &exchangeCredentials{
		grantCredentials: grantCredentials{tokens, oauthStatusOf(o)}, exchange: tokens,
		oauth: o, g: g, name: srv.Name, senders: make(map[string]sender),
	}, nil
}

// isPerUser reports whether users have lists of their own.
func (c *exchangeCredentials) isPerUser() bool {
	return c.oauth.Lists != config.ListsShared && c.g.onlyClient == nil
}

// Refused is grant.Exchange.Refused. That a server does not list for everybody is a fault with its
// code.
func (c *exchangeCredentials) Refused(ctx context.Context, req *mcp.Request, sent client.Credential, r client.Refusal) error {
	err := c.exchange.Refused(ctx, req, sent, r)
	if missing, ok := errors.AsType[*grant.Missing](err); ok {
		return signInFault(missing.Backend, "it lists its tools only for users with a token that can be exchanged, for each its own", err)
	}
	return err
}

// note keeps the identity of a sender, with which its lists are requested.
func (c *exchangeCredentials) note(id *mcp.Identity) {
	if !c.isPerUser() || c.identity(id.Principal) == id || !c.exchange.Accepts(id) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, has := c.senders[id.Principal]
	if !has && len(c.senders) >= maxSenders {
		maps.DeleteFunc(c.senders, func(_ string, s sender) bool { return !c.exchange.Accepts(s.Identity) })
	}
	if has || len(c.senders) < maxSenders {
		c.senders[id.Principal] = sender{id, before.serial + 1}
	}
}

func (c *exchangeCredentials) identity(principal string) *mcp.Identity {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.senders[principal].Identity
}

func (*exchangeCredentials) look(context.Context, []string) {}

// held returns the access of a principal: the latest token that it has presented.
func (c *exchangeCredentials) held(_ context.Context, principal string, _ time.Duration) (grant.Held, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.senders[principal]
	if !ok {
		return grant.Held{}, &grant.Missing{Backend: c.name, Principal: principal, Reason: grant.NeverSignedIn}
	}
	return grant.Held{Serial: s.serial}, nil
}

// noteLister has lists that are the same for all users fetched with the token of
// a sender, if there was none with a valid token before. Others are fetched with that of each.
func (g *Gateway) noteLister(req *mcp.Request) {
	if req.Identity == nil || req.Identity.Token.IsZero() || !g.exchanges.Load() {
		return
	}
	for _, b := range g.view.Load().backends {
		if users, ok := b.access.(*exchangeCredentials); ok {
			users.note(req.Identity)
			if users.exchange.Offer(req.Identity) {
				b.Retry()
			}
		}
	}
}
