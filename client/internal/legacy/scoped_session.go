// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// scopedSession holds one legacy session: the first request that needs it opens it,
// concurrent ones wait for that, and it is opened again after the server has lost it.
// It belongs to a scope, to all requests, to listens, or to the sole client. The zero
// value holds none.
type scopedSession struct {
	scope *mcp.Scope // that owns the session, or nil

	mu        sync.Mutex
	cur       *clientSession
	handshake *handshake // in progress, or nil
	ended     bool       // no session is accepted any more
	bound     bool       // the end of scope ends it
	users     int        // requests in progress
	released  time.Time  // when the last request ended
}

// handshake is one handshake, for which several requests may wait.
type handshake struct {
	done chan struct{}
	s    *clientSession
	err  error // both are set before done is closed
}

// get returns the session, and opens one if necessary. It returns an error when ctx
// ends, but the handshake continues for the other requests.
func (sl *scopedSession) get(ctx context.Context, l *Protocol, open func(context.Context) (*clientSession, error)) (*clientSession, error) {
	s, hs, old := sl.currentOrHandshake(l, open)
	l.retire(old)
	if s != nil {
		return s, nil
	}
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

// currentOrHandshake returns the live session, or the handshake to wait for, which it
// starts if necessary. Both are nil after end. old is an ended session that the caller
// must retire.
func (sl *scopedSession) currentOrHandshake(l *Protocol, open func(context.Context) (*clientSession, error)) (s *clientSession, hs *handshake, old *clientSession) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	switch {
	case sl.ended:
		return nil, nil, nil
	case sl.cur != nil && sl.cur.isAlive():
		return sl.cur, nil, nil
	// A client may have many requests in progress when its session is lost. They all
	// wait for one handshake, since with one each the server would keep as many
	// sessions, and the client would use one.
	case sl.handshake != nil:
		return nil, sl.handshake, nil
	}
	old, sl.cur = sl.cur, nil
	hs = &handshake{done: make(chan struct{})}
	// Waited for by Protocol.Close; bounded by the time limit of a handshake.
	_, ok := l.group.Start(func(ctx context.Context) {
		s, err := open(ctx)
		if !sl.finishHandshake(hs, s, err) {
			l.retire(s)
		}
	})
	if !ok {
		return nil, nil, old
	}
	sl.handshake = hs
	return nil, hs, old
}

// finishHandshake ends a handshake. It reports false if the caller must retire s. That
// is decided under the lock that also guards ended, so that a late session is not
// stored after end.
func (sl *scopedSession) finishHandshake(hs *handshake, s *clientSession, err error) bool {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	defer close(hs.done)
	if sl.handshake == hs {
		sl.handshake = nil
	}
	if err != nil {
		hs.err = err
		return true
	}
	hs.s = s
	if sl.ended {
		return false
	}
	sl.cur = s
	return true
}

// current returns the session if it is open, otherwise nil.
func (sl *scopedSession) current() *clientSession {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if sl.cur == nil || !sl.cur.isAlive() {
		return nil
	}
	return sl.cur
}

// set stores a session that was opened elsewhere. It reports false if there is one
// already, or a handshake. old is an ended session that the caller must retire.
func (sl *scopedSession) set(s *clientSession) (old *clientSession, ok bool) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if sl.ended || sl.handshake != nil || sl.cur != nil && sl.cur.isAlive() {
		return nil, false
	}
	old, sl.cur = sl.cur, s
	return old, true
}

// bind reports true to the first caller, which must bind the session to its scope.
func (sl *scopedSession) bind() bool {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	first := !sl.bound
	sl.bound = true
	return first
}

// end retires the session and accepts no other. It does not wait, because it runs on
// the goroutine that ends the scope.
func (sl *scopedSession) end(l *Protocol) { l.retire(sl.clear(true)) }

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
	idle := sl.users == 0 && sl.handshake == nil && sl.cur != nil && sl.cur.isAlive()
	return sl.released, idle
}

// clear removes the session. It does not stop a handshake in progress, because servers
// differ in how they treat an interrupted one: finishHandshake has its session retired.
func (sl *scopedSession) clear(ended bool) *clientSession {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.ended = sl.ended || ended
	s := sl.cur
	sl.cur = nil
	return s
}

// isKeptForTask reports whether the session must be kept open for a task.
func (sl *scopedSession) isKeptForTask() bool {
	s := sl.current()
	return s != nil && s.isKeptForTask()
}
