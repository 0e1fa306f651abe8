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

// legacy speaks to a server of the legacy era, in sessions. A session belongs to
// a scope; or to everybody, where the operator says so; or it is lent to one
// request at a time.
type legacy struct {
	*setup
	dial  dialer
	want  mcp.Version
	spent time.Duration // on the probe, of the time for the first handshake
	tasks goroutines

	everybody scopedSession // Share
	watch     watches       // listens without a scope
	home      home          // OneClient
	pool      pool

	support taskSupport     // of the server's tools
	anchors taskSessions    // of tasks
	holds   openTaskResults // of tasks that wait for input

	watched watchedTasks

	// spoke is set once a handshake has succeeded: then this era was the right
	// one, at least at that time.
	spoke atomic.Bool

	// Whoever opens a session and whoever closes all of them meet here, so that
	// none can be opened that nobody closes.
	mu   sync.Mutex
	held map[*scopedSession]struct{} // those of scopes that have not ended
	live map[*legacySession]struct{} // the sessions that are not closed yet
	shut bool                        // no session is opened any more
	past session.CallStats           // of those that are
}

// dialer opens the connection of one legacy session.
type dialer interface {
	dial(ctx context.Context, n slotPurpose) (legacyWire, error)

	// failed is called when the handshake over the wire has failed, before the
	// wire is closed. It reports true when the wire has turned out to be of the
	// other era, and is kept for that.
	failed(wire legacyWire) (keep bool)

	// sseFallback returns another wire to the same server, opened, where the way in which
	// it has refused the handshake may mean that it has an sseFallback transport, and it
	// does; else nil.
	sseFallback(ctx context.Context, wire legacyWire) legacyWire

	// mistaken is called when the handshake over the wire has succeeded. It reports
	// true when the server has turned out to be of both eras: it is spoken to in the
	// other one, and over another wire, for this one is bound by the handshake. It
	// does so once.
	isModern(wire legacyWire) bool

	// sharesStream reports whether all messages of a session come on one stream.
	sharesStream() bool
}

func newLegacy(s *setup, d dialer, want mcp.Version) *legacy {
	l := &legacy{setup: s, dial: d, want: want}
	l.pool.max, l.pool.maxIdle, l.pool.idleTime = s.MaxSessions, s.IdleSessions, s.IdleTime
	l.pool.questions.max = s.MaxSessions
	return l
}

func (l *legacy) era() mcp.Era { return mcp.EraLegacy }

// serve serves one request, and once more when the server turns out to have
// forgotten the session: then it has not looked at the request.
func (l *legacy) serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	if req.Method == methodSetLevel || strings.HasPrefix(req.Method, "notifications/") {
		return l.serveOpened(ctx, req)
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
	use, err := l.acquireFor(ctx, req, caller)
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
		res, err = l.followTask(ctx, s, req, caller)
	default:
		res, err = s.call(ctx, req, caller)
	}
	if req.Method == methodToolsList && err == nil {
		l.support.learn(res)
	}
	l.release(&use, answered(err))
	return res, err
}

// answered reports whether a call ended with the server's own word, so that
// nothing of it is left in the session. A session in which a call was given up may
// still say something about it, and is not lent to anybody else.
func answered(err error) bool {
	if err == nil {
		return true
	}
	_, ok := err.(*mcp.Error) //nolint:errorlint // a Fault may wrap one and is not one
	return ok
}

// serveOpened serves what concerns a session that is open, and nothing where
// none is: the next handshake says it all.
func (l *legacy) serveOpened(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	s := l.opened(req.Scope)
	switch {
	// One client's level is nothing to the others of a session: its own calls say it.
	case req.Method == methodSetLevel && (s == nil || s.addr.shared):
		return emptyResult()
	case req.Method == methodSetLevel:
		return s.serveLevel(ctx, req)
	case s != nil && req.Method == methodTaskStatus:
		s.tellState(&mcp.Notification{Method: req.Method, Params: req.Params})
	case s != nil:
		n := mcp.Notification{Method: req.Method, Params: req.Params}
		s.replies.put(s, n.AppendTo(nil, nil))
	}
	return nil, nil //nolint:nilnil // a notification has no terminal
}

