// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// inbound watches the bytes that a connection receives, for two checks that net/http does
// not make: that an HTTP/2 header completes in time, and that an HTTP/1.1 request does not
// have both Content-Length and Transfer-Encoding.
//
// read must be called only by the goroutine that reads the connection.
type inbound struct {
	headerRead time.Duration // limits.headerRead; no limit if not positive
	closeConn  func()

	preface int // bytes received that equal the HTTP/2 preface, in order
	http1   bool
	frames  frameWatch
	match   int // bytes of contentLength matched on this line, or noMatch

	lengths  atomic.Int64 // received lines that begin with contentLength
	declared atomic.Int64 // served requests with a Content-Length

	mu    sync.Mutex
	late  *time.Timer // closes the connection; nil before the first header is expected
	ended bool
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
			i.end() // net/http has a timeout for HTTP/1.1 headers
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
	if i.headerRead <= 0 {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.ended:
	case i.late == nil:
		i.late = time.AfterFunc(i.headerRead, i.closeConn)
	default:
		i.late.Reset(i.headerRead)
	}
}

func (i *inbound) headerDone() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.late != nil {
		i.late.Stop()
	}
}

// end stops the timer permanently, and releases its memory: there may be many idle
// connections.
func (i *inbound) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	if i.late != nil {
		i.late.Stop()
		i.late = nil
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
		return context.WithValue(ctx, inboundKey{}, &a.in)
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
