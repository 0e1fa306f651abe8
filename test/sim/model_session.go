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

// sess is the model of one session of a client.
//
// since and until differ, because a sweep and an eviction examine some sessions and not
// others, in an order that the table chooses. A model with the same order would be the same
// code; so it holds the earliest and the latest possible time of the last use, and a rule
// is broken only if it is for both.
type sess struct {
	no           int
	real         *session.Session
	home         *replica
	level        mcp.LogLevel
	client       *client
	standalone   *stream
	cost         int        // of everything that is retained for it
	lastEnded    *stream    // the resumable stream that ended last
	wasLastEnded *stream    // before this step
	asks         []*ask     // open
	running      []*request // in flight
	ends         int        // how many resumable streams have ended
	consumers    int        // of its streams, superseded ones not included

	ready  bool // the client is initialized
	listed bool // it is in the table
	ended  bool

	// The time of the last use. A sweep counts busy sessions as used, if it examines them,
	// which the model does not always know.
	since, until time.Time
	used, unused bool // possible states: used, or never used
}

func (s *sess) String() string { return fmt.Sprintf("s%d", s.no) }

// newSess makes a session that is not published.
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

// publish publishes the session, which may evict others.
func (w *world) publish(s *sess) bool {
	before := w.sessionsByOwner(s.home)
	w.updateOwners(s.home)
	evicted, err := s.home.table.Add(s.real, w.now)
	for _, old := range evicted {
		w.checkEvicted(s, w.sessOf(old), before)
	}
	if err != nil {
		w.checkRefusal(s, err)
		w.touchBusy(s.home)
		return false
	}
	w.updateOwners(s.home)
	s.listed = true
	if mine := s.client.owner(); !slices.Contains(s.home.owners, mine) {
		s.home.owners = append(s.home.owners, mine)
	}
	w.spawn(&retentionTimer{s: s, at: w.now.Add(w.set.limits.LogKeep)})
	s.since, s.until = w.now, w.now
	w.touchBusy(s.home)
	if n := w.owned(s); s.client.principal != "" && n > w.set.sessions.PerPrincipal {
		w.fail("I21", "%q has %d sessions, more than %d", s.client.principal, n, w.set.sessions.PerPrincipal)
	}
	if w.tracing() {
		w.logf("%s is published, of %s", s, s.client)
	}
	return true
}

// sessionsByOwner returns how many sessions of a replica each owner has.
func (w *world) sessionsByOwner(at *replica) map[string]int {
	n := make(map[string]int)
	for _, s := range w.sessions {
		if s.listed && s.home == at {
			n[s.client.owner()]++
		}
	}
	return n
}

func (w *world) owned(of *sess) int { return w.sessionsByOwner(of.home)[of.client.owner()] }

func (w *world) sessOf(real *session.Session) *sess {
	for _, s := range w.sessions {
		if s.real == real {
			return s
		}
	}
	return nil
}

// checkEvicted checks that one session may be evicted for another.
//
// A flood of sessions must only cost its sender. Each case is a way in which another client
// could suffer: one at work, one with fewer sessions, one that has not been idle
// long enough (M099, M102).
func (w *world) checkEvicted(by, s *sess, before map[string]int) {
	if s == nil || !s.listed || s.home != by.home {
		w.fail("I20", "a session is evicted that is not there")
		return
	}
	mine, theirs := by.client.owner(), s.client.owner()
	first := by.home.largestOwner(before)
	switch rest := w.isEvictable(s); {
	case s.busy():
		w.fail("I20", "%s is evicted, and is in use", s)
	case theirs != mine && by.client.principal != "" && before[mine] >= w.set.sessions.PerPrincipal:
		w.fail("I21", "%s is evicted for %s, and the principal of the new session is over its limit", s, by)
	case theirs != mine && !rest && before[theirs] < before[mine]+2:
		w.fail("I20", "%s is evicted for %s, and its owner does not have more sessions", s, by)
	case theirs != mine && theirs != first && !rest:
		w.fail("I20", "%s is evicted for %s, and %s is the largest owner", s, by, first)
	case theirs != first && before[first] >= before[mine]+2 && w.mayTryLargest(by.home) && w.hasIdle(by.home, first) &&
		(by.client.principal == "" || before[mine] < w.set.sessions.PerPrincipal):
		w.fail("I20", "%s is evicted for %s, and the largest owner %s has an idle session", s, by, first)
	case theirs == mine && !rest:
		w.fail("I20", "%s is evicted before it was idle long enough", s)
	}
	w.fault(LimitHit)
	by.home.largestTriedAt = w.now // perhaps without success, before this session was evicted
	w.evictions++
	w.sessionEnded(s, nil)
	s.listed = false
}

// largestOwner returns the owner with the most sessions, and among equals the one that
// arrived first.
func (at *replica) largestOwner(counts map[string]int) (first string) {
	for _, owner := range at.owners {
		if counts[owner] > counts[first] {
			first = owner
		}
	}
	return first
}

