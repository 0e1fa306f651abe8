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

// inbound follows what a connection receives, for two things that net/http does not
// check: that an HTTP/2 header completes in time, and that an HTTP/1.1 request does not
// have both Content-Length and Transfer-Encoding.
//
// Only the goroutine that reads the connection calls read.
type inbound struct {
	headerRead time.Duration // limits.headerRead; not positive for no limit
	hangUp     func()

	preface int // bytes received that equal the HTTP/2 preface, in order
	http1   bool
	frames  frameWatch
	match   int // bytes of contentLength matched on this line, or noMatch

	lengths  atomic.Int64 // lines received that begin with contentLength
	declared atomic.Int64 // requests served that have a length

	mu    sync.Mutex
	late  *time.Timer // closes the connection; nil before the first header is waited for
	ended bool
}

const (
	http2Preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	contentLength = "content-length"
	noMatch       = -1
)

// read follows b, which was received.
func (i *inbound) read(b []byte) {
	for !i.http1 && i.preface < len(http2Preface) && len(b) > 0 {
		if b[0] != http2Preface[i.preface] {
			i.http1, i.match = true, noMatch
			i.end() // net/http has a limit of its own
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

// readLines counts lines that begin with Content-Length. A body may have such a line,
// and counts too: the count is never too low.
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

// readFrames starts the time limit where a header begins, and stops it where one is
// complete. A header that is received in one piece needs no timer, but for the first of
// a connection, which expectHeader was called for by Accept.
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
		i.late = time.AfterFunc(i.headerRead, i.hangUp)
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

// end stops the timer for good, and lets go of its memory: there may be many connections
// on which nothing happens.
func (i *inbound) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	if i.late != nil {
		i.late.Stop()
		i.late = nil
	}
}

// mayHaveTwoLengths reports whether a request may have Content-Length besides
// Transfer-Encoding. net/http removes the former, so inbound compares counts. It is also
// true where the client has sent the next request already. It is called once for each
// HTTP/1.1 request, in order.
func (i *inbound) mayHaveTwoLengths(r *http.Request) bool {
	if len(r.TransferEncoding) == 0 {
		if r.ContentLength > 0 {
			i.declared.Add(1)
		}
		return false
	}
	return i.lengths.Load() > i.declared.Load()
}

// frameWatch follows the frames of an HTTP/2 connection (RFC 9113, 4.1).
type frameWatch struct {
	head    [9]byte
	have    int  // bytes of head
	left    int  // bytes of the frame's payload that are to come
	block   bool // a header block has begun and is not complete
	headers int  // header blocks that are complete
}

const (
	frameTypeHeaders      = 1
	frameTypeContinuation = 9
	flagHeadersComplete   = 4
)

// follow reports whether a header block has begun and is not complete.
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

// inboundKey is the key of a connection's inbound in the context of its requests.
type inboundKey struct{}

// withInbound is an http.Server's ConnContext.
func withInbound(ctx context.Context, c net.Conn) context.Context {
	if a, ok := c.(*answerConn); ok {
		return context.WithValue(ctx, inboundKey{}, &a.in)
	}
	return ctx
}

// closeAmbiguous has net/http close the connection after its answer to a request whose
// end others may see elsewhere, so that what follows is not taken for a request: "the
// server MUST close the connection after responding to such a request" (RFC 9112, 6.1).
// HTTP/1.0 knows no Transfer-Encoding, and net/http ignores it there.
func closeAmbiguous(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 {
		return
	}
	in, ok := r.Context().Value(inboundKey{}).(*inbound)
	if ok && in.mayHaveTwoLengths(r) || r.ProtoMinor == 0 {
		w.Header().Set("Connection", "close")
	}
}
