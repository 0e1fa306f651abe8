// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// pool lends sessions to requests without a scope, one request at a time, so that the
// server's requests meanwhile have exactly one caller. A session is lent only to the
// principal, and for the client capabilities, for which it was opened.
type pool struct {
	max, maxIdle  int
	idleTime      time.Duration
	openQuestions openQuestions

	mu       sync.Mutex
	ended    bool
	open     int           // sessions that are lent, idle, or in their handshake
	idle     []idleSession // the longest idle first
	sweeping bool          // a goroutine closes the idle sessions that expire

	residents []*resident
}

type idleSession struct {
	key      call.ClientKey
	s        *clientSession
	since    time.Time
	retained bool // kept for a task only, and not lent any more

	resident *resident // nil if the session is the pool's own
}

// borrow returns a session that no other request uses. The caller must give it back.
// The handshake of a new session does not belong to the request: if the request gives
// up, the handshake completes and the session is retired then, because an interrupted
// handshake leaves some servers in an undefined state.
func (p *pool) borrow(ctx context.Context, l *Protocol, req *mcp.Request) (lease, error) {
	got, dead, err := p.take(l, req)
	for _, d := range dead {
		l.retire(d)
	}
	if err != nil {
		return lease{}, err
	}
	use := lease{clientSession: got.s, pooled: got.resident == nil, key: got.key, resident: got.resident}
	if use.clientSession == nil {
		if use.clientSession, err = p.openOne(ctx, l, req); err != nil {
			return lease{}, err
		}
		use.key = call.KeyOf(req)
	}
	if use.pooled && l.isSoleClient(req) {
		l.makeSole(&use)
	}
	return use, nil
}

// openOne opens a session that take has counted already.
func (p *pool) openOne(ctx context.Context, l *Protocol, req *mcp.Request) (*clientSession, error) {
	sl := new(scopedSession) // keeps the handshake going when its request gives up
	s, err := sl.get(ctx, l, l.opener(req.Client, routing{onlyCall: true, questions: &questionSlot{among: &p.openQuestions, principal: req.Principal}}, false))
	if err != nil {
		p.cancelOpen()
		sl.end(l)
	}
	return s, err
}

// giveBack returns a borrowed session.
func (p *pool) giveBack(l *Protocol, key call.ClientKey, s *clientSession, clean bool) {
	dead, sweep := p.put(key, s, clean)
	for _, d := range dead {
		l.retire(d)
	}
	if sweep {
		// Ends when no session is idle; waited for by Protocol.Close.
		l.group.Start(func(ctx context.Context) { p.sweep(ctx, l) })
	}
}

// take returns an idle session for the request, or counts a new one that the caller
// must open. dead are ended or evicted sessions that the caller must retire.
func (p *pool) take(l *Protocol, req *mcp.Request) (got idleSession, dead []*clientSession, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return got, nil, l.Closed()
	}
	// Residents come first: the client's listens receive what changes in their session.
	if r := p.lendResidentLocked(req); r != nil {
		return idleSession{key: r.key, s: r.s, resident: r}, nil, nil
	}
	// From the newest on, so that the others expire: a pool that has had a busy hour
	// shrinks to what is needed now.
	for i := len(p.idle) - 1; i >= 0 && got.s == nil; i-- {
		it := &p.idle[i]
		switch {
		case !it.s.isAlive():
			dead = append(dead, p.dropLocked(i))
		case it.key.IsOf(req) && !it.retained:
			got = *it
			p.idle = slices.Delete(p.idle, i, i+1)
		}
	}
	if got.s != nil {
		return got, dead, nil
	}
	// Idle sessions belong to another principal, or have other capabilities. Evict one
	// of them before a request is refused.
	if i := p.evictableLocked(); p.open >= p.max && i >= 0 {
		dead = append(dead, p.dropLocked(i))
	}
	if p.open >= p.max {
		return got, dead, l.Fault(mcp.CodeLimit, mcp.NotDispatched, nil, "%d sessions are in use, %d of them waiting for input (limits.backendSessions)", p.open, p.openQuestions.count())
	}
	p.open++
	return got, dead, nil
}

// dropLocked removes the i-th idle session.
func (p *pool) dropLocked(i int) *clientSession {
	s := p.idle[i].s
	p.idle = slices.Delete(p.idle, i, i+1)
	p.open--
	return s
}

// put adds a session to the idle ones. dead are the sessions that the caller must
// retire instead. The newest is kept, because it is the likeliest to be alive and to be
// used again. If sweep is set, the caller must start sweep.
func (p *pool) put(key call.ClientKey, s *clientSession, clean bool) (dead []*clientSession, sweep bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// After a request that was given up the server may still send messages of that
	// request, and the next borrower would receive them. So the session is closed, or,
	// if a task runs in it, kept and not lent again.
	retained := s.isKeptForTask()
	if p.ended || !s.isAlive() || !retained && (!clean || p.maxIdle <= 0) {
		p.open--
		return []*clientSession{s}, false
	}
	p.idle = append(p.idle, idleSession{key: key, s: s, since: time.Now(), retained: !clean})
	if i := p.evictableLocked(); len(p.idle) > p.maxIdle && i >= 0 {
		dead = append(dead, p.dropLocked(i))
	}
	sweep = !p.sweeping
	p.sweeping = true
	return dead, sweep
}

// cancelOpen uncounts a session that could not be opened.
func (p *pool) cancelOpen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
}

// evictOldest removes and returns the session that has been idle the longest, or nil.
func (p *pool) evictOldest() *clientSession {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.evictableLocked()
	if i < 0 {
		return nil
	}
	return p.dropLocked(i)
}

// evictableLocked returns the index of the session that has been idle the longest and
// that no task needs, or -1.
func (p *pool) evictableLocked() int {
	return slices.IndexFunc(p.idle, func(it idleSession) bool { return !it.s.isKeptForTask() })
}

// sweep closes sessions that have been idle for too long, until none is idle. expired
// decides under the lock that the goroutine ends, so that no idle session is left
// without one.
func (p *pool) sweep(ctx context.Context, l *Protocol) {
	for {
		dead, next := p.expired(time.Now())
		for _, s := range dead {
			l.retire(s)
		}
		if next == 0 || !backoff.Sleep(ctx, next) {
			return
		}
	}
}

// expired removes the sessions that have been idle for too long. It returns the time
// until the next one expires, 0 if no session is idle.
func (p *pool) expired(now time.Time) (dead []*clientSession, next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 0; i < len(p.idle); {
		// A session that a task needs is kept beyond its idle time.
		it := &p.idle[i]
		end := it.since.Add(p.idleTime)
		if needed := it.s.tasks.keptUntil(now); needed.After(end) {
			end = needed
		}
		if left := end.Sub(now); left > 0 {
			next = min(left, cmp.Or(next, left))
			i++
			continue
		}
		dead = append(dead, p.dropLocked(i))
	}
	p.sweeping = len(p.idle) > 0
	return dead, next
}

// close closes all idle sessions. Borrowed ones are closed when they are given back.
func (p *pool) close(l *Protocol) {
	for _, s := range p.clearIdle() {
		l.retire(s)
	}
}

func (p *pool) clearIdle() []*clientSession {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	var all []*clientSession
	for len(p.idle) > 0 {
		all = append(all, p.dropLocked(0))
	}
	return all
}
