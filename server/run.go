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
type dialect interface {
	// result returns the terminal of a request that succeeded, or of one whose
	// result cannot be said in this era. It may take the room, which is empty, for it.
	result(room []byte, id mcp.ID, req *mcp.Request, res *mcp.Result) session.Message
	// failure returns the terminal of a request that failed.
	failure(id mcp.ID, req *mcp.Request, err *mcp.Error) session.Message
	// passes reports whether a result may reach the client while it arrives, and says on
	// it what is to be changed for that.
	passes(req *mcp.Request, a *mcp.Arriving) bool
}

// task is a request on its way through the Handler. What each has from its beginning
// stands in it, so that it is made in one piece.
type task struct {
	flight
	req     *mcp.Request // first, or what was made of it
	caller  mcp.Caller
	dialect dialect
	via     mcp.Handler      // who serves it, nil for the server's own
	group   *sync.WaitGroup  // who waits for the task besides Shutdown, or nil
	counted bool             // it has a place in the server's quota
	late    alarm            // progress that is kept back has its time
	sess    *session.Session // whose streams a client can come back to, or nil

	// Of a request during which a modern client may be asked.
	place  uint64 // the pipe that it came on, 0 for HTTP
	again  int    // how often it was begun again, after URLs were visited
	asking alarm  // questions have waited for others to come, and are to be put

	// What came of it, when the Handler has returned: one of the two.
	res *mcp.Result
	err *mcp.Error

	first   mcp.Request // as it came
	client  mcp.Peer    // of a modern one
	life    life.Context
	leg     related   // of the exchange that it began
	berth   parking   // of one that can be parked
	journey traveller // its Caller then
	memory  memory    // of its answer
	fields  fields    // of the header that its answer has over HTTP
}

// begin returns the context that the task of a request runs in: the values are those
// of ctx, the end is the task's own, because what a disconnect means is decided by era.
func (t *task) begin(ctx context.Context, req *mcp.Request, d dialect) context.Context {
	t.life.Carry(ctx)
	t.req, t.dialect, t.stop = req, d, &t.life
	if req.Method == "subscriptions/listen" {
		t.kind = listen
	}
	return &t.life
}

// start runs the task on another goroutine. It ends when the Handler returns;
// Shutdown and Close wait for it. It reports false, and starts nothing, when the
// server is draining.
func (s *Server) start(ctx context.Context, t *task) bool {
	if !s.flights.enter(&t.flight) {
		s.giveBack(t)
		t.stop.End(errDraining)
		return false
	}
	s.requests.Add(1)
	if t.group != nil {
		t.group.Add(1)
	}
	s.crew.do(ctx, t)
	return true
}

// run is the one place where a Handler is called for a client. What follows the
// call is deferred in the order in which it must be undone: first the answer,
// then the context, then late progress, and last what others wait for.
func (s *Server) run(ctx context.Context, t *task) {
	if t.group != nil {
		defer t.group.Done()
	}
	defer s.flights.leave(&t.flight)
	defer t.late.stop()
	defer t.asking.stop()
	defer t.stop.End(nil)
	kept := false
	defer func() {
		if !kept {
			t.memory.room.Release()
		}
	}()
	var res *mcp.Result
	err := errNoResult
	// Deferred, because a Handler may end its goroutine instead of returning.
	defer func() {
		t.res, t.err = s.outcome(ctx, t, res, err)
		kept = s.conclude(t)
		if t.sess != nil {
			s.settle(ctx, t)
		}
	}()
	res, err = s.serveVia(ctx, t)
}

// conclude gives the terminal out, or reports that it is kept for who comes back.
func (s *Server) conclude(t *task) (kept bool) {
	if t.parking != nil {
		return s.concludeParking(t)
	}
	s.giveBack(t) // before the client can know that there is room again
	t.finish(t.x)
	return false
}

// giveBack gives a task's place in the quota to the next one.
func (s *Server) giveBack(t *task) {
	if t.counted {
		s.quota.give(partyOf(t.req))
	}
}

// finish ends the exchange with the terminal of the request, which is done. It is called
// for one exchange alone: one that was parked has ended in another than it began with.
//
// The answer counts as held where it waits from then on, and not twice. What it was made
// of is let go of, since the exchange and the task may be one piece of memory.
func (t *task) finish(x *session.Exchange) {
	m := t.memory.fit(t.terminal(x), func(e *mcp.Error) session.Message { return t.dialect.failure(x.ID(), t.req, e) })
	t.res, t.err = nil, nil
	t.memory.room.Release()
	x.Finish(m)
}

func (t *task) terminal(x *session.Exchange) session.Message {
	switch {
	case t.err != nil:
		return t.dialect.failure(x.ID(), t.req, t.err)
	case t.res.IsDelivered():
		return closing()
	default:
		return t.dialect.result(x.Buffer(), x.ID(), t.req, t.res)
	}
}

// outcome makes out of what the Handler returned what the client is told.
func (s *Server) outcome(ctx context.Context, t *task, res *mcp.Result, err error) (*mcp.Result, *mcp.Error) {
	if t.req.TakesInputRequired {
		res, err = s.inputRequired(t, res, err)
	}
	switch {
	case t.kind == listen && t.tornDown.Load():
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
	return nil, s.wireError(ctx, t.req, err)
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
	return s.serveBy(ctx, s.handler, req, caller)
}

func (s *Server) serveVia(ctx context.Context, t *task) (*mcp.Result, error) {
	if t.via != nil {
		return s.serveBy(ctx, t.via, t.req, t.caller)
	}
	return s.serve(ctx, t.req, t.caller)
}

// serveBy calls a Handler. A panic in it is an error of this request and of
// nothing else.
func (s *Server) serveBy(ctx context.Context, h mcp.Handler, req *mcp.Request, caller mcp.Caller) (res *mcp.Result, err error) {
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
