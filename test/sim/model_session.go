// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// sess is what is known of one session of a client.
//
// since and until are two, because a sweep and an eviction look at some sessions
// and not at others, in an order that is the machine's own. Where the model
// followed that order it would be the same code twice; so it knows the earliest and
// the latest that can be true, and a rule is broken only if it is for both.
type sess struct {
	no         int
	real       *session.Session
	home       *replica
	level      mcp.LogLevel
	client     *client
	standalone *stream
	cost       int        // that keeping all that it has would have
	last       *stream    // of those that are kept, that ended last
	wasLast    *stream    // before this step
	asks       []*ask     // open
	running    []*request // in flight
	ends       int        // of streams that are kept
	carriers   int        // of its streams, superseded ones not included

	ready  bool // the client is initialized
	listed bool // it is in the table
	ended  bool

	// When it was used last. A sweep counts those that it finds busy as used, and
	// whether it came to that is not always known: then it is between the two.
	since, until time.Time
	used, unused bool // what it may have been: used, or never used
}

func (s *sess) String() string { return fmt.Sprintf("s%d", s.no) }

// newSess makes a session that nobody knows of yet.
func (w *world) newSess(c *client, home *replica) *sess {
	w.nextSess++
	s := &sess{no: w.nextSess, client: c, home: home, level: mcp.LogUnset, unused: true}
	s.real = session.New(fmt.Sprintf("session-%d", s.no), c.principal, peer(), w.rules)
	s.real.Address = c.address
	s.standalone = &stream{name: s.String() + "/standalone", sess: s, real: s.real.Standalone(), held: true}
	w.streams = append(w.streams, s.standalone)
	w.sessions = append(w.sessions, s)
	return s
}

// publish makes the session known, at the expense of others where there is no room.
func (w *world) publish(s *sess) bool {
	before := w.listed(s.home)
	w.noteOwners(s.home)
	evicted, err := s.home.table.Add(s.real, w.now)
	for _, old := range evicted {
		w.evicted(s, w.sessOf(old), before)
	}
	if err != nil {
		w.refusedSess(s, err)
		w.noteTouched(s.home)
		return false
	}
	w.noteOwners(s.home)
	s.listed = true
	if mine := s.client.owner(); !slices.Contains(s.home.owners, mine) {
		s.home.owners = append(s.home.owners, mine)
	}
	w.spawn(&keeper{s: s, at: w.now.Add(w.set.limits.LogKeep)})
	s.since, s.until = w.now, w.now
	w.noteTouched(s.home)
	if n := w.owned(s); s.client.principal != "" && n > w.set.sessions.PerPrincipal {
		w.fail("I21", "%q has %d sessions, more than %d", s.client.principal, n, w.set.sessions.PerPrincipal)
	}
	if w.tell() {
		w.say("%s is published, of %s", s, s.client)
	}
	return true
}

// listed returns how many sessions of a replica each owner has.
func (w *world) listed(at *replica) map[string]int {
	n := make(map[string]int)
	for _, s := range w.sessions {
		if s.listed && s.home == at {
			n[s.client.owner()]++
		}
	}
	return n
}

func (w *world) owned(of *sess) int { return w.listed(of.home)[of.client.owner()] }

func (w *world) sessOf(real *session.Session) *sess {
	for _, s := range w.sessions {
		if s.real == real {
			return s
		}
	}
	return nil
}

// evicted holds against the rules that one session gave way to another.
//
// A flood of sessions has to be paid for by whoever sends it. Each case is a way in
// which somebody else could be made to pay: one that works, one with fewer, one
// that has not come to rest (M099, M102).
func (w *world) evicted(by, s *sess, before map[string]int) {
	if s == nil || !s.listed || s.home != by.home {
		w.fail("I20", "a session is evicted that is not there")
		return
	}
	mine, theirs := by.client.owner(), s.client.owner()
	first := by.home.hasMost(before)
	switch rest := w.rests(s); {
	case s.busy():
		w.fail("I20", "%s is evicted, and is in use", s)
	case theirs != mine && by.client.principal != "" && before[mine] >= w.set.sessions.PerPrincipal:
		w.fail("I21", "%s is evicted for %s, whose own principal has too many", s, by)
	case theirs != mine && !rest && before[theirs] < before[mine]+2:
		w.fail("I20", "%s is evicted for %s, and its owner has not more than the other", s, by)
	case theirs != mine && theirs != first && !rest:
		w.fail("I20", "%s is evicted for %s, and %s has most", s, by, first)
	case theirs != first && before[first] >= before[mine]+2 && w.mayTryMost(by.home) && w.couldGive(by.home, first) &&
		(by.client.principal == "" || before[mine] < w.set.sessions.PerPrincipal):
		w.fail("I20", "%s is evicted for %s, and %s has most, and one that nobody uses", s, by, first)
	case theirs == mine && !rest:
		w.fail("I20", "%s is evicted before it has come to rest", s)
	}
	w.fault(LimitHit)
	by.home.triedAt = w.now // in vain perhaps, before it was this one's turn
	w.evictions++
	w.sessEnded(s, nil)
	s.listed = false
}