// lease is a session while a request uses it.
type lease struct {
	*legacySession
	slot   *scopedSession // of a scope, which rests behind the request; nil where it is none's
	pooled bool
	key    poolKey // in the pool

	resident *resident // that was lent, or nil
}

// acquireFor is acquire for a request of the caller, whose limits stop meanwhile: a
// handshake has its own.
func (l *legacy) acquireFor(ctx context.Context, req *mcp.Request, caller mcp.Caller) (lease, error) {
	mcp.Pause(caller, true)
	defer mcp.Pause(caller, false)
	return l.acquire(ctx, req)
}

// acquire returns the session for a request, to be released when that is over.
func (l *legacy) acquire(ctx context.Context, req *mcp.Request) (lease, error) {
	if id, ok := req.Params.Text(mcp.FieldTaskID); ok && strings.HasPrefix(req.Method, methodTasks) {
		if s := l.anchors.find(req.Principal, id); s != nil {
			return lease{legacySession: s}, nil
		}
	}
	if l.Share {
		// Nothing is asked of anybody but the only one whose call is under way: the
		// session is everybody's, and has no client of its own.
		s, err := l.everybody.get(ctx, l, l.opener(l.self(), routing{onlyCall: true, shared: true}, true))
		return lease{legacySession: s}, err
	}
	if req.Scope != nil {
		return l.ofScope(ctx, req)
	}
	return l.pool.borrow(ctx, l, req)
}

// release is the end of a request. clean says that nothing of it is left behind.
func (l *legacy) release(use *lease, clean bool) {
	switch {
	case use.slot != nil:
		use.slot.rest()
	case use.resident != nil:
		if l.pool.returned(use.resident, clean) {
			l.retire(use.legacySession)
		}
	case use.pooled:
		l.pool.giveBack(l, use.key, use.legacySession, clean)
	}
}

// opener returns what opens a session for the given client. ours: it is not for
// one client alone.
func (l *legacy) opener(client *mcp.Peer, addr routing, ours bool) func(ctx context.Context) (*legacySession, error) {
	addr.private, addr.watched = !ours, &l.watched
	n := slotPurpose{internal: ours, evict: l.makeRoom}
	return func(ctx context.Context) (*legacySession, error) { return l.open(ctx, client, addr, n) }
}

// open opens a session. It returns it complete, or not at all.
func (l *legacy) open(ctx context.Context, client *mcp.Peer, addr routing, n slotPurpose) (*legacySession, error) {
	ctx, cancel := context.WithTimeout(ctx, l.patience())
	defer cancel()
	wire, err := l.dial.dial(ctx, n)
	if err != nil {
		return nil, err
	}
	s := newLegacySession(l.setup, wire, addr)
	err = s.initialize(ctx, client, l.want)
	if older := l.olderWire(ctx, wire, err); older != nil {
		l.discard(s)
		addr.onlyCall = true // its messages come on one stream
		s = newLegacySession(l.setup, older, addr)
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
		err := l.fault(mcp.CodeBackendUnavailable, mcp.NotDispatched, nil, "it is modern, and was too slow to say so before its handshake")
		return nil, &rejected{why: wrongEra, err: err}
	}
	// Noted last: a session that stats and close can see is a complete one.
	l.spoke.Store(true)
	if !l.note(s) {
		l.discard(s)
		return nil, l.closed()
	}
	return s, nil
}

func (l *legacy) olderWire(ctx context.Context, wire legacyWire, err error) legacyWire {
	if err == nil {
		return nil
	}
	return l.dial.sseFallback(ctx, wire)
}

