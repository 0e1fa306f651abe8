// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package httpconn

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// RequestBody is a message sent as the body of a POST. It records whether any of it was
// sent. The connection alone cannot show that: a connection may wait for an HTTP/2
// stream or for a server that does not read, and a backend cannot run a request of
// which it has seen only the headers.
type RequestBody struct {
	Msg    jsonrpc.Pieces
	Call   *session.Call // that the message begins; nil if it begins none
	Times  *mcp.Timeline // of the request that the message is sent for, or nil
	Sent   atomic.Bool
	first  requestBodyReader // one is enough, nearly always
	begun  bool              // first was used: a transport may still read it after the response
	answer answerBody        // the body of the response
}

// errWithdrawn aborts a POST if its call ended before it began. No caller sees it: the
// call has its terminal.
var errWithdrawn = errors.New("the call ended before its request was sent")

// setOn makes p the body of a request. A transport may resend a request that was not sent,
// or that a server refused to process, and then opens the body again. A body that is set on a
// second request, because the server has refused the first one unprocessed, is not sent yet.
func (p *RequestBody) setOn(req *http.Request) {
	req.ContentLength = int64(p.Msg.Len())
	reader := &p.first
	if p.begun {
		reader = new(requestBodyReader)
		p.Sent.Store(false)
		p.answer = answerBody{}
	}
	p.begun = true
	req.Body = p.open(reader)
	req.GetBody = func() (io.ReadCloser, error) { return p.open(new(requestBodyReader)), nil }
}

func (p *RequestBody) open(r *requestBodyReader) io.ReadCloser {
	r.RequestBody = p
	r.rest = p.Msg
	return r
}

// markSent reports whether the message may be sent, and records that it is.
func (p *RequestBody) markSent() bool {
	if p.Call != nil && !p.Call.Dispatch() {
		return false
	}
	p.Sent.Store(true)
	p.Times.Mark(mcp.StageSent)
	return true
}

// requestBodyReader reads a RequestBody once. It has no WriteTo, which would send the
// body without a call to Read.
type requestBodyReader struct {
	*RequestBody
	rest  jsonrpc.Pieces // not read yet
	begun bool
}

// Read asks the call for permission before the first byte only. A message that has
// begun must be sent whole, or the connection is lost for later calls.
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

// Close does nothing: the bytes belong to the RequestBody.
func (r *requestBodyReader) Close() error { return nil }
