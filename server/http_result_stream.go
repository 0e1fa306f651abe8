// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/revision"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// resultStream is a result that is written to the client while it arrives. It is the
// Source of a [session.ResultStream].
type resultStream struct {
	session.ResultStream

	result *jsonrpc.Arriving
	head   []byte                   // of the response, up to the result
	room   [64]byte                 // for most heads
	writer atomic.Pointer[response] // nil until a response writes it
	left   int64                    // of the length that was announced for the result, if one was
}

// Receive writes a result to the client while it arrives, if the response can still be
// one object and no change is needed that requires the whole result, such as those of a
// Handler of this package. The goroutine of the response reads and writes the result;
// Receive blocks until it is done. A disconnect of the client ends the reading.
func (c *requestCaller) Receive(ctx context.Context, res mcp.StreamedResult) (taken bool, err error) {
	a, ok := res.(*jsonrpc.Arriving)
	if req := c.request.req; !ok || !c.server.cfg.PassArriving || !mayAsk(req.Method) || c.request.handler != nil ||
		!revision.Passes(req.Client.Version, req.Method, a) || !c.request.encoder.preparePass(req, a) {
		return false, nil
	}
	src := &resultStream{result: a}
	src.head = appendResultHead(src.room[:0], c.x.ID())
	f := &src.ResultStream
	f.Source = src
	if !c.x.OfferResultStream(f) {
		return false, nil
	}
	select {
	case <-f.Done():
	case <-f.Gone(): // also after the response
		if !f.IsDone() {
			a.Stop()
		}
		select {
		case <-f.Done():
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	if f.IsDone() {
		return true, f.Err()
	}
	why := context.Cause(ctx)
	if c.x.WithdrawResultStream(f, why) {
		return true, why
	}
	// Neither its reader nor its writer must block any more.
	a.Stop()
	if p := src.writer.Load(); p != nil {
		p.setDeadline(time.Now())
	}
	<-f.Done()
	return true, why
}

// Receive passes the result to the current exchange of the request. No more questions are
// sent: the backend has answered.
func (c *mrtrCaller) Receive(ctx context.Context, res mcp.StreamedResult) (taken bool, err error) {
	at := c.request.parked.Finish()
	if at == nil {
		return false, nil
	}
	return at.Receive(ctx, res)
}

func (legacyEncoder) preparePass(_ *mcp.Request, a *jsonrpc.Arriving) bool {
	a.Omit(mcp.FieldResultType, mcp.FieldTTL, mcp.FieldCacheScope)
	return true
}

func (ackEncoder) preparePass(*mcp.Request, *jsonrpc.Arriving) bool { return false }

// preparePass puts members that the backend has not sent, or not yet, at the front. A result
// of a modern backend that needs caching hints and does not begin with them is not passed:
// its own hints may follow.
func (modernEncoder) preparePass(req *mcp.Request, a *jsonrpc.Arriving) bool {
	shown := a.Head()
	needsHints := isCacheable(req.Method) && (!shown.Has(mcp.FieldTTL) || !shown.Has(mcp.FieldCacheScope))
	if needsHints && a.From.Era() != mcp.EraLegacy {
		return false
	}
	if !shown.Has(mcp.FieldResultType) {
		a.PutText(mcp.FieldResultType, mcp.ResultComplete)
	}
	if needsHints && !shown.Has(mcp.FieldTTL) {
		a.Prepend(mcp.FieldTTL, []byte("0"))
	}
	if needsHints && !shown.Has(mcp.FieldCacheScope) {
		a.PutText(mcp.FieldCacheScope, "private")
	}
	return true
}

// closingMessage is the end of a response with a result that was written while it
// arrived.
func closingMessage() session.Message { return session.Message{Head: closingBrace, Rest: true} }

//nolint:gochecknoglobals // constant
var closingBrace = []byte{'}'}

// writeObject responds with one object: the terminal message, or an arriving result and
// its end. It reports false if the client has not received all of it.
//
// If the result has failed, the connection is closed only once the terminal message
// reports it, so that the Handler does not take the end of the request for the cause of
// the failure.
func (p *response) writeObject(r *http.Request, c *session.Consumer) (whole bool) {
	f := c.TakeResultStream()
	if f != nil {
		c.EndResultStream(f, p.writeResultStream(f))
	}
	var buf [1]session.Message // an exchange that is one object has only one message
	last, state := c.Take(buf[:0])
	for ; len(last) == 0; last, state = c.Take(buf[:0]) {
		if state != session.Open {
			return false // the exchange has ended without one
		}
		select {
		case <-c.Wake():
		case <-r.Context().Done():
			return false
		}
	}
	switch m := &last[0]; {
	case f == nil && !m.Rest:
		switch m.Status {
		case http.StatusUnauthorized, http.StatusForbidden:
			if challenge := (*p.denied).Challenge; challenge != "" {
				p.w.Header().Set(challengeHeader, challenge)
			}
		case http.StatusTooManyRequests:
			p.w.Header().Set("Retry-After", seconds((*p.denied).RetryAfter))
		}
		p.writeJSON(m)
	case f != nil && f.Err() == nil && m.Rest:
		p.write(m.Head)
	default:
		p.err = errIncomplete
	}
	if p.err != nil {
		c.Requeue(last) // so that it is counted as not delivered
	} else {
		p.timeline = last[0].Timeline
	}
	return p.err == nil
}

// writeResultStream writes each piece of the result as it arrives.
func (p *response) writeResultStream(f *session.ResultStream) error {
	src, ok := f.Source.(*resultStream)
	if !ok {
		return errIncomplete
	}
	src.writer.Store(p)
	length := int64(-1)
	if most := src.result.Longest(); most >= 0 {
		src.left, length = most, int64(len(src.head)+len(closingBrace))+most
	}
	p.beginObject(http.StatusOK, length)
	p.write(src.head)
	if err := src.result.Flow(src); err != nil {
		return err
	}
	src.pad(p)
	return nil
}

// errIncomplete is the error of a response that cannot end as it began.
var errIncomplete = errors.New("the response is incomplete")

// unbuffered is the size from which net/http writes the bytes of a piece at once: its
// buffers are smaller. A flush would send the end of a chunk in a packet of its own.
const unbuffered = 16 << 10

// Write writes a piece of the result to the response, and sends it.
func (src *resultStream) Write(b []byte) (int, error) {
	p := src.writer.Load()
	src.left -= int64(len(b))
	p.write(b)
	if len(b) < unbuffered {
		p.flush()
	}
	p.clearDeadline() // the next piece may follow much later
	if p.err != nil {
		return 0, p.err
	}
	return len(b), nil
}

// padding is written behind a result that is shorter than announced.
//
//nolint:gochecknoglobals // constant
var padding = bytes.Repeat([]byte{' '}, 4<<10)

// pad writes white space, which JSON allows, up to the announced length: that of a result
// is unknown before its end. An announced upper bound costs less than chunks, for each of
// which net/http takes two writes.
func (src *resultStream) pad(p *response) {
	for ; src.left > 0 && p.err == nil; src.left -= int64(len(padding)) {
		p.write(padding[:min(int64(len(padding)), src.left)])
	}
}
