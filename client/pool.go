// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// pool lends sessions to requests without a scope, one request at a time, so
// that whatever the server asks meanwhile has one addressee. A session is lent
// only to the principal, and for the capabilities, that it was opened for.
type pool struct {
	max, maxIdle int
	idleTime     time.Duration
	questions    openQuestions

	mu    sync.Mutex
	ended bool
	open  int           // sessions lent, idle, or in their handshake, which has room already
	idle  []idleSession // the longest idle first
	swept bool          // a goroutine looks after the idle ones

	residents []*resident
}

type idleSession struct {
	key   poolKey
	s     *legacySession
	since time.Time
	spent bool // it is lent to nobody any more

	resident *resident // nil if the session is the pool's own
}

// poolKey is what a session was opened for. A server may have told the session
// something for its principal's eyes, and it acts on the capabilities that it was
// told; both would cross if another's request used it.
type poolKey struct{ principal, info, capabilities string }

// keyOf compares bytes: two clients that mean the same and write it differently get
// two sessions, which is dearer and never wrong.
func keyOf(req *mcp.Request) poolKey {
	k := poolKey{principal: req.Principal}
	if req.Client != nil {
		k.info, k.capabilities = string(req.Client.Info), string(req.Client.Capabilities)
	}
	return k
}

// isOf reports whether a session that was opened for the key serves the request.
func (k *poolKey) isOf(req *mcp.Request) bool {
	if k.principal != req.Principal {
		return false
	}
	if req.Client == nil {
		return k.info == "" && k.capabilities == ""
	}
	return k.info == string(req.Client.Info) && k.capabilities == string(req.Client.Capabilities)
}

// borrow returns a session that nobody else uses, to be given back. The
// handshake of a new one is not the request's: it goes on when the request gives
// up, and its session is then let go, because a handshake that is cut off leaves
// some servers in a state of which nobody knows.
func (p *pool) borrow(ctx context.Context, l *legacy, req *mcp.Request) (lease, error) {
	got, dead, err := p.take(l, req)
	for _, d := range dead {
		l.retire(d)
	}
	if err != nil {
		return lease{}, err
	}
	use := lease{legacySession: got.s, pooled: got.resident == nil, key: got.key, resident: got.resident}
	if use.legacySession == nil {
		if use.legacySession, err = p.openOne(ctx, l, req); err != nil {
			return lease{}, err
		}
		use.key = keyOf(req)
	}
	if use.pooled && l.hasHome(req) {
		l.settle(&use)
	}
	return use, nil
}

// openOne opens a session in the room that take has found for it.
func (p *pool) openOne(ctx context.Context, l *legacy, req *mcp.Request) (*legacySession, error) {
	sl := new(scopedSession) // the handshake goes on when its request gives up
	s, err := sl.get(ctx, l, l.opener(req.Client, routing{onlyCall: true, asking: &questionPlace{among: &p.questions, principal: req.Principal}}, false))
	if err != nil {
		p.forget()
		sl.end(l)
	}
	return s, err
}

// giveBack takes back what was borrowed.
func (p *pool) giveBack(l *legacy, key poolKey, s *legacySession, clean bool) {
	dead, sweep := p.put(key, s, clean)
	for _, d := range dead {
		l.retire(d)
	}
	if sweep {
		// Ends when nothing is idle; waited for by the protocol's close.
		l.tasks.start(func(ctx context.Context) { p.sweep(ctx, l) })
	}
}