// hasMost returns the owner that has most sessions, and of several the one that came
// first.
func (at *replica) hasMost(counts map[string]int) (first string) {
	for _, owner := range at.owners {
		if counts[owner] > counts[first] {
			first = owner
		}
	}
	return first
}

// noteOwners notes in which order those came that have sessions.
func (w *world) noteOwners(at *replica) {
	counts := w.listed(at)
	at.owners = slices.DeleteFunc(at.owners, func(owner string) bool { return counts[owner] == 0 })
}

// couldGive reports whether an owner has a session that nobody uses, for certain.
func (w *world) couldGive(at *replica, owner string) bool {
	return slices.ContainsFunc(w.sessions, func(o *sess) bool {
		return o.listed && o.home == at && o.client.owner() == owner && !o.busy() && o.until.Before(w.now)
	})
}

// mayTryMost reports whether it is long enough since all of the largest owner's were
// tried.
func (w *world) mayTryMost(at *replica) bool { return w.now.Sub(at.triedAt) >= tryMostEvery }

// rests reports whether a session may have come to rest.
func (w *world) rests(s *sess) bool {
	idle := w.now.Sub(s.since)
	return s.used && idle >= w.set.sessions.Rest || s.unused && idle >= w.set.sessions.FreshRest
}

// refusedSess holds against the rules that there was no room.
//
// A refusal is right only if there was nobody who could have given way. And the
// time that it names has to be one that helps: a client that comes back then and is
// refused again would come for ever.
func (w *world) refusedSess(s *sess, err error) {
	full := new(session.FullError)
	if !errors.As(err, &full) {
		w.fail("I21", "no session: %v", err)
		return
	}
	w.fault(LimitHit)
	counts := w.listed(s.home)
	mine := s.client.owner()
	all := counts[mine] == 0
	if full.PerPrincipal != (s.client.principal != "" && counts[mine] >= w.set.sessions.PerPrincipal) {
		w.fail("I21", "%q is refused for having too many sessions: %v", s.client.principal, full.PerPrincipal)
	}
	for _, o := range w.sessions {
		certain := w.now.Sub(o.until) >= max(w.set.sessions.Rest, w.set.sessions.FreshRest)
		if o.listed && o.home == s.home && certain && !o.busy() && (all || o.client.owner() == mine) {
			w.fail("I21", "no session for %s, and %s could give way", s.client, o)
		}
	}
	for _, o := range w.sessions {
		if o.listed && o.home == s.home && !o.busy() && (all || o.client.owner() == mine) && o.since.Equal(o.until) && o.used != o.unused && full.Wait > w.restsIn(o) {
			w.fail("I21", "%s is to try again in %v, and %s comes to rest in %v", s.client, full.Wait, o, w.restsIn(o))
		}
	}
	if full.Wait <= 0 {
		w.fail("I21", "%s is to try again in %v", s.client, full.Wait)
	}
	w.refusedByMost(s, full, counts)
	if n := w.total(s.home); !full.PerPrincipal && n < w.set.sessions.Total {
		w.fail("I21", "no session, and there are %d of %d", n, w.set.sessions.Total)
	}
}

// restsIn returns how long it is until a session comes to rest, whose last use is
// known.
func (w *world) restsIn(s *sess) time.Duration {
	rest := w.set.sessions.Rest
	if s.unused {
		rest = w.set.sessions.FreshRest
	}
	return rest - w.now.Sub(s.until)
}

