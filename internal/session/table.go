// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"sync"
	"time"
)

// TableLimits bound the sessions of one server. All must be set.
type TableLimits struct {
	Total        int           // sessions
	PerPrincipal int           // sessions of one named principal
	Idle         time.Duration // after which a session without activity ends
	Fresh        time.Duration // after which a session ends that was never used
	Rest         time.Duration // without activity, after which a session may give way to a new one
	FreshRest    time.Duration // the same for one that was never used
}

// DefaultTableLimits returns the bounds that a server has where nothing is
// configured.
//
// Rest is longer than a client that is at work leaves its session alone, and
// shorter than it takes a person at a keyboard to leave a hundred sessions
// behind. FreshRest is longer than a client takes to say that it is initialized.
func DefaultTableLimits() TableLimits {
	return TableLimits{
		Total: 20_000, PerPrincipal: 100,
		Idle: 30 * time.Minute, Fresh: 30 * time.Second,
		Rest: 30 * time.Second, FreshRest: 10 * time.Second,
	}
}

// Table knows the sessions of one server by their ids. Its methods may be called
// concurrently.
//
// Most clients never end their sessions: a command line tool leaves one behind
// each time it runs. A bound that refused when it is reached would lock such a
// user out, and one that evicted whatever is idle would let a flood of initialize
// end everybody's sessions. So a new session is paid for with one that nobody
// will miss, and where there is none it is refused, with the time after which
// there will be:
//
//   - A session gives way only when it is idle and has been so for a while
//     (Rest), one that was never used sooner (FreshRest), and the longest idle
//     goes first. Who opens sessions slower than they come to rest is never
//     refused.
//   - A named principal has a bound of its own, and where that is reached only its
//     own sessions give way.
//   - The anonymous principal is not one party but all of them. What tells these
//     apart is where they connect from, which may be a proxy that everybody comes
//     through: so that an address has no bound of its own, but may fill the table
//     where nobody else is there.
//   - Where the table is full, the owner that has most makes room for those that
//     have less, with what it will miss least, come to rest or not, unless it has
//     a small share of the table only. For itself it makes room with those of its
//     own that have, or not at all. So a flood from one place keeps nobody out and
//     ends nothing of theirs, and one from many places ends no more than what has
//     come to rest. Two owners that have the same, or nearly, take nothing from
//     each other: they would take it in turns.
//
// Whether a session is idle, its own lock decides; the table's lock guards the
// order of their last use. The two are never held together. A session whose
// end was decided is refused by its own methods from that moment on, be it in
// the table still.
type Table struct {
	limits TableLimits

	mu     sync.Mutex
	byID   map[string]*entry
	owners owners
	all    lane
}

// NewTable returns an empty table.
func NewTable(limits TableLimits) *Table {
	t := &Table{limits: limits}
	t.resetLocked()
	return t
}

// resetLocked makes the table empty. A new table needs no lock.
func (t *Table) resetLocked() {
	t.byID = make(map[string]*entry)
	t.owners = owners{by: make(map[owner]*holding)}
	t.all = newLane(ofAll)
}

func (t *Table) addLocked(e *entry) {
	t.byID[e.session.ID] = e
	t.owners.add(e.owner)
	t.standLocked(e)
}

// standLocked puts the entry behind all others of its kind, in both lanes.
func (t *Table) standLocked(e *entry) {
	t.all.of(e).push(e)
	e.owner.lane.of(e).push(e)
}

func (t *Table) stepOutLocked(e *entry) {
	t.all.of(e).remove(e)
	e.owner.lane.of(e).remove(e)
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
	t.stepOutLocked(e)
	e.isUsed = true
	e.at = now
	t.standLocked(e)
}

// Remove takes a session out, however it ended.
func (t *Table) Remove(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.byID[s.ID]
	if !ok || e.session != s {
		return
	}
	delete(t.byID, s.ID)
	t.stepOutLocked(e)
	t.owners.remove(e.owner)
}

// Sweep ends the sessions whose time is over and returns them for their scopes
// to be ended: first those that were never used, then the others, and in each
// kind the longest unused first. A session that is busy counts as used now. next
// is when it is worth sweeping again, and zero when no session is left.
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

// due lists the sessions whose time is over unless they are busy.
func (t *Table) due(now time.Time) []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	over := func(most time.Duration) func(*entry) bool {
		return func(e *entry) bool { return now.Sub(e.at) >= most }
	}
	return append(t.all.fresh.while(t.limits.Total, over(t.limits.Fresh)), t.all.used.while(t.limits.Total, over(t.limits.Idle))...)
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
	if e := t.all.used.head; e != nil {
		next = e.at.Add(t.limits.Idle)
	}
	if e := t.all.fresh.head; e != nil {
		if at := e.at.Add(t.limits.Fresh); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// Drain takes all sessions out and returns them in the order of Sweep. They are
// the caller's to end.
func (t *Table) Drain() []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	each := func(*entry) bool { return true }
	all := append(t.all.fresh.while(t.limits.Total, each), t.all.used.while(t.limits.Total, each)...)
	t.resetLocked()
	return all
}

// Len returns how many sessions there are.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}
