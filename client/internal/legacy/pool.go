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
	max, maxIdle int
	perPrincipal bool // maxIdle is for each principal
	idleTime     time.Duration

	mu        sync.Mutex
	ended     bool
	open      int              // sessions of the pool that are lent, idle, or in their handshake
	idle      []*pooledSession // the longest idle first
	sweeping  bool             // a goroutine closes the idle sessions that expire
	residents []*pooledSession

	// waiting counts the sessions in which a question waits for its client, by
	// principal, and allWaiting counts them all. Such a session serves no other request
	// until the client answers, so each principal must leave a share of the sessions to
	// the others. The share does not apply to requests without a principal.
	waiting    map[string]int
	allWaiting int
}

// pooledSession is a session that can be lent. All fields but the first two are guarded
// by pool.mu.
type pooledSession struct {
	s   *clientSession
	key call.ClientKey

	since    time.Time // idle
	unusable bool      // a request on s was given up: s is not lent any more

	// holder makes the session a resident: it is open for the listens of a client, or is
	// the sole client's, and holder holds it. It is lent like a session of the pool, so
	// that the client's listens receive what its calls change. It does not count against
	// the limits of the pool: the listen does.
	holder   *scopedSession
	lent     bool
	reusable bool // lent again after a request on s was given up: s is the sole client's
	removed  bool // its listens have ended: s is closed when it is returned
}

// borrow returns a session that no other request uses. The caller must give it back.
// The handshake of a new session does not belong to the request: if the request gives
// up, the handshake completes and the session is retired then, because an interrupted
// handshake leaves some servers in an undefined state.
func (p *pool) borrow(ctx context.Context, l *Protocol, req *mcp.Request) (lease, error) {
	got, dead, err := p.take(l, req)
	for _, s := range dead {
		l.retire(s)
	}
	if err != nil {
		return lease{}, err
	}
	if got == nil {
		sl := new(scopedSession) // keeps the handshake going when its request gives up
		route := routing{onlyCall: true, questions: &questionSlot{p, req.Principal}}
		s, err := sl.get(ctx, l, l.opener(req.Client, req, route, false))
		if err != nil {
			p.cancelOpen(l, sl)
			return lease{}, err
		}
		got = &pooledSession{s: s, key: call.KeyOf(req)}
	}
	if got.holder == nil && l.isSoleClient(req) {
		l.retire(p.makeResident(got, &l.sole))
	}
	return lease{clientSession: got.s, pooled: got}, nil
}

// giveBack returns a borrowed session.
func (p *pool) giveBack(l *Protocol, ps *pooledSession, clean bool) {
	dead, sweep := p.put(ps, clean)
	l.retire(dead)
	if sweep {
		// Ends when no session is idle; waited for by Protocol.Close.
		l.group.Start(func(ctx context.Context) { p.sweep(ctx, l) })
	}
}

// take returns an idle session for the request. If it returns none, it has counted a new
// one that the caller must open. dead are ended or evicted sessions that the caller must
// retire.
func (p *pool) take(l *Protocol, req *mcp.Request) (got *pooledSession, dead []*clientSession, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil, nil, l.Closed()
	}
	// Residents come first: the client's listens receive what changes in their session.
	for _, r := range p.residents {
		if !r.lent && !r.unusable && r.key.IsOf(req) && r.s.isAlive() {
			r.lent = true
			return r, nil, nil
		}
	}
	// From the newest on, so that the others expire: a pool that has had a busy hour
	// shrinks to what is needed now.
	for i, ps := range slices.Backward(p.idle) {
		switch {
		case !ps.s.isAlive():
			dead = append(dead, p.dropLocked(i))
		case ps.key.IsOf(req) && !ps.unusable:
			p.idle = slices.Delete(p.idle, i, i+1)
			return ps, dead, nil
		}
	}
	// Idle sessions belong to another principal, or have other capabilities. Evict one
	// of them before a request is refused.
	if i := p.evictableLocked(); p.open >= p.max && i >= 0 {
		dead = append(dead, p.dropLocked(i))
	}
	if p.open >= p.max {
		return nil, dead, l.Fault(mcp.CodeLimit, mcp.NotDispatched, nil, "%d sessions are in use, %d of them waiting for input (limits.backendSessions)", p.open, p.allWaiting)
	}
	p.open++
	return nil, dead, nil
}

// put ends the loan of a session. dead is the session that the caller must retire, or
// nil: of too many idle ones the newest is kept, because it is the likeliest to be alive
// and to be used again. If sweep is set, the caller must start sweep.
func (p *pool) put(ps *pooledSession, clean bool) (dead *clientSession, sweep bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ps.holder != nil {
		ps.lent, ps.unusable = false, ps.unusable || !clean && !ps.reusable
		if ps.removed {
			return ps.s, false
		}
		return nil, false
	}
	// After a request that was given up the server may still send messages of that
	// request, and the next borrower would receive them. So the session is closed, or,
	// if a task runs in it, kept and not lent again.
	if p.ended || !ps.s.isAlive() || !ps.s.isKeptForTask() && (!clean || p.maxIdle <= 0) {
		p.open--
		return ps.s, false
	}
	ps.since, ps.unusable = time.Now(), !clean
	p.idle = append(p.idle, ps)
	if i, n := p.surplusLocked(ps); n > p.maxIdle && i >= 0 {
		dead = p.dropLocked(i)
	}
	sweep = !p.sweeping
	p.sweeping = true
	return dead, sweep
}

