// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package hop

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
	of      *Transport
	address string
	round   int // in which it was made
	now     nowOrNever
	cut     func()        // closes it
	head    int           // how much may be read of what is before the body; negative behind that
	heard   bool          // something has been read since a request was sent
	used    bool          // for a request
	since   time.Time     // when something was last read from it
	rest    time.Duration // how long it may be idle
}

func newConn(t *Transport, made net.Conn, address string, round int) *conn {
	c := &conn{Conn: made, of: t, address: address, round: round, now: nowOn(made), rest: t.IdleTimeout}
	c.cut = func() { c.Close() }
	return c
}

// nowOrNever does to a connection what can be done without waiting.
type nowOrNever interface {
	// TryWrite writes as much as is taken at once.
	TryWrite(p []byte) (n int, err error)

	// IsQuiet reports whether there is nothing to be read now, and no end either.
	IsQuiet() bool
}

// isFit reports whether a connection that is idle can be used. Of one that cannot be
// looked at, nobody knows; and what is written to one while the server closes it was read
// or was not, and nobody knows either.
func (c *conn) isFit(now time.Time) bool {
	return now.Sub(c.since) < c.rest && c.now != nil && c.now.IsQuiet()
}

// onTheWay is how long an answer and the next request may take to arrive, together, so
// that the server has the request before it gives the connection up.
const onTheWay = time.Second

// heed has the connection rest no longer than the server will keep it, where that has
// said how long: Node's do, which close what was idle for five seconds. No standard has
// the header, but most of those who send requests know it, and that it is about seconds.
func (c *conn) heed(h http.Header) {
	for _, list := range h["Keep-Alive"] {
		for one := range strings.SplitSeq(list, ",") {
			name, value, _ := strings.Cut(one, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "timeout") {
				continue
			}
			if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31); err == nil {
				kept := time.Duration(n) * time.Second
				c.rest = min(c.of.IdleTimeout, kept-min(kept/2, onTheWay))
			}
		}
	}
}

// mayRepeat reports whether a request that has failed with err, on a connection that was
// kept, may be made on another one: the server has closed this one, as it may at any time.
func (c *conn) mayRepeat(req *http.Request, err error) bool {
	if req.Body != nil && req.Body != http.NoBody || req.Context().Err() != nil {
		return false
	}
	return errors.Is(err, ErrUnsent) || req.Method == http.MethodGet && !c.heard
}

// incoming is what a connection reads from, within the bound of heads.
type incoming conn

// Read reads on.
func (i *incoming) Read(p []byte) (int, error) {
	if i.head == 0 {
		return 0, ErrHeaderTooLong
	}
	if i.head > 0 {
		p = p[:min(len(p), i.head)]
	}
	n, err := i.Conn.Read(p)
	if n > 0 {
		i.heard, i.since = true, time.Now() // the server counts from there, whenever it is put back
	}
	if i.head > 0 {
		i.head -= n
	}
	return n, err
}

// readers are lent to exchanges. One has room for most answers, which are one read then,
// and a connection that nobody uses has none.
//
//nolint:gochecknoglobals // a pool is shared by nature
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readerSize) }}

const readerSize = 16 << 10

// lend returns a reader of the connection.
func (c *conn) lend() *bufio.Reader {
	r, _ := readers.Get().(*bufio.Reader)
	r.Reset((*incoming)(c))
	return r
}

// giveBack takes a reader back that nobody reads from any more.
func giveBack(r *bufio.Reader) {
	r.Reset(nil)
	readers.Put(r)
}
