// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// responseListener accepts connections of type responseConn.
type responseListener struct {
	net.Listener
	certificates *certificates // nil without TLS
	writeTimeout time.Duration // limits.write
	headerRead   time.Duration // limits.headerRead
}

// Accept waits for a connection, and starts the time limit for its first HTTP/2 header.
func (l responseListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	// The bytes that responseConn watches are those of HTTP.
	a := &responseConn{Conn: l.certificates.secure(c), writeTimeout: l.writeTimeout}
	if l.headerRead > 0 {
		a.in.headerRead, a.in.late = l.headerRead, time.AfterFunc(l.headerRead, func() { _ = c.Close() })
	}
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

func (c *responseConn) Close() error {
	c.in.headerDone()
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

// inbound watches the bytes that a connection receives, for two checks that net/http does
// not make: that an HTTP/2 header completes in time, and that an HTTP/1.1 request does not
// have both Content-Length and Transfer-Encoding.
//
// read must be called only by the goroutine that reads the connection.
type inbound struct {
	headerRead time.Duration // limits.headerRead
	late       *time.Timer   // closes the connection; nil without a limit

	preface int // bytes received that equal the HTTP/2 preface, in order
	http1   bool
	frames  frameWatch
	match   int // bytes of contentLength matched on this line, or noMatch

	lengths  atomic.Int64 // received lines that begin with contentLength
	declared atomic.Int64 // served requests with a Content-Length
}

const (
	http2Preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	contentLength = "content-length"
	noMatch       = -1
)

// read processes b, which was received.
func (i *inbound) read(b []byte) {
	for !i.http1 && i.preface < len(http2Preface) && len(b) > 0 {
		if b[0] != http2Preface[i.preface] {
			i.http1, i.match = true, noMatch
			i.headerDone() // net/http has a timeout for HTTP/1.1 headers
			break
		}
		i.preface++
		b = b[1:]
	}
	switch {
	case len(b) == 0:
	case i.http1:
		i.readLines(b)
	default:
		i.readFrames(b)
	}
}

// readLines counts lines that begin with Content-Length. A line of a body may, too: the
// count can be too high, but never too low.
func (i *inbound) readLines(b []byte) {
	for len(b) > 0 {
		if i.match == noMatch {
			lf := bytes.IndexByte(b, '\n')
			if lf < 0 {
				return
			}
			i.match, b = 0, b[lf+1:]
			continue
		}
		if b[0]|0x20 != contentLength[i.match] {
			i.match = noMatch // b[0] may be a line feed
			continue
		}
		i.match, b = i.match+1, b[1:]
		if i.match == len(contentLength) {
			i.lengths.Add(1)
			i.match = noMatch
		}
	}
}

// readFrames starts the timer when a header block begins, and stops it when the block is
// complete. A block received in one piece needs no timer, except for the first of a
// connection, for which Accept calls expectHeader.
func (i *inbound) readFrames(b []byte) {
	was, before := i.frames.block, i.frames.headers
	open := i.frames.follow(b)
	news := i.frames.headers != before
	switch {
	case i.frames.headers == 0:
	case open && (news || !was):
		i.expectHeader()
	case !open && (news || was):
		i.headerDone()
	}
}

// expectHeader closes the connection unless headerDone is called in time.
func (i *inbound) expectHeader() {
	if i.late != nil {
		i.late.Reset(i.headerRead)
	}
}

func (i *inbound) headerDone() {
	if i.late != nil {
		i.late.Stop()
	}
}

// mayHaveTwoLengths reports whether a request may have both Content-Length and
// Transfer-Encoding. net/http removes the former from the request, so the counts are
// compared. It may report true wrongly if the client has already sent the next request. It
// must be called once for each HTTP/1.1 request, in order.
func (i *inbound) mayHaveTwoLengths(r *http.Request) bool {
	if len(r.TransferEncoding) == 0 {
		if r.ContentLength > 0 {
			i.declared.Add(1)
		}
		return false
	}
	return i.lengths.Load() > i.declared.Load()
}

// frameWatch parses the frames of an HTTP/2 connection (RFC 9113, 4.1).
type frameWatch struct {
	head    [9]byte
	have    int  // the number of bytes in head
	left    int  // the number of bytes missing of the frame's payload
	block   bool // a header block has begun and is not complete
	headers int  // the number of complete header blocks
}

const (
	frameTypeHeaders      = 1
	frameTypeContinuation = 9
	flagHeadersComplete   = 4
)

// follow processes b, and reports whether a header block has begun and is not complete.
func (f *frameWatch) follow(b []byte) (open bool) {
	for {
		if f.have < len(f.head) {
			n := copy(f.head[f.have:], b)
			f.have, b = f.have+n, b[n:]
			if f.have < len(f.head) {
				return f.block
			}
			f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
			f.block = f.block || f.head[3] == frameTypeHeaders
		}
		n := min(f.left, len(b))
		f.left, b = f.left-n, b[n:]
		if f.left > 0 {
			return f.block
		}
		f.have = 0
		if kind := f.head[3]; f.block && (kind == frameTypeHeaders || kind == frameTypeContinuation) && f.head[4]&flagHeadersComplete != 0 {
			f.block = false
			f.headers++
		}
	}
}

// inboundKey is the context key of a connection's inbound.
type inboundKey struct{}

// withInbound is an http.Server's ConnContext.
func withInbound(ctx context.Context, c net.Conn) context.Context {
	if a, ok := c.(*responseConn); ok {
		return withTLS(context.WithValue(ctx, inboundKey{}, &a.in), c)
	}
	return ctx
}

// closeAmbiguous makes net/http close the connection after its response to a request
// that other HTTP implementations may delimit differently, so that the bytes after it are not
// taken for a request: "the
// server MUST close the connection after responding to such a request" (RFC 9112, 6.1).
// HTTP/1.0 has no Transfer-Encoding, and net/http ignores it there.
func closeAmbiguous(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 {
		return
	}
	in, ok := r.Context().Value(inboundKey{}).(*inbound)
	if ok && in.mayHaveTwoLengths(r) || r.ProtoMinor == 0 {
		w.Header().Set("Connection", "close")
	}
}
