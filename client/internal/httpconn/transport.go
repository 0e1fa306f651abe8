// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/http1"
)

// transport sends the requests of one client, so that idle connections to one instance
// of a backend can be closed without affecting others. It does not limit the time of a
// response: that is the call's deadline.
type transport struct {
	plain *http1.Transport // without TLS or a proxy
	other *http.Transport  // everything else
}

// maxHeaders limits the headers of a response, far above what servers send.
const maxHeaders = 1 << 20

// Limits of idle connections.
const (
	maxIdle  = 64
	idleTime = 90 * time.Second
)

func newTransport(s *call.Setup) *transport {
	dialer := &net.Dialer{Timeout: s.Connect, KeepAlive: 15 * time.Second, Control: growReceiveBuffer}
	return &transport{
		plain: &http1.Transport{
			Dial: dialer.DialContext, WriteTimeout: s.Write,
			MaxHeaderBytes: maxHeaders, MaxIdle: maxIdle, IdleTimeout: idleTime,
		},
		other: &http.Transport{
			Proxy: http.ProxyFromEnvironment,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dialer.DialContext(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return &connection{Conn: conn, write: s.Write}, nil
			},
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    s.Connect,
			MaxIdleConnsPerHost:    maxIdle,
			IdleConnTimeout:        idleTime,
			MaxResponseHeaderBytes: maxHeaders,
			// A compressed response could be far larger than it appears, and a
			// compressed stream is delayed.
			DisableCompression: true,
		},
	}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !http1.Serves(req) {
		return t.other.RoundTrip(req)
	}
	if proxy, err := t.other.Proxy(req); proxy != nil || err != nil {
		return t.other.RoundTrip(req) // reports what is wrong with the proxy
	}
	return t.plain.RoundTrip(req)
}

// CloseIdleConnections closes the idle connections.
func (t *transport) CloseIdleConnections() {
	t.plain.CloseIdleConnections()
	t.other.CloseIdleConnections()
}

// connection is a connection of net/http to a backend. Each write has its own deadline,
// so that a peer that does not read cannot block a request for ever.
type connection struct {
	net.Conn
	write time.Duration
}

// Write writes p within the deadline.
func (c *connection) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.write)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// isHeaderOverflow reports whether a response was rejected because of the size of its
// headers. net/http identifies that error only by its text, in either version of HTTP.
func isHeaderOverflow(err error) bool {
	if errors.Is(err, http1.ErrHeaderTooLong) {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "server response headers exceeded") || strings.Contains(text, "response header list larger than")
}
