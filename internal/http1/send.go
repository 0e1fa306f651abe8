// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// pieceSize is how much of a request is written at once. headRoom is the usual part of that
// for its header.
const (
	pieceSize = 32 << 10
	headRoom  = 4 << 10
)

// send writes the request. What would block is left to a goroutine.
func (x *exchange) send(req *http.Request) error {
	again := x.used
	x.used = true
	out := newPiece()
	if x.sock == nil || req.ContentLength > pieceSize-headRoom {
		out.to = x.conn
		x.sending = startSender(x.conn, out, func() error { return out.write(req) })
		return nil
	}
	if err := out.fill(req); err != nil {
		out.free()
		return err
	}
	n, err := x.sock.TryWrite(out.p)
	if err == nil && n < len(out.p) {
		x.sending = startSender(x.conn, out, func() error { return x.write(out.p[n:]) })
		return nil
	}
	out.free()
	if err == nil {
		return nil
	}
	err = &net.OpError{Op: "write", Net: x.RemoteAddr().Network(), Source: x.LocalAddr(), Addr: x.RemoteAddr(), Err: err}
	switch {
	case n == 0 && again:
		return fmt.Errorf("%w: %w", ErrUnsent, err)
	case isPeerClosed(err): // the server may have sent a response
		x.sending = &sender{done: make(chan struct{}), err: err}
		close(x.sending.done)
		x.abort(err)
		return nil
	default:
		return err
	}
}

// write writes p within WriteTimeout.
func (c *conn) write(p []byte) error {
	if err := c.SetWriteDeadline(time.Now().Add(c.of.WriteTimeout)); err != nil {
		return err
	}
	if _, err := c.Write(p); err != nil {
		return err
	}
	return c.SetWriteDeadline(time.Time{})
}

// sender is a goroutine that writes a request, or the rest of it.
type sender struct {
	done chan struct{} // closed at the end
	err  error         // set before done is closed
}

// startSender starts a goroutine that writes. It ends with its write, with the connection, or
// after WriteTimeout.
func startSender(c *conn, out *piece, write func() error) *sender {
	s := &sender{done: make(chan struct{})}
	go func() { // ends as above; done is closed at its end
		s.err = write()
		out.free()
		if errors.Is(s.err, os.ErrDeadlineExceeded) {
			s.err = fmt.Errorf("the server did not read the request within %v: %w", c.of.WriteTimeout, s.err)
		}
		close(s.done) // first: an exchange that finds the connection closed asks for the error
		if s.err != nil {
			c.abort(s.err)
		}
	}()
	return s
}

// responseGrace is how long a server that no longer reads may take to send a response.
const responseGrace = time.Second

// abort ends the wait for the response to an incomplete request, except for a response that
// the server sent before it closed the connection.
func (c *conn) abort(err error) {
	if !isPeerClosed(err) || c.SetReadDeadline(time.Now().Add(responseGrace)) != nil {
		c.Close()
	}
}

// isDone reports whether everything is written within the given time.
func (s *sender) isDone(in time.Duration) bool {
	if s == nil {
		return true
	}
	timer := time.NewTimer(in)
	defer timer.Stop()
	select {
	case <-s.done:
		return s.err == nil
	case <-timer.C:
		return false
	}
}

// failure returns the error of the write, if it has failed.
func (s *sender) failure() error {
	if s == nil {
		return nil
	}
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// piece is a buffer for a part of a request; most requests fit completely.
type piece struct {
	p   []byte
	to  *conn // receives the buffer when it is full; nil if the buffer grows instead
	err error // of the body or the connection; net/http wraps it in an error of its own
}

//nolint:gochecknoglobals // a pool is shared by all connections
var pieces = sync.Pool{New: func() any { return &piece{p: make([]byte, 0, pieceSize)} }}

func newPiece() *piece {
	o, _ := pieces.Get().(*piece)
	return o
}

// free returns the buffer to the pool, unless it has grown.
func (o *piece) free() {
	if cap(o.p) == pieceSize {
		o.p, o.to, o.err = o.p[:0], nil, nil
		pieces.Put(o)
	}
}

// fill writes a request into the buffer.
func (o *piece) fill(req *http.Request) error {
	if isOrdinary(req) {
		if head, ok := appendHead(o.p, req); ok && len(head) <= headRoom {
			o.p = head
			return o.takeBody(req)
		}
	}
	err := req.Write(o)
	if o.err != nil {
		return o.err
	}
	return err
}

// write writes a whole request, to the connection.
func (o *piece) write(req *http.Request) error {
	if err := o.fill(req); err != nil {
		return err
	}
	return o.flush()
}

// ReadFrom appends a body.
func (o *piece) ReadFrom(body io.Reader) (n int64, err error) { return o.take(body, math.MaxInt64) }

// take appends at most most bytes of a body.
func (o *piece) take(body io.Reader, most int64) (n int64, err error) {
	for err == nil && n < most {
		if err = o.makeRoom(); err != nil {
			return n, err
		}
		var m int
		room := o.p[len(o.p):cap(o.p)]
		m, err = body.Read(room[:min(int64(len(room)), most-n)])
		o.p = o.p[:len(o.p)+m]
		n += int64(m)
	}
	if errors.Is(err, io.EOF) {
		return n, nil
	}
	o.err = err
	return n, err
}

// makeRoom flushes or grows a full buffer.
func (o *piece) makeRoom() error {
	switch {
	case len(o.p) < cap(o.p):
	case o.to != nil:
		return o.flush()
	default:
		o.p = slices.Grow(o.p, pieceSize)
	}
	return nil
}

// Write appends p.
func (o *piece) Write(p []byte) (int, error) { return put(o, p) }

// WriteString appends s.
func (o *piece) WriteString(s string) (int, error) { return put(o, s) }

// WriteByte appends b. net/http adds a buffer to a writer without this method.
func (o *piece) WriteByte(b byte) error {
	_, err := put(o, string(b))
	return err
}

func put[T []byte | string](o *piece, p T) (n int, err error) {
	if o.to == nil {
		o.p = append(o.p, p...)
		return len(p), nil
	}
	for n < len(p) {
		if err := o.makeRoom(); err != nil {
			return n, err
		}
		m := copy(o.p[len(o.p):cap(o.p)], p[n:])
		o.p = o.p[:len(o.p)+m]
		n += m
	}
	return n, nil
}

func (o *piece) flush() error {
	if len(o.p) == 0 {
		return nil
	}
	o.err = o.to.write(o.p)
	o.p = o.p[:0]
	return o.err
}