// tryMostEvery is how often all that the largest owner has are tried.
const tryMostEvery = time.Second

// refusedByMost: who has clearly less than the owner that has most is not refused
// while that has a session that nobody uses.
func (w *world) refusedByMost(s *sess, full *session.FullError, counts map[string]int) {
	may := w.mayTryMost(s.home)
	s.home.triedAt = w.now
	most := s.home.hasMost(counts)
	if may && !full.PerPrincipal && counts[most] >= counts[s.client.owner()]+2 && w.couldGive(s.home, most) {
		w.fail("I21", "no session for %s, and %s has most, and one that nobody uses", s.client, most)
	}
}

func (w *world) total(at *replica) int {
	n := 0
	for _, s := range w.sessions {
		if s.listed && s.home == at {
			n++
		}
	}
	return n
}

// noteTouched: whoever was found to be in use may count as used now.
func (w *world) noteTouched(at *replica) {
	for _, s := range w.sessions {
		if s.listed && s.home == at && s.busy() {
			s.until = w.now
			s.used = true
		}
	}
}

// busy reports whether a session must not end by itself.
func (s *sess) busy() bool { return len(s.running) > 0 || s.carriers > 0 }

// lookUp finds the session of an id for a principal, as each request does first.
//
// A session of somebody else is looked up without a trace. Were it a use, anybody
// who knows an id could keep the session from ever ending (M087).
func (w *world) lookUp(at *replica, id string, principal string) *sess {
	var want *sess
	for _, s := range w.sessions {
		if s.listed && s.home == at && s.real.ID == id {
			want = s
		}
	}
	got, err := at.table.Get(id, principal, w.now)
	switch {
	case want == nil:
		if !errors.Is(err, session.ErrUnknown) || got != nil {
			w.fail("I18", "session %q is not known, and is found: %v", id, err)
		}
		return nil
	case want.client.principal != principal:
		w.fault(Foreign)
		if !errors.Is(err, session.ErrForeign) || got != nil {
			w.fail("I18", "%s is found by %q, whose it is not: %v", want, principal, err)
		}
		return nil
	case err != nil || got != want.real:
		w.fail("I18", "%s is not found: %v", want, err)
		return nil
	}
	want.since, want.until = w.now, w.now
	want.used, want.unused = true, false
	return want
}

// end ends a session as a DELETE does.
func (w *world) end(s *sess) {
	w.stopped = w.stopped[:0]
	news := s.real.End(mcp.Errorf(-1, "the session has ended"))
	if !slices.IsSortedFunc(w.stopped, func(a, b *request) int { return cmp.Compare(a.no, b.no) }) {
		w.fail("I26", "the requests of %s are stopped in another order than they began in", s)
	}
	if news == s.ended {
		w.fail("I26", "%s ends: %v, and had ended before: %v", s, news, s.ended)
	}
	s.home.table.Remove(s.real)
	s.listed = false
	if !s.ended {
		w.sessEnded(s, &entry{sort: terminal})
	}
}

// sessEnded notes the end of a session: its requests end with an error, its
// questions without an answer, its streams for good.
//
// Without a terminal to give, the session has ended by itself, and then nothing may
// have been running in it: expiry and arrival are one decision (I20, M101).
func (w *world) sessEnded(s *sess, end *entry) {
	if w.tell() {
		w.say("%s has ended", s)
	}
	s.ended = true
	for _, r := range append([]*request(nil), s.running...) {
		if end == nil {
			w.fail("I20", "%s ended by itself, and %s was running", s, r)
			return
		}
		e := *end
		w.ended(r, &e)
		if r.stops != 1 {
			w.fail("I3", "%s ended with its session, and who serves it was not told", r)
		}
	}
	w.endAsks(s, s.standalone, session.ErrEnded)
	s.standalone.drop(isQuestion)
	if s.standalone.live == nil || s.standalone.held {
		s.standalone.drop(all)
	}
	s.standalone.held = false
	w.close(s.standalone)
	w.forget(s)
}

// forget notes that nobody can come back to anything of a session. What somebody
// carries still comes to its end.
//
// A client that is reading at this moment has a connection of its own, and gets the
// rest that was promised to it. Only coming back is over.
func (w *world) forget(s *sess) {
	for _, st := range w.streams {
		if st.sess != s || !st.kept {
			continue
		}
		if st.of != nil && st.live == nil {
			st.drop(all)
			st.forgotten = true
		}
		if t := st.live; t != nil && t.pos < uint64(len(st.seen)) {
			w.goesOn(t)
		}
		st.kept = false
	}
	s.standalone.back = nil
}