// dropLocked removes the i-th idle session.
func (p *pool) dropLocked(i int) *clientSession {
	s := p.idle[i].s
	p.idle = slices.Delete(p.idle, i, i+1)
	p.open--
	return s
}

// cancelOpen ends a session that no request got, and uncounts it when its handshake has
// ended.
func (p *pool) cancelOpen(l *Protocol, sl *scopedSession) {
	hs := sl.newest()
	sl.end(l)
	uncount := func() {
		if hs != nil {
			<-hs.done
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open--
	}
	if hs.inProgress() {
		// Ends with the handshake; waited for by Protocol.Close.
		if _, ok := l.group.Start(func(context.Context) { uncount() }); ok {
			return
		}
	}
	uncount()
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
	return slices.IndexFunc(p.idle, func(ps *pooledSession) bool { return !ps.s.isKeptForTask() })
}

// surplusLocked returns how many sessions are idle that count with ps, and which of them has
// been idle the longest and is needed by no task, or -1.
func (p *pool) surplusLocked(ps *pooledSession) (oldest, n int) {
	oldest = -1
	for i, other := range p.idle {
		if p.perPrincipal && other.key.Principal != ps.key.Principal {
			continue
		}
		if n++; oldest < 0 && !other.s.isKeptForTask() {
			oldest = i
		}
	}
	return oldest, n
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
// until the next one may expire, 0 if no session is idle.
func (p *pool) expired(now time.Time) (dead []*clientSession, next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 0; i < len(p.idle); {
		// A session that a task needs is kept beyond its idle time.
		ps := p.idle[i]
		end := ps.since.Add(p.idleTime)
		if needed := ps.s.tasks.keptUntil(now); needed.After(end) {
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
	return dead, min(next, p.idleTime) // the end of a task shortens the time that it keeps a session
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

// adopt removes the newest idle session of the key from the pool and returns it, or
// nil.
func (p *pool) adopt(key call.ClientKey) *clientSession {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, ps := range slices.Backward(p.idle) {
		if ps.key == key && !ps.unusable && ps.s.isAlive() {
			return p.dropLocked(i)
		}
	}
	return nil
}

// addResident registers the session of sl for requests of the key. It replaces an
// earlier session of sl.
func (p *pool) addResident(sl *scopedSession, key call.ClientKey, s *clientSession, reusable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.addResidentLocked(&pooledSession{s: s, key: key, holder: sl, reusable: reusable})
	}
}

// addResidentLocked adds a resident, or replaces that of the same holder. The resident of
// the same session stays.
func (p *pool) addResidentLocked(r *pooledSession) {
	i := p.residentLocked(r.holder)
	switch {
	case i < 0:
		p.residents = append(p.residents, r)
	case p.residents[i].s != r.s:
		p.residents[i] = r
	}
}

// makeResident makes a borrowed session the sole client's, which sl holds, unless that
// client has one. old is an ended session that the caller must retire, or nil.
func (p *pool) makeResident(ps *pooledSession, sl *scopedSession) (old *clientSession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil
	}
	old, ok := sl.set(ps.s)
	if ok {
		p.open--
		ps.holder, ps.lent, ps.reusable = sl, true, true
		p.addResidentLocked(ps)
	}
	return old
}

// removeResident removes the resident of sl. It reports true if the session is lent:
// then giveBack closes it, and the caller must not.
func (p *pool) removeResident(sl *scopedSession) (lent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.residentLocked(sl)
	if i < 0 {
		return false
	}
	r := p.residents[i]
	p.residents = slices.Delete(p.residents, i, i+1)
	r.removed = true
	return r.lent
}

func (p *pool) residentLocked(holder *scopedSession) int {
	return slices.IndexFunc(p.residents, func(r *pooledSession) bool { return r.holder == holder })
}

// questionSlot counts one session of a principal in pool.waiting. A nil slot counts
// nothing.
type questionSlot struct {
	pool      *pool
	principal string
}

// fairShare is how many sessions of one principal may wait per session that is left to
// the others: three quarters of all if only one principal has open questions.
const fairShare = 3

// acquire counts the session. It returns an error if the principal has too many.
func (q *questionSlot) acquire() *mcp.Error {
	if q == nil {
		return nil
	}
	p := q.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.waiting[q.principal]
	if left := p.max - p.allWaiting - 1; q.principal != "" && own > 0 && own/fairShare >= left {
		return mcp.Errorf(mcp.CodeInternalError, "%d requests of this principal are already waiting for input, and the other sessions are reserved for other principals (limits.backendSessions: %d)", own, p.max)
	}
	if p.waiting == nil {
		p.waiting = make(map[string]int)
	}
	p.waiting[q.principal]++
	p.allWaiting++
	return nil
}

func (q *questionSlot) release() {
	if q == nil {
		return
	}
	p := q.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allWaiting--
	if p.waiting[q.principal]--; p.waiting[q.principal] == 0 {
		delete(p.waiting, q.principal)
	}
}
