// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// scopedSession holds one legacy session: the first request that needs it opens it,
// concurrent ones wait for that, and it is opened again after the server has lost it.
// It belongs to a scope, to all requests, to listens, or to the sole client. The zero
// value holds none.
type scopedSession struct {
	mu       sync.Mutex
	scope    *mcp.Scope // that owns the session and ends it, or nil; set once, before Protocol.track
	opening  *handshake // the newest one, in progress or not; nil before the first
	ended    bool       // no session is accepted any more
	users    int        // requests in progress
	released time.Time  // when the last request ended
}

// handshake is one handshake, for which several requests may wait.
type handshake struct {
	done chan struct{}
	s    *clientSession
	err  error // both are set before done is closed
}

func (h *handshake) inProgress() bool { return h != nil && !call.IsClosed(h.done) }

// session returns the session if it is open, otherwise nil.
func (h *handshake) session() *clientSession {
	if h == nil || h.inProgress() || h.s == nil || !h.s.isAlive() {
		return nil
	}
	return h.s
}

// get returns the session, and opens one if necessary. It returns an error when ctx
// ends, but the handshake continues for the other requests.
func (sl *scopedSession) get(ctx context.Context, l *Protocol, open func(context.Context) (*clientSession, error)) (*clientSession, error) {
	hs, old := sl.begin(l, open)
	l.retire(old)
	if hs == nil {
		return nil, l.Closed()
	}
	select {
	case <-hs.done:
		return hs.s, hs.err
	case <-ctx.Done():
		return nil, l.GivenUp(ctx, mcp.NotDispatched)
	}
}

// begin returns the handshake to wait for, which it starts if necessary, or that of the
// open session. It returns nil after end. old is an ended session that the caller must
// retire, or nil.
func (sl *scopedSession) begin(l *Protocol, open func(context.Context) (*clientSession, error)) (hs *handshake, old *clientSession) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	switch {
	case sl.ended:
		return nil, nil
	// A client may have many requests in progress when its session is lost. They all
	// wait for one handshake, since with one each the server would keep as many
	// sessions, and the client would use one.
	case sl.opening.inProgress(), sl.opening.session() != nil:
		return sl.opening, nil
	}
	hs, old = &handshake{done: make(chan struct{})}, sl.takeLocked()
	// Waited for by Protocol.Close; bounded by the time limit of a handshake.
	_, ok := l.group.Start(func(ctx context.Context) {
		s, err := open(ctx)
		if !sl.finish(hs, s, err) {
			l.retire(s)
		}
	})
	if !ok {
		return nil, old
	}
	sl.opening = hs
	return hs, old
}

// finish ends a handshake. It reports false if the caller must retire s. That is decided
// under the lock that also guards ended, so that a late session is not kept after end.
func (sl *scopedSession) finish(hs *handshake, s *clientSession, err error) bool {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	defer close(hs.done)
	if err != nil {
		hs.err = err
		return true
	}
	hs.s = s
	return !sl.ended
}

// newest returns the newest handshake, in progress or not, or nil.
func (sl *scopedSession) newest() *handshake {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return sl.opening
}

// current returns the session if it is open, otherwise nil.
func (sl *scopedSession) current() *clientSession { return sl.newest().session() }

// set stores a session that was opened elsewhere. It reports false if there is one
// already, or a handshake. old is an ended session that the caller must retire.
func (sl *scopedSession) set(s *clientSession) (old *clientSession, ok bool) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if sl.ended || sl.opening.inProgress() || sl.opening.session() != nil {
		return nil, false
	}
	old = sl.takeLocked()
	sl.opening = &handshake{done: make(chan struct{}), s: s}
	close(sl.opening.done)
	return old, true
}

// takeLocked removes the session, or returns nil if there is none.
func (sl *scopedSession) takeLocked() *clientSession {
	hs := sl.opening
	sl.opening = nil
	if hs == nil || hs.inProgress() {
		return nil
	}
	return hs.s
}

// bind sets the scope. It reports true to the first caller, which must make the end of the
// scope end the session.
func (sl *scopedSession) bind(scope *mcp.Scope) (first bool) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if sl.scope != nil {
		return false
	}
	sl.scope = scope
	return true
}

// end retires the session and accepts no other. It does not wait, because it runs on
// the goroutine that ends the scope.
func (sl *scopedSession) end(l *Protocol) { l.retire(sl.clear()) }

// hurry makes the end of the session a short one.
func (sl *scopedSession) hurry() {
	if s := sl.current(); s != nil {
		s.conn.hurry()
	}
}

// acquire begins a request's use of the session.
func (sl *scopedSession) acquire() {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.users++
}

// release ends it.
func (sl *scopedSession) release() {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.users--
	sl.released = time.Now()
}

// idleSince returns when the last request ended. It reports false if a request is in
// progress, or no session is open.
func (sl *scopedSession) idleSince() (time.Time, bool) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	idle := sl.users == 0 && sl.opening.session() != nil
	return sl.released, idle
}

// clear removes the session and accepts no other. It does not stop a handshake in
// progress, because servers differ in how they treat an interrupted one: finish has its
// session retired.
func (sl *scopedSession) clear() *clientSession {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.ended = true
	return sl.takeLocked()
}

