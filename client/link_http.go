// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/httpconn"
	"github.com/signalbox-mcp/signalbox/client/internal/legacy"
	"github.com/signalbox-mcp/signalbox/client/internal/modern"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// NewHTTP returns a client of the server at the URL, over Streamable HTTP.
func NewHTTP(url string, cfg Config) *Client {
	s := cfg.setup()
	return newClient(s, &httpLink{Endpoint: httpconn.NewEndpoint(s, url)})
}

// NewSSE returns a client of the server at the URL, over HTTP with SSE, the transport
// of 2024-11-05 that later revisions deprecate. The server is not probed, because only
// the legacy era has that transport. NewHTTP also finds such servers, by their answers.
func NewSSE(url string, cfg Config) *Client {
	s := cfg.setup()
	if s.Version == "" {
		s.Version = mcp.LatestLegacy
	}
	return newClient(s, &sseLink{Endpoint: httpconn.NewEndpoint(s, url)})
}

// sseLink reaches a server that is configured to use HTTP with SSE.
type sseLink struct{ *httpconn.Endpoint }

func (l *sseLink) detect(context.Context, *mcp.Request) (protocol, error) {
	return legacy.New(l.Setup, legacy.SSEDialer{Endpoint: l.Endpoint}, l.Version), nil
}

func (l *sseLink) stop() { l.ForgetConnections() }

// httpLink connects to a server by its URL.
type httpLink struct{ *httpconn.Endpoint }

// probeHTTP limits the time of a probe, as part of Handshake. A server that takes
// longer gets a handshake in the remaining time. It will refuse that if it is modern, and
// is probed again if it is not.
const probeHTTP = 10 * time.Second

// detect does not probe if the version is configured: the server may not support a
// probe.
func (h *httpLink) detect(ctx context.Context, of *mcp.Request) (protocol, error) {
	switch h.Version.Era() {
	case mcp.EraLegacy:
		return legacy.New(h.Setup, &legacy.HTTPDialer{Endpoint: h.Endpoint}, h.Version), nil
	case mcp.EraModern:
		return modern.NewHTTP(h.Endpoint, h.Version), nil
	default:
		return h.probe(ctx, of)
	}
}

// probe determines the era by the one request that both eras answer distinctly
// (2026-07-28, basic/versioning, "Backward Compatibility with Initialization-Based
// Versions"). A failure that does not indicate the era, such as no connection or
// refused credentials, is returned to the caller and not remembered: the next request
// probes again.
func (h *httpLink) probe(ctx context.Context, of *mcp.Request) (protocol, error) {
	m := modern.NewHTTP(h.Endpoint, mcp.LatestModern)
	began := time.Now()
	err := m.Discover(ctx, of, probeTime(h.Setup, probeHTTP))
	if ctx.Err() != nil {
		m.Close(ctx)
		return nil, h.Closed()
	}
	found, err := decide(h.Setup, m.Discovered, err)
	if found == isModern {
		return m, nil
	}
	m.Close(ctx)
	if found == isUndecided {
		return nil, err
	}
	l := legacy.New(h.Setup, &legacy.HTTPDialer{Endpoint: h.Endpoint}, mcp.LatestLegacy)
	l.ProbeTime, l.Unanswered = time.Since(began), found == isSilent
	return l, nil
}

// stop closes the idle connections. Connections in use belong to calls, which have
// ended with their protocol.
func (h *httpLink) stop() { h.ForgetConnections() }
