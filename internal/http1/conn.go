// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// conn is a connection. It has one exchange at a time.
type conn struct {
	net.Conn
	of         *Transport
	address    string
	round      int // the idle.round in which it was created
	sock       nonblocking
	cut        func()        // closes the connection
	headerLeft int           // how many bytes may still be read before the body; negative in the body
	received   bool          // data has been received since the request was sent
	used       bool          // a request has been sent
	since      time.Time     // the time at which data was last received
	keepFor    time.Duration // the maximum idle time
}

func newConn(t *Transport, made net.Conn, address string, round int) *conn {
	c := &conn{Conn: made, of: t, address: address, round: round, sock: nonblockingOn(made), keepFor: t.IdleTimeout}
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

// mayRepeat reports whether a request that failed with err on a reused connection may be
// repeated on another one: the server may close an idle connection at any time.
func (c *conn) mayRepeat(req *http.Request, err error) bool {
	if req.Body != nil && req.Body != http.NoBody || req.Context().Err() != nil {
		return false
	}
	return errors.Is(err, ErrUnsent) || req.Method == http.MethodGet && !c.received
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

// readers is the pool of the exchanges' readers. The buffer is sufficient to read most
// responses at once. An idle connection has none.
//
//nolint:gochecknoglobals // a pool is shared by all connections
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readerSize) }}

const readerSize = 16 << 10

// getReader returns a reader of the connection.
func (c *conn) getReader() *bufio.Reader {
	r, _ := readers.Get().(*bufio.Reader)
	r.Reset((*incoming)(c))
	return r
}

// putReader returns an unused reader to the pool.
func putReader(r *bufio.Reader) {
	r.Reset(nil)
	readers.Put(r)
}