// acquireScoped returns the session of the request's scope.
func (l *Protocol) acquireScoped(ctx context.Context, req *mcp.Request) (lease, error) {
	if l.isSoleClient(req) {
		if s, err := l.soleSessionForLists(ctx, req); s != nil || err != nil {
			return lease{clientSession: s}, err
		}
	}
	sl, err := l.scopedFor(req.Scope)
	if err != nil {
		return lease{}, err
	}
	sl.acquire()
	s := sl.current()
	if s == nil {
		s, err = l.openScoped(ctx, sl, req)
	}
	if err != nil {
		sl.release()
		return lease{}, err
	}
	return lease{clientSession: s, scoped: sl}, nil
}

// openScoped opens the session of a scope. The first request determines the client's
// capabilities and the caller for messages that belong to no call, for the lifetime of
// the session.
func (l *Protocol) openScoped(ctx context.Context, sl *scopedSession, req *mcp.Request) (*clientSession, error) {
	route := routing{onlyCall: l.dial.SharesStream() || l.OneClient, unrelated: req.Scope.Unrelated()}
	if route.unrelated != nil {
		route.scope = req.Scope
	}
	// A scope without an unrelated caller is not a client's: the gateway uses one to
	// learn what a server offers.
	return sl.get(ctx, l, l.opener(req.Client, req, route, route.unrelated == nil))
}

// scopedFor returns the scopedSession of a scope. The first caller binds it to the
// scope, so that it ends with the scope. If the scope ends in between, scopedFor ends
// it.
func (l *Protocol) scopedFor(scope *mcp.Scope) (*scopedSession, error) {
	v, ok := scope.Value(l, func() any { return new(scopedSession) })
	if !ok {
		return nil, l.Fault(mcp.CodeSessionEnded, mcp.NotDispatched, nil, "the client's session has ended")
	}
	sl, ok := v.(*scopedSession)
	if !ok {
		return nil, l.Fault(mcp.CodeInternalError, mcp.NotDispatched, nil, "foreign value in the scope")
	}
	// Not where the value is created: openSession creates one as well, for
	// notifications before the first request.
	if !sl.bind(scope) {
		return sl, nil
	}
	l.track(sl, true)
	end := func() {
		l.track(sl, false)
		if scope.IsAbandoned() {
			sl.hurry()
		}
		sl.end(l)
	}
	if !scope.OnEnd(end) {
		end()
	}
	return sl, nil
}

// track adds sl to the scopes that have not ended, or removes it.
func (l *Protocol) track(sl *scopedSession, isOpen bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isOpen {
		l.scoped[sl] = struct{}{}
	} else {
		delete(l.scoped, sl)
	}
}

func (l *Protocol) scopedSessions() []*scopedSession {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.scoped))
}

// makeRoom ends one idle session to make room for another one, and reports whether it
// has. It prefers a session of the pool, which costs the next request a handshake.
// Ending that of a scope costs the client what the server keeps for it, so scopes are
// asked last, the longest idle first, and only the scope's owner can decide.
func (l *Protocol) makeRoom() bool {
	if s := l.pool.evictOldest(); s != nil {
		l.retire(s)
		return true
	}
	for _, sl := range l.idleScoped() {
		if sl.scope.Yield() {
			return true
		}
	}
	return false
}

// idleScoped returns the scopes that have a session and no request in progress, the
// longest idle first. One of them may be used again at any moment; Scope.Yield refuses
// then.
func (l *Protocol) idleScoped() []*scopedSession {
	since := make(map[*scopedSession]time.Time)
	for _, sl := range l.scopedSessions() {
		at, idle := sl.idleSince()
		if s := sl.current(); idle && s != nil && !s.isKeptForTask() {
			since[sl] = at
		}
	}
	return slices.SortedFunc(maps.Keys(since), func(a, b *scopedSession) int { return since[a].Compare(since[b]) })
}

// isSoleClient reports whether the sole client's session serves the request. The
// request must not be for a shared session. The first request determines the client.
func (l *Protocol) isSoleClient(req *mcp.Request) bool {
	if !l.OneClient || req.Scope != nil && req.Scope.Unrelated() != nil {
		return false
	}
	if l.soleKey.Load() == nil {
		key := call.KeyOf(req)
		l.soleKey.CompareAndSwap(nil, &key)
	}
	return l.soleKey.Load().IsOf(req)
}

// soleSession returns the sole client's session, and opens it if necessary. ours is as in
// opener.
func (l *Protocol) soleSession(ctx context.Context, req *mcp.Request, ours bool) (*clientSession, error) {
	s, err := l.sole.get(ctx, l, l.opener(req.Client, req, routing{onlyCall: true}, ours))
	if err == nil {
		l.pool.addResident(&l.sole, call.KeyOf(req), s, true)
	}
	return s, err
}

// soleSessionForLists is soleSession for lists. It returns nil if the session must wait
// for a call.
func (l *Protocol) soleSessionForLists(ctx context.Context, req *mcp.Request) (*clientSession, error) {
	if hasRoots(req.Client) {
		return l.sole.current(), nil
	}
	return l.soleSession(ctx, req, true)
}

// hasRoots reports whether a client has declared roots. A server asks for them right
// after the handshake, and a client without a session can be asked only during a call
// of its own. So the session that is opened for that call becomes the sole client's.
func hasRoots(client *mcp.Peer) bool {
	return client != nil && declares(client.Capabilities, call.MethodRoots)
}
