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
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/seal"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Server serves a Handler to MCP clients. It is an [net/http.Handler] for one endpoint,
// whatever the path of the URL is, and serves pipes. Its methods may be called
// concurrently. It must be ended with Shutdown or Close.
type Server struct {
	handler     mcp.Handler
	cfg         Config
	log         *slog.Logger
	rules       session.Rules
	counts      session.Counters
	sessions    *session.Table
	inflight    inflightSet
	workers     *workers
	quota       quota                          // of requests without a session
	lists       listCache                      // list results as translated for legacy clients
	initResults translations[initializeResult] // likewise, the results of server/discover
	sweeper     timer
	kept        retention
	parked      *parkedRequests // requests that wait for input
	parkedTimer timer           // ends those for which the wait has been too long
	box         *seal.Box       // seals the states that clients keep
	pipes       atomic.Uint64
	sseConns    sseConns
	noHeaders   map[string][]string

	quiet  atomic.Bool // no new sessions are accepted
	graces sync.Pool   // stopped timers for awaitForm

	requests, refused, panics, idleCancels atomic.Uint64
}

// New returns a Server that serves h. It panics if one of cfg.StateKeys is too short,
// which is a mistake of the program.
func New(h mcp.Handler, cfg Config) *Server {
	cfg = cfg.effective()
	box, err := seal.New(cfg.StateKeys...)
	if err != nil {
		panic("server: Config.StateKeys: " + err.Error()) //nolint:forbidigo // a mistake of the program
	}
	s := &Server{
		handler:   h,
		cfg:       cfg,
		log:       cfg.Logger,
		sessions:  session.NewTable(cfg.Limits.table()),
		quota:     quota{limit: cfg.Limits.InFlightPerPrincipal},
		parked:    session.NewParkedRequests[inflightRequest, attempt](cfg.Limits.parked()),
		box:       box,
		noHeaders: make(map[string][]string),
	}
	s.workers = newWorkers(s.run)
	s.rules = session.Rules{
		Limits:  cfg.Limits.session(),
		Counts:  &s.counts,
		Logs:    session.NewLogPool(cfg.Limits.EventLogs),
		Pending: session.NewPending(session.PendingLimits{Total: cfg.Limits.Pending, PerPrincipal: cfg.Limits.PendingPerPrincipal}),
	}
	return s
}

// Stats are the counters of a [Server] since it started, and what is open now.
type Stats struct {
	Sessions    int    // legacy sessions over HTTP, and connections of HTTP with SSE
	InFlight    int    // requests, listens and standalone streams
	Parked      int    // requests that wait for their clients to retry with input
	Requests    uint64 // passed to the Handler
	Refused     uint64 // rejected before that
	Panics      uint64 // of the Handler
	Dropped     uint64 // messages not delivered to a slow or absent client
	Merged      uint64 // messages replaced by a newer one of the same meaning
	Undelivered uint64 // terminal messages of clients that were gone
	Strays      uint64 // responses to no request of ours
	IdleCancels uint64 // cancels of requests that are not in flight
	Kept        int64  // bytes retained for clients that resume a stream
	Pending     int64  // bytes of answers that clients have not read
	Replayed    uint64 // messages sent again to a client that resumed
	Purged      uint64 // messages dropped before their retention time, for lack of space
}

// Stats returns the counters. They are not read atomically.
func (s *Server) Stats() Stats {
	open, _ := s.inflight.remaining(kindCall, kindListen, kindStandalone)
	return Stats{
		Sessions:    s.sessions.Len() + s.sseConns.len(),
		InFlight:    open,
		Parked:      s.parked.Len(),
		Requests:    s.requests.Load(),
		Refused:     s.refused.Load(),
		Panics:      s.panics.Load(),
		Dropped:     s.counts.Dropped.Load(),
		Merged:      s.counts.Merged.Load(),
		Undelivered: s.counts.Undelivered.Load(),
		Strays:      s.counts.Strays.Load(),
		IdleCancels: s.idleCancels.Load(),
		Kept:        s.rules.Logs.Used(),
		Pending:     s.rules.Pending.Bytes(),
		Replayed:    s.counts.Replayed.Load(),
		Purged:      s.counts.Purged.Load(),
	}
}

// The causes with which the context of a request ends.
var (
	errCancelled    = errors.New("the client cancelled the request")
	errDisconnected = errors.New("the client closed the connection")
	errDraining     = errors.New("the server is shutting down")
	errPipeClosed   = errors.New("the client closed the pipe")
	errUnsubscribed = errors.New("the client unsubscribed")
	errExpired      = errors.New("the credentials of the client have expired")
)

// Quiesce stops accepting new sessions: initialize is refused with 503. Everything else,
// modern requests included, is still served. Quiesce is for the time in which load
// balancers learn that the server is about to end. It cannot be undone.
func (s *Server) Quiesce() { s.quiet.Store(true) }

