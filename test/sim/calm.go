// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"
)

// hold comes after each step, whatever part of the run it belongs to.
func (w *world) hold() {
	w.beat.Add(1)
	w.invariants()
	if w.sabotage != nil {
		w.sabotage(w)
	}
}

// did is hold for those who say that they have done something.
func (w *world) did() bool {
	w.hold()
	return true
}

// invariants holds what is true between any two steps.
func (w *world) invariants() {
	for _, t := range w.threads {
		switch t := t.(type) {
		case *writer:
			w.isAwake(t)
		case *task:
			if c := t.call; c != nil && t.blocked == nil && !c.takes && len(c.real.Wake()) == 0 && (len(c.inbox) > 0 || c.ended) {
				w.fail("I30", "%s has something for who waits for it, and does not wake it", c)
			}
		case *carry:
			if t.full && len(t.c.real.Space()) == 0 && t.c.fits(t.c.flow[0]) {
				w.fail("I30", "%s has room, and who waits for it does not hear of it", t.c)
			}
		}
	}
	w.noteTight()
	w.keepsExactly()
	w.pendingHolds()
	w.goesInOrder()
	for _, s := range w.sessions {
		if w.set.purges {
			w.keepsLittle(s, w.set.limits.LogBytes, true)
		}
		if !s.ended && s.real.Idle() == s.busy() {
			w.fail("I20", "%s is idle: %v, and has %d requests and %d carriers", s, !s.busy(), len(s.running), s.carriers)
		}
	}
	for _, at := range w.replicas {
		w.countsHold(at)
	}
}

// countsHold: a replica has as many of each as there are.
func (w *world) countsHold(at *replica) {
	if n, want := at.lot.Len(), w.parkedNow(at); n != want {
		w.fail("I28", "%d requests are parked, want %d", n, want)
	}
	if want := w.parkingPrincipals(at); want > 0 && lenOf(at.lot, "perPrincipal") != want {
		w.fail("I28", "the requests of %d principals are parked, and %d are known", want, lenOf(at.lot, "perPrincipal"))
	}
	if n, want := at.table.Len(), w.total(at); n != want {
		w.fail("I28", "the table has %d sessions, want %d", n, want)
	}
}

// parkingPrincipals returns how many principals have requests that are parked.
func (w *world) parkingPrincipals(at *replica) int {
	var known []string
	for _, j := range w.journeys {
		if j.home == at && j.id != "" && !slices.Contains(known, j.principal) {
			known = append(known, j.principal)
		}
	}
	return len(known)
}

func (w *world) parkedNow(at *replica) (n int) {
	for _, j := range w.journeys {
		if j.home == at && j.id != "" {
			n++
		}
	}
	return n
}

// isAwake: a carrier that waits will be woken, or there is nothing for it.
//
// A lost wake-up shows itself only when nothing else happens, which in a busy
// schedule is never. So it is not waited for: after each step, whoever sleeps with
// something to do and nothing in his channel will sleep for ever.
func (w *world) isAwake(t *writer) {
	if len(t.wake) > 0 || t.pipe.known {
		return
	}
	s := t.at
	switch {
	case t.phase == listens && s.live != t:
		w.fail("I12", "%s: a carrier that was superseded sleeps", s.name)
	case t.phase == listens && (s.waiting() || s.ended || s.pausing || t.pos < uint64(len(s.seen))):
		w.fail("I10", "%s: its carrier sleeps, and something waits", s.name)
	case t.phase == decides && !s.held && (s.waiting() || s.ended):
		w.fail("I7", "%s: its carrier sleeps, and the form of the answer could be decided", s.name)
	}
}

// mostRounds is more than a storm needs to be read one by one.
const mostRounds = 5000

