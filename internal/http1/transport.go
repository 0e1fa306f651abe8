// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package http1 makes HTTP/1.1 requests on the caller's goroutine.
//
// A connection of net/http has two goroutines, one that writes requests and one that reads
// responses: a call wakes both of them, and then the caller. Here the caller of RoundTrip
// writes the request, and the reader of the response reads from the connection, so that a call
// waits only once. Requests are written by net/http ([http.Request.Write]), and responses are
// read by it ([http.ReadResponse]): this package changes only which goroutine waits. For the
// header of a usual message it has a faster path to the same bytes.
//
// If the system does not accept a request at once, a goroutine writes the rest while the
// caller waits for the response: a server may respond before it has read the request, and a
// caller that waits to write would not see this.
//
// A request that needs more than HTTP/1.1 on a plain connection is made by an
// [http.Transport]: one with TLS, and thereby HTTP/2, one to a proxy, one with headers that change
// how the connection is used or what is sent before the body, and one with a body of unknown
// length. So is every request on a system that cannot check a connection without reading from
// it.
package http1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Transport is an [http.RoundTripper]. A request has the exclusive use of a connection, or of
// a stream of HTTP/2. It follows no redirects, and requests no compression: a compressed
// response could be far larger than it appears, and a compressed stream is delayed.
//
// The fields must be set before the first request. The methods may be called concurrently. A
// Transport must not be copied. It has no goroutines while there are no requests, except those
// of the connections that net/http keeps.
type Transport struct {
	// Dial creates a connection.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Proxy returns the proxy for a request, or nil for none. If it is nil, there are no
	// proxies.
	Proxy func(*http.Request) (*url.URL, error)

	// TLSHandshakeTimeout bounds a handshake. Zero is no bound.
	TLSHandshakeTimeout time.Duration

	// WriteTimeout bounds how long the server may take to read a part of a request, of
	// at most 32 KiB, that does not fit into the system's buffers.
	WriteTimeout time.Duration

	// MaxHeaderBytes bounds what is read before the body of a response: its header, and
	// those of provisional responses before it.
	MaxHeaderBytes int

	// MaxIdle is the maximum number of idle connections to a host. IdleTimeout is the
	// time after which they are closed, or earlier if the server announces a shorter one.
	MaxIdle     int
	IdleTimeout time.Duration

	idle         idle
	fallback     *http.Transport // makes the requests that are not plain
	makeFallback sync.Once
}

var (
	// ErrUnsent is returned (wrapped) if nothing of a request was sent: a reused connection
	// accepted none of it, and there is no other connection, or no GetBody.
	ErrUnsent = errors.New("nothing was sent")

	// ErrHeaderTooLong is returned (wrapped) if a response begins with more than
	// MaxHeaderBytes. The errors of net/http for that have no identity but their text.
	ErrHeaderTooLong = errors.New("the headers of the response are too long")
)

// RoundTrip implements [http.RoundTripper]. It may return before the request is written; its
// headers and body are read until then. A read of the body that blocks is not interrupted. The
// body of the response must be read by one goroutine at a time, and may be closed by another
// at any time; it ends with the request's context.
//
// If a reused connection turns out to be closed, the request is made on another one, as by
// net/http: a GET without a response, and any request of which nothing was sent and whose
// body, if it has one, can be had again with GetBody.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !isPlain(req) || t.usesProxy(req) {
		return t.std().RoundTrip(req)
	}
	if err := check(req); err != nil {
		return nil, unmade(req, err)
	}
	var failed error // on a reused connection
	for {
		c, err := t.connection(req)
		if err != nil && failed != nil {
			err = fmt.Errorf("%w (%w)", err, failed)
		}
		if err != nil {
			return nil, unmade(req, err)
		}
		used := c.used
		resp, err := c.exchange(req)
		if err == nil || !used || req.Context().Err() != nil {
			return resp, err
		}
		again := c.repeated(req, err)
		if again == nil {
			return nil, err
		}
		req, failed = again, err
	}
}

