// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package legacy is the client's side of the legacy era (2024-11-05 to 2025-11-25):
// requests in sessions, over Streamable HTTP, HTTP with SSE, or a pipe per session.
//
// [Protocol] finds the session for a request: that of its scope, one of the pool, or the
// shared one. A session opens a connection ([Conn]), routes what arrives on it to its
// calls and listens, and passes the server's requests to the callers that they are for.
package legacy

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

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/client/internal/stdio"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Protocol is the protocol of a legacy server: it serves requests in sessions. A session
// belongs to a scope, is shared by all requests (Share), or is lent to one request at a
// time (pool).
type Protocol struct {
	*call.Setup
	dial      Dialer
	want      mcp.Version
	ProbeTime time.Duration // spent on the probe, out of the time for the first handshake
	// Unanswered is set if the server has sent no valid response to the probe. It is probed
	// again after the first handshake, because a server of both eras may have started slowly.
	Unanswered bool
	group      call.Goroutines

	shared scopedSession // used with Share
	pool   pool
	tasks  serverTasks

	// sole is the session of a gateway's only client (OneClient) if that client has no
	// session of its own. Its calls are made in this session, one at a time, and so are
	// its lists and listens. The session is kept when a call is given up, as the process
	// of a directly connected server would be.
	sole    scopedSession
	soleKey atomic.Pointer[call.ClientKey] // of the first request

	// connected is set after the first successful handshake: the era was right at that
	// time.
	connected atomic.Bool

	// mu makes register and close exclude each other, so that no session is opened
	// after close has listed them.
	mu          sync.Mutex
	scoped      map[*scopedSession]struct{}       // of scopes that have not ended
	listens     map[call.ClientKey]*listenSession // of listens without a scope
	live        map[*clientSession]struct{}       // sessions that are not closed yet
	closing     bool                              // no session is opened any more
	closedStats session.CallStats                 // of closed sessions
}

// New returns the protocol of a server to which d connects. Handshakes request the version
// want. The caller must close it.
func New(s *call.Setup, d Dialer, want mcp.Version) *Protocol {
	l := &Protocol{
		Setup: s, dial: d, want: want, scoped: make(map[*scopedSession]struct{}),
		listens: make(map[call.ClientKey]*listenSession), live: make(map[*clientSession]struct{}),
	}
	l.pool.max, l.pool.maxIdle, l.pool.idleTime = s.MaxSessions, s.IdleSessions, s.IdleTime
	l.pool.perPrincipal = s.IsPerPrincipal()
	return l
}

// Era returns the legacy era.
func (l *Protocol) Era() mcp.Era { return mcp.EraLegacy }

// HasPipes reports whether each session has a pipe of its own.
func (l *Protocol) HasPipes() bool {
	switch l.dial.(type) {
	case *HTTPDialer, SSEDialer:
		return false
	default:
		return true
	}
}

// Serve serves one request. It tries a second session if the server has forgotten the
// first: then it has not looked at the request.
func (l *Protocol) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	switch {
	case req.Passed && strings.HasPrefix(req.Method, "notifications/"):
		return nil, l.pass(ctx, req)
	case req.Method == call.MethodSetLevel, strings.HasPrefix(req.Method, "notifications/"):
		return l.serveIfOpen(ctx, req)
	}
	req, err := withoutInput(req)
	if err != nil {
		return nil, err
	}
	res, err := l.serveOnce(ctx, req, caller)
	if call.IsRejected(err, call.SessionGone) {
		return l.serveOnce(ctx, req, caller)
	}
	return res, err
}

