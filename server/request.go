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

	"github.com/signalbox-mcp/signalbox/internal/life"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// dialect is how one era says what the inside says: the one place in which an
// answer depends on the revision of the client.
type encoder interface {
	// result returns the terminal of a request that succeeded, or of one whose
	// result cannot be said in this era. It may take the room, which is empty, for it.
	result(room []byte, id mcp.ID, req *mcp.Request, res *mcp.Result) session.Message
	// failure returns the terminal of a request that failed.
	failure(id mcp.ID, req *mcp.Request, err *mcp.Error) session.Message
	// passes reports whether a result may reach the client while it arrives, and says on
	// it what is to be changed for that.
	preparePass(req *mcp.Request, a *mcp.Arriving) bool
}

// task is a request on its way through the Handler. What each has from its beginning
// stands in it, so that it is made in one piece.
type inflightRequest struct {
	inflight
	req           *mcp.Request // first, or what was made of it
	caller        mcp.Caller
	encoder       encoder
	handler       mcp.Handler      // who serves it, nil for the server's own
	wg            *sync.WaitGroup  // who waits for the task besides Shutdown, or nil
	inQuota       bool             // it has a place in the server's quota
	progressTimer timer            // progress that is kept back has its time
	sess          *session.Session // whose streams a client can come back to, or nil

	// Of a request during which a modern client may be asked.
	connID   uint64 // the pipe that it came on, 0 for HTTP
	restarts int    // how often it was begun again, after URLs were visited
	askTimer timer  // questions have waited for others to come, and are to be put

	// What came of it, when the Handler has returned: one of the two.
	res *mcp.Result
	err *mcp.Error

	original    mcp.Request // as it came
	client      mcp.Peer    // of a modern one
	ctx         life.Context
	attempt     requestCaller // of the exchange that it began
	parkedValue parkedRequest // of one that can be parked
	mrtr        mrtrCaller    // its Caller then
	memory      memory        // of its answer
	header      headerFields  // of the header that its answer has over HTTP
}

// begin returns the context that the task of a request runs in: the values are those
// of ctx, the end is the task's own, because what a disconnect means is decided by era.
func (ir *inflightRequest) begin(ctx context.Context, req *mcp.Request, enc encoder) context.Context {
	ir.ctx.Carry(ctx)
	ir.req, ir.encoder, ir.stop = req, enc, &ir.ctx
	if req.Method == "subscriptions/listen" {
		ir.kind = kindListen
	}
	return &ir.ctx
}

// start runs the task on another goroutine. It ends when the Handler returns;
// Shutdown and Close wait for it. It reports false, and starts nothing, when the
// server is draining.
func (s *Server) start(ctx context.Context, ir *inflightRequest) bool {
	if !s.inflight.add(&ir.inflight) {
		s.releaseQuota(ir)
		ir.stop.End(errDraining)
		return false
	}
	s.requests.Add(1)
	if ir.wg != nil {
		ir.wg.Add(1)
	}
	s.workers.start(ctx, ir)
	return true
}

// run is the one place where a Handler is called for a client. What follows the
// call is deferred in the order in which it must be undone: first the answer,
// then the context, then late progress, and last what others wait for.
func (s *Server) run(ctx context.Context, ir *inflightRequest) {
	if ir.wg != nil {
		defer ir.wg.Done()
	}
	defer s.inflight.remove(&ir.inflight)
	defer ir.progressTimer.stop()
	defer ir.askTimer.stop()
	defer ir.stop.End(nil)
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
	res, err = s.serveRequest(ctx, ir)
}

// conclude gives the terminal out, or reports that it is kept for who comes back.
func (s *Server) conclude(ir *inflightRequest) (kept bool) {
	if ir.parked != nil {
		return s.concludeParked(ir)
	}
	s.releaseQuota(ir) // before the client can know that there is room again
	ir.finish(ir.x)
	return false
}

// giveBack gives a task's place in the quota to the next one.
func (s *Server) releaseQuota(ir *inflightRequest) {
	if ir.inQuota {
		s.quota.release(quotaKeyOf(ir.req))
	}
}

