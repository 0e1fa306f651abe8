// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package memnet

import (
	"io"
	"net"
	"syscall"
	"time"
)

// Conn is one end of a connection. Its methods may be called concurrently.
type Conn struct {
	in, out *half
}

// Pipe returns the two ends of a connection that buffers size bytes in each direction.
func Pipe(size int) (a, b *Conn) {
	ab, ba := newHalf(size), newHalf(size)
	return &Conn{in: ba, out: ab}, &Conn{in: ab, out: ba}
}

// Read returns bytes that the other end wrote. It blocks until there are some, and returns
// io.EOF when the other end has closed and everything was read.
func (c *Conn) Read(p []byte) (int, error) { return c.in.read(p) }

// Write writes p to the buffer, and blocks while the buffer is full.
func (c *Conn) Write(p []byte) (int, error) { return c.out.write(p) }

// TryWrite writes as much of p as fits into the buffer. It does not block.
func (c *Conn) TryWrite(p []byte) (int, error) {
	n, _, err := c.out.tryWrite(p)
	return n, err
}

// IsQuiet reports whether there is nothing to read and the other end has not closed.
func (c *Conn) IsQuiet() bool { return c.in.isQuiet() }

// Close closes both directions: the other end reads what was written and then io.EOF, and
// cannot write. What it has sent is lost.
func (c *Conn) Close() error {
	c.in.leave()
	c.out.shut(io.EOF, net.ErrClosed)
	return nil
}

// CloseWrite closes the outgoing direction only, like a client that has sent everything and
// still reads.
func (c *Conn) CloseWrite() error {
	c.out.shut(io.EOF, net.ErrClosed)
	return nil
}

// Reset breaks the connection: the contents of the buffers are lost, and both ends get an
// error.
func (c *Conn) Reset() {
	c.in.drop(errReset)
	c.out.drop(errReset)
}

var errReset error = syscall.ECONNRESET

// LocalAddr returns the only address of the network.
func (c *Conn) LocalAddr() net.Addr { return addr{} }

// RemoteAddr returns the only address of the network.
func (c *Conn) RemoteAddr() net.Addr { return addr{} }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	c.in.readBy.set(t)
	c.out.writeBy.set(t)
	return nil
}

// SetReadDeadline sets the deadline of Read; the zero time means none.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.readBy.set(t)
	return nil
}

// SetWriteDeadline sets the deadline of Write; the zero time means none.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.writeBy.set(t)
	return nil
}