func (l *Protocol) serveOnce(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	limits := caller.Extension()
	limits.Pause(true) // a handshake has its own limit
	use, err := l.acquire(ctx, req)
	limits.Pause(false)
	if err != nil {
		return nil, err
	}
	s := use.clientSession
	if err := l.checkSender(s, req); err != nil {
		l.release(&use, true)
		return nil, err
	}
	s.opening.Note(req.Timeline)
	req.Timeline.Mark(mcp.StageLeased)
	var res *mcp.Result
	switch {
	case req.Method == call.MethodDiscover:
		res, err = s.discover()
	case req.Method == call.MethodToolsCall:
		res, err = l.callTool(ctx, s, req, caller)
	case strings.HasPrefix(req.Method, call.MethodTasks):
		res, err = l.serveTask(ctx, s, req, caller)
	default:
		res, err = s.call(ctx, req, caller)
	}
	if req.Method == call.MethodToolsList && err == nil {
		l.tasks.learn(res)
	}
	l.release(&use, call.Answered(err))
	return res, err
}

// serveIfOpen serves what concerns an open session only: notifications and
// logging/setLevel. Without a session there is nothing to do, because the next
// handshake covers it.
func (l *Protocol) serveIfOpen(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	s := l.openSession(req.Scope)
	if s != nil && l.checkSender(s, req) != nil {
		s = nil
	}
	switch {
	// The level of one client must not become the level of a shared session. Calls
	// carry their own level.
	case req.Method == call.MethodSetLevel && (s == nil || s.routing.shared):
		return call.EmptyResult()
	case req.Method == call.MethodSetLevel:
		return s.serveLevel(ctx, req)
	case s != nil && req.Method == call.MethodTaskStatus:
		s.sendTaskState(&mcp.Notification{Method: req.Method, Params: req.Params})
	case s != nil:
		n := mcp.Notification{Method: req.Method, Params: req.Params}
		s.sendLater(n.AppendTo(nil, nil))
	}
	return nil, nil //nolint:nilnil // a notification has no terminal
}

// pass sends a notification of an extension in the session of its client, and opens that if necessary.
func (l *Protocol) pass(ctx context.Context, req *mcp.Request) error {
	if req.Scope == nil {
		return nil
	}
	use, err := l.acquire(ctx, req)
	if err != nil {
		return err
	}
	defer l.release(&use, true)
	if err := l.checkSender(use.clientSession, req); err != nil {
		return err
	}
	n := mcp.Notification{Method: req.Method, Params: req.Params}
	return use.send(ctx, n.AppendTo(nil, nil))
}

// lease is a session in use by one request.
type lease struct {
	*clientSession
	scoped *scopedSession // the scope's session to release, or nil
	pooled *pooledSession // to give back to the pool, or nil
}

// acquire returns the session for a request. The caller must release it.
func (l *Protocol) acquire(ctx context.Context, req *mcp.Request) (lease, error) {
	if id, ok := req.Params.Text(mcp.FieldTaskID); ok && strings.HasPrefix(req.Method, call.MethodTasks) {
		if s := l.tasks.sessionOf(req.Principal, id); s != nil {
			return lease{clientSession: s}, nil
		}
	}
	if l.sharesSession() {
		// A shared session has no client of its own, so the server's requests go to the
		// only call in progress, or are refused.
		s, err := l.shared.get(ctx, l, l.opener(l.Self(), req, routing{onlyCall: true, shared: true}, true))
		return lease{clientSession: s}, err
	}
	if req.Scope != nil {
		return l.acquireScoped(ctx, req)
	}
	return l.pool.borrow(ctx, l, req)
}

// release ends a request's use of its session. clean means that nothing of the request
// is left in the session.
func (l *Protocol) release(use *lease, clean bool) {
	switch {
	case use.scoped != nil:
		use.scoped.release()
	case use.pooled != nil:
		l.pool.giveBack(l, use.pooled, clean)
	}
}

// opener returns a function that opens a session for the given client, on behalf of the sender
// of a request. ours is set if the session is not for that client alone.
func (l *Protocol) opener(client *mcp.Peer, of *mcp.Request, route routing, ours bool) func(ctx context.Context) (*clientSession, error) {
	route.private, route.tasks = !ours, &l.tasks
	n := stdio.Purpose{Internal: ours, Evict: l.makeRoom}
	return func(ctx context.Context) (*clientSession, error) { return l.open(ctx, client, of, route, n) }
}