// updateOwners removes owners without sessions from the list of arrivals.
func (w *world) updateOwners(at *replica) {
	counts := w.sessionsByOwner(at)
	at.owners = slices.DeleteFunc(at.owners, func(owner string) bool { return counts[owner] == 0 })
}

// hasIdle reports whether an owner certainly has an idle session.
func (w *world) hasIdle(at *replica, owner string) bool {
	return slices.ContainsFunc(w.sessions, func(o *sess) bool {
		return o.listed && o.home == at && o.client.owner() == owner && !o.busy() && o.until.Before(w.now)
	})
}

// mayTryLargest reports whether all sessions of the largest owner may be tried again.
func (w *world) mayTryLargest(at *replica) bool {
	return w.now.Sub(at.largestTriedAt) >= retryLargestEvery
}

// isEvictable reports whether a session may have been idle long enough.
func (w *world) isEvictable(s *sess) bool {
	idle := w.now.Sub(s.since)
	return s.used && idle >= w.set.sessions.Rest || s.unused && idle >= w.set.sessions.FreshRest
}

// checkRefusal checks that a session was rightly refused.
//
// A refusal is right only if no session could have been evicted. And its Wait must suffice:
// otherwise a client that retries then would be refused again and again.
func (w *world) checkRefusal(s *sess, err error) {
	full := new(session.FullError)
	if !errors.As(err, &full) {
		w.fail("I21", "no session: %v", err)
		return
	}
	w.fault(LimitHit)
	counts := w.sessionsByOwner(s.home)
	mine := s.client.owner()
	all := counts[mine] == 0
	if full.PerPrincipal != (s.client.principal != "" && counts[mine] >= w.set.sessions.PerPrincipal) {
		w.fail("I21", "%q is refused for having too many sessions: %v", s.client.principal, full.PerPrincipal)
	}
	for _, o := range w.sessions {
		certain := w.now.Sub(o.until) >= max(w.set.sessions.Rest, w.set.sessions.FreshRest)
		if o.listed && o.home == s.home && certain && !o.busy() && (all || o.client.owner() == mine) {
			w.fail("I21", "no session for %s, and %s could be evicted", s.client, o)
		}
	}
	for _, o := range w.sessions {
		if o.listed && o.home == s.home && !o.busy() && (all || o.client.owner() == mine) && o.since.Equal(o.until) && o.used != o.unused && full.Wait > w.evictableIn(o) {
			w.fail("I21", "%s must wait %v, and %s can be evicted in %v", s.client, full.Wait, o, w.evictableIn(o))
		}
	}
	if full.Wait <= 0 {
		w.fail("I21", "%s must wait %v", s.client, full.Wait)
	}
	w.checkRefusedByLargest(s, full, counts)
	if n := w.total(s.home); !full.PerPrincipal && n < w.set.sessions.Total {
		w.fail("I21", "no session, and there are %d of %d", n, w.set.sessions.Total)
	}
}

// evictableIn returns the time until a session can be evicted. Its last use must be
// certain.
func (w *world) evictableIn(s *sess) time.Duration {
	rest := w.set.sessions.Rest
	if s.unused {
		rest = w.set.sessions.FreshRest
	}
	return rest - w.now.Sub(s.until)
}

// retryLargestEvery is how often all sessions of the largest owner are tried.
const retryLargestEvery = time.Second

