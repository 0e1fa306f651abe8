// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

// discovery is what is known of a backend and its authorization server. It is found once for all
// users, and again when it is old, and when the backend names other metadata.
type discovery struct {
	oauth  *oauth.Client
	lookup chan struct{} // a lock of requests, of capacity 1

	mu        sync.Mutex
	found     *oauth.Discovery // nil if it must be found again
	challenge string           // the URL of metadata in the last one of the backend
}

func newDiscovery(c *oauth.Client) *discovery {
	return &discovery{oauth: c, lookup: make(chan struct{}, 1)}
}

// get returns what is known. held is the issuer that is preferred, or "".
func (d *discovery) get(ctx context.Context, held string) (*oauth.Discovery, error) {
	select {
	case d.lookup <- struct{}{}:
		defer func() { <-d.lookup }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	d.mu.Lock()
	found, options := d.found, oauth.DiscoverOptions{Challenge: oauth.Bearer{ResourceMetadata: d.challenge}}
	d.mu.Unlock()
	if found != nil && time.Now().Before(found.Until) {
		return found, nil
	}
	if held != "" {
		options.Held = []string{held}
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

// note keeps the URL of metadata in a challenge.
func (d *discovery) note(metadata string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.challenge != metadata {
		d.challenge, d.found = metadata, nil
	}
}

// forget makes the next get find it again.
func (d *discovery) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = nil
}
