// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// endpoint is the URL of a server and the way of speaking HTTP to it.
type endpoint struct {
	*setup
	url  string
	http *http.Client
	own  *http.Transport // nil where the transport is the caller's
}

func newEndpoint(s *setup, url string) *endpoint {
	e := &endpoint{setup: s, url: url}
	s.secrets = redact.New(s.Header, nil, url)
	rt := s.Transport
	if rt == nil {
		e.own = newTransport(s)
		rt = e.own
	}
	// A redirect of a POST is an answer like any other: to follow it would be to
	// give the message, and our credentials, to somebody else.
	e.http = &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return e
}

// newTransport returns a transport that belongs to one client, so that the idle
// connections to one instance of a backend can be let go without anybody else's.
// There is no limit on how long an answer takes: that is the call's deadline.
func newTransport(s *setup) *http.Transport {
	dialer := &net.Dialer{Timeout: s.Connect, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &deadlineConn{Conn: conn, write: s.Write}, nil
		},
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    s.Connect,
		MaxIdleConns:           128,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxHeaders,
		// A compressed answer could be far larger than it looks, and a compressed
		// stream arrives late.
		DisableCompression: true,
	}
}

// maxHeaders bounds the headers of an answer, far above what a server has to say
// in them and below what would hurt.
const maxHeaders = 1 << 20

// isHeaderOverflow reports whether an answer was not read because of the size of
// its headers. net/http has no name for that error but its text, in either version
// of HTTP.
func isHeaderOverflow(err error) bool {
	text := err.Error()
	return strings.Contains(text, "server response headers exceeded") || strings.Contains(text, "response header list larger than")
}

// deadlineConn gives each write its own deadline, so that a peer that does not
// read cannot keep a request for ever.
type deadlineConn struct {
	net.Conn
	write time.Duration
}

// Write writes p within the deadline.
func (c *deadlineConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.write)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// forgetConnections closes the connections that nobody uses, because what
// stands at their other end is not the backend any more.
func (e *endpoint) forgetConnections() { e.http.CloseIdleConnections() }

// post sends one message. Its error is a Fault.
func (e *endpoint) post(ctx context.Context, header http.Header, out *parcel) (*http.Response, error) {
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json, text/event-stream")
	return e.do(ctx, http.MethodPost, header, out)
}

// do makes one HTTP request, the configured headers below the given ones. out may
// be nil. The outcome of its error says whether any of that has left, and where
// there is nothing to send, whether a connection was there.
func (e *endpoint) do(ctx context.Context, method string, header http.Header, out *parcel) (*http.Response, error) {
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method, e.url, nil)
	if err != nil {
		return nil, e.unavailable(err, "its URL is not usable")
	}
	left := &connected
	if out != nil {
		out.putInto(req)
		left = &out.left
	}
	req.Header = e.merge(header)
	if replays(req.Header) {
		req.GetBody = nil
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return nil, e.failure(ctx, err, connected.Load(), left.Load())
	}
	if resp.Body != http.NoBody {
		resp.Body = &answerBody{ReadCloser: resp.Body}
	}
	return resp, nil
}

// replays reports whether net/http takes a request with these headers for one
// that it may send again by itself. The configuration can set them; that
// a backend executes a message once is not theirs to give up.
func replays(h http.Header) bool {
	_, one := h["Idempotency-Key"]
	_, other := h["X-Idempotency-Key"]
	return one || other
}

// merge lays the protocol's headers over the configured ones.
func (e *endpoint) merge(header http.Header) http.Header {
	all := make(http.Header, len(e.Header)+len(header)+1)
	all["Accept-Encoding"] = []string{"identity"}
	for k, v := range e.Header {
		all[http.CanonicalHeaderKey(k)] = v
	}
	maps.Copy(all, header)
	return all
}

// failure says why there was no HTTP answer: left whether the server may have the
// request, connected whether there was a connection, in words.
func (e *endpoint) failure(ctx context.Context, err error, connected, left bool) *mcp.Fault {
	switch {
	case ctx.Err() != nil && left:
		return e.givenUp(ctx, mcp.Unknown)
	case ctx.Err() != nil:
		return e.givenUp(ctx, mcp.NotDispatched)
	case left && isHeaderOverflow(err):
		return e.fault(mcp.CodeLimit, mcp.Unknown, err, "the headers of its answer are too long")
	case left:
		return e.lost(err, "the connection broke")
	case connected:
		return e.unavailable(err, "the connection broke")
	default:
		return e.unavailable(err, "%s", dialReason(err))
	}
}