// take returns an idle session for the request, or none when one may be opened. dead
// are those that have ended meanwhile, or have to make room.
func (p *pool) take(l *legacy, req *mcp.Request) (got idleSession, dead []*legacySession, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return got, nil, l.closed()
	}
	// A resident before others: the client's listens see what is done in it.
	if r := p.residentLocked(req); r != nil {
		return idleSession{key: r.key, s: r.s, resident: r}, nil, nil
	}
	// From the newest on, so that the others grow old and are swept: a pool that had
	// a busy hour shrinks to what is needed now.
	for i := len(p.idle) - 1; i >= 0 && got.s == nil; i-- {
		it := &p.idle[i]
		switch {
		case !it.s.isAlive():
			dead = append(dead, p.dropLocked(i))
		case it.key.isOf(req) && !it.spent:
			got = *it
			p.idle = slices.Delete(p.idle, i, i+1)
		}
	}
	if got.s != nil {
		return got, dead, nil
	}
	// What is idle is another principal's, or was opened for other capabilities. It
	// goes before anybody is refused.
	if i := p.freeLocked(); p.open >= p.max && i >= 0 {
		dead = append(dead, p.dropLocked(i))
	}
	if p.open >= p.max {
		return got, dead, l.fault(mcp.CodeLimit, mcp.NotDispatched, nil, "%d sessions are in use, of which %d wait for input (limits.backendSessions)", p.open, p.questions.count())
	}
	p.open++
	return got, dead, nil
}

// dropLocked takes the i-th idle session out of the pool.
func (p *pool) dropLocked(i int) *legacySession {
	s := p.idle[i].s
	p.idle = slices.Delete(p.idle, i, i+1)
	p.open--
	return s
}

// put takes a session back, or returns what is to be closed. The newest is kept,
// because it is the likeliest to be alive and to be wanted again. sweep reports
// whether somebody has to begin to look after the idle ones.
func (p *pool) put(key poolKey, s *legacySession, clean bool) (dead []*legacySession, sweep bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// One that is not clean may still speak of the request that it had, and the next
	// borrower would be the one to hear it. A session in which a task runs is kept
	// then, and lent to nobody.
	pinned := s.isPinned()
	if p.ended || !s.isAlive() || !pinned && (!clean || p.maxIdle <= 0) {
		p.open--
		return []*legacySession{s}, false
	}
	p.idle = append(p.idle, idleSession{key: key, s: s, since: time.Now(), spent: !clean})
	if i := p.freeLocked(); len(p.idle) > p.maxIdle && i >= 0 {
		dead = append(dead, p.dropLocked(i))
	}
	sweep = !p.swept
	p.swept = true
	return dead, sweep
}

// forget takes back the room of a session that could not be opened.
func (p *pool) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
}

// oldest takes out the session that was idle for longest, nil where none is.
func (p *pool) oldest() *legacySession {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.freeLocked()
	if i < 0 {
		return nil
	}
	return p.dropLocked(i)
}

// freeLocked returns which session was idle for longest of those that no task needs,
// -1 where there is none.
func (p *pool) freeLocked() int {
	return slices.IndexFunc(p.idle, func(it idleSession) bool { return !it.s.isPinned() })
}

// sweep closes what was idle for too long, until nothing is idle. There is a
// goroutine only while there is something to look after; expired says in the same
// step that it has ended, so that no session can be left without one.
func (p *pool) sweep(ctx context.Context, l *legacy) {
	for {
		dead, next := p.expired(time.Now())
		for _, s := range dead {
			l.retire(s)
		}
		if next == 0 || !pause(ctx, next) {
			return
		}
	}
}

// expired takes out what was idle for too long, and returns when the next one
// will have been; 0 when there is none.
func (p *pool) expired(now time.Time) (dead []*legacySession, next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 0; i < len(p.idle); {
		// Beyond its own time, a session is kept for as long as a task needs it.
		it := &p.idle[i]
		end := it.since.Add(p.idleTime)
		if needed := it.s.pins.last(now); needed.After(end) {
			end = needed
		}
		if left := end.Sub(now); left > 0 {
			next = min(left, cmp.Or(next, left))
			i++
			continue
		}
		dead = append(dead, p.dropLocked(i))
	}
	p.swept = len(p.idle) > 0
	return dead, next
}

// close lets all idle sessions go; those that are lent go when they are given
// back.
func (p *pool) close(l *legacy) {
	for _, s := range p.shut() {
		l.retire(s)
	}
}

func (p *pool) shut() []*legacySession {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	var all []*legacySession
	for len(p.idle) > 0 {
		all = append(all, p.dropLocked(0))
	}
	return all
}