// checkRefusedByLargest checks that an owner with clearly fewer sessions than the largest
// is not refused while that has an idle session.
func (w *world) checkRefusedByLargest(s *sess, full *session.FullError, counts map[string]int) {
	may := w.mayTryLargest(s.home)
	s.home.largestTriedAt = w.now
	most := s.home.largestOwner(counts)
	if may && !full.PerPrincipal && counts[most] >= counts[s.client.owner()]+2 && w.hasIdle(s.home, most) {
		w.fail("I21", "no session for %s, and the largest owner %s has an idle session", s.client, most)
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

// touchBusy notes that busy sessions may count as used now.
func (w *world) touchBusy(at *replica) {
	for _, s := range w.sessions {
		if s.listed && s.home == at && s.busy() {
			s.until = w.now
			s.used = true
		}
	}
}

// busy reports whether a session must not expire.
func (s *sess) busy() bool { return len(s.running) > 0 || s.consumers > 0 }

// lookUp looks up a session for a principal, as each request does first.
//
// A lookup by another principal does not count as a use. Otherwise any client with the id
// could keep the session from expiring (M087).
func (w *world) lookUp(at *replica, id string, principal string) *sess {
	var want *sess
	for _, s := range w.sessions {
		if s.listed && s.home == at && s.real.ID == id {
			want = s
		}
	}
	got, err := at.table.Get(id, principal, "", w.now)
	switch {
	case want == nil:
		if !errors.Is(err, session.ErrUnknown) || got != nil {
			w.fail("I18", "session %q is not known, and is found: %v", id, err)
		}
		return nil
	case want.client.principal != principal:
		w.fault(Foreign)
		if !errors.Is(err, session.ErrForeign) || got != nil {
			w.fail("I18", "%s is found by %q, which does not own it: %v", want, principal, err)
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
		w.sessionEnded(s, &entry{kind: terminal})
	}
}

// sessionEnded records the end of a session: its requests end with an error, its questions
// without an answer, and its streams end.
//
// Without a terminal the session has expired or was evicted, and then no request may have
// been in flight: expiry and arrival are one decision (I20, M101).
func (w *world) sessionEnded(s *sess, end *entry) {
	if w.tracing() {
		w.logf("%s has ended", s)
	}
	s.ended = true
	for _, r := range append([]*request(nil), s.running...) {
		if end == nil {
			w.fail("I20", "%s ended by itself, and %s was running", s, r)
			return
		}
		e := *end
		w.requestEnded(r, &e)
		if r.stops != 1 {
			w.fail("I3", "%s ended with its session, and its handler was not stopped", r)
		}
	}
	w.endAsks(s, s.standalone, session.ErrEnded)
	s.standalone.drop(isQuestion)
	if s.standalone.writer == nil || s.standalone.held {
		s.standalone.drop(all)
	}
	s.standalone.held = false
	w.streamEnded(s.standalone)
	w.forgetStreams(s)
}

// forgetStreams records that no stream of a session can be resumed any more. Streams with a
// consumer are still delivered to their end.
//
// A client that is reading at this moment receives the rest that is retained for it. Only
// resuming has ended.
func (w *world) forgetStreams(s *sess) {
	for _, st := range w.streams {
		if st.sess != s || !st.resumable {
			continue
		}
		if st.of != nil && st.writer == nil {
			st.drop(all)
			st.forgotten = true
		}
		if t := st.writer; t != nil && t.pos < uint64(len(st.positions)) {
			w.requeueUntaken(t)
		}
		st.resumable = false
	}
	s.standalone.requeued = nil
}

// requeueUntaken queues what a resumed consumer has yet to replay, as messages without ids.
func (w *world) requeueUntaken(t *writer) {
	st := t.stream
	for _, n := range st.positions[t.pos:] {
		e := *w.entryOf(n)
		e.fate, e.front = queued, true
		w.add(st, e)
	}
	st.terminalTaken = false
	t.pos = uint64(len(st.positions))
}

// sweeper is the timer that ends expired sessions.
type sweeper struct {
	home *replica
	at   time.Time
}

func (t *sweeper) ready(w *world) bool { return !w.now.Before(t.at) }

func (t *sweeper) run(w *world) bool {
	ended, next := t.home.table.Sweep(w.now)
	w.checkOrder(ended)
	for _, real := range ended {
		s := w.sessOf(real)
		if s == nil || !s.listed || s.home != t.home {
			w.fail("I20", "a session is swept that is not there")
			continue
		}
		w.checkSwept(s)
	}
	for _, s := range w.sessions {
		if s.listed && s.home == t.home {
			w.checkNotSwept(s, next)
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

// checkOrder checks the order of a list of sessions: first those that were never used, then
// the others; the longest idle first. For some the time is uncertain.
func (w *world) checkOrder(out []*session.Session) {
	var last *sess
	for _, real := range out {
		s := w.sessOf(real)
		if s == nil || !s.since.Equal(s.until) || s.used == s.unused {
			continue
		}
		if last != nil && (last.used && !s.used || last.used == s.used && s.since.Before(last.since)) {
			w.fail("I20", "%s ends before %s, which has been idle longer", last, s)
		}
		last = s
	}
}

// checkNotSwept checks that a session is rightly still there, and not later than the next
// sweep.
func (w *world) checkNotSwept(s *sess, next time.Time) {
	if w.isDue(s, s.until, !s.unused) && !s.busy() {
		w.fail("I20", "%s has not been used since %v, and is still there", s, s.until)
	}
	if s.busy() && w.isDue(s, s.since, false) {
		s.until, s.used = w.now, true
	}
	switch most := max(w.set.sessions.Idle, w.set.sessions.Fresh); {
	case next.After(s.until.Add(most)):
		w.fail("I20", "%s expires at %v, and the next sweep is at %v", s, s.until.Add(most), next)
	case !s.used && next.After(s.until.Add(w.set.sessions.Fresh)):
		w.fail("I20", "%s was never used since %v, and the next sweep is at %v", s, s.until, next)
	case !s.unused && next.After(s.until.Add(w.set.sessions.Idle)):
		w.fail("I20", "%s was used at %v, and the next sweep is at %v", s, s.until, next)
	}
}

// isDue reports whether a session that was used last at a time has expired, for certain or
// possibly.
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

func (w *world) checkSwept(s *sess) {
	idle := w.now.Sub(s.since)
	switch {
	case s.busy():
		w.fail("I20", "%s is swept, and is in use", s)
	case (!s.used || idle < w.set.sessions.Idle) && (!s.unused || idle < w.set.sessions.Fresh):
		w.fail("I20", "%s is swept after %v", s, idle)
	}
	w.sessionEnded(s, nil)
	s.listed = false
}