// open opens a session. The returned session is complete.
func (l *Protocol) open(ctx context.Context, client *mcp.Peer, of *mcp.Request, route routing, n stdio.Purpose) (*clientSession, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, l.handshakeTimeout())
	defer cancel()
	conn, err := l.dial.Dial(ctx, of, n)
	if err != nil {
		return nil, err
	}
	s := newClientSession(l.Setup, conn, route, of)
	err = s.initialize(ctx, client, l.want)
	if err != nil {
		if fallback := l.dial.SSEFallback(ctx, conn); fallback != nil {
			l.discard(s)
			route.onlyCall = true // all its messages arrive on one stream
			s = newClientSession(l.Setup, fallback, route, of)
			err = s.initialize(ctx, client, l.want)
		}
	}
	if err != nil {
		if l.dial.HandshakeFailed(conn) {
			return nil, &call.Rejected{Why: call.WrongEra, Err: call.Unwrap(err)}
		}
		l.discard(s)
		return nil, l.handshakeFailed(ctx, err)
	}
	if l.dial.IsModern(conn) {
		l.discard(s)
		err := l.Fault(mcp.CodeBackendUnavailable, mcp.NotDispatched, nil, "it is a modern server, but answered the probe only after the handshake had begun")
		return nil, &call.Rejected{Why: call.WrongEra, Err: err}
	}
	s.opening = openingOf(s.conn, began)
	// Registered last, so that stats and close see complete sessions only.
	isFirst := !l.connected.Swap(true)
	if !l.register(s) {
		l.discard(s)
		return nil, l.Closed()
	}
	if isFirst && l.Unanswered {
		l.Recheck(of)
	}
	return s, nil
}

// openingOf returns the times of a session that is ready now. Its opening began at the given time.
func openingOf(conn Conn, began time.Time) call.Opening {
	o := call.Opening{Responded: began, Ready: time.Now()}
	if w, ok := conn.(*PipeConn); ok && !w.Launched.IsZero() {
		o = w.Opening()
	}
	return o
}

// handshakeTimeout returns the time limit of a handshake. The first one gets what the
// probe has left over, so that a server that answers nothing costs a call the time of
// one handshake and not of both.
func (l *Protocol) handshakeTimeout() time.Duration {
	if l.connected.Load() {
		return l.Handshake
	}
	return (l.Handshake - l.ProbeTime).Round(time.Millisecond)
}

// handshakeFailed returns the error of a failed handshake. A server that has completed
// a handshake before, and now refuses one, may have changed its era.
func (l *Protocol) handshakeFailed(ctx context.Context, err error) error {
	if call.IsRejected(err, call.NoCredential) {
		return err // both eras check credentials before they process a message
	}
	why := call.NeverSpoke
	if l.connected.Load() || call.IsRejected(err, call.WrongEra) {
		why = call.WrongEra
	}
	f, isFault := call.Unwrap(err).(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		text, reason := fmt.Sprintf("it did not answer initialize within %v (limits.handshake)", l.Handshake), code.TalkSilent
		if wrote := l.OtherOutputText(); wrote != "" {
			text, reason = text+"; "+wrote, code.TalkOtherOutput
		}
		err = call.Because(reason, l.Unavailable(errors.Join(call.ErrNoRetry, err), "%s", text))
	case call.IsRejected(err, call.Busy) && isFault:
		return &call.Rejected{Why: call.Busy, Err: call.BeforeSend(f)} // a busy server may be of either era
	case isFault && isUnreachable(f):
		return err // and so may one that cannot be reached
	case isFault:
		// The handshake was sent; the request that needed it was not.
		err = call.Because(f.Reason, l.Unavailable(errors.Join(call.ErrNoRetry, f.Cause), "initialize failed: %s", f.Message))
	}
	return &call.Rejected{Why: why, Err: call.Unwrap(err)}
}