// goesOn: who was still taking what others had taken before gets the rest of it, as
// messages that nobody can come back to.
func (w *world) goesOn(t *writer) {
	st := t.at
	for _, n := range st.seen[t.pos:] {
		e := *w.entryOf(n)
		e.fate, e.front = waits, true
		w.add(st, e)
	}
	st.over = false
	t.pos = uint64(len(st.seen))
}

// sweeper is the timer that ends sessions whose time is over.
type sweeper struct {
	home *replica
	at   time.Time
}

func (t *sweeper) ready(w *world) bool { return !w.now.Before(t.at) }

func (t *sweeper) run(w *world) bool {
	ended, next := t.home.table.Sweep(w.now)
	w.areInOrder(ended)
	for _, real := range ended {
		s := w.sessOf(real)
		if s == nil || !s.listed || s.home != t.home {
			w.fail("I20", "a session is swept that is not there")
			continue
		}
		w.swept(s)
	}
	for _, s := range w.sessions {
		if s.listed && s.home == t.home {
			w.notSwept(s, next)
		}
	}
	switch {
	case next.IsZero() != (w.total(t.home) == 0):
		w.fail("I28", "%d sessions, and the next sweep is at %v", w.total(t.home), next)
	case !next.IsZero() && !next.After(w.now):
		w.fail("I28", "the next sweep is at %v, and it is %v", next, w.now)
	}
	t.at = next
	if next.IsZero() {
		t.at = w.now.Add(min(w.set.sessions.Fresh, w.set.sessions.Idle))
	}
	return true
}

// areInOrder: those that are missed least come first, the ones that were never used; in
// each kind the longest unused. Of some it is not known when that was.
func (w *world) areInOrder(out []*session.Session) {
	var last *sess
	for _, real := range out {
		s := w.sessOf(real)
		if s == nil || !s.since.Equal(s.until) || s.used == s.unused {
			continue
		}
		if last != nil && (last.used && !s.used || last.used == s.used && s.since.Before(last.since)) {
			w.fail("I20", "%s ends before %s, which is missed less", last, s)
		}
		last = s
	}
}

// notSwept holds against the rules that a session is still there, until the next sweep
// at least.
func (w *world) notSwept(s *sess, next time.Time) {
	if w.isDue(s, s.until, !s.unused) && !s.busy() {
		w.fail("I20", "%s has not been used since %v, and is still there", s, s.until)
	}
	if s.busy() && w.isDue(s, s.since, false) {
		s.until, s.used = w.now, true
	}
	switch most := max(w.set.sessions.Idle, w.set.sessions.Fresh); {
	case next.After(s.until.Add(most)):
		w.fail("I20", "%s is over at %v, and the next sweep is at %v", s, s.until.Add(most), next)
	case !s.used && next.After(s.until.Add(w.set.sessions.Fresh)):
		w.fail("I20", "%s was never used since %v, and the next sweep is at %v", s, s.until, next)
	case !s.unused && next.After(s.until.Add(w.set.sessions.Idle)):
		w.fail("I20", "%s was used at %v, and the next sweep is at %v", s, s.until, next)
	}
}

// isDue reports whether the time of a session that was used last at a time is over:
// for certain, or possibly.
func (w *world) isDue(s *sess, last time.Time, certain bool) bool {
	idle := w.now.Sub(last)
	if certain || !s.unused {
		return idle >= w.set.sessions.Idle
	}
	if s.used {
		return idle >= min(w.set.sessions.Idle, w.set.sessions.Fresh)
	}
	return idle >= w.set.sessions.Fresh
}

func (w *world) swept(s *sess) {
	idle := w.now.Sub(s.since)
	switch {
	case s.busy():
		w.fail("I20", "%s is swept, and is in use", s)
	case (!s.used || idle < w.set.sessions.Idle) && (!s.unused || idle < w.set.sessions.Fresh):
		w.fail("I20", "%s is swept after %v", s, idle)
	}
	w.sessEnded(s, nil)
	s.listed = false
}
