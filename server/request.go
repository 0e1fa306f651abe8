// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// encoder writes the outcome of a request in the form of one era. It is the only place in
// which a response depends on the revision of the client.
type encoder interface {
	// result returns the terminal message of a request that succeeded, or of one with a
	// result that this era cannot express. It may use buf, which is empty, for the
	// message.
	result(buf []byte, id mcp.ID, req *mcp.Request, res *mcp.Result) session.Message
	// failure returns the terminal message of a request that failed.
	failure(id mcp.ID, req *mcp.Request, err *mcp.Error) session.Message
	// preparePass reports whether a result that needs no translation for the revision may
	// be written to the client while it arrives, and sets the edits that it needs for that.
	preparePass(req *mcp.Request, a *jsonrpc.Arriving) bool
}

// inflightRequest is a request of a client while the Handler serves it. What every
// request needs is part of the struct, so that one allocation suffices.
type inflightRequest struct {
	inflight
	req           *mcp.Request // original, or a rewritten copy
	caller        mcp.Caller
	encoder       encoder
	handler       mcp.Handler      // nil for that of the server
	wg            *sync.WaitGroup  // waits for the request besides Shutdown, or nil
	inQuota       bool             // counts against the quota of the server
	progressTimer timer            // sends delayed progress
	sess          *session.Session // set if the client can resume its streams, or nil

	// For requests during which a modern client may be asked for input.
	connID   uint64 // the pipe that it arrived on, 0 for HTTP
	restarts int    // how often it was restarted, after URLs were visited
	askTimer timer  // sends questions after the time to collect them

	// The outcome, once the Handler has returned: one of the first two.
	res    *mcp.Result
	err    *mcp.Error
	denied *mcp.Denied // what err is part of, or nil

	original    mcp.Request   // as received
	client      mcp.Peer      // of a modern request
	attempt     requestCaller // of the exchange that it began
	parkedValue parkedRequest // storage for parked
	mrtr        mrtrCaller    // its Caller if it can be parked
	memory      memory        // reserved for its answer
	timeline    mcp.Timeline  // of a request that isTimed
}

// isTimed reports whether requests of the method have a [mcp.Timeline]: those that are
// sent on to one backend.
func isTimed(method string) bool { return mayAsk(method) || method == "completion/complete" }

// startTimeline records that the message with the request was read.
func (ir *inflightRequest) startTimeline() {
	if isTimed(ir.original.Method) {
		ir.timeline.Begin(time.Now())
		ir.original.Timeline, ir.times = &ir.timeline, &ir.timeline
	}
}

// begin returns the context in which the request runs. It has the values of ctx but not
// its end, because each era decides what a disconnect means.
func (ir *inflightRequest) begin(ctx context.Context, req *mcp.Request, enc encoder) context.Context {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ir.req, ir.encoder, ir.stop = req, enc, cancel
	if req.Method == "subscriptions/listen" {
		ir.kind, ir.profile = kindListen, req.Profile
	}
	return ctx
}

// start runs the request on another goroutine, which ends when the Handler returns;
// Shutdown and Close wait for it. If the server is draining, start reports false and
// starts nothing.
func (s *Server) start(ctx context.Context, ir *inflightRequest) bool {
	if !s.inflight.add(&ir.inflight) {
		s.releaseQuota(ir)
		ir.stop(errDraining)
		return false
	}
	s.requests.Add(1)
	if ir.wg != nil {
		ir.wg.Add(1)
	}
	s.workers.start(ctx, ir)
	return true
}

// run serves the request with its Handler. The deferred calls are in the order in which
// they must happen: first the answer, then the end of the context, then delayed progress,
// and last the signals that other goroutines wait for.
func (s *Server) run(ctx context.Context, ir *inflightRequest) {
	if ir.wg != nil {
		defer ir.wg.Done()
	}
	defer s.inflight.remove(&ir.inflight)
	defer ir.progressTimer.stop()
	defer ir.askTimer.stop()
	defer ir.stop(nil)
	kept := false
	defer func() {
		if !kept {
			ir.memory.reservation.Release()
		}
	}()
	var res *mcp.Result
	err := errNoResult
	// Deferred, because a Handler may end its goroutine instead of returning.
	defer func() {
		ir.res, ir.err = s.outcome(ctx, ir, res, err)
		kept = s.conclude(ir)
		if ir.sess != nil {
			s.settleStream(ctx, ir)
		}
	}()
	h := s.handler
	if ir.handler != nil {
		h = ir.handler
	}
	ir.req.Timeline.Mark(mcp.StageAdmitted)
	res, err = s.callHandler(ctx, h, ir.req, ir.caller)
}

// conclude sends the terminal message. That of a parked request is kept for the retry, as
// long as the questions would be.
func (s *Server) conclude(ir *inflightRequest) (kept bool) {
	if ir.parked == nil {
		s.finish(ir, ir.x)
		return false
	}
	at, kept := ir.parked.End()
	switch {
	case at != nil:
		s.finish(ir, at.x)
		at.progressTimer.stop()
	case !kept:
		s.counts.Undelivered.Add(1)
	}
	return kept
}

// releaseQuota releases the share of the quota that the request holds.
func (s *Server) releaseQuota(ir *inflightRequest) {
	if ir.inQuota {
		s.quota.release(quotaKeyOf(ir.req))
	}
}

