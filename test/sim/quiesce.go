// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"
)

// afterStep runs after each step of a run.
func (w *world) afterStep() {
	w.heartbeat.Add(1)
	w.checkInvariants()
	if w.sabotage != nil {
		w.sabotage(w)
	}
}

// progressed runs afterStep and returns true.
func (w *world) progressed() bool {
	w.afterStep()
	return true
}

// checkInvariants checks what must be true between any two steps.
func (w *world) checkInvariants() {
	for _, t := range w.threads {
		switch t := t.(type) {
		case *writer:
			w.checkAwake(t)
		case *handler:
			if c := t.call; c != nil && t.blocked == nil && !c.draining && len(c.real.Wake()) == 0 && (len(c.inbox) > 0 || c.ended) {
				w.fail("I30", "%s has a message or an end, and its waiter is not woken", c)
			}
		case *callIO:
			if t.full && len(t.c.real.Space()) == 0 && t.c.fits(t.c.unread[0]) {
				w.fail("I30", "%s has space, and its waiter is not woken", t.c)
			}
		}
	}
	w.markTrimmable()
	w.checkKept()
	w.checkPending()
	w.checkDropOrder()
	for _, s := range w.sessions {
		if w.set.purges {
			w.checkKeptLimit(s, w.set.limits.LogBytes, true)
		}
		if !s.ended && s.real.IsIdle() == s.busy() {
			w.fail("I20", "%s is idle: %v, and has %d requests and %d consumers", s, !s.busy(), len(s.running), s.consumers)
		}
	}
	for _, at := range w.replicas {
		w.checkCounts(at)
	}
}

// checkCounts checks the number of objects of each kind in a replica.
func (w *world) checkCounts(at *replica) {
	if n, want := at.parked.Len(), w.parkedNow(at); n != want {
		w.fail("I28", "%d requests are parked, want %d", n, want)
	}
	if want := w.parkingPrincipals(at); want > 0 && lenOf(at.parked, "perPrincipal") != want {
		w.fail("I28", "the requests of %d principals are parked, and %d are known", want, lenOf(at.parked, "perPrincipal"))
	}
	if n, want := at.table.Len(), w.total(at); n != want {
		w.fail("I28", "the table has %d sessions, want %d", n, want)
	}
}

// parkingPrincipals returns how many principals have parked requests.
func (w *world) parkingPrincipals(at *replica) int {
	var known []string
	for _, j := range w.parkables {
		if j.home == at && j.id != "" && !slices.Contains(known, j.principal) {
			known = append(known, j.principal)
		}
	}
	return len(known)
}

func (w *world) parkedNow(at *replica) (n int) {
	for _, j := range w.parkables {
		if j.home == at && j.id != "" {
			n++
		}
	}
	return n
}

// checkAwake checks that a waiting consumer will be woken if there is something for it.
//
// A lost wake-up shows only if nothing else happens, which never is the case in a busy
// schedule. So the check does not wait: a sleeping thread with something to do and an empty
// channel would sleep forever.
func (w *world) checkAwake(t *writer) {
	if len(t.wake) > 0 || t.response.known {
		return
	}
	s := t.stream
	switch {
	case t.phase == phaseWait && s.writer != t:
		w.fail("I12", "%s: a superseded consumer sleeps", s.name)
	case t.phase == phaseWait && (s.hasQueued() || s.ended || s.pausing || t.pos < uint64(len(s.positions))):
		w.fail("I10", "%s: its consumer sleeps, and a message is queued", s.name)
	case t.phase == phaseForm && !s.held && (s.hasQueued() || s.ended):
		w.fail("I7", "%s: its consumer sleeps, and the form of the answer could be decided", s.name)
	}
}

// maxRounds is more than a storm needs to be read one message at a time.
const maxRounds = 5000

