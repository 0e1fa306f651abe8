// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"sync"
	"time"
)

// TableLimits bound the sessions of one server. All must be set.
type TableLimits struct {
	Total        int           // sessions
	PerPrincipal int           // sessions of one named principal
	Idle         time.Duration // after which a session without activity ends
	Fresh        time.Duration // after which a session ends that was never used
}

// DefaultTableLimits returns the bounds that a server has where nothing is
// configured.
func DefaultTableLimits() TableLimits {
	return TableLimits{Total: 20_000, PerPrincipal: 100, Idle: 30 * time.Minute, Fresh: 30 * time.Second}
}

// Table knows the sessions of one server by their ids. Its methods may be called
// concurrently.
//
// Whether a session is idle, its own lock decides; the table's lock guards the
// order of their last use. The two are never held together. A session whose
// end was decided is refused by its own methods from that moment on, be it in
// the table still.
type Table struct {
	limits TableLimits

	mu     sync.Mutex
	byID   map[string]*entry
	owners map[string][]*entry // by named principal, oldest first
	used   order               // of those that were used, longest unused first
	fresh  order               // of those that were not, oldest first
}

// entry is a session in the table. The fields below are guarded by Table.mu.
type entry struct {
	session *Session

	at         time.Time // of the last use, or of the beginning
	isUsed     bool
	prev, next *entry
}

// NewTable returns an empty table.
func NewTable(limits TableLimits) *Table {
	return &Table{limits: limits, byID: make(map[string]*entry), owners: make(map[string][]*entry)}
}

// Add publishes a session that is complete. Where a limit is reached, a session
// that is least missed is ended for it: one that was never used, then one that
// is idle. The evicted are returned for their scopes to be ended. Where all
// others are busy the error is ErrTooMany, and nothing is evicted or added.
func (t *Table) Add(s *Session, now time.Time) (evicted []*Session, err error) {
	for {
		candidates, ok := t.insert(s, now)
		if ok {
			return evicted, nil
		}
		i := slices.IndexFunc(candidates, (*Session).EndIdle)
		if i < 0 {
			return evicted, ErrTooMany
		}
		t.remove(candidates[i])
		evicted = append(evicted, candidates[i])
	}
}

// insert adds the session, or returns who could make room for it.
func (t *Table) insert(s *Session, now time.Time) (candidates []*Session, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.owners[s.Principal]
	switch {
	case s.Principal != "" && len(own) >= t.limits.PerPrincipal:
		return leastMissed(own), false
	case len(t.byID) >= t.limits.Total:
		return append(t.fresh.first(evictFrom), t.used.first(evictFrom)...), false
	}
	e := &entry{session: s, at: now}
	t.byID[s.ID] = e
	t.fresh.push(e)
	if s.Principal != "" {
		// The anonymous principal is not one party but all of them.
		t.owners[s.Principal] = append(own, e)
	}
	return nil, true
}

// evictFrom is how many sessions at the end of each order are tried. If all of
// these are busy, the server is full of live sessions.
const evictFrom = 64

// leastMissed orders the sessions of one principal as the whole table is.
func leastMissed(own []*entry) []*Session {
	own = slices.Clone(own)
	slices.SortStableFunc(own, func(a, b *entry) int {
		if a.isUsed != b.isUsed {
			if b.isUsed {
				return -1
			}
			return 1
		}
		return a.at.Compare(b.at)
	})
	out := make([]*Session, len(own))
	for i, e := range own {
		out[i] = e.session
	}
	return out
}

// Get returns the session of that id and notes its use. A session of another
// principal is as unknown as one that never was: the error is ErrForeign, which
// is an ErrUnknown, and nothing is noted.
func (t *Table) Get(id, principal string, now time.Time) (*Session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.byID[id]
	switch {
	case !ok:
		return nil, ErrUnknown
	case e.session.Principal != principal:
		return nil, ErrForeign
	}
	t.touchLocked(e, now)
	return e.session, nil
}

func (t *Table) touchLocked(e *entry, now time.Time) {
	t.orderOf(e).remove(e)
	e.isUsed = true
	e.at = now
	t.used.push(e)
}

func (t *Table) orderOf(e *entry) *order {
	if e.isUsed {
		return &t.used
	}
	return &t.fresh
}

// Remove takes a session out, however it ended.
func (t *Table) Remove(s *Session) { t.remove(s) }

func (t *Table) remove(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.byID[s.ID]
	if !ok || e.session != s {
		return
	}
	delete(t.byID, s.ID)
	t.orderOf(e).remove(e)
	if s.Principal == "" {
		return
	}
	own := slices.DeleteFunc(t.owners[s.Principal], func(o *entry) bool { return o == e })
	if len(own) == 0 {
		delete(t.owners, s.Principal)
		return
	}
	t.owners[s.Principal] = own
}

// Sweep ends the sessions whose time is over and returns them for their scopes
// to be ended, in the order of their last use. A session that is busy counts as
// used now. next is when it is worth sweeping again, and zero when no session is
// left.
func (t *Table) Sweep(now time.Time) (ended []*Session, next time.Time) {
	for _, s := range t.due(now) {
		if s.EndIdle() {
			t.remove(s)
			ended = append(ended, s)
			continue
		}
		t.touch(s, now)
	}
	return ended, t.nextDue()
}

// due lists the sessions whose time is over unless they are busy.
func (t *Table) due(now time.Time) []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(t.fresh.before(now.Add(-t.limits.Fresh)), t.used.before(now.Add(-t.limits.Idle))...)
}

func (t *Table) touch(s *Session, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byID[s.ID]; e != nil && e.session == s {
		t.touchLocked(e, now)
	}
}

func (t *Table) nextDue() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	var next time.Time
	if e := t.used.head; e != nil {
		next = e.at.Add(t.limits.Idle)
	}
	if e := t.fresh.head; e != nil {
		if at := e.at.Add(t.limits.Fresh); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// Drain takes all sessions out and returns them, longest unused first. They are
// the caller's to end.
func (t *Table) Drain() []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append(t.fresh.first(len(t.byID)), t.used.first(len(t.byID))...)
	t.byID = make(map[string]*entry)
	t.owners = make(map[string][]*entry)
	t.used, t.fresh = order{}, order{}
	return all
}

// Len returns how many sessions there are.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

// order is a list of entries, the longest unused first.
type order struct {
	head, tail *entry
}

func (o *order) push(e *entry) {
	e.prev, e.next = o.tail, nil
	if o.tail != nil {
		o.tail.next = e
	} else {
		o.head = e
	}
	o.tail = e
}

func (o *order) remove(e *entry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		o.head = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		o.tail = e.prev
	}
	e.prev, e.next = nil, nil
}

// first returns up to n sessions from the front.
func (o *order) first(n int) []*Session {
	var out []*Session
	for e := o.head; e != nil && len(out) < n; e = e.next {
		out = append(out, e.session)
	}
	return out
}

// before returns the sessions that were last used at t or earlier.
func (o *order) before(t time.Time) []*Session {
	var out []*Session
	for e := o.head; e != nil && !e.at.After(t); e = e.next {
		out = append(out, e.session)
	}
	return out
}