// resumeLimiter is how long a handshake may take. One that follows a probe has what the
// probe has left: a server that answers nothing costs a call the time of one
// handshake, and not of both.
func (l *legacy) patience() time.Duration {
	if l.spoke.Load() {
		return l.Handshake
	}
	return (l.Handshake - l.spent).Round(time.Millisecond)
}

// handshakeFailed says what a failed handshake means: a server that has shaken
// hands before, and now refuses to, may have become another.
func (l *legacy) handshakeFailed(ctx context.Context, err error) error {
	why := neverSpoke
	if l.spoke.Load() || isRejected(err, wrongEra) {
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
		return &rejected{why: busy, err: beforeSend(f)} // which says nothing about the era
	case isFault && isUnreachable(f):
		return err // nor does this
	case isFault:
		// The handshake was sent; the request that needed it was not.
		err = l.unavailable(errors.Join(errNoRetry, f.Cause), "initialize failed: %s", f.Message)
	}
	return &rejected{why: why, err: unwrap(err)}
}

// isUnreachable reports whether nothing was sent for want of a connection.
func isUnreachable(f *mcp.Fault) bool {
	return f.Outcome == mcp.NotDispatched && f.Code == mcp.CodeBackendUnavailable && !isRefusal(f)
}

// opened returns the session of a scope that is open now, or nil. What concerns open
// sessions opens none: a server is not started to be told that a client's roots have
// changed.
func (l *legacy) opened(scope *mcp.Scope) *legacySession {
	if l.Share {
		return l.everybody.open()
	}
	if scope == nil {
		return nil
	}
	v, ok := scope.Value(l, func() any { return new(scopedSession) })
	if !ok {
		return nil
	}
	if sl, ok := v.(*scopedSession); ok {
		return sl.open()
	}
	return nil
}

func (l *legacy) stats() session.CallStats {
	sum := l.pastStats()
	for _, s := range l.sessions() {
		sum = sum.Plus(s.calls.Stats())
	}
	return sum
}

// close ends all sessions and returns when nothing of them is left. Slots and
// pool are ended before the sessions are listed: what is opened for one of them
// meanwhile is either on the list or refused by note.
func (l *legacy) close(context.Context) {
	l.everybody.end(l)
	l.watch.end(l)
	l.home.slot.end(l)
	l.pool.close(l)
	l.refuse()
	for _, s := range l.sessions() {
		s.due.forgo()
		l.retire(s)
	}
	l.tasks.close()
}

// note takes in a session that was opened, so that close finds it. It reports false
// when that is too late, because all are being closed.
func (l *legacy) note(s *legacySession) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		return false
	}
	if l.live == nil {
		l.live = make(map[*legacySession]struct{})
	}
	l.live[s] = struct{}{}
	return true
}

func (l *legacy) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = true
}

// strike forgets a session that is being closed, but for its counters: what was lost
// in it was lost, and a sum that shrinks would say otherwise.
func (l *legacy) strike(s *legacySession, past session.CallStats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.live[s]; ok {
		delete(l.live, s)
		l.past = l.past.Plus(past)
	}
}

func (l *legacy) pastStats() session.CallStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.past
}

// sessions returns the sessions that are not closed yet.
func (l *legacy) sessions() []*legacySession {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.live))
}

// retire closes a session in the background, and does not wait. It is struck when it
// has begun to end: close finds each session on its list, or waits for its end. So
// there is nothing to do where nothing can be begun any more, because close has.
func (l *legacy) retire(s *legacySession) {
	if s == nil || s.due.thenIn(&l.tasks, func() { l.retire(s) }) {
		return
	}
	s.lose(s.cut())
	s.wire.leave()
	past := s.calls.Stats()
	l.tasks.start(s.close) // waited for by close, bounded by the wire's close
	l.strike(s, past)
}

// discard closes a session that was not noted, on a goroutine that close waits for.
func (l *legacy) discard(s *legacySession) {
	s.lose(s.cut())
	s.wire.leave()
	if _, ok := l.tasks.start(s.close); !ok { // as in retire
		s.lastClose()
	}
}
