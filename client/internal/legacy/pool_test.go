// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// idleTestSession returns a session over a connection that sends nothing.
func idleTestSession() *clientSession {
	return newClientSession(call.NewSetup(call.Config{Name: "b"}), &idleConn{noListen: make(chan struct{})}, routing{}, nil)
}

func closedLegacy(t *testing.T, cfg call.Config) *Protocol {
	t.Helper()
	l := New(call.NewSetup(cfg), nil, mcp.LatestLegacy)
	t.Cleanup(func() { l.Close(t.Context()) })
	return l
}

// If the pool is full when a session is returned, the session that has been idle the
// longest is closed, not the returned one. The limit is never exceeded (M102).
func TestM102OldestIdleSessionIsEvicted(t *testing.T) {
	l := closedLegacy(t, call.Config{IdleSessions: 2})
	p := &l.pool
	var all []*clientSession
	for i := range 4 {
		s := idleTestSession()
		all = append(all, s)
		p.open++ // as take counts a session that is about to be opened
		dead, _ := p.put(&pooledSession{s: s}, true)
		switch {
		case i < 2 && dead != nil, i >= 2 && dead != all[i-2]:
			t.Errorf("the %d. one: %p went, want the oldest beyond two", i+1, dead)
		case len(p.idle) > 2 || p.open != len(p.idle):
			t.Errorf("%d idle, %d open; want at most 2 of both", len(p.idle), p.open)
		}
	}
	if got, _, err := p.take(l, &mcp.Request{}); got == nil || got.s != all[3] || err != nil {
		t.Errorf("lent %v, %v; want the newest", got, err)
	}
}

// The sessions of a burst of requests are kept for the next one: a limit below the
// number of concurrent requests would cost each of them a handshake.
func TestPoolKeepsTheSessionsOfABurst(t *testing.T) {
	l := closedLegacy(t, call.Config{MaxSessions: 9})
	p := &l.pool
	for i := range 9 {
		p.open++
		if dead, _ := p.put(&pooledSession{s: idleTestSession()}, true); dead != nil {
			t.Errorf("the %d. one: %p went, want none", i+1, dead)
		}
	}
	for i := range 9 {
		if got, dead, err := p.take(l, &mcp.Request{}); got == nil || len(dead) != 0 || err != nil {
			t.Errorf("the %d. request: lent %v, %d went, %v; want one that was kept", i+1, got, len(dead), err)
		}
	}
}

// A session that was removed because it expired cannot be lent any more, whichever came
// first (M101). The time is exact (M098).
func TestM101ExpiryAndRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := closedLegacy(t, call.Config{IdleTime: time.Minute})
		p := &l.pool
		s := idleTestSession()
		p.open = 1
		if dead, sweep := p.put(&pooledSession{s: s}, true); dead != nil || !sweep {
			t.Fatalf("put: %p dead, sweep %v", dead, sweep)
		}
		time.Sleep(time.Minute - 1)
		if dead, next := p.expired(time.Now()); len(dead) != 0 || next != 1 {
			t.Errorf("a moment too early: %d dead, next look in %v", len(dead), next)
		}
		time.Sleep(time.Nanosecond)
		if dead, next := p.expired(time.Now()); len(dead) != 1 || dead[0] != s || next != 0 {
			t.Errorf("in time: %d dead, next look in %v", len(dead), next)
		}
		if got, _, err := p.take(l, &mcp.Request{}); got != nil || err != nil || p.open != 1 {
			t.Errorf("lent %v, %v, %d open; want none to be lent and one to be opened", got, err, p.open)
		}
	})
}

// A returned session is closed instead of kept if it has ended, if its request left
// something behind, if the pool keeps none, or if the pool is closed (M169).
func TestM169ReturnedSessionIsClosed(t *testing.T) {
	for name, tt := range map[string]func(p *pool, s *clientSession) (clean bool){
		"it has ended":        func(_ *pool, s *clientSession) bool { s.markEnded(call.ErrClosed); return true },
		"not clean":           func(*pool, *clientSession) bool { return false },
		"none are kept":       func(p *pool, _ *clientSession) bool { p.maxIdle = 0; return true },
		"the pool is no more": func(p *pool, _ *clientSession) bool { p.clearIdle(); return true },
	} {
		l := closedLegacy(t, call.Config{})
		p, s := &l.pool, idleTestSession()
		p.open = 1
		clean := tt(p, s)
		if dead, sweep := p.put(&pooledSession{s: s}, clean); dead != s || sweep || p.open != 0 || len(p.idle) != 0 {
			t.Errorf("%s: %p dead, %d open, %d idle", name, dead, p.open, len(p.idle))
		}
	}
}

// An idle session that has ended is dropped instead of lent, whatever its key.
func TestPoolDropsEndedSessions(t *testing.T) {
	l := closedLegacy(t, call.Config{})
	p := &l.pool
	ann, bob := call.ClientKey{Principal: "ann"}, call.ClientKey{Principal: "bob"}
	for _, key := range []call.ClientKey{ann, bob} {
		s := idleTestSession()
		p.open++
		p.put(&pooledSession{s: s, key: key}, true)
		s.markEnded(call.ErrClosed)
	}
	of := &mcp.Request{Principal: "ann"}
	got, dead, err := p.take(l, of)
	if got != nil || err != nil || len(dead) != 2 || p.open != 1 {
		t.Errorf("lent %v, %v; %d dead, %d open; want none, both dead and one to be opened", got, err, len(dead), p.open)
	}
	p.clearIdle()
	if _, _, err := p.take(l, of); err == nil {
		t.Error("lent after the end")
	}
}

// closingConn is a connection that reports its close.
type closingConn struct {
	*idleConn
	closed chan struct{}
}

func (w *closingConn) close(ctx context.Context) {
	close(w.closed)
	w.idleConn.close(ctx)
}

// A session is listed until it has begun to end. If close does not find it in the list,
// close must wait for its goroutine. So the end begins before the session leaves the
// list.
func TestRetiredSessionIsListedUntilItEnds(t *testing.T) {
	l := closedLegacy(t, call.Config{Name: "b"})
	w := &closingConn{&idleConn{noListen: make(chan struct{})}, make(chan struct{})}
	s := newClientSession(l.Setup, w, routing{}, nil)
	if !l.register(s) {
		t.Fatal("it was not taken in")
	}
	retired := make(chan struct{})
	l.mu.Lock()
	go func() { // ends when the list is unlocked; waited for below
		defer close(retired)
		l.retire(s)
	}()
	ended := call.Within(w.closed, 10*time.Second)
	l.mu.Unlock()
	<-retired
	if !ended {
		t.Error("it was to be struck from the list before it had begun to end")
	}
	if n := len(l.sessions()); n != 0 {
		t.Errorf("%d sessions are on the list, want none", n)
	}
}