// settle lets everything come to its end without a further fault.
//
// Liveness has to be asked for where it can be promised: nothing breaks any more,
// everybody reads, answers and comes back, and after that all that is owed must be
// there. What hangs now hangs for good.
func (w *world) settle() {
	w.calm = true
	w.say("from now on all goes well")
	var tried time.Time
	for range mostRounds {
		if w.broken != nil {
			return
		}
		if w.runAll() || w.allArrive() || w.allRead() || w.allAnswer() {
			continue
		}
		// Who is refused a stream, because an older connection of it is thought to
		// live, tries again later.
		if tried != w.now && w.allComeBack() {
			tried = w.now
			continue
		}
		d := w.untilDue()
		if d <= 0 {
			return
		}
		w.advance(d)
		w.hold()
	}
	w.fail("I28", "it does not come to rest")
}

func (w *world) runAll() (any bool) {
	for i := range slices.Backward(w.threads) {
		for n := 0; i < len(w.threads) && w.threads[i].ready(w) && n < 500 && w.broken == nil; n++ {
			w.runAt(i, w.threads[i])
			any = w.did()
		}
	}
	return any
}

func (w *world) allArrive() (any bool) {
	for w.arriveOne() {
		any = w.did()
	}
	return any
}

func (w *world) allRead() (any bool) {
	for _, c := range w.clients {
		for i := range slices.Backward(c.pipes) {
			for p := c.pipes[i]; len(p.flow) > 0 && p.at != nil; any = w.did() {
				w.clientReads(p)
			}
			c.letGo(i)
		}
		for _, no := range c.questions {
			w.send(travel{what: answer, from: c, principal: c.principal, sessID: c.sess.real.ID, id: no})
			any = w.did()
		}
		c.questions = c.questions[:0]
		for len(c.states) > 0 {
			w.send(c.retry(w))
			any = w.did()
		}
	}
	return any
}

func (w *world) allComeBack() (any bool) {
	for _, c := range w.clients {
		any = c.comeBack(w) && w.did() || any
	}
	return any
}

// isOwed reports whether the client of a request must have its terminal by now: it
// has not lost its connection, or it could come back, and it has.
//
// A client that broke its connection off and cannot come back is owed nothing, and
// neither is one of a stream that it was told is gone. All others are, however much
// has gone wrong on the way.
func (w *world) isOwed(r *request) bool {
	switch {
	case r.cancelled || r.isNote:
		return false
	case !r.pipe.left && !r.polled && !r.again:
		return true
	default:
		return r.st.kept && !r.st.buried && r.pipe.event != "" && r.client.sess == r.sess && !r.sess.ended
	}
}

// comeBack has a client fetch the rest of all that it has lost.
func (c *client) comeBack(w *world) bool {
	if c.sess == nil || !c.sess.listed {
		c.cursors = nil
	}
	lost := c.cursors
	c.cursors = nil
	for _, at := range lost {
		if at.at.sess == c.sess && !at.at.buried && at.at.of != nil && at.at.of.got == 0 && !at.at.of.cancelled {
			p := c.newPipe(w)
			p.at, p.event = at.at, at.event
			w.send(travel{what: get, from: c, principal: c.principal, sessID: c.sess.real.ID, pipe: p, event: at.event})
		}
	}
	return len(lost) > 0
}

func (w *world) allAnswer() (any bool) {
	for _, b := range w.backends {
		for _, c := range b.conn.jobs {
			if !c.finished {
				w.backendAnswers(c)
				any = w.did()
			}
		}
	}
	return any
}

