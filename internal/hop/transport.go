// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hop makes HTTP/1.1 requests without TLS on the goroutine of who waits for the
// answer.
//
// A connection of net/http's has two goroutines of its own, one that writes requests and
// one that reads answers: a call wakes both, and then who waits for it. Here who makes a
// request writes it, and who wants the answer reads it, so that a call waits once. What
// is on the wire is what net/http writes ([http.Request.Write]), and read by it
// ([http.ReadResponse]): this package decides who waits for what, and not how HTTP is
// spoken. For the head of a plain message it has a shorter way to the same bytes.
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
	"slices"
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
	// IdleTimeout for how long, or less where the server says that it keeps them for less.
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
// where its host is missing or not in ASCII, where its headers change how the connection
// is used or what is sent before the body, and on systems where a connection cannot be
// looked at without reading from it.
func Serves(req *http.Request) bool {
	if !looks || req.URL.Scheme != "http" || !isPlain(req.URL.Host) || req.Close || req.Trailer != nil || len(req.TransferEncoding) > 0 {
		return false
	}
	for _, k := range [...]string{"Connection", "Expect", "Trailer", "Transfer-Encoding", "Upgrade"} {
		if _, ok := req.Header[k]; ok {
			return false
		}
	}
	return req.ContentLength > 0 == (req.Body != nil && req.Body != http.NoBody)
}

// isPlain reports whether a host can be dialled as it is written.
func isPlain(host string) bool {
	for i := range len(host) {
		if host[i] >= 0x80 {
			return false
		}
	}
	return host != ""
}

// RoundTrip makes a request that Serves reports; it is the method of
// [http.RoundTripper]. It may return before the request is written, of which the body
// and the headers are read until then; a body that waits when it is read is not given up
// with the request. The answer's body is read by one goroutine at a time, and may be
// closed by another at any time; it ends with the request's context.
//
// A request without a body is made again where a connection that was kept turns out to
// be of no use; one with a body is not, and fails with ErrUnsent if nothing was sent.
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

// unmade closes the body of a request that is not made, as is expected from who takes one.
func unmade(req *http.Request, err error) error {
	if req.Body == nil {
		return err
	}
	_ = req.Body.Close() // why it is closed is what matters
	return err
}

// check refuses what [http.Request.Write] would leave out or change without a word, or
// write although it ends the line.
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

// isToken reports whether s can be a name in HTTP.
func isToken(s string) bool { return consistsOf(s, "-_!#$%&'*+.^`|~") }

// consistsOf reports whether s has letters, digits and marks, and nothing else.
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

// addressOf returns where a request goes, with a port.
func addressOf(req *http.Request) string {
	if req.URL.Port() != "" {
		return req.URL.Host
	}
	return net.JoinHostPort(req.URL.Hostname(), "80")
}
