// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package http1 makes HTTP/1.1 requests without TLS on the caller's goroutine.
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
package http1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"time"
)

// Transport makes requests to http URLs. A request has the exclusive use of a connection. It
// follows no redirects, uses no proxies, and requests no compression.
//
// The fields must be set before the first request. The methods may be called concurrently. A
// Transport must not be copied. It has no goroutines while there are no requests.
type Transport struct {
	// Dial creates a connection.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

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

	idle idle
}

var (
	// ErrUnsent is returned (wrapped) if nothing of a request was sent on a reused
	// connection, which may have been closed. Another connection may work.
	ErrUnsent = errors.New("nothing was sent")

	// ErrHeaderTooLong is returned (wrapped) if a response begins with more than
	// MaxHeaderBytes.
	ErrHeaderTooLong = errors.New("the headers of the response are too long")
)

// Serves reports whether a Transport can make a request. It cannot if TLS is used, if the host
// is missing or not ASCII, if headers change how the connection is used or what is sent before
// the body, and on systems that cannot check a connection without reading from it.
func Serves(req *http.Request) bool {
	if !canPeek || req.URL.Scheme != "http" || !isPlain(req.URL.Host) || req.Close || req.Trailer != nil || len(req.TransferEncoding) > 0 {
		return false
	}
	for _, k := range [...]string{"Connection", "Expect", "Trailer", "Transfer-Encoding", "Upgrade"} {
		if _, ok := req.Header[k]; ok {
			return false
		}
	}
	return req.ContentLength > 0 == (req.Body != nil && req.Body != http.NoBody)
}

// isPlain reports whether a host can be dialed unmodified.
func isPlain(host string) bool {
	for i := range len(host) {
		if host[i] >= 0x80 {
			return false
		}
	}
	return host != ""
}

// RoundTrip implements [http.RoundTripper] for requests for which Serves returns true. It may
// return before the request is written; its headers and body are read until then. A read of
// the body that blocks is not interrupted. The body of the response must be read by one
// goroutine at a time, and may be closed by another at any time; it ends with the request's
// context.
//
// If a reused connection turns out to be closed, a request without a body is repeated on
// another one. A request with a body is not, and fails with ErrUnsent if nothing was sent.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := check(req); err != nil {
		return nil, unmade(req, err)
	}
	for {
		c, err := t.connection(req)
		if err != nil {
			return nil, unmade(req, err)
		}
		used := c.used
		resp, err := c.exchange(req)
		if err == nil || !used || !c.mayRepeat(req, err) {
			return resp, err
		}
	}
}

// unmade closes the body of a request that is not sent, as RoundTrip must.
func unmade(req *http.Request, err error) error {
	if req.Body == nil {
		return err
	}
	_ = req.Body.Close() // err is the cause
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

// CloseIdleConnections closes the idle connections. Connections in use are closed after their
// requests.
func (t *Transport) CloseIdleConnections() { t.idle.closeAll() }

// connection returns a connection for the exclusive use of the request.
func (t *Transport) connection(req *http.Request) (*conn, error) {
	ctx := req.Context()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	address := addressOf(req)
	c, round := t.idle.take(address)
	if c == nil {
		made, err := t.Dial(ctx, "tcp", address)
		if err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		c = newConn(t, made, address, round)
	}
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: c.Conn, Reused: c.used, WasIdle: c.used})
	}
	return c, nil
}

// addressOf returns the host and port of a request.
func addressOf(req *http.Request) string {
	if req.URL.Port() != "" {
		return req.URL.Host
	}
	return net.JoinHostPort(req.URL.Hostname(), "80")
}