// isUnreachable reports whether nothing was sent because there was no connection.
func isUnreachable(f *mcp.Fault) bool {
	return f.Outcome == mcp.NotDispatched && f.Code == mcp.CodeBackendUnavailable && !call.IsRefusal(f)
}

// openSession returns the open session of a scope, or nil. It does not open one: a server
// is not started only to receive a notification, such as a change of the client's roots.
func (l *Protocol) openSession(scope *mcp.Scope) *clientSession {
	if l.sharesSession() {
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

// Stats returns the sum over all sessions, including those that are closed.
func (l *Protocol) Stats() session.CallStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := l.closedStats
	for s := range l.live {
		sum = sum.Plus(s.calls.Stats())
	}
	return sum
}

// Close ends all sessions and returns when all their goroutines have ended. The places
// that open sessions are ended before the sessions are listed: a session opened
// meanwhile is either on the list or refused by register.
func (l *Protocol) Close(context.Context) {
	l.mu.Lock()
	l.closing = true
	listens := slices.Collect(maps.Values(l.listens))
	l.mu.Unlock()
	for _, ls := range listens {
		ls.end(l)
	}
	l.shared.end(l)
	l.sole.end(l)
	l.pool.close(l)
	for _, s := range l.sessions() {
		s.pending.settle()
		l.retire(s)
	}
	l.group.Close()
}

// register adds an open session, so that close finds it. It reports false if close has
// begun.
func (l *Protocol) register(s *clientSession) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return false
	}
	l.live[s] = struct{}{}
	return true
}

// unregister removes a session that is being closed and keeps its counters, because the
// sum must not shrink.
func (l *Protocol) unregister(s *clientSession) {
	l.mu.Lock()
	_, ok := l.live[s]
	if ok {
		delete(l.live, s)
		l.closedStats = l.closedStats.Plus(s.calls.Stats())
	}
	l.mu.Unlock()
	if ok {
		l.tasks.sessionEnded(s)
		l.SessionEnded(time.Since(s.opening.Ready))
	}
}

// sessions returns the sessions that are not closed yet.
func (l *Protocol) sessions() []*clientSession {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.live))
}

// retire closes a session in the background. It does not wait. The session is
// unregistered after its closing has begun, so that Protocol.Close either finds it in the
// list or waits for the goroutine. If the goroutine cannot be started, Protocol.Close has
// found it in the list.
func (l *Protocol) retire(s *clientSession) {
	if s == nil || s.pending.runWhenSettled(&l.group, func() { l.retire(s) }) {
		return
	}
	s.end(s.Cut())
	s.conn.retire()
	l.group.Start(s.close) // waited for by close, bounded by the connection's close
	l.unregister(s)
}

// discard closes an unregistered session, on a goroutine that close waits for.
func (l *Protocol) discard(s *clientSession) {
	s.end(s.Cut())
	s.conn.retire()
	if _, ok := l.group.Start(s.close); !ok { // as in retire
		s.closeNow()
	}
}

// withoutInput returns a request without input, for a legacy server, which asks during
// a request and has no request states. A request with a state is rejected: the state is
// for another server or for a call that has ended, and the server would repeat work it
// has done. Input without a state answers no request made here. It is removed, so that
// the server asks for what it needs: "If additional, unexpected parameters are provided
// in the InputResponses object, the server SHOULD ignore any information it does not
// recognize or need" (2026-07-28, basic/patterns/mrtr, "Error Handling").
func withoutInput(req *mcp.Request) (*mcp.Request, error) {
	switch {
	case !req.TakesInputRequired || !call.CanAsk(req.Method):
		return req, nil
	case req.Params.Has(mcp.FieldRequestState):
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "requestState is unknown, used or expired, or it belongs to another request")
	case !req.Params.Has(mcp.FieldInputResponses):
		return req, nil
	}
	var e mcp.Edit
	e.Delete(mcp.FieldInputResponses)
	return call.WithEdit(req, &e)
}
