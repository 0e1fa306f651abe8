// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"math"
	"sync"
	"time"
)

// TableLimits bound the sessions of one server. All fields must be set.
type TableLimits struct {
	Total        int           // sessions
	PerPrincipal int           // of one named principal
	Idle         time.Duration // after which an idle session ends
	Fresh        time.Duration // after which a session ends that was never used
	Rest         time.Duration // without activity, after which a session may be evicted for a new one
	FreshRest    time.Duration // the same for one that was never used
}

// DefaultTableLimits returns the default limits.
//
// Rest is longer than the pauses of a client at work, and shorter than the time in which a
// person at a keyboard leaves a hundred sessions behind. FreshRest is longer than a client
// takes to send its initialized notification.
func DefaultTableLimits() TableLimits {
	return TableLimits{
		Total: 20_000, PerPrincipal: 100,
		Idle: 30 * time.Minute, Fresh: 30 * time.Second,
		Rest: 30 * time.Second, FreshRest: 10 * time.Second,
	}
}

// Table holds the sessions of one server by their ids. Its methods may be called
// concurrently.
//
// Most clients never end their sessions: a command line tool leaves one behind on each run.
// A table that refused new sessions at its limit would lock such a user out, and one that
// evicted any idle session would let a flood of initialize requests end the sessions of all
// clients. So at the limit a new session evicts one that has been idle long enough, or is
// refused with the time after which there will be one:
//
//   - A session is evicted only if it has been idle for a while (Rest), or for FreshRest if
//     it was never used. The longest idle session is evicted first. An owner that opens
//     sessions more slowly than they become evictable is never refused.
//   - A named principal has its own limit. At that limit only its own sessions are evicted.
//   - The anonymous principal is shared by many clients. They are distinguished by their
//     addresses, which may be that of a proxy shared by all of them: so an address has no
//     limit of its own, and may fill a table without other owners.
//   - If the table is full, the owner with the most sessions makes space for those that
//     have fewer. Its least valuable sessions are evicted, even if they have not been idle
//     long enough, unless it has only a small share of the table. For its own sessions an
//     owner makes space only with sessions of its own that are evictable. So a flood from
//     one address refuses no other client and ends none of their sessions, and a flood from
//     many addresses ends only sessions that are evictable. Owners with about the same
//     number of sessions evict none of each other's: they would do so in turns.
//
// The session's own lock decides whether it is idle; the table's lock guards the order of
// last use. The two are never held together. From the moment its end is decided, a
// session's methods refuse requests, even if it is still in the table.
type Table struct {
	limits TableLimits

	mu     sync.Mutex
	byID   map[string]*entry
	owners owners
	all    lru
}

// NewTable returns an empty table.
func NewTable(limits TableLimits) *Table {
	t := &Table{limits: limits}
	t.resetLocked()
	return t
}

// resetLocked empties the table. A new table needs no lock.
func (t *Table) resetLocked() {
	t.byID = make(map[string]*entry)
	t.owners = owners{by: make(map[owner]*ownerUsage)}
	t.all = newLRU(listAll)
}

func (t *Table) addLocked(e *entry) {
	t.byID[e.session.ID] = e
	t.owners.add(e.usage)
	t.pushLocked(e)
}

// pushLocked adds the entry to the end of both lists.
func (t *Table) pushLocked(e *entry) {
	t.all.list(e).push(e)
	e.usage.lru.list(e).push(e)
}

func (t *Table) unlinkLocked(e *entry) {
	t.all.list(e).remove(e)
	e.usage.lru.list(e).remove(e)
}

// Get returns the session of that id and notes its use. For a session of another principal
// or profile the error is ErrForeign, which wraps ErrUnknown, and no use is noted.
func (t *Table) Get(id, principal, profile string, now time.Time) (*Session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.byID[id]
	switch {
	case !ok:
		return nil, ErrUnknown
	case e.session.Principal != principal || e.session.Profile != profile:
		return nil, ErrForeign
	}
	t.touchLocked(e, now)
	return e.session, nil
}

func (t *Table) touchLocked(e *entry, now time.Time) {
	t.unlinkLocked(e)
	e.used = true
	e.lastUse = now
	t.pushLocked(e)
}

// Remove removes a session that has ended.
func (t *Table) Remove(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.byID[s.ID]
	if !ok || e.session != s {
		return
	}
	delete(t.byID, s.ID)
	t.unlinkLocked(e)
	t.owners.remove(e.usage)
}

// Sweep ends expired sessions and returns them: first those that were never
// used, then the others, and the longest idle first in each. The caller must end their
// scopes. A busy session counts as used now. next is when to call Sweep again, and zero if
// no session is left.
func (t *Table) Sweep(now time.Time) (ended []*Session, next time.Time) {
	for _, s := range t.due(now) {
		if s.EndIdle() {
			t.Remove(s)
			ended = append(ended, s)
			continue
		}
		t.touch(s, now)
	}
	return ended, t.nextDue()
}

// due returns the sessions that expire unless they are busy.
func (t *Table) due(now time.Time) []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(t.all.fresh.idleFor(t.limits.Fresh, now, t.limits.Total), t.all.used.idleFor(t.limits.Idle, now, t.limits.Total)...)
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
	return t.all.firstIdle(t.limits.Fresh, t.limits.Idle)
}

// Drain removes all sessions and returns them in the order of Sweep. The caller must end
// them.
func (t *Table) Drain() []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	const always = math.MinInt64
	all := append(t.all.fresh.idleFor(always, time.Time{}, t.limits.Total), t.all.used.idleFor(always, time.Time{}, t.limits.Total)...)
	t.resetLocked()
	return all
}

// OfProfile returns the sessions of a profile.
func (t *Table) OfProfile(name string) []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []*Session
	for _, e := range t.byID {
		if e.session.Profile == name {
			found = append(found, e.session)
		}
	}
	return found
}

// Len returns the number of sessions.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}
