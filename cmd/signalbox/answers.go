// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// answerListener is a listener whose connections send an answer that does not fit into
// net/http's buffer in one write instead of two: its front waits for what follows at
// once. And they end when a client takes what is written too slowly, though it takes some.
type answerListener struct {
	net.Listener
	write      time.Duration // limits.write
	headerRead time.Duration // limits.headerRead
}

func (l answerListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	a := &answerConn{Conn: c, write: l.write, in: inbound{headerRead: l.headerRead, hangUp: func() { _ = c.Close() }}}
	a.in.expectHeader()
	return a, nil
}

// answerConn has one writer at a time, as net/http's connections have. A front whose
// rest does not come is never sent: the connection is closed then, and was to break.
type answerConn struct {
	net.Conn
	front *[frontSize]byte // what waits; nil for nothing
	room  [2][]byte        // of both
	both  net.Buffers

	write time.Duration // that a client has for each slowPiece
	until time.Time     // when a write is to be over of which some was taken in its time

	in inbound
}

// Read reads, and follows what was read.
func (c *answerConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.read(p[:n])
	return n, err
}

// Close closes the connection.
func (c *answerConn) Close() error {
	c.in.end()
	return c.Conn.Close()
}

// slowPiece is what a client on a slow line takes in the time of a write, as it is in the
// server's answers.
const slowPiece = 16 << 10

// errSlow is no timeout to net/http, which would go on with the rest.
var errSlow = errors.New("the client takes too little of what is written (limits.write)")

// frontSize is that of net/http's buffer. A write of that size is one that has
// overflowed: what is flushed is smaller, and must not wait.
const frontSize = 4 << 10

//nolint:gochecknoglobals // a pool is shared by nature
var fronts = sync.Pool{New: func() any { return new([frontSize]byte) }}

// Write writes p behind the front that waits, unless p is such a front.
func (c *answerConn) Write(p []byte) (int, error) {
	switch {
	case c.front != nil:
		return c.writeBehind(p)
	case !isFront(p):
		n, err := c.Conn.Write(p)
		return n, c.pace(len(p), n, err)
	}
	c.front, _ = fronts.Get().(*[frontSize]byte)
	copy(c.front[:], p)
	return len(p), nil
}

func (c *answerConn) writeBehind(p []byte) (int, error) {
	c.room = [2][]byte{c.front[:], p}
	c.both = c.room[:]
	n, err := c.both.WriteTo(c.Conn)
	c.room, c.both = [2][]byte{}, nil
	fronts.Put(c.front)
	c.front = nil
	return int(max(0, n-frontSize)), err
}

// pace returns the error of a write of which so much was taken. With HTTP/2 net/http has a
// deadline for the next byte, and goes on with the rest where that has passed and some was
// taken: a client that takes a byte now and then would hold up all streams of its
// connection, and the deadlines of their answers, which are told behind what is written.
func (c *answerConn) pace(all, taken int, err error) error {
	switch {
	case err == nil:
		c.until = time.Time{}
		return nil
	case taken == 0 || !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	}
	now := time.Now()
	if c.until.IsZero() { // the time of the first piece is over
		c.until = now.Add(c.write * time.Duration((all-1)/slowPiece))
	}
	if !now.Before(c.until) {
		return errSlow
	}
	return err
}

// CloseWrite ends the writing alone, where the connection can. net/http does so before it
// closes one whose request it has not read to its end, so that the answer arrives.
func (c *answerConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// isFront reports whether p is the front of an answer whose length is announced, with
// its head, some of its body, and not all.
func isFront(p []byte) bool {
	if len(p) != frontSize || !bytes.HasPrefix(p, []byte("HTTP/1.1 ")) {
		return false
	}
	head, body, ok := bytes.Cut(p, []byte("\r\n\r\n"))
	if !ok || len(body) == 0 {
		return false
	}
	_, length, _ := bytes.Cut(head, []byte("\r\nContent-Length: "))
	digits, _, _ := bytes.Cut(length, []byte("\r\n"))
	n, err := strconv.Atoi(string(digits))
	return err == nil && n > len(body)
}
