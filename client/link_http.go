// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// httpLink reaches a server by its URL.
type httpLink struct{ *endpoint }

// probeHTTP is how long a server may take to say that it is modern, of the time
// for a handshake. One that takes longer is asked to shake hands in what is left
// of it, and will refuse if it is modern after all.
const probeHTTP = 10 * time.Second

// detect asks nothing where the era is pinned: a pinned server may be one that
// cannot be probed.
func (h *httpLink) detect(ctx context.Context) (protocol, error) {
	switch h.Version.Era() {
	case mcp.EraLegacy:
		return newLegacy(h.setup, &httpDialer{endpoint: h.endpoint}, h.Version), nil
	case mcp.EraModern:
		return &modern{setup: h.setup, wire: newModernHTTP(h.endpoint), version: h.Version}, nil
	default:
		return h.probe(ctx)
	}
}

// probe finds out the era by the one request that both eras answer in their own
// taskMode (2026-07-28, basic/versioning, "Backward Compatibility with
// Initialization-Based Versions"). A failure that says nothing about the era, no
// connection or a refused credential, is the caller's error and is not remembered
// as a verdict: the next request asks again.
func (h *httpLink) probe(ctx context.Context) (protocol, error) {
	wire := newModernHTTP(h.endpoint)
	began := time.Now()
	p, err := h.discover(ctx, wire, h.probeTime(probeHTTP))
	if ctx.Err() != nil {
		wire.close(ctx)
		return nil, h.closed()
	}
	found, err := h.decide(p.discovered, err)
	if found == isModern {
		return p, nil
	}
	wire.close(ctx)
	if found == isUndecided {
		return nil, err
	}
	l := newLegacy(h.setup, &httpDialer{endpoint: h.endpoint}, mcp.LatestLegacy)
	l.spent = time.Since(began)
	return l, nil
}

// stop lets the idle connections go. Those in use belong to calls, which have
// ended with their protocol by now.
func (h *httpLink) stop() { h.forgetConnections() }
