// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net"
	"strconv"
	"sync"
)

// answerListener is a listener whose connections send an answer that does not fit into
// net/http's buffer in one write instead of two: its front waits for what follows at
// once.
type answerListener struct{ net.Listener }

func (l answerListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &answerConn{Conn: c}, nil
}

// answerConn has one writer at a time, as net/http's connections have. A front whose
// rest does not come is never sent: the connection is closed then, and was to break.
type answerConn struct {
	net.Conn
	front *[frontSize]byte // what waits; nil for nothing
	room  [2][]byte        // of both
	both  net.Buffers
}

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
		return c.Conn.Write(p)
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