// repeated returns the request to make on another connection after req failed with err on this
// one, which was reused: the server may close an idle connection at any time. It returns nil
// if req must not be repeated.
func (c *conn) repeated(req *http.Request, err error) *http.Request {
	unsent := errors.Is(err, ErrUnsent)
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		if unsent || req.Method == http.MethodGet && !c.received {
			return req
		}
	case unsent && req.GetBody != nil:
		if body, err := req.GetBody(); err == nil {
			again := *req
			again.Body = body
			return &again
		}
	}
	return nil
}

// isPlain reports whether a request can be made without net/http's transport, if it needs no
// proxy. It cannot if TLS is used, if the host is missing or not ASCII, if headers change how
// the connection is used or what is sent before the body, and on systems that cannot check a
// connection without reading from it.
func isPlain(req *http.Request) bool {
	if !canPeek || req.URL.Scheme != "http" || req.URL.Host == "" || req.Close || req.Trailer != nil || len(req.TransferEncoding) > 0 {
		return false
	}
	for _, c := range []byte(req.URL.Host) {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	for _, k := range [...]string{"Connection", "Expect", "Trailer", "Transfer-Encoding", "Upgrade"} {
		if _, ok := req.Header[k]; ok {
			return false
		}
	}
	return req.ContentLength > 0 == (req.Body != nil && req.Body != http.NoBody)
}

// usesProxy reports whether a request has a proxy, or should have one that is unknown:
// net/http reports what is wrong with it.
func (t *Transport) usesProxy(req *http.Request) bool {
	if t.Proxy == nil {
		return false
	}
	proxy, err := t.Proxy(req)
	return proxy != nil || err != nil
}

// std returns the transport for requests that are not plain.
func (t *Transport) std() *http.Transport {
	t.makeFallback.Do(func() {
		t.fallback = &http.Transport{
			Proxy: t.Proxy,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := t.Dial(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return &timedConn{c, t.WriteTimeout}, nil
			},
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    t.TLSHandshakeTimeout,
			MaxIdleConnsPerHost:    t.MaxIdle,
			IdleConnTimeout:        t.IdleTimeout,
			MaxResponseHeaderBytes: int64(t.MaxHeaderBytes),
			DisableCompression:     true,
		}
	})
	return t.fallback
}

// unmade closes the body of a request that is not sent, as RoundTrip must.
func unmade(req *http.Request, err error) error {
	if req.Body != nil {
		_ = req.Body.Close() // err is the cause
	}
	return err
}

// check rejects what [http.Request.Write] would silently omit or change, or write although it
// breaks the message.
func check(req *http.Request) error {
	if req.Method != "" && !isToken(req.Method) {
		return fmt.Errorf("%q cannot be a method", req.Method)
	}
	for name, values := range req.Header {
		if !isToken(name) {
			return fmt.Errorf("%q cannot be the name of a header", name)
		}
		if slices.ContainsFunc(values, hasControl) {
			return fmt.Errorf("the value of the header %s has a control character", name)
		}
	}
	return nil
}

// isToken reports whether s is a token of HTTP.
func isToken(s string) bool { return consistsOf(s, "-_!#$%&'*+.^`|~") }

// consistsOf reports whether s consists of letters, digits and marks.
func consistsOf(s, marks string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := c-'0' < 10 || c|0x20-'a' < 26
		if !alphanumeric && strings.IndexByte(marks, c) < 0 {
			return false
		}
	}
	return s != ""
}

func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// connection returns a connection for the exclusive use of the request.
func (t *Transport) connection(req *http.Request) (*conn, error) {
	ctx := req.Context()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	address := req.URL.Host
	if req.URL.Port() == "" {
		address = net.JoinHostPort(req.URL.Hostname(), "80")
	}
	c, round := t.idle.take(address)
	if c == nil {
		dialed, err := t.Dial(ctx, "tcp", address)
		if err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		c = newConn(t, dialed, address, round)
	}
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: c.Conn, Reused: c.used, WasIdle: c.used})
	}
	return c, nil
}

// CloseIdleConnections closes the idle connections. Connections in use are closed after their
// requests.
func (t *Transport) CloseIdleConnections() {
	t.idle.closeAll()
	t.std().CloseIdleConnections()
}
