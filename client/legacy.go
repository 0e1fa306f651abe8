// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// legacy is the protocol of a legacy server: it serves requests in sessions. A session
// belongs to a scope, is shared by all requests (Share), or is lent to one request at a
// time (pool).
type legacy struct {
	*setup
	dial      dialer
	want      mcp.Version
	probeTime time.Duration // spent on the probe, out of the time for the first handshake
	group     goroutines

	shared         scopedSession  // used with Share
	listenSessions listenSessions // of listens without a scope
	sole           soleClient     // used with OneClient
	pool           pool

	support      taskSupport     // of the server's tools
	taskSessions taskSessions    // by task
	openResults  openTaskResults // of tasks that wait for input

	watchedTasks watchedTasks

	// connected is set after the first successful handshake: the era was right at that
	// time.
	connected atomic.Bool

	// mu makes register and close exclude each other, so that no session is opened
	// after close has listed them.
	mu          sync.Mutex
	scoped      map[*scopedSession]struct{} // of scopes that have not ended
	live        map[*legacySession]struct{} // sessions that are not closed yet
	closing     bool                        // no session is opened any more
	closedStats session.CallStats           // of closed sessions
}

// dialer opens the connection of one legacy session.
type dialer interface {
	dial(ctx context.Context, n slotPurpose) (legacyWire, error)

	// failed is called when the handshake over the wire has failed, before the wire is
	// closed. It reports true if the wire has turned out to be modern, and must be kept
	// for that.
	failed(wire legacyWire) (keep bool)

	// sseFallback returns an open HTTP+SSE connection to the same server, if the server
	// refused the handshake in a way that suggests that transport and has it. Otherwise
	// it returns nil.
	sseFallback(ctx context.Context, wire legacyWire) legacyWire

	// isModern is called when the handshake over the wire has succeeded. It reports
	// true if the server has turned out to speak both eras. Then the client uses the
	// modern era over a new connection, because the handshake binds this one. It
	// reports that once.
	isModern(wire legacyWire) bool

	// sharesStream reports whether all messages of a session arrive on one stream.
	sharesStream() bool
}

func newLegacy(s *setup, d dialer, want mcp.Version) *legacy {
	l := &legacy{setup: s, dial: d, want: want}
	l.pool.max, l.pool.maxIdle, l.pool.idleTime = s.MaxSessions, s.IdleSessions, s.IdleTime
	l.pool.openQuestions.max = s.MaxSessions
	return l
}

func (l *legacy) era() mcp.Era { return mcp.EraLegacy }

// serve serves one request. It tries a second session if the server has forgotten the
// first: then it has not looked at the request.
func (l *legacy) serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	if req.Method == methodSetLevel || strings.HasPrefix(req.Method, "notifications/") {
		return l.serveIfOpen(ctx, req)
	}
	req, err := withoutInput(req)
	if err != nil {
		return nil, err
	}
	res, err := l.serveOnce(ctx, req, caller)
	if isRejected(err, sessionGone) {
		return l.serveOnce(ctx, req, caller)
	}
	return res, err
}

func (l *legacy) serveOnce(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	use, err := l.acquirePaused(ctx, req, caller)
	if err != nil {
		return nil, err
	}
	s := use.legacySession
	var res *mcp.Result
	switch {
	case req.Method == methodDiscover:
		res, err = s.discover()
	case req.Method == methodToolsCall:
		res, err = l.callTool(ctx, s, req, caller)
	case strings.HasPrefix(req.Method, methodTasks):
		res, err = l.serveTask(ctx, s, req, caller)
	default:
		res, err = s.call(ctx, req, caller)
	}
	if req.Method == methodToolsList && err == nil {
		l.support.learn(res)
	}
	l.release(&use, answered(err))
	return res, err
}

// answered reports whether a call ended with a result or the server's own error, so
// that nothing of it is left in the session. After any other end the server may still
// send messages of the call, and the session is not lent again.
func answered(err error) bool {
	if err == nil {
		return true
	}
	_, ok := err.(*mcp.Error) //nolint:errorlint // a Fault may wrap one and is not one
	return ok
}

