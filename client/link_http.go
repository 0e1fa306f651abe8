// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// httpLink connects to a server by its URL.
type httpLink struct{ *endpoint }

// probeHTTP limits the time of a probe, as part of Handshake. A server that takes
// longer gets a handshake in the remaining time, and will refuse it if it is modern.
const probeHTTP = 10 * time.Second

// detect does not probe if the version is configured: the server may not support a
// probe.
func (h *httpLink) detect(ctx context.Context) (protocol, error) {
	switch h.Version.Era() {
	case mcp.EraLegacy:
		return newLegacy(h.setup, &httpDialer{endpoint: h.endpoint}, h.Version), nil
	case mcp.EraModern:
		return newModernHTTP(h.endpoint, h.Version), nil
	default:
		return h.probe(ctx)
	}
}

// probe determines the era by the one request that both eras answer distinctly
// (2026-07-28, basic/versioning, "Backward Compatibility with Initialization-Based
// Versions"). A failure that does not indicate the era, such as no connection or
// refused credentials, is returned to the caller and not remembered: the next request
// probes again.
func (h *httpLink) probe(ctx context.Context) (protocol, error) {
	m := newModernHTTP(h.endpoint, mcp.LatestModern)
	began := time.Now()
	err := m.discover(ctx, probeTime(h.setup, probeHTTP))
	if ctx.Err() != nil {
		m.close(ctx)
		return nil, h.closed()
	}
	found, err := decide(h.setup, m.discovered, err)
	if found == isModern {
		return m, nil
	}
	m.close(ctx)
	if found == isUndecided {
		return nil, err
	}
	l := newLegacy(h.setup, &httpDialer{endpoint: h.endpoint}, mcp.LatestLegacy)
	l.probeTime = time.Since(began)
	return l, nil
}

// stop closes the idle connections. Connections in use belong to calls, which have
// ended with their protocol.
func (h *httpLink) stop() { h.forgetConnections() }