// quiesce runs everything to its end without further faults.
//
// Liveness can be checked only if it can be promised: from here on nothing breaks, every
// client reads, answers and reconnects, and then everything owed must have arrived.
// Anything that still hangs would hang forever.
func (w *world) quiesce() {
	w.quiescing = true
	w.logf("no more faults from here on")
	var tried time.Time
	for range maxRounds {
		if w.violation != nil {
			return
		}
		if w.runAll() || w.deliverAll() || w.readAll() || w.answerAll() {
			continue
		}
		// A client that is refused a stream, because an older connection of it is still
		// counted, retries later.
		if tried != w.now && w.resumeAll() {
			tried = w.now
			continue
		}
		d := w.untilNextTimer()
		if d <= 0 {
			return
		}
		w.advance(d)
		w.afterStep()
	}
	w.fail("I28", "the schedule does not end")
}

func (w *world) runAll() (any bool) {
	for i := range slices.Backward(w.threads) {
		for n := 0; i < len(w.threads) && w.threads[i].ready(w) && n < 500 && w.violation == nil; n++ {
			w.runAt(i, w.threads[i])
			any = w.progressed()
		}
	}
	return any
}

func (w *world) deliverAll() (any bool) {
	for w.deliverOne() {
		any = w.progressed()
	}
	return any
}

func (w *world) readAll() (any bool) {
	for _, c := range w.clients {
		for i := range slices.Backward(c.responses) {
			for p := c.responses[i]; len(p.unread) > 0 && p.at != nil; any = w.progressed() {
				w.clientReads(p)
			}
			c.forgetResponse(i)
		}
		for _, no := range c.questions {
			w.send(clientMessage{what: answer, from: c, principal: c.principal, sessID: c.sess.real.ID, id: no})
			any = w.progressed()
		}
		c.questions = c.questions[:0]
		for len(c.states) > 0 {
			w.send(c.retry(w))
			any = w.progressed()
		}
	}
	return any
}

func (w *world) resumeAll() (any bool) {
	for _, c := range w.clients {
		any = c.resume(w) && w.progressed() || any
	}
	return any
}

// isOwed reports whether the client of a request must have its terminal by now: it kept its
// connection, or it could reconnect and has.
//
// A client that closed its connection and cannot resume is owed nothing, and neither is one
// that was informed that the stream is gone. All others are, whatever went wrong before.
func (w *world) isOwed(r *request) bool {
	switch {
	case r.cancelled || r.isNotification:
		return false
	case !r.response.left && !r.paused && !r.resumed:
		return true
	default:
		return r.stream.resumable && !r.stream.reportedGone && r.response.event != "" && r.client.sess == r.sess && !r.sess.ended
	}
}

// resume makes a client resume all streams that it has lost.
func (c *client) resume(w *world) bool {
	if c.sess == nil || !c.sess.listed {
		c.cursors = nil
	}
	lost := c.cursors
	c.cursors = nil
	for _, at := range lost {
		if at.at.sess == c.sess && !at.at.reportedGone && at.at.of != nil && at.at.of.terminals == 0 && !at.at.of.cancelled {
			p := c.newResponse(w)
			p.at, p.event = at.at, at.event
			w.send(clientMessage{what: get, from: c, principal: c.principal, sessID: c.sess.real.ID, response: p, event: at.event})
		}
	}
	return len(lost) > 0
}

func (w *world) answerAll() (any bool) {
	for _, b := range w.backends {
		for _, c := range b.conn.jobs {
			if !c.finished {
				w.backendAnswer(c)
				any = w.progressed()
			}
		}
	}
	return any
}