// serveIfOpen serves what concerns an open session only: notifications and
// logging/setLevel. Without a session there is nothing to do, because the next
// handshake covers it.
func (l *legacy) serveIfOpen(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	s := l.openSession(req.Scope)
	switch {
	// The level of one client must not become the level of a shared session. Calls
	// carry their own level.
	case req.Method == methodSetLevel && (s == nil || s.routing.shared):
		return emptyResult()
	case req.Method == methodSetLevel:
		return s.serveLevel(ctx, req)
	case s != nil && req.Method == methodTaskStatus:
		s.sendTaskState(&mcp.Notification{Method: req.Method, Params: req.Params})
	case s != nil:
		n := mcp.Notification{Method: req.Method, Params: req.Params}
		s.sendLater(n.AppendTo(nil, nil))
	}
	return nil, nil //nolint:nilnil // a notification has no terminal
}

// lease is a session in use by one request.
type lease struct {
	*legacySession
	scoped *scopedSession // the scope's session to release, nil if the session is not a scope's
	pooled bool
	key    poolKey // in the pool

	resident *resident // that was lent, or nil
}

// acquirePaused is acquire with the caller's time limits paused: a handshake has its
// own limit.
func (l *legacy) acquirePaused(ctx context.Context, req *mcp.Request, caller mcp.Caller) (lease, error) {
	limits := caller.Extension()
	limits.Pause(true)
	defer limits.Pause(false)
	return l.acquire(ctx, req)
}

// acquire returns the session for a request. The caller must release it.
func (l *legacy) acquire(ctx context.Context, req *mcp.Request) (lease, error) {
	if id, ok := req.Params.Text(mcp.FieldTaskID); ok && strings.HasPrefix(req.Method, methodTasks) {
		if s := l.taskSessions.find(req.Principal, id); s != nil {
			return lease{legacySession: s}, nil
		}
	}
	if l.Share {
		// A shared session has no client of its own, so the server's requests go to the
		// only call in progress, or are refused.
		s, err := l.shared.get(ctx, l, l.opener(l.self(), routing{onlyCall: true, shared: true}, true))
		return lease{legacySession: s}, err
	}
	if req.Scope != nil {
		return l.acquireScoped(ctx, req)
	}
	return l.pool.borrow(ctx, l, req)
}

// release ends a request's use of its session. clean means that nothing of the request
// is left in the session.
func (l *legacy) release(use *lease, clean bool) {
	switch {
	case use.scoped != nil:
		use.scoped.release()
	case use.resident != nil:
		if l.pool.returnResident(use.resident, clean) {
			l.retire(use.legacySession)
		}
	case use.pooled:
		l.pool.giveBack(l, use.key, use.legacySession, clean)
	}
}

// opener returns a function that opens a session for the given client. ours is set if
// the session is not for that client alone.
func (l *legacy) opener(client *mcp.Peer, route routing, ours bool) func(ctx context.Context) (*legacySession, error) {
	route.private, route.watched = !ours, &l.watchedTasks
	n := slotPurpose{internal: ours, evict: l.makeRoom}
	return func(ctx context.Context) (*legacySession, error) { return l.open(ctx, client, route, n) }
}

// open opens a session. The returned session is complete.
func (l *legacy) open(ctx context.Context, client *mcp.Peer, route routing, n slotPurpose) (*legacySession, error) {
	ctx, cancel := context.WithTimeout(ctx, l.handshakeTimeout())
	defer cancel()
	wire, err := l.dial.dial(ctx, n)
	if err != nil {
		return nil, err
	}
	s := newLegacySession(l.setup, wire, route)
	err = s.initialize(ctx, client, l.want)
	if fallback := l.fallbackWire(ctx, wire, err); fallback != nil {
		l.discard(s)
		route.onlyCall = true // all its messages arrive on one stream
		s = newLegacySession(l.setup, fallback, route)
		err = s.initialize(ctx, client, l.want)
	}
	if err != nil {
		if l.dial.failed(wire) {
			return nil, &rejected{why: wrongEra, err: unwrap(err)}
		}
		l.discard(s)
		return nil, l.handshakeFailed(ctx, err)
	}
	if l.dial.isModern(wire) {
		l.discard(s)
		err := l.fault(mcp.CodeBackendUnavailable, mcp.NotDispatched, nil, "it is a modern server, but answered the probe only after the handshake had begun")
		return nil, &rejected{why: wrongEra, err: err}
	}
	// Registered last, so that stats and close see complete sessions only.
	l.connected.Store(true)
	if !l.register(s) {
		l.discard(s)
		return nil, l.closed()
	}
	return s, nil
}

func (l *legacy) fallbackWire(ctx context.Context, wire legacyWire, err error) legacyWire {
	if err == nil {
		return nil
	}
	return l.dial.sseFallback(ctx, wire)
}

