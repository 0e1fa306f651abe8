// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The bounds of what a Metadata keeps.
const (
	keepLastGood = 24 * time.Hour  // while it cannot be read
	failurePause = 5 * time.Second // after a failure, before the next request
)

// Metadata is the metadata of one authorization server. It is kept for an hour, and for a day while
// it cannot be read again. Its methods may be called concurrently.
type Metadata struct {
	client *Client
	issuer string
	turn   chan struct{} // of capacity 1: one request at a time

	mu      sync.Mutex
	server  *Server   // or nil
	read    time.Time // when it was read
	failure error     // of the last request, or nil
	failed  time.Time // when that failed
}

// NewMetadata returns the metadata of an issuer, which is not read yet.
func NewMetadata(c *Client, issuer string) *Metadata {
	return &Metadata{client: c, issuer: issuer, turn: make(chan struct{}, 1)}
}

// Get returns the metadata, without the checks for the authorization code grant, which Begin makes.
// It waits for a request only without metadata to use meanwhile.
func (m *Metadata) Get(ctx context.Context) (*Server, error) {
	server, age, _ := m.known()
	if server != nil && age < metadataLife {
		return server, nil
	}
	if server == nil || age >= keepLastGood {
		select {
		case m.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	} else {
		select {
		case m.turn <- struct{}{}:
		default:
			return server, nil
		}
	}
	defer func() { <-m.turn }()
	server, age, failure := m.known()
	if server != nil && age < metadataLife { // of the request before
		return server, nil
	}
	if failure == nil {
		if server, failure = m.request(ctx); failure == nil {
			return server, nil
		}
	}
	if server, age, _ = m.known(); server != nil && age < keepLastGood {
		return server, nil
	}
	return nil, failure
}

// known returns the metadata with its age, and the error of the last request if another one is not due.
func (m *Metadata) known() (server *Server, age time.Duration, failure error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil && time.Since(m.failed) < failurePause {
		failure = m.failure
	}
	return m.server, time.Since(m.read), failure
}

func (m *Metadata) request(ctx context.Context) (*Server, error) {
	server, err := m.client.Server(ctx, m.issuer, false)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		m.server, m.read, m.failure = server, time.Now(), nil
	case !errors.Is(ctx.Err(), context.Canceled): // by the one that waits
		m.failure, m.failed = err, time.Now()
	}
	return server, err
}
