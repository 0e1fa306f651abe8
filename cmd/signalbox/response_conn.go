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
type responseListener struct {
	net.Listener
	writeTimeout time.Duration // limits.write
	headerRead   time.Duration // limits.headerRead
}

// Accept waits for a connection, and starts the time limit for its first HTTP/2 header.
func (l responseListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	a := &responseConn{Conn: c, writeTimeout: l.writeTimeout, in: inbound{headerRead: l.headerRead, closeConn: func() { _ = c.Close() }}}
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
type responseConn struct {
	net.Conn
	held    *[firstBufferSize]byte // the buffer held back, or nil
	parts   [2][]byte              // the two elements of buffers
	buffers net.Buffers

	writeTimeout time.Duration // the time for each writeUnit
	deadline     time.Time     // the deadline of a write that has timed out after a part; zero if none has

	in inbound
}

// Read reads from the connection, and passes what it read to the inbound.
func (c *responseConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.read(p[:n])
	return n, err
}

// Close closes the connection.
func (c *responseConn) Close() error {
	c.in.end()
	return c.Conn.Close()
}

// writeUnit is how much a client on a slow line has to read in limits.write. The
// responses of the server package use the same size.
const writeUnit = 16 << 10

// errSlowClient must not be a timeout: net/http would continue writing the rest.
var errSlowClient = errors.New("the client takes too little of what is written (limits.write)")

// firstBufferSize is the size of net/http's write buffer. A write of exactly that size is
// a buffer that has overflowed. A flushed buffer is smaller, and must not be held back.
const firstBufferSize = 4 << 10

//nolint:gochecknoglobals // a pool is shared by all connections
var firstBuffers = sync.Pool{New: func() any { return new([firstBufferSize]byte) }}

// Write writes p after the buffer that is held back, if any, or holds p back.
func (c *responseConn) Write(p []byte) (int, error) {
	switch {
	case c.held != nil:
		return c.writeBoth(p)
	case !isFirstBuffer(p):
		n, err := c.Conn.Write(p)
		return n, c.checkPace(len(p), n, err)
	}
	c.held, _ = firstBuffers.Get().(*[firstBufferSize]byte)
	copy(c.held[:], p)
	return len(p), nil
}

func (c *responseConn) writeBoth(p []byte) (int, error) {
	c.parts = [2][]byte{c.held[:], p}
	c.buffers = c.parts[:]
	n, err := c.buffers.WriteTo(c.Conn)
	c.parts, c.buffers = [2][]byte{}, nil
	firstBuffers.Put(c.held)
	c.held = nil
	return int(max(0, n-firstBufferSize)), err
}

// checkPace returns the error of a write, or errSlowClient if the client reads too slowly.
// With HTTP/2, net/http sets a deadline for the next byte, and continues after a timeout if
// some bytes were written. A client that reads a byte now and then could thus block all
// streams of its connection, and the deadlines of the responses: their resets are queued
// behind the write.
func (c *responseConn) checkPace(all, taken int, err error) error {
	switch {
	case err == nil:
		c.deadline = time.Time{}
		return nil
	case taken == 0 || !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	}
	now := time.Now()
	if c.deadline.IsZero() { // the time for the first writeUnit has passed
		c.deadline = now.Add(c.writeTimeout * time.Duration((all-1)/writeUnit))
	}
	if !now.Before(c.deadline) {
		return errSlowClient
	}
	return err
}

// CloseWrite closes the writing side, if the connection can. net/http calls it before it
// closes a connection with an unread rest of a request, so that the client
// receives the response.
func (c *responseConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// isFirstBuffer reports whether p is the beginning of a response with Content-Length:
// the header and a part of the body.
func isFirstBuffer(p []byte) bool {
	if len(p) != firstBufferSize || !bytes.HasPrefix(p, []byte("HTTP/1.1 ")) {
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