// handshakeTimeout returns the time limit of a handshake. The first one gets what the
// probe has left over, so that a server that answers nothing costs a call the time of
// one handshake and not of both.
func (l *legacy) handshakeTimeout() time.Duration {
	if l.connected.Load() {
		return l.Handshake
	}
	return (l.Handshake - l.probeTime).Round(time.Millisecond)
}

// handshakeFailed returns the error of a failed handshake. A server that has completed
// a handshake before, and now refuses one, may have changed its era.
func (l *legacy) handshakeFailed(ctx context.Context, err error) error {
	why := neverSpoke
	if l.connected.Load() || isRejected(err, wrongEra) {
		why = wrongEra
	}
	f, isFault := unwrap(err).(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		text := fmt.Sprintf("it did not answer initialize within %v (limits.handshake)", l.Handshake)
		if wrote := l.otherOutputText(); wrote != "" {
			text += "; " + wrote
		}
		err = l.unavailable(errors.Join(errNoRetry, err), "%s", text)
	case isRejected(err, busy) && isFault:
		return &rejected{why: busy, err: beforeSend(f)} // which means nothing for the era
	case isFault && isUnreachable(f):
		return err // nor does this
	case isFault:
		// The handshake was sent; the request that needed it was not.
		err = l.unavailable(errors.Join(errNoRetry, f.Cause), "initialize failed: %s", f.Message)
	}
	return &rejected{why: why, err: unwrap(err)}
}

// isUnreachable reports whether nothing was sent because there was no connection.
func isUnreachable(f *mcp.Fault) bool {
	return f.Outcome == mcp.NotDispatched && f.Code == mcp.CodeBackendUnavailable && !isRefusal(f)
}

// openSession returns the open session of a scope, or nil. It opens none: a server is
// not started only to receive a notification such as a change of the client's roots.
func (l *legacy) openSession(scope *mcp.Scope) *legacySession {
	if l.Share {
		return l.shared.current()
	}
	if scope == nil {
		return nil
	}
	v, ok := scope.Value(l, func() any { return new(scopedSession) })
	if !ok {
		return nil
	}
	if sl, ok := v.(*scopedSession); ok {
		return sl.current()
	}
	return nil
}

func (l *legacy) stats() session.CallStats {
	sum := l.statsOfClosed()
	for _, s := range l.sessions() {
		sum = sum.Plus(s.calls.Stats())
	}
	return sum
}

// close ends all sessions and returns when all their goroutines have ended. The places
// that open sessions are ended before the sessions are listed: a session opened
// meanwhile is either on the list or refused by register.
func (l *legacy) close(context.Context) {
	l.shared.end(l)
	l.listenSessions.end(l)
	l.sole.session.end(l)
	l.pool.close(l)
	l.stopOpening()
	for _, s := range l.sessions() {
		s.pending.settle()
		l.retire(s)
	}
	l.group.close()
}

// register adds an open session, so that close finds it. It reports false if close has
// begun.
func (l *legacy) register(s *legacySession) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return false
	}
	if l.live == nil {
		l.live = make(map[*legacySession]struct{})
	}
	l.live[s] = struct{}{}
	return true
}

func (l *legacy) stopOpening() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
}

// unregister removes a session that is being closed and keeps its counters, because the
// sum must not shrink.
func (l *legacy) unregister(s *legacySession, past session.CallStats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.live[s]; ok {
		delete(l.live, s)
		l.closedStats = l.closedStats.Plus(past)
	}
}

func (l *legacy) statsOfClosed() session.CallStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closedStats
}

// sessions returns the sessions that are not closed yet.
func (l *legacy) sessions() []*legacySession {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.live))
}

// retire closes a session in the background. It does not wait. The session is
// unregistered after its closing has begun, so that legacy.close either finds it in the
// list or waits for the goroutine. If the goroutine cannot be started, legacy.close has
// found it in the list.
func (l *legacy) retire(s *legacySession) {
	if s == nil || s.pending.runWhenSettled(&l.group, func() { l.retire(s) }) {
		return
	}
	s.end(s.cut())
	s.wire.retire()
	past := s.calls.Stats()
	l.group.start(s.close) // waited for by close, bounded by the wire's close
	l.unregister(s, past)
}

// discard closes an unregistered session, on a goroutine that close waits for.
func (l *legacy) discard(s *legacySession) {
	s.end(s.cut())
	s.wire.retire()
	if _, ok := l.group.start(s.close); !ok { // as in retire
		s.closeNow()
	}
}
