// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// scopedSession is the place of one legacy session: opened by the first who needs it, for
// all who come meanwhile, and again when the server has lost it. The zero value
// is an empty slot.
type scopedSession struct {
	scope *mcp.Scope // whose the session is, nil where it is not a scope's

	mu      sync.Mutex
	cur     *legacySession
	attempt *attempt  // the handshake under way, or nil
	ended   bool      // for good: a session that comes later is put away
	tied    bool      // to its scope, whose end is to be the slot's
	users   int       // requests
	rested  time.Time // when the last of them ended
}

// attempt is one handshake that several may wait for.
type attempt struct {
	done chan struct{}
	s    *legacySession
	err  error // both are set before done is closed
}

// get returns the slot's session, and opens it where there is none. The handshake
// belongs to the slot: that one who waits for it gives up does not concern the
// others.
func (sl *scopedSession) get(ctx context.Context, l *legacy, open func(context.Context) (*legacySession, error)) (*legacySession, error) {
	s, att, old := sl.look(l, open)
	l.retire(old)
	if s != nil {
		return s, nil
	}
	if att == nil {
		return nil, l.closed()
	}
	select {
	case <-att.done:
		return att.s, att.err
	case <-ctx.Done():
		return nil, l.givenUp(ctx, mcp.NotDispatched)
	}
}

// look returns the live session, or the handshake to wait for, begun if need be.
// Both are nil when the slot has ended. old is a dead session to be put away.
func (sl *scopedSession) look(l *legacy, open func(context.Context) (*legacySession, error)) (s *legacySession, att *attempt, old *legacySession) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	switch {
	case sl.ended:
		return nil, nil, nil
	case sl.cur != nil && sl.cur.isAlive():
		return sl.cur, nil, nil
	// A client may have many requests under way when its session is lost. They all
	// wait for one handshake: one each would leave it as many sessions, of which the
	// server keeps all and the client uses the last.
	case sl.attempt != nil:
		return nil, sl.attempt, nil
	}
	old, sl.cur = sl.cur, nil
	att = &attempt{done: make(chan struct{})}
	// Waited for by the protocol's close; bounded by the handshake's time.
	_, ok := l.tasks.start(func(ctx context.Context) {
		s, err := open(ctx)
		if !sl.settle(att, s, err) {
			l.retire(s)
		}
	})
	if !ok {
		return nil, nil, old
	}
	sl.attempt = att
	return nil, att, old
}

// settle ends an attempt. It reports false when nobody wants the session. That is
// decided here, under the lock under which the slot is ended: a session that is
// finished later cannot come back into a slot that is no more.
func (sl *scopedSession) settle(att *attempt, s *legacySession, err error) bool {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	defer close(att.done)
	if sl.attempt == att {
		sl.attempt = nil
	}
	if err != nil {
		att.err = err
		return true
	}
	att.s = s
	if sl.ended {
		return false
	}
	sl.cur = s
	return true
}

// open returns the session if it is open.
func (sl *scopedSession) open() *legacySession {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if sl.cur == nil || !sl.cur.isAlive() {
		return nil
	}
	return sl.cur
}

// put makes a session that was opened elsewhere the slot's, and reports false where it
// has one or is about to. old is a dead session to be put away.
func (sl *scopedSession) put(s *legacySession) (old *legacySession, ok bool) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if sl.ended || sl.attempt != nil || sl.cur != nil && sl.cur.isAlive() {
		return nil, false
	}
	old, sl.cur = sl.cur, s
	return old, true
}

// tie reports true to the first who asks: the one to bind the slot to its scope.
func (sl *scopedSession) tie() bool {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	first := !sl.tied
	sl.tied = true
	return first
}

// end lets the session go, for good. It does not wait: it runs at the end of a scope,
// on whatever goroutine ends that.
func (sl *scopedSession) end(l *legacy) { l.retire(sl.takeOut(true)) }

// join is the beginning of a request that uses the slot's session.
func (sl *scopedSession) join() {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.users++
}

// rest is the end of a request that has joined.
func (sl *scopedSession) rest() {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.users--
	sl.rested = time.Now()
}

// idleSince returns when the last request ended, and false where one is under
// way, or no session is open to be given up.
func (sl *scopedSession) idleSince() (time.Time, bool) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	idle := sl.users == 0 && sl.attempt == nil && sl.cur != nil && sl.cur.isAlive()
	return sl.rested, idle
}

// takeOut empties the slot. A handshake under way is not stopped, because servers
// differ in what they make of one that breaks off: settle finds that nobody wants
// its session.
func (sl *scopedSession) takeOut(ended bool) *legacySession {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.ended = sl.ended || ended
	s := sl.cur
	sl.cur = nil
	return s
}
