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

// Pipe returns the two ends of a connection that holds size bytes in each
// direction.
func Pipe(size int) (a, b *Conn) {
	ab, ba := newHalf(size), newHalf(size)
	return &Conn{in: ba, out: ab}, &Conn{in: ab, out: ba}
}

// Read returns what the other end wrote. It waits while there is nothing, and
// returns io.EOF when the other end has closed and all is read.
func (c *Conn) Read(p []byte) (int, error) { return c.in.read(p) }

// Write puts p into the buffer, and waits for the other end to read where it is
// full.
func (c *Conn) Write(p []byte) (int, error) { return c.out.write(p) }

// TryWrite puts as much of p into the buffer as it has room for, and waits for nobody.
func (c *Conn) TryWrite(p []byte) (int, error) {
	n, _, err := c.out.tryWrite(p)
	return n, err
}

// IsQuiet reports whether there is nothing to be read, and the other end has not closed.
func (c *Conn) IsQuiet() bool { return c.in.isQuiet() }

// Close closes both directions: the other end reads what was written and then
// io.EOF, and can write no more. What it has sent is lost.
func (c *Conn) Close() error {
	c.in.leave()
	c.out.shut(io.EOF, net.ErrClosed)
	return nil
}

// CloseWrite closes the outgoing direction only, as a client does that has said
// everything and still reads.
func (c *Conn) CloseWrite() error {
	c.out.shut(io.EOF, net.ErrClosed)
	return nil
}

// Reset breaks the connection: what is still in the buffers is lost, and both
// ends get an error.
func (c *Conn) Reset() {
	c.in.drop(errReset)
	c.out.drop(errReset)
}

var errReset error = syscall.ECONNRESET

// LocalAddr returns the one address of the network.
func (c *Conn) LocalAddr() net.Addr { return addr{} }

// RemoteAddr returns the one address of the network.
func (c *Conn) RemoteAddr() net.Addr { return addr{} }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	c.in.readBy.set(t)
	c.out.writeBy.set(t)
	return nil
}

// SetReadDeadline sets when Read gives up; the zero time is never.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.readBy.set(t)
	return nil
}

// SetWriteDeadline sets when Write gives up; the zero time is never.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.writeBy.set(t)
	return nil
}
