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

// parcel is a message on its way out as the body of a POST, and knows whether any
// of it has left. That is more than a connection can tell: one may be had and
// waited on, for a stream of HTTP/2 or for a server that does not read, and a
// backend cannot execute what it has seen only the headers of.
type parcel struct {
	msg   mcp.Pieces
	call  *session.Call // that the message begins; nil where it begins none
	left  atomic.Bool
	first parcelReader // of which one is enough, nearly always
	reply answerBody   // what is answered to it
}

// errTakenBack is why a POST breaks off whose call was over before it began. It is
// nobody's answer: the call has one.
var errTakenBack = errors.New("the call ended before its request was sent")

// putInto makes the parcel the body of a request. net/http may send a request
// again that a server has refused to look at, and then wants the body anew.
func (p *parcel) putInto(req *http.Request) {
	req.ContentLength = int64(p.msg.Len())
	req.Body = p.open(&p.first)
	req.GetBody = func() (io.ReadCloser, error) { return p.open(new(parcelReader)), nil }
}

// anew returns the request of a parcel of which nothing was sent, to be made again.
func (p *parcel) anew(req *http.Request) *http.Request {
	p.left.Store(false)
	again := *req
	again.Body = p.open(new(parcelReader))
	return &again
}

func (p *parcel) open(r *parcelReader) io.ReadCloser {
	r.parcel = p
	r.rest = p.msg
	return r
}

// depart reports whether the message may leave, and notes that it does.
func (p *parcel) depart() bool {
	if p.call != nil && !p.call.Dispatch() {
		return false
	}
	p.left.Store(true)
	return true
}

// parcelReader reads a parcel once. It cannot write itself: then it would go out without
// being asked.
type parcelReader struct {
	*parcel
	rest  mcp.Pieces // to be read
	begun bool
}

// Read asks for leave before the first byte, and not again: what has begun must
// arrive whole, or the connection is lost for the calls behind it.
func (r *parcelReader) Read(b []byte) (int, error) {
	if !r.begun && !r.depart() {
		return 0, errTakenBack
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
func (r *parcelReader) Close() error { return nil }