// finish ends the exchange with the terminal message of the request. It is called for one
// exchange only: a parked request ends in another exchange than it began with.
//
// The answer then counts against the memory of the stream and no longer against that of
// the request. The outcome is released, since the exchange and the request may share one
// allocation.
func (s *Server) finish(ir *inflightRequest, x *session.Exchange) {
	s.releaseQuota(ir) // before the client can know that the request has ended
	var m session.Message
	switch {
	case ir.err != nil:
		m = ir.encoder.failure(x.ID(), ir.req, ir.err)
		if ir.denied != nil {
			m.Status = ir.denied.Status
		}
	case ir.res.Delivered:
		m = closingMessage()
	default:
		m = ir.encoder.result(x.Buffer(), x.ID(), ir.req, ir.res)
	}
	if err := ir.memory.reserveTerminal(&m); err != nil {
		m = ir.encoder.failure(x.ID(), ir.req, err.WithCall(ir.req.Timeline.ID()))
	}
	m.Timeline = ir.req.Timeline
	ir.res, ir.err = nil, nil
	ir.memory.reservation.Release()
	x.Finish(m)
}

// outcome turns what the Handler returned into what is sent to the client.
func (s *Server) outcome(ctx context.Context, ir *inflightRequest, res *mcp.Result, err error) (*mcp.Result, *mcp.Error) {
	if ir.req.TakesInputRequired && mcp.IsMethod(ir.req.Method) {
		answered := err == nil
		res, err = s.inputRequired(ir, res, err)
		if own, ok := err.(*mcp.Error); ok && answered { //nolint:errorlint // made just now
			err = own.WithCall(ir.req.Timeline.ID())
		}
	}
	switch {
	case ir.kind == kindListen && ir.tornDown.Load():
		// A listen that the server ends has succeeded, whatever error its Handler returned
		// when the context ended (2026-07-28, basic/patterns/subscriptions, "Graceful Closure").
		res, err = &mcp.Result{}, nil
	case err == nil && res == nil:
		err = errNoResult
	}
	if err == nil {
		return res, nil
	}
	if denied, ok := errors.AsType[*mcp.Denied](err); ok {
		ir.denied = denied
	}
	return nil, s.wireError(ctx, ir.req, err)
}

var errNoResult = errors.New("the handler returned neither a result nor an error")

// wireError returns the error to send to the client, and logs what is not sent.
//
// A Fault takes precedence over the Error that caused it, as in [mcp.ToWire]: the cause
// is what a backend sent for a request that is not the client's, and does not show
// whether the request ran.
func (s *Server) wireError(ctx context.Context, req *mcp.Request, err error) *mcp.Error {
	call := req.Timeline.ID()
	if f, ok := errors.AsType[*mcp.Fault](err); ok {
		s.log.DebugContext(ctx, "request failed", slog.String("method", req.Method), slog.Any("error", errors.Join(f, f.Cause)))
		wire := f.Wire()
		if f.Call == 0 { // made by this package
			wire = wire.WithCall(call)
		}
		return wire
	}
	if e, ok := asWire(err); ok {
		return e
	}
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, cause) || errors.Is(err, ctx.Err())) {
		// The Handler stopped as it should, and no client waits for the answer.
		s.log.DebugContext(ctx, "request cancelled", slog.String("method", req.Method), slog.Any("error", cause))
		return mcp.Errorf(mcp.CodeInternalError, "cancelled: %v", cause).WithCall(call)
	}
	ref := rand.Text()
	s.log.ErrorContext(ctx, "handler failed", slog.String("ref", ref), slog.String("method", req.Method), slog.Any("error", err))
	return internalError(ref).WithCall(call)
}

// callHandler calls a Handler. A panic becomes an error of this request only.
func (s *Server) callHandler(ctx context.Context, h mcp.Handler, req *mcp.Request, caller mcp.Caller) (res *mcp.Result, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		s.panics.Add(1)
		ref := rand.Text()
		s.log.ErrorContext(ctx, "handler panicked", slog.String("ref", ref), slog.String("method", req.Method),
			slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		res, err = nil, internalError(ref).WithCall(req.Timeline.ID())
	}()
	return h.Serve(ctx, req, caller)
}

// internalError is the error of a failure that only the log describes.
func internalError(ref string) *mcp.Error {
	return mcp.Errorf(mcp.CodeInternalError, "internal error (ref %s in the log)", ref)
}

// errNotCached reports that a request must be served as usual.
var errNotCached = errors.New("the handler has no cached answer")

// answerCached answers a list request on the goroutine of the request if the Handler has
// the answer cached. Nothing in it blocks, so there is nothing to cancel, and it does not
// count as a request in flight. It reports false, and has done nothing, if the request
// must be served as usual.
func (s *Server) answerCached(ctx context.Context, p *response, id mcp.ID, req *mcp.Request, enc encoder) bool {
	h, ok := s.handler.(mcp.HandlerExtension)
	if !ok || !isList(req.Method) {
		return false
	}
	res, err := s.serveCached(ctx, h, req)
	if errors.Is(err, errNotCached) || err == nil && res == nil {
		return false
	}
	s.requests.Add(1)
	var answer session.Message
	if err != nil {
		answer = enc.failure(id, req, s.wireError(ctx, req, err))
	} else {
		answer = enc.result(nil, id, req, res)
	}
	p.writeJSON(&answer)
	if p.err != nil {
		p.aborted = true
		s.counts.Undelivered.Add(1)
	}
	return true
}

// serveCached asks the Handler for a cached answer. The request is registered as in
// flight, so that a Server that has ended calls no Handler. While the Server is draining,
// serveCached returns errNotCached, and the request is refused later like any other.
func (s *Server) serveCached(ctx context.Context, h mcp.HandlerExtension, req *mcp.Request) (*mcp.Result, error) {
	entry := &inflight{kind: kindCall, stop: func(error) {}}
	if !s.inflight.add(entry) {
		return nil, errNotCached
	}
	defer s.inflight.remove(entry)
	cached := func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		if res, ok := h.ServeNow(req); ok {
			return res, nil
		}
		return nil, errNotCached
	}
	return s.callHandler(ctx, mcp.HandlerFunc(cached), req, noCaller{})
}
