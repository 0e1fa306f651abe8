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

// source is a result on its way to the client, as the Flow of an exchange has it.
type resultStream struct {
	result *mcp.Arriving
	head   []byte                   // of the response, up to the result
	writer atomic.Pointer[response] // nil until one writes
}

// Receive gives the client a result while it arrives, where its answer can still be one
// object, and nothing of the result is to be changed that has to be seen whole for it.
// The goroutine of the response reads and writes it; this one waits.
func (c *requestCaller) Receive(ctx context.Context, a *mcp.Arriving) (taken bool, err error) {
	if !c.server.cfg.PassArriving || !c.request.encoder.preparePass(c.request.req, a) {
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
	<-f.Done() // soon: neither its reader nor its writer waits any more
	return true, why
}

// abort has the flow fail that is being written.
func (s *resultStream) abort() {
	s.result.Stop()
	if p := s.writer.Load(); p != nil {
		p.setDeadline(time.Now())
	}
}

// Receive gives the result to the leg that the request is on. No question is put any
// more: the backend has answered.
func (c *mrtrCaller) Receive(ctx context.Context, a *mcp.Arriving) (taken bool, err error) {
	at := c.request.parked.Finish()
	if at == nil {
		return false, nil
	}
	return at.Receive(ctx, a)
}

// passes: what a client of the revision could not read is only found in the whole.
func (legacyEncoder) preparePass(req *mcp.Request, a *mcp.Arriving) bool {
	if !mayAsk(req.Method) || !revision.Passes(req.Client.Version, req.Method, a) {
		return false
	}
	a.Omit(mcp.FieldResultType, mcp.FieldTTL, mcp.FieldCacheScope)
	return true
}

func (ackEncoder) preparePass(*mcp.Request, *mcp.Arriving) bool { return false }

// passes: what a server does not say, or has not said yet, stands at the front, where a
// reader finds it at once. For how long a result can be kept a modern server says itself,
// and we do not say it before.
func (modernEncoder) preparePass(req *mcp.Request, a *mcp.Arriving) bool {
	if !mayAsk(req.Method) || !revision.Passes(req.Client.Version, req.Method, a) {
		return false
	}
	shown := a.Head()
	isKept := isCacheable(req.Method) && (!shown.Has(mcp.FieldTTL) || !shown.Has(mcp.FieldCacheScope))
	if isKept && a.From.Era() != mcp.EraLegacy {
		return false
	}
	if !shown.Has(mcp.FieldResultType) {
		a.PutText(mcp.FieldResultType, mcp.ResultComplete)
	}
	if isKept && !shown.Has(mcp.FieldTTL) {
		a.Prepend(mcp.FieldTTL, []byte("0"))
	}
	if isKept && !shown.Has(mcp.FieldCacheScope) {
		a.PutText(mcp.FieldCacheScope, "private")
	}
	return true
}

// closing is the end of a response whose result has gone by.
func closingMessage() session.Message { return session.Message{Head: []byte{'}'}, Rest: true} }

// object answers with one object: the terminal, or a flow and what is left then. It
// reports false where the client has not all of it.
//
// A flow that has failed is cut when the terminal says so, and not before, so that its
// Handler does not take the end of the request for what has ended it.
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

// awaitLast returns the terminal, nil where the exchange has ended without one, or the
// client is gone.
func (p *response) awaitTerminal(c *session.Consumer, gone <-chan struct{}) *session.Message {
	for {
		batch, state := c.Take(p.batch[:0])
		if len(batch) > 0 {
			return &batch[0] // of an exchange that is one object there is no other
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

// flow writes what has arrived of a result, and what comes, each piece when it is there.
// That the client goes ends the reading.
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

// fill makes up for what was announced and has not come, but for the n bytes that
// follow, with white space, which JSON allows: how long a result is cannot be known
// before its end, and a length that is announced costs less than one that is not, since
// each piece goes out as it is.
func (p *response) pad(n int) {
	const spaces = "                                                                "
	for more := p.unwritten - int64(n); more > 0 && p.err == nil; more -= int64(len(spaces)) {
		p.writeBody([]byte(spaces[:min(more, int64(len(spaces)))]))
	}
}

// errNotWhole is why an answer is cut that was begun: how it ends is not what it began
// with.
var errIncomplete = errors.New("the answer did not end as it began")

// pieces is a response as one to whom a result is written.
type resultWriter struct {
	*response
	started bool // the first has been written
}

// Write sends a piece, so that the client has what we have. The first is rarely all that
// is there, and need not be sent for itself.
func (p *resultWriter) Write(b []byte) (int, error) {
	p.writeBody(b)
	if p.started {
		p.flush()
	} else {
		p.clearDeadline() // it may be followed by nothing for long, as where it is a whole window
	}
	p.started = true
	p.unwritten -= int64(len(b))
	if p.err != nil {
		return 0, p.err
	}
	return len(b), nil
}