// untilDue returns how long it is until the next timer goes off, or 0.
func (w *world) untilDue() time.Duration {
	var next time.Time
	at := func(t time.Time) {
		if t.After(w.now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, t := range w.threads {
		switch t := t.(type) {
		case *writer:
			if t.phase == decides {
				at(t.grace)
			}
			at(t.flush)
		case *asking:
			at(t.late)
		case *notice:
			at(t.at)
		case *putter:
			at(t.j.putAt)
		case *warden:
			at(w.nextParked(t.at))
		case *timer:
			at(t.r.lateAt)
		}
	}
	if next.IsZero() {
		return 0
	}
	return next.Sub(w.now)
}

// delivered: each request has its one terminal, and whoever stayed has seen it.
func (w *world) delivered() {
	for _, r := range w.requests {
		switch {
		case !r.over:
			w.fail("I3", "%s has no end", r)
		case r.got > 1 && !r.again:
			w.fail("I36", "%s was answered, and its client has %d terminals", r, r.got)
		case w.isOwed(r) && r.got == 0:
			w.fail("I36", "%s was answered, and its client does not know", r)
		}
	}
	for _, s := range w.sessions {
		if s.standalone.live != nil && s.standalone.waiting() {
			w.fail("I33", "%s is carried, and not all of it was taken", s.standalone.name)
		}
	}
	for _, c := range w.calls {
		if !c.ended {
			w.fail("I3", "%s has no end", c)
		}
	}
	for _, b := range w.backends {
		w.checkStats(b.conn)
		for _, k := range b.retired {
			w.checkStats(k)
		}
	}
	got := losses{w.counts.Dropped.Load(), w.counts.Merged.Load(), w.counts.Undelivered.Load()}
	if got.dropped < w.least.dropped || got.merged < w.least.merged || got.undelivered < w.least.undelivered {
		w.fail("I30", "what was lost is counted as %+v, want %+v at least", got, w.least)
	}
	if got := w.counts.Replayed.Load(); got != w.replays {
		w.fail("I13", "%d messages are counted that clients came back for, want %d", got, w.replays)
	}
	if got := w.counts.Strays.Load(); got != w.strays {
		w.fail("I37", "%d answers to nothing are counted, want %d", got, w.strays)
	}
}

// clear ends what is left, in one of the ways in which a gateway does, and looks
// for what nobody has cleared away.
func (w *world) clear() {
	for _, c := range w.clients {
		for _, p := range c.pipes {
			w.breakPipe(p, 0)
			p.known = true
		}
		c.pipes = nil
	}
	w.hold()
	w.runAll()
	for _, at := range w.replicas {
		w.closeLot(at)
		w.hold()
	}
	w.runAll()
	switch w.src.Steps() % 3 {
	case 0:
		for _, at := range w.replicas {
			w.drain(at)
			w.hold()
		}
	case 1:
		for _, s := range w.sessions {
			w.end(s)
			w.hold()
		}
	default:
		w.advance(w.set.sessions.Idle + w.set.sessions.Fresh)
		w.hold()
		w.runAll()
		w.advance(w.set.sessions.Idle + w.set.sessions.Fresh)
	}
	w.hold()
	w.runAll()
	w.nothingLeft()
}

func (w *world) drain(at *replica) {
	out := at.table.Drain()
	w.areInOrder(out)
	if want := w.total(at); len(out) != want {
		w.fail("I26", "%d sessions are drained of %d", len(out), want)
	}
	for _, real := range out {
		if s := w.sessOf(real); s != nil {
			w.end(s)
		}
	}
}

// What stays behind after one request is a leak of a day, and no test of behaviour
// sees it: so it is looked for in the machines themselves (M006, M095, M131, M143).
func (w *world) nothingLeft() {
	for _, t := range w.threads {
		switch t.(type) {
		case *sweeper, *keeper, *warden, *shedder:
		default:
			w.fail("I28", "a goroutine is left: %T", t)
		}
	}
	if n := w.rules.Logs.Used(); n != 0 {
		w.fail("I28", "%d bytes are kept for sessions that have ended", n)
	}
	if left := leftIn(w.rules.Logs); left != "" {
		w.fail("I28", "all sessions have ended, and the pool of what they keep has %s", left)
	}
	for _, at := range w.replicas {
		w.noResidue("lot", at.lot)
		w.noResidue("table", at.table)
	}
	for _, j := range w.journeys {
		w.noResidue(j.String(), j.real)
	}
	for _, s := range w.sessions {
		if s.ended && !s.standalone.waiting() { // what its last carrier left goes with it
			w.noResidue(s.String(), s.real)
		}
	}
	for _, r := range w.requests {
		if !r.st.forgotten {
			w.noResidue(r.String(), r.x)
		}
	}
	for _, c := range w.calls {
		w.noResidue(c.String(), c.real)
	}
}
