// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// requestBody is a message on its way out as the body of a POST, and knows whether any
// of it has left. That is more than a connection can tell: one may be had and
// waited on, for a stream of HTTP/2 or for a server that does not read, and a
// backend cannot execute what it has seen only the headers of.
type requestBody struct {
	msg    mcp.Pieces
	call   *session.Call // that the message begins; nil where it begins none
	sent   atomic.Bool
	first  requestBodyReader // of which one is enough, nearly always
	answer answerBody        // what is answered to it
}

// errWithdrawn is why a POST breaks off whose call was over before it began. It is
// nobody's answer: the call has one.
var errWithdrawn = errors.New("the call ended before its request was sent")

// putInto makes the requestBody the body of a request. net/http may send a request
// again that a server has refused to look at, and then wants the body anew.
func (p *requestBody) setOn(req *http.Request) {
	req.ContentLength = int64(p.msg.Len())
	req.Body = p.open(&p.first)
	req.GetBody = func() (io.ReadCloser, error) { return p.open(new(requestBodyReader)), nil }
}

// anew returns the request of a requestBody of which nothing was sent, to be made again.
func (p *requestBody) rebuild(req *http.Request) *http.Request {
	p.sent.Store(false)
	again := *req
	again.Body = p.open(new(requestBodyReader))
	return &again
}

func (p *requestBody) open(r *requestBodyReader) io.ReadCloser {
	r.requestBody = p
	r.rest = p.msg
	return r
}

// depart reports whether the message may leave, and notes that it does.
func (p *requestBody) markSent() bool {
	if p.call != nil && !p.call.Dispatch() {
		return false
	}
	p.sent.Store(true)
	return true
}

// requestBodyReader reads a requestBody once. It cannot write itself: then it would go out without
// being asked.
type requestBodyReader struct {
	*requestBody
	rest  mcp.Pieces // to be read
	begun bool
}

// Read asks for leave before the first byte, and not again: what has begun must
// arrive whole, or the connection is lost for the calls behind it.
func (r *requestBodyReader) Read(b []byte) (int, error) {
	if !r.begun && !r.markSent() {
		return 0, errWithdrawn
	}
	r.begun = true
	n := 0
	for i := range r.rest {
		m := copy(b[n:], r.rest[i])
		r.rest[i] = r.rest[i][m:]
		n += m
	}
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close does nothing: the bytes are ours.
func (r *requestBodyReader) Close() error { return nil }