// untilNextTimer returns the time until the next timer fires, or 0.
func (w *world) untilNextTimer() time.Duration {
	var next time.Time
	at := func(t time.Time) {
		if t.After(w.now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, t := range w.threads {
		switch t := t.(type) {
		case *writer:
			if t.phase == phaseForm {
				at(t.grace)
			}
			at(t.flush)
		case *askWaiter:
			at(t.late)
		case *disconnectNotice:
			at(t.at)
		case *parkTimer:
			at(t.j.parkAt)
		case *parkExpiry:
			at(w.nextParked(t.at))
		case *releaseTimer:
			at(t.r.deferredAt)
		}
	}
	if next.IsZero() {
		return 0
	}
	return next.Sub(w.now)
}

// checkDelivered checks that each request has its one terminal, and that its client has
// received it if it is owed.
func (w *world) checkDelivered() {
	for _, r := range w.requests {
		switch {
		case !r.ended:
			w.fail("I3", "%s has no end", r)
		case r.terminals > 1 && !r.resumed:
			w.fail("I36", "%s was answered, and its client received %d terminals", r, r.terminals)
		case w.isOwed(r) && r.terminals == 0:
			w.fail("I36", "%s was answered, and its client did not receive it", r)
		}
	}
	for _, s := range w.sessions {
		if s.standalone.writer != nil && s.standalone.hasQueued() {
			w.fail("I33", "%s has a consumer, and not all of it was taken", s.standalone.name)
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
	if got.dropped < w.minLosses.dropped || got.merged < w.minLosses.merged || got.undelivered < w.minLosses.undelivered {
		w.fail("I30", "counted losses %+v, want %+v at least", got, w.minLosses)
	}
	if got := w.counts.Replayed.Load(); got != w.replays {
		w.fail("I13", "%d replayed messages are counted, want %d", got, w.replays)
	}
	if got := w.counts.Strays.Load(); got != w.strays {
		w.fail("I37", "%d stray answers are counted, want %d", got, w.strays)
	}
}

// tearDown ends what is left, in one of the ways in which a gateway ends, and checks for
// leftovers.
func (w *world) tearDown() {
	for _, c := range w.clients {
		for _, p := range c.responses {
			w.breakResponse(p, 0)
			p.known = true
		}
		c.responses = nil
	}
	w.afterStep()
	w.runAll()
	for _, at := range w.replicas {
		w.closeParked(at)
		w.afterStep()
	}
	w.runAll()
	switch w.src.Steps() % 3 {
	case 0:
		for _, at := range w.replicas {
			w.drain(at)
			w.afterStep()
		}
	case 1:
		for _, s := range w.sessions {
			w.end(s)
			w.afterStep()
		}
	default:
		w.advance(w.set.sessions.Idle + w.set.sessions.Fresh)
		w.afterStep()
		w.runAll()
		w.advance(w.set.sessions.Idle + w.set.sessions.Fresh)
	}
	w.afterStep()
	w.runAll()
	w.checkNothingLeft()
}

func (w *world) drain(at *replica) {
	out := at.table.Drain()
	w.checkOrder(out)
	if want := w.total(at); len(out) != want {
		w.fail("I26", "%d sessions are drained of %d", len(out), want)
	}
	for _, real := range out {
		if s := w.sessOf(real); s != nil {
			w.end(s)
		}
	}
}

// A leftover of one request is a slow leak that no test of behaviour sees, so the objects
// themselves are inspected (M006, M095, M131, M143).
func (w *world) checkNothingLeft() {
	for _, t := range w.threads {
		switch t.(type) {
		case *sweeper, *retentionTimer, *parkExpiry, *poolTrimmer:
		default:
			w.fail("I28", "a goroutine is left: %T", t)
		}
	}
	if n := w.rules.Logs.Used(); n != 0 {
		w.fail("I28", "%d bytes are retained for sessions that have ended", n)
	}
	if left := leftIn(w.rules.Logs); left != "" {
		w.fail("I28", "all sessions have ended, and the log pool still has %s", left)
	}
	for _, at := range w.replicas {
		w.checkLeftovers("parked requests", at.parked)
		w.checkLeftovers("table", at.table)
	}
	for _, j := range w.parkables {
		w.checkLeftovers(j.String(), j.real)
	}
	for _, s := range w.sessions {
		if s.ended && !s.standalone.hasQueued() { // the queue of its last consumer ends with it
			w.checkLeftovers(s.String(), s.real)
		}
	}
	for _, r := range w.requests {
		if !r.stream.forgotten {
			w.checkLeftovers(r.String(), r.x)
		}
	}
	for _, c := range w.calls {
		w.checkLeftovers(c.String(), c.real)
	}
}
