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
	failed  string // a message for the log
	log     *slog.Logger
	tried   func(error) // or nil

	mu   sync.Mutex
	last Attempt
}

func newAttempts(backend string, log *slog.Logger, tried func(error)) *attempts {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &attempts{backend: backend, failed: "no access token for a backend", log: log, tried: tried}
}

// Last returns the last request for a token, of whichever user; it is zero before the first one.
func (a *attempts) Last() Attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// add reports an attempt, and keeps it.
func (a *attempts) add(ctx context.Context, one Attempt) {
	if one.Err != nil {
		a.log.WarnContext(ctx, a.failed, slog.String("backend", a.backend), slog.Any("error", one.Err))
	}
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
