// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

// discovery is what is known of the authorization server of a backend, and of the gateway's client
// there. The server is found once for all users, and again when that is old, and when the backend names
// other metadata.
type discovery struct {
	oauth  *oauth.Client
	client oauth.Registration
	lookup chan struct{} // a lock of requests, of capacity 1

	mu        sync.Mutex
	found     *oauth.Discovery // nil if it must be found again
	bound     string           // the issuer of client, or the one that it was first presented to; or ""
	challenge oauth.Bearer     // the last one of the backend
	isAsked   bool             // there was one
}

func newDiscovery(c *oauth.Client, own oauth.Registration) *discovery {
	return &discovery{oauth: c, client: own, lookup: make(chan struct{}, 1), bound: own.Issuer}
}

// registration returns the client for a server. If that has no issuer, it belongs to the first server from
// then on, and is an error for any other.
func (d *discovery) registration(ctx context.Context, s *oauth.Server) (*oauth.Registration, error) {
	given := d.client
	d.mu.Lock()
	if d.bound == "" {
		d.bound = s.Issuer
	}
	given.Issuer = d.bound
	d.mu.Unlock()
	return d.oauth.Registration(ctx, s, oauth.RegistrationOptions{Given: &given})
}

// get returns what is known.
func (d *discovery) get(ctx context.Context) (*oauth.Discovery, error) {
	select {
	case d.lookup <- struct{}{}:
		defer func() { <-d.lookup }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	d.mu.Lock()
	found, options := d.found, oauth.DiscoverOptions{Challenge: d.challenge}
	if d.bound != "" {
		options.Held = []string{d.bound}
	}
	d.mu.Unlock()
	if found != nil && time.Now().Before(found.Until) {
		return found, nil
	}
	found, err := d.oauth.Discover(ctx, options)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = found
	return found, nil
}

// note keeps a challenge of the backend.
func (d *discovery) note(challenge oauth.Bearer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.challenge.ResourceMetadata != challenge.ResourceMetadata {
		d.found = nil
	}
	d.challenge, d.isAsked = challenge, true
}

// challenged returns the scopes of the last challenge.
func (d *discovery) challenged() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.challenge.Scopes
}

// needsChallenge reports whether the authorization server was not found, and a challenge of the
// backend may name it.
func (d *discovery) needsChallenge(err error) bool {
	check, ok := errors.AsType[*oauth.CheckError](err)
	d.mu.Lock()
	defer d.mu.Unlock()
	return ok && check.Check == oauth.CheckNotFound && !d.isAsked
}

// forget makes the next get find the server again.
func (d *discovery) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = nil
}
