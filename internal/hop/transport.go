// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hop makes HTTP/1.1 requests without TLS on the goroutine of who waits for the
// answer.
//
// A connection of net/http's has two goroutines of its own, one that writes requests and
// one that reads answers: a call wakes both, and then who waits for it. Here who makes a
// request writes it, and who wants the answer reads it, so that a call waits once. What
// is on the wire is written and read by net/http all the same ([http.Request.Write],
// [http.ReadResponse]): this package decides who waits for what, and not how HTTP is
// spoken.
//
// What the system does not take at once of a request is written by a goroutine, while
// the answer is waited for: a server may answer before it has read all, and who waits to
// write would never see it.
package hop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"
)

// Transport makes requests to http URLs, each on a connection that it has for itself
// meanwhile. It follows no redirects, knows no proxies, and asks for no compression.
//
// The fields are set before the first request; the methods may be called concurrently. A
// Transport must not be copied. While nothing is under way it has no goroutines.
type Transport struct {
	// Dial makes a connection.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// WriteTimeout is how long the other end may take to read a piece of a request, of
	// at most 32 KiB, that does not fit into the system's buffers.
	WriteTimeout time.Duration

	// MaxHeaderBytes bounds what is read before the body of an answer: its head, and
	// those of provisional answers before it.
	MaxHeaderBytes int

	// MaxIdle is how many connections to a host are kept when nobody uses them, and
	// IdleTimeout for how long.
	MaxIdle     int
	IdleTimeout time.Duration

	idle idle
}

var (
	// ErrUnsent is in the error of a request of which nothing was sent, on a connection
	// that had served before and may have been closed since: another one may serve.
	ErrUnsent = errors.New("nothing was sent")

	// ErrHeaderTooLong is in the error of a request whose answer begins with more than
	// MaxHeaderBytes.
	ErrHeaderTooLong = errors.New("the headers of the answer are too long")
)

// Serves reports whether a request is for a Transport. It is not where there is TLS,
// where its headers change how the connection is used or what is sent before the body,
// and on systems where a connection cannot be looked at without reading from it.
func Serves(req *http.Request) bool {
	if !looks || req.URL.Scheme != "http" || req.Close || req.Trailer != nil || len(req.TransferEncoding) > 0 {
		return false
	}
	for _, k := range [...]string{"Connection", "Expect", "Trailer", "Transfer-Encoding", "Upgrade"} {
		if _, ok := req.Header[k]; ok {
			return false
		}
	}
	return req.ContentLength > 0 == (req.Body != nil && req.Body != http.NoBody)
}

// RoundTrip makes a request that Serves reports; it is the method of
// [http.RoundTripper]. It may return before the request is written, of which the body
// and the headers are read until then. The answer's body is read by one goroutine at a
// time, and may be closed by another at any time; it ends with the request's context.
//
// A request without a body is made again where a connection that was kept turns out to
// be of no use; one with a body is not, and fails with ErrUnsent if nothing was sent.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := checkHeader(req.Header); err != nil {
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

// unmade closes the body of a request that is not made, as is expected from who takes one.
func unmade(req *http.Request, err error) error {
	if req.Body == nil {
		return err
	}
	return errors.Join(err, req.Body.Close())
}

// checkHeader refuses what [http.Request.Write] would leave out or change without a word.
func checkHeader(h http.Header) error {
	for name, values := range h {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ':' }) {
			return fmt.Errorf("%q cannot be the name of a header", name)
		}
		for _, v := range values {
			for i := range len(v) {
				if v[i] < ' ' && v[i] != '\t' || v[i] == 0x7f {
					return fmt.Errorf("the value of the header %s has a control character", name)
				}
			}
		}
	}
	return nil
}

// CloseIdleConnections closes the connections that nobody uses, and has those that are
// used now not used again.
func (t *Transport) CloseIdleConnections() { t.idle.closeAll() }

// connection returns a connection that the request has for itself.
func (t *Transport) connection(req *http.Request) (*conn, error) {
	ctx := req.Context()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	address := addressOf(req)
	c, round := t.idle.take(address)
	if c == nil {
		made, err := t.Dial(ctx, "tcp", address)
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

// addressOf returns where a request goes, with a port.
func addressOf(req *http.Request) string {
	if req.URL.Port() != "" {
		return req.URL.Host
	}
	return net.JoinHostPort(req.URL.Hostname(), "80")
}
