// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// pieceSize is how much of a request is written at once. headRoom is the usual part of that
// for its header.
const (
	pieceSize = 32 << 10
	headRoom  = 4 << 10
)

// The buffers of requests: of those that fit into one, as most do, and of longer ones, which
// are written in pieces.
//
//nolint:gochecknoglobals // pools are shared by all connections
var (
	buffers = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, pieceSize)) }}
	writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, pieceSize) }}
)

// putBuffer returns an unused buffer to the pool, unless it has grown.
func putBuffer(buf *bytes.Buffer) {
	if buf.Cap() == pieceSize {
		buf.Reset()
		buffers.Put(buf)
	}
}

// send writes the request. What would block is left to a goroutine.
func (x *exchange) send(req *http.Request) error {
	reused := x.used
	x.used = true
	if x.sock == nil || req.ContentLength > pieceSize-headRoom {
		x.startSending(func() error { return x.sendPieces(req) })
		return nil
	}
	buf, _ := buffers.Get().(*bytes.Buffer)
	if err := x.write(req, buf); err != nil {
		putBuffer(buf)
		return err
	}
	n, err := x.sock.TryWrite(buf.Bytes())
	if err == nil && n < buf.Len() {
		x.startSending(func() error {
			defer putBuffer(buf)
			_, err := x.Write(buf.Bytes()[n:])
			return err
		})
		return nil
	}
	putBuffer(buf)
	if err == nil {
		return nil
	}
	err = &net.OpError{Op: "write", Net: x.RemoteAddr().Network(), Source: x.LocalAddr(), Addr: x.RemoteAddr(), Err: err}
	switch {
	case n == 0 && reused:
		return fmt.Errorf("%w: %w", ErrUnsent, err)
	case isPeerClosed(err): // the server may have sent a response
		x.sent = make(chan error, 1)
		x.sent <- err
		x.abort(err)
		return nil
	default:
		return err
	}
}

// sendPieces writes the request in pieces, each within WriteTimeout.
func (x *exchange) sendPieces(req *http.Request) error {
	w, _ := writers.Get().(*bufio.Writer)
	w.Reset(x.conn)
	defer func() {
		w.Reset(nil)
		writers.Put(w)
	}()
	if err := x.write(req, w); err != nil {
		return err
	}
	return w.Flush()
}

// buffer is a [bytes.Buffer] or a [bufio.Writer].
type buffer interface {
	io.Writer
	io.ReaderFrom
	AvailableBuffer() []byte
}

// write writes a request into a buffer.
func (c *conn) write(req *http.Request, to buffer) error {
	if isOrdinary(req) {
		if head, ok := appendHead(to.AvailableBuffer(), req); ok && len(head) <= headRoom {
			_, _ = to.Write(head) // it fits
			return c.writeBody(req, to)
		}
	}
	if req.ContentLength <= 0 {
		return req.Write(to)
	}
	body := &recordedBody{ReadCloser: req.Body}
	own := *req
	own.Body = body
	if err := own.Write(to); body.err == nil {
		return err
	}
	return body.err
}

// writeBody writes the body of a request after its head, and closes it.
func (c *conn) writeBody(req *http.Request, to buffer) error {
	c.reqBody = io.LimitedReader{R: req.Body, N: req.ContentLength}
	n, err := to.ReadFrom(&c.reqBody)
	c.reqBody.R = nil // an idle connection holds no request
	if err == nil {
		var behind int64
		behind, err = io.Copy(io.Discard, req.Body)
		n += behind
	}
	if failed := req.Body.Close(); err == nil {
		err = failed
	}
	if err == nil && n != req.ContentLength {
		err = fmt.Errorf("the body has %d bytes, and %d are announced", n, req.ContentLength)
	}
	return err
}

// recordedBody records the error of a body: net/http returns it in an error of its own, which
// cannot be unwrapped.
type recordedBody struct {
	io.ReadCloser
	err error
}

// Read reads the body.
func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// startSending starts a goroutine that writes the request, or the rest of it. It ends with its
// write, with the connection, or after WriteTimeout.
func (x *exchange) startSending(write func() error) {
	x.sent = make(chan error, 1)
	go func() { // ends as above; x.sent has a value at its end
		err := write()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("the server did not read the request within %v: %w", x.timeout, err)
		}
		x.sent <- err // first: an exchange that finds the connection closed asks for the error
		if err != nil {
			x.abort(err)
		}
	}()
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

// lateWrite bounds how long the end of a request may be written after the end of its response.
const lateWrite = 50 * time.Millisecond

// isSent reports whether the request is written completely, and waits for that.
func (x *exchange) isSent() bool {
	if x.sent == nil {
		return true
	}
	select {
	case err := <-x.sent:
		return err == nil
	case <-time.After(lateWrite):
		return false
	}
}
