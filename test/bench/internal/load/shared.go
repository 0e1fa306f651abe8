// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"fmt"
	"net/http"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
)

// Shared opens streams on few HTTP/2 connections: it opens another connection if none is
// known to have room. It must not be used concurrently.
type Shared struct {
	target    Target
	transport *http.Transport
	open      []*http.Response
}

// NewShared returns a Shared without connections.
func NewShared(t Target) *Shared {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	return &Shared{target: t, transport: tr}
}

// Open opens the GET stream of a session, until Close.
func (s *Shared) Open(ctx context.Context, session string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.target.URL, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", canned.LegacyVersion)
	r.Header.Set("Mcp-Session-Id", session)
	res, err := s.transport.RoundTrip(r) //nolint:bodyclose // Close closes it
	if err != nil {
		return err
	}
	s.open = append(s.open, res) //nolint:bodyclose // as above
	if got := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || got != "text/event-stream" {
		return fmt.Errorf("opening a stream: status %d, %s", res.StatusCode, got)
	}
	return nil
}

// Close closes all streams and the connections.
func (s *Shared) Close() {
	for _, res := range s.open {
		_ = res.Body.Close() // the error is about data that is no longer needed
	}
	s.transport.CloseIdleConnections()
}