// Shutdown ends the server gracefully. New requests are refused. Listens end with their
// result and standalone streams end, spread over Config.Spread. Requests in flight are
// waited for, and may still ask their legacy clients. A modern client would have to retry
// with its answer, so a request that waits for one is cancelled. If ctx ends first, the
// remaining requests get an error with an unknown outcome, and Shutdown returns the error
// of ctx. It returns after the last goroutine, so after the last Handler has returned,
// and may be called again.
func (s *Server) Shutdown(ctx context.Context) error {
	s.inflight.drain()
	s.cancelParked(s.parked.Close(), errDraining) // retries are refused from now on
	s.inflight.tearDown(ctx, s.cfg.Spread, errDraining, kindListen, kindStandalone)
	err := s.inflight.wait(ctx, kindCall, kindListen, kindStandalone)
	s.cut(context.WithoutCancel(ctx))
	return err
}

// Close ends the server at once: requests in flight get an error with an unknown outcome.
// It returns after the last goroutine, so after the last Handler has returned, and may be
// called again.
func (s *Server) Close() error {
	s.inflight.drain()
	s.cancelParked(s.parked.Close(), errDraining)
	ctx := context.Background()
	s.inflight.tearDown(ctx, 0, errDraining, kindListen, kindStandalone)
	s.cut(ctx)
	return nil
}

// cut ends all requests, listens and sessions. It uses only the values of ctx.
func (s *Server) cut(ctx context.Context) {
	gone := &mcp.Fault{Code: mcp.CodeShuttingDown, Outcome: mcp.Unknown, Message: "the gateway is shutting down"}
	for _, entry := range s.inflight.list(kindCall) {
		if x := entry.exchange(); x != nil { // it may have its terminal message already
			x.Finish(session.Message{Head: jsonrpc.AppendError(nil, x.ID(), gone.Wire().WithCall(entry.times.ID()))})
		}
		entry.stop(errDraining)
	}
	_ = s.inflight.wait(ctx, kindCall, kindListen, kindStandalone)
	for _, sess := range s.sessions.Drain() {
		s.end(sess, gone.Wire())
	}
	s.inflight.tearDown(ctx, 0, errDraining, kindPipe)
	_ = s.inflight.wait(ctx, kindPipe, kindInnerListen)
	s.workers.close() // nothing can start any more
	s.sweeper.stop()
	s.kept.expirer.stop()
	s.kept.shedder.stop()
	s.parkedTimer.stop()
}

// end ends a session, the requests in it and the state kept for it.
func (s *Server) end(sess *session.Session, why *mcp.Error) {
	s.sessions.Remove(sess)
	if sess.End(why) {
		s.endState(sess)
	}
}

// endState ends the state kept for a session that was open, and reports its duration.
func (s *Server) endState(sess *session.Session) {
	s.cfg.SessionEnded(time.Since(sess.Began))
	s.endScope(sess.Scope)
}

// newSessionID returns an id of 130 random bits in base32 (2025-11-25, basic/transports,
// "Session Management").
func newSessionID() string { return rand.Text() }

// sweepAfter schedules a sweep of the sessions in d, unless one is scheduled. There is
// one timer for all sessions, and none while there are no sessions. Shutdown and Close
// wait for a running sweep.
func (s *Server) sweepAfter(d time.Duration) { s.sweeper.after(d, s.sweep) }

func (s *Server) sweep() {
	ended, next := s.sessions.Sweep(time.Now())
	for _, sess := range ended {
		s.endState(sess)
	}
	if !next.IsZero() {
		s.sweepAfter(max(time.Until(next), time.Second))
	}
}

// endScope ends the state kept for a session.
func (s *Server) endScope(scope *mcp.Scope) {
	defer s.logPanic(scope)
	scope.End()
}

// logPanic recovers a panic. It is deferred where a function of a Handler runs on a goroutine
// with no other recovery: a panic would end the process and all other sessions with it.
func (s *Server) logPanic(scope *mcp.Scope) {
	if p := recover(); p != nil {
		s.panics.Add(1)
		s.log.Error("panic at the end of a session or of its listen", slog.String("session", scope.Key()),
			slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	}
}

// timer calls a function after a time. At most one call is scheduled, and the owner stops
// the timer. The zero timer is ready.
//
// A bare time.AfterFunc is not enough: its Stop does not wait for a call that has begun,
// which could then use state that the owner has released (I28).
type timer struct {
	mu      sync.Mutex
	stopped bool
	timer   *time.Timer
	running sync.WaitGroup // calls that have begun
}

// after schedules a call of f in d, on a goroutine of its own, unless a call is
// scheduled. f may call after again.
func (t *timer) after(d time.Duration, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped || t.timer != nil {
		return
	}
	t.timer = time.AfterFunc(d, func() {
		if t.begin() {
			defer t.running.Done()
			f()
		}
	})
}

// begin reports whether the call is still wanted, and makes stop wait for it. The lock
// decides whether the call or stop is first.
func (t *timer) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = nil
	if t.stopped {
		return false
	}
	t.running.Add(1)
	return true
}

// stop cancels a scheduled call and waits for a running one.
func (t *timer) stop() {
	t.cancel()
	t.running.Wait()
}

// cancel prevents further calls. It does not wait, because a running call may be about to
// take the lock in after.
func (t *timer) cancel() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}
