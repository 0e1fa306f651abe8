// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// conn is a connection. It has one exchange at a time.
type conn struct {
	timedConn
	of         *Transport
	address    string
	round      int // the idle.round in which it was created
	sock       nonblocking
	cut        func()           // closes the connection
	headerLeft int              // how many bytes may still be read before the body; negative in the body
	reqBody    io.LimitedReader // what is not written yet of the request
	received   bool             // data has been received since the request was sent
	used       bool             // a request has been sent
	since      time.Time        // the time at which data was last received
	keepFor    time.Duration    // the maximum idle time
}

func newConn(t *Transport, made net.Conn, address string, round int) *conn {
	c := &conn{
		timedConn: timedConn{made, t.WriteTimeout}, of: t, address: address, round: round,
		sock: nonblockingOn(made), keepFor: t.IdleTimeout,
	}
	c.cut = func() { c.Close() }
	return c
}

// nonblocking has operations on a connection that do not wait.
type nonblocking interface {
	// TryWrite writes as much as possible without waiting.
	TryWrite(p []byte) (n int, err error)

	// IsQuiet reports whether neither data nor the end of the stream is available.
	IsQuiet() bool
}

// isUsable reports whether an idle connection can be used. It is false if the state of the
// socket cannot be checked: if the server closes the connection while a request is sent, it is
// unknown whether the request was read.
func (c *conn) isUsable(now time.Time) bool {
	return now.Sub(c.since) < c.keepFor && c.sock != nil && c.sock.IsQuiet()
}

// transitTime is subtracted from the server's idle timeout: the response and the next request
// have to arrive before the server closes the connection.
const transitTime = time.Second

// applyKeepAlive reduces the maximum idle time to the timeout of the server's Keep-Alive
// header. Node.js sends it and closes connections that are idle for five seconds. It is not in
// a standard, but widely used, with seconds as its unit.
func (c *conn) applyKeepAlive(h http.Header) {
	for _, list := range h["Keep-Alive"] {
		for one := range strings.SplitSeq(list, ",") {
			name, value, _ := strings.Cut(one, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "timeout") {
				continue
			}
			if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31); err == nil {
				kept := time.Duration(n) * time.Second
				c.keepFor = min(c.of.IdleTimeout, kept-min(kept/2, transitTime))
			}
		}
	}
}

// timedConn bounds each write: a peer that does not read must not block it for ever.
type timedConn struct {
	net.Conn
	timeout time.Duration
}

// Write writes p within the timeout.
func (c *timedConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if err == nil {
		err = c.SetWriteDeadline(time.Time{})
	}
	return n, err
}

// incoming is the conn as a Reader, with the limit on headers.
type incoming conn

// Read reads from the connection.
func (i *incoming) Read(p []byte) (int, error) {
	if i.headerLeft == 0 {
		return 0, ErrHeaderTooLong
	}
	if i.headerLeft > 0 {
		p = p[:min(len(p), i.headerLeft)]
	}
	n, err := i.Conn.Read(p)
	if n > 0 {
		i.received, i.since = true, time.Now() // the server's idle timeout starts here
	}
	if i.headerLeft > 0 {
		i.headerLeft -= n
	}
	return n, err
}
