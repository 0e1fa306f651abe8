// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/hop"
)

// transport makes the requests of one client, so that the idle connections to one
// instance of a backend can be let go without anybody else's. There is no limit on how
// long an answer takes: that is the call's deadline.
type transport struct {
	plain *hop.Transport  // without TLS or a proxy
	other *http.Transport // all else
}

// maxHeaders bounds the headers of an answer, far above what a server has to say
// in them and below what would hurt.
const maxHeaders = 1 << 20

// The bounds of the connections that nobody uses.
const (
	maxIdle  = 64
	idleTime = 90 * time.Second
)

func newTransport(s *setup) *transport {
	dialer := &net.Dialer{Timeout: s.Connect, KeepAlive: 15 * time.Second, Control: growReceiveBuffer}
	return &transport{
		plain: &hop.Transport{
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
			// A compressed answer could be far larger than it looks, and a compressed
			// stream arrives late.
			DisableCompression: true,
		},
	}
}

// RoundTrip makes a request.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !hop.Serves(req) {
		return t.other.RoundTrip(req)
	}
	if proxy, err := t.other.Proxy(req); proxy != nil || err != nil {
		return t.other.RoundTrip(req) // which says what is wrong with it
	}
	return t.plain.RoundTrip(req)
}

// CloseIdleConnections closes the connections that nobody uses.
func (t *transport) CloseIdleConnections() {
	t.plain.CloseIdleConnections()
	t.other.CloseIdleConnections()
}

// connection is one of net/http's to a backend. Each write has its own deadline, so that
// a peer that does not read cannot keep a request for ever.
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

// isHeaderOverflow reports whether an answer was not read because of the size of
// its headers. net/http has no name for that error but its text, in either version
// of HTTP.
func isHeaderOverflow(err error) bool {
	if errors.Is(err, hop.ErrHeaderTooLong) {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "server response headers exceeded") || strings.Contains(text, "response header list larger than")
}
