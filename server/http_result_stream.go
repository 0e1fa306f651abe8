// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/revision"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// resultStream is a result that is written to the client while it arrives. It is the
// Source of a [session.ResultStream].
type resultStream struct {
	result *mcp.Arriving
	head   []byte                   // of the response, up to the result
	writer atomic.Pointer[response] // nil until a response writes it
}

// Receive writes a result to the client while it arrives, if the response can still be
// one object and no change is needed that requires the whole result. The goroutine of the
// response reads and writes the result; Receive blocks until it is done.
func (c *requestCaller) Receive(ctx context.Context, res mcp.StreamedResult) (taken bool, err error) {
	a, ok := res.(*mcp.Arriving)
	if !ok || !c.server.cfg.PassArriving || !c.request.encoder.preparePass(c.request.req, a) {
		return false, nil
	}
	src := &resultStream{result: a, head: appendResultHead(nil, c.x.ID())}
	f := session.NewResultStream(src)
	if !c.x.OfferResultStream(f) {
		return false, nil
	}
	select {
	case <-f.Done():
		return true, f.Err()
	case <-ctx.Done():
	}
	why := context.Cause(ctx)
	if c.x.WithdrawResultStream(f, why) {
		return true, why
	}
	src.abort()
	<-f.Done() // soon: neither its reader nor its writer blocks any more
	return true, why
}

// abort makes the writing of the result fail.
func (s *resultStream) abort() {
	s.result.Stop()
	if p := s.writer.Load(); p != nil {
		p.setDeadline(time.Now())
	}
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

// preparePass passes results that need no translation for the revision, which would
// require the whole result.
func (legacyEncoder) preparePass(req *mcp.Request, a *mcp.Arriving) bool {
	if !mayAsk(req.Method) || !revision.Passes(req.Client.Version, req.Method, a) {
		return false
	}
	a.Omit(mcp.FieldResultType, mcp.FieldTTL, mcp.FieldCacheScope)
	return true
}

func (ackEncoder) preparePass(*mcp.Request, *mcp.Arriving) bool { return false }

// preparePass puts members that the backend has not sent, or not yet, at the front. A result
// of a modern backend that needs caching hints and does not begin with them is not passed:
// its own hints may follow.
func (modernEncoder) preparePass(req *mcp.Request, a *mcp.Arriving) bool {
	if !mayAsk(req.Method) || !revision.Passes(req.Client.Version, req.Method, a) {
		return false
	}
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
func closingMessage() session.Message { return session.Message{Head: []byte{'}'}, Rest: true} }

// writeObject responds with one object: the terminal message, or an arriving result and
// its end. It reports false if the client has not received all of it.
//
// If the result has failed, the connection is closed only once the terminal message
// reports it, so that the Handler does not take the end of the request for the cause of
// the failure.
func (p *response) writeObject(r *http.Request, c *session.Consumer) (whole bool) {
	f := c.TakeResultStream()
	if f != nil {
		c.EndResultStream(f, p.writeResultStream(r.Context(), f))
	}
	last := p.awaitTerminal(c, r.Context().Done())
	switch {
	case last == nil:
		return false
	case f == nil && !last.Rest:
		p.writeJSON(last)
	case f != nil && f.Err() == nil && last.Rest:
		p.pad(len(last.Head))
		p.writeBody(last.Head)
	default:
		p.err = errIncomplete
	}
	if p.err != nil {
		c.Requeue([]session.Message{*last}) // so that it is counted as not delivered
	}
	return p.err == nil
}

// awaitTerminal returns the terminal message, or nil if the exchange has ended without
// one or the client is gone.
func (p *response) awaitTerminal(c *session.Consumer, gone <-chan struct{}) *session.Message {
	for {
		batch, state := c.Take(p.batch[:0])
		if len(batch) > 0 {
			return &batch[0] // an exchange that is one object has only one message
		}
		if state != session.Open {
			return nil
		}
		select {
		case <-c.Wake():
		case <-gone:
			return nil
		}
	}
}

// writeResultStream writes each piece of the result as it arrives. A disconnect of the
// client ends the reading.
func (p *response) writeResultStream(ctx context.Context, f *session.ResultStream) error {
	src, ok := f.Source.(*resultStream)
	if !ok {
		return errIncomplete
	}
	src.writer.Store(p)
	defer context.AfterFunc(ctx, src.result.Stop)()
	h := p.w.Header()
	h.Set("Content-Type", jsonType)
	if most := src.result.Longest(); most >= 0 {
		p.unwritten = most + int64(len(closingMessage().Head))
		h.Set("Content-Length", strconv.FormatInt(int64(len(src.head))+p.unwritten, 10))
	}
	p.w.WriteHeader(http.StatusOK)
	p.writeBody(src.head)
	return src.result.Flow(&resultWriter{response: p})
}

// pad writes white space, which JSON allows, up to the announced length, except for the n
// bytes that follow. The length of a result is unknown before its end, and an announced
// upper bound costs less than chunks, since each piece is written as it is.
func (p *response) pad(n int) {
	const spaces = "                                                                "
	for more := p.unwritten - int64(n); more > 0 && p.err == nil; more -= int64(len(spaces)) {
		p.writeBody([]byte(spaces[:min(more, int64(len(spaces)))]))
	}
}

// errIncomplete is the error of a response that cannot end as it began.
var errIncomplete = errors.New("the response is incomplete")

// resultWriter is the io.Writer to which a result is written.
type resultWriter struct {
	*response
	started bool // the first piece has been written
}

// Write writes a piece and flushes it. The first piece is rarely all there is, and is not
// flushed on its own.
func (p *resultWriter) Write(b []byte) (int, error) {
	p.writeBody(b)
	if p.started {
		p.flush()
	} else {
		p.clearDeadline() // a whole window may be followed by nothing for long
	}
	p.started = true
	p.unwritten -= int64(len(b))
	if p.err != nil {
		return 0, p.err
	}
	return len(b), nil
}
