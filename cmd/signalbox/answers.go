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

// responseListener accepts connections of type responseConn.
type answerListener struct {
	net.Listener
	write      time.Duration // limits.write
	headerRead time.Duration // limits.headerRead
}

// Accept waits for a connection, and starts the time limit for its first HTTP/2 header.
func (l answerListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	a := &answerConn{Conn: c, write: l.write, in: inbound{headerRead: l.headerRead, hangUp: func() { _ = c.Close() }}}
	a.in.expectHeader()
	return a, nil
}

// responseConn is a server's connection with two additions to net/http's. A response with
// Content-Length that does not fit into net/http's buffer is sent in one write instead of
// two: the full first buffer is held back until the next write. If none follows, the
// held buffer is never sent, and net/http closes the connection, as the response is
// incomplete. And a write fails if the client reads too slowly, even if it reads some.
//
// Only one goroutine may write at a time, as with net/http's connections.
type answerConn struct {
	net.Conn
	front *[frontSize]byte // the buffer held back; nil if there is none
	room  [2][]byte        // the two elements of buffers
	both  net.Buffers

	write time.Duration // the time for each writeUnit
	until time.Time     // the deadline of a write that has timed out after a part; zero if none has

	in inbound
}

// Read reads from the connection, and passes what it read to the inbound.
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

// writeUnit is how much a client on a slow line has to read in limits.write. The
// responses of the server package use the same size.
const slowPiece = 16 << 10

// errSlowClient must not be a timeout: net/http would continue writing the rest.
var errSlow = errors.New("the client takes too little of what is written (limits.write)")

// firstBufferSize is the size of net/http's write buffer. A write of exactly that size is
// a buffer that has overflowed. A flushed buffer is smaller, and must not be held back.
const frontSize = 4 << 10

//nolint:gochecknoglobals // a pool is shared by all connections
var fronts = sync.Pool{New: func() any { return new([frontSize]byte) }}

// Write writes p after the buffer that is held back, if any, or holds p back.
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

// checkPace returns the error of a write, or errSlowClient if the client reads too slowly. With
// HTTP/2, net/http sets a deadline for the next byte, and continues after a timeout if
// some bytes were written. A client that reads a byte now and then could thus block all
// streams of its connection, and the deadlines of the responses, whose resets are queued
// behind the write.
func (c *answerConn) pace(all, taken int, err error) error {
	switch {
	case err == nil:
		c.until = time.Time{}
		return nil
	case taken == 0 || !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	}
	now := time.Now()
	if c.until.IsZero() { // the time for the first writeUnit has passed
		c.until = now.Add(c.write * time.Duration((all-1)/slowPiece))
	}
	if !now.Before(c.until) {
		return errSlow
	}
	return err
}

// CloseWrite closes the writing side, if the connection can. net/http calls it before it
// closes a connection whose request it has not read completely, so that the client
// receives the response.
func (c *answerConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// isFirstBuffer reports whether p is the beginning of a response with Content-Length:
// the header and a part of the body.
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
