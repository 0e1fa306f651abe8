// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Attempt describes a request for a token.
type Attempt struct {
	At       time.Time
	Issuer   string
	Resource string
	Scopes   []string  // of the token; empty if they differ between users
	Until    time.Time // of the token
	Err      error     // nil if there is a token
}

// attempts has the last Attempt, and reports each.
type attempts struct {
	backend string
	log     *slog.Logger
	tried   func(error) // or nil

	mu   sync.Mutex
	last Attempt
}

func newAttempts(backend string, log *slog.Logger, tried func(error)) *attempts {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &attempts{backend: backend, log: log, tried: tried}
}

// Last returns the last request for a token, of whichever user; it is zero before the first one.
func (a *attempts) Last() Attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// addToken logs an attempt to get a token if it has failed, and adds it.
func (a *attempts) addToken(ctx context.Context, one Attempt) {
	if one.Err != nil {
		a.log.WarnContext(ctx, "no access token for a backend", slog.String("backend", a.backend), slog.Any("error", one.Err))
	}
	a.add(one)
}

// add reports an attempt, and keeps it.
func (a *attempts) add(one Attempt) {
	if a.tried != nil {
		a.tried(one.Err)
	}
	a.keep(one)
}

func (a *attempts) keep(one Attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = one
}

// tokens keeps the access tokens for one backend.
type tokens struct {
	*attempts
	origin string // of the backend
	cache  *Cache[*oauth.Tokens]
	server *discovery
}

// newTokens returns the tokens of the gateway's client own. The error is about the URL of the backend.
func newTokens(a *attempts, url string, requests *oauth.Client, own oauth.Registration) (*tokens, error) {
	origin, err := client.OriginOf(url)
	if err != nil {
		return nil, err
	}
	return &tokens{a, origin, NewCache[*oauth.Tokens](), newDiscovery(requests, own)}, nil
}

// Close ends the requests for tokens. It may be called more than once.
func (t *tokens) Close() { t.cache.Close() }

// Retry makes the next request try to get a token at once, whatever has failed before.
func (t *tokens) Retry() { t.cache.Retry() }

// credential returns the credential with a token.
func (t *tokens) credential(k Kept[*oauth.Tokens]) client.Credential {
	return bearer(k.Value.Access, t.origin, k.Generation)
}

// bearer returns the credential with an access token.
func bearer(token mcp.Token, origin string, generation uint64) client.Credential {
	return client.Credential{
		Header: map[string]mcp.Token{"Authorization": mcp.NewToken("Bearer " + token.Reveal())},
		Origin: origin, Generation: generation,
	}
}

// NoResource is the configured resource with which none is requested.
const NoResource = "none"

// resourceOf returns the resource to request, by the configured one and what the backend publishes.
func resourceOf(configured string, d *oauth.Discovery) string {
	switch configured {
	case "":
		return d.Resource
	case NoResource:
		return ""
	default:
		return configured
	}
}