// finish ends the exchange with the terminal of the request, which is done. It is called
// for one exchange alone: one that was parked has ended in another than it began with.
//
// The answer counts as held where it waits from then on, and not twice. What it was made
// of is let go of, since the exchange and the task may be one piece of memory.
func (ir *inflightRequest) finish(x *session.Exchange) {
	m := ir.memory.fit(ir.terminal(x), func(e *mcp.Error) session.Message { return ir.encoder.failure(x.ID(), ir.req, e) })
	ir.res, ir.err = nil, nil
	ir.memory.reservation.Release()
	x.Finish(m)
}

func (ir *inflightRequest) terminal(x *session.Exchange) session.Message {
	switch {
	case ir.err != nil:
		return ir.encoder.failure(x.ID(), ir.req, ir.err)
	case ir.res.IsDelivered():
		return closingMessage()
	default:
		return ir.encoder.result(x.Buffer(), x.ID(), ir.req, ir.res)
	}
}

// outcome makes out of what the Handler returned what the client is told.
func (s *Server) outcome(ctx context.Context, ir *inflightRequest, res *mcp.Result, err error) (*mcp.Result, *mcp.Error) {
	if ir.req.TakesInputRequired {
		res, err = s.inputRequired(ir, res, err)
	}
	switch {
	case ir.kind == kindListen && ir.tornDown.Load():
		// A listen that we end has succeeded, whatever its Handler made of the
		// end of its context (2026-07-28, basic/patterns/subscriptions,
		// "Graceful Closure").
		res, err = &mcp.Result{}, nil
	case err == nil && res == nil:
		err = errNoResult
	}
	if err == nil {
		return res, nil
	}
	return nil, s.wireError(ctx, ir.req, err)
}

var errNoResult = errors.New("the handler returned neither a result nor an error")

// wireError returns what the client is told, and logs what it is not.
//
// A Fault comes before the Error that caused it, as in [mcp.ToWire]: the cause is
// what a backend said to us, of something that the client did not ask for, and
// says nothing of whether the request ran.
func (s *Server) wireError(ctx context.Context, req *mcp.Request, err error) *mcp.Error {
	if f, ok := errors.AsType[*mcp.Fault](err); ok {
		s.log.DebugContext(ctx, "request failed", slog.String("method", req.Method), slog.Any("error", errors.Join(f, f.Cause)))
		return f.Wire()
	}
	if e, ok := asWire(err); ok {
		return e
	}
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, cause) || errors.Is(err, ctx.Err())) {
		// It did what it was told, and the answer has nobody to go to.
		s.log.DebugContext(ctx, "request given up", slog.String("method", req.Method), slog.Any("error", cause))
		return mcp.Errorf(mcp.CodeInternalError, "given up: %v", cause)
	}
	ref := rand.Text()
	s.log.ErrorContext(ctx, "handler failed", slog.String("ref", ref), slog.String("method", req.Method), slog.Any("error", err))
	return mcp.Errorf(mcp.CodeInternalError, "internal error (ref %s in the log)", ref)
}

// serve calls the Handler.
func (s *Server) serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	return s.callHandler(ctx, s.handler, req, caller)
}

func (s *Server) serveRequest(ctx context.Context, ir *inflightRequest) (*mcp.Result, error) {
	if ir.handler != nil {
		return s.callHandler(ctx, ir.handler, ir.req, ir.caller)
	}
	return s.serve(ctx, ir.req, ir.caller)
}

// serveBy calls a Handler. A panic in it is an error of this request and of
// nothing else.
func (s *Server) callHandler(ctx context.Context, h mcp.Handler, req *mcp.Request, caller mcp.Caller) (res *mcp.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			res, err = nil, s.panicked(ctx, req, p)
		}
	}()
	return h.Serve(ctx, req, caller)
}

// panicked logs what happened and says as much of it as a client may know: a
// reference, by which whoever reads the log finds the rest.
func (s *Server) panicked(ctx context.Context, req *mcp.Request, p any) error {
	s.panics.Add(1)
	ref := rand.Text()
	s.log.ErrorContext(ctx, "handler panicked", slog.String("ref", ref), slog.String("method", req.Method),
		slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	return mcp.Errorf(mcp.CodeInternalError, "internal error (ref %s in the log)", ref)
}
