// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// injectFault injects a fault that is not a variant of another action.
//
// Faults that break connections are listed several times, because most bugs of ordering
// need an interrupted stream. Faults that end everything are limited by a second draw:
// after a crash of the gateway a schedule starts from nothing.
func (w *world) injectFault() bool {
	f := [...]Fault{
		Reset, HalfOpen, Poll, Cancel, Foreign, ClientCrash, BackendCrash, GatewayCrash, Drain,
		Reset, Reset, HalfOpen, Poll, Poll,
	}[w.src.Intn(14)]
	if !w.set.allows(f) {
		return false
	}
	c := w.clients[w.src.Intn(len(w.clients))]
	switch f {
	case Reset, HalfOpen:
		w.resetOne(c, f)
	case Poll:
		w.pauseOne()
	case Cancel:
		w.abortOne()
	case Foreign:
		w.trespass(c)
	case ClientCrash:
		if w.src.OneIn(4) {
			c.crash(w)
		}
	case BackendCrash:
		if w.src.OneIn(3) {
			w.crash(w.backends[w.src.Intn(len(w.backends))])
		}
	case Drain:
		if w.src.OneIn(8) {
			w.fault(f)
			w.closeParked(w.anyReplica())
		}
	default:
		if w.src.OneIn(8) {
			w.restart()
		}
	}
	return true
}

// loseConnection breaks a connection of a client that reconnects, or makes the gateway end
// it.
func (w *world) loseConnection() bool {
	f := [...]Fault{Reset, Poll, HalfOpen}[w.src.Intn(3)]
	if !w.set.allows(f) {
		return false
	}
	if f == Poll {
		w.pauseOne()
	} else {
		w.resetOne(w.clients[w.src.Intn(len(w.clients))], f)
	}
	return true
}

// resetOne breaks one of a client's connections. Some of what was in transit arrives, and
// the gateway notices at once or later.
func (w *world) resetOne(c *client, f Fault) {
	n := len(c.responses)
	if n == 0 {
		return
	}
	at := c.pickResponse(w, func(p *response) bool { return !p.left && !p.ended && (p.event != "" || p.at != nil && p.at.resumable) })
	p := c.responses[at]
	if p.left || p.at == nil || p.ended {
		return
	}
	w.fault(f)
	arrives := w.src.Intn(len(p.unread) + 1)
	if p.event == "" && p.at.resumable {
		arrives = max(arrives, w.src.Intn(4)) // mostly enough to resume with
	}
	w.breakResponse(p, arrives)
	c.forgetResponse(at)
	if w.tracing() {
		w.logf("%s loses its connection to %s", c, p.at.name)
	}
	if f == Reset {
		p.known = true
		return
	}
	w.spawn(&disconnectNotice{p: p, at: w.now.Add(time.Duration(w.src.Intn(4)) * 10 * time.Second)})
}

// tookOver handles that another connection consumes the stream of an older one. Often the
// older one has broken, and the gateway notices only now, after the older consumer took
// messages that it cannot write any more. Those are requeued on a stream that has another
// consumer.
func (w *world) tookOver(old *writer) {
	if old == nil {
		return
	}
	w.fault(Takeover)
	p := old.response
	if w.quiescing || p.left || p.ended || !w.set.allows(Reset) || !w.src.OneIn(2) {
		return
	}
	w.fault(Reset)
	w.breakResponse(p, 0)
	p.known = true
	if at := slices.Index(p.client.responses, p); at >= 0 {
		p.client.forgetResponse(at)
	}
}

// disconnectNotice is the moment at which the gateway notices a disconnect.
//
// Until then the gateway writes to a dead connection and counts the messages as sent. These
// are the messages that the client resumes from when it reconnects (M056, M065).
type disconnectNotice struct {
	p  *response
	at time.Time
}

func (t *disconnectNotice) ready(w *world) bool { return !w.now.Before(t.at) }

func (t *disconnectNotice) run(*world) bool {
	t.p.known = true
	return false
}

// pauseOne makes the gateway end a connection if its client can reconnect for the rest.
//
// A pause of a stream without a consumer, or of one that has ended, must do nothing: it
// would stop the next consumer.
func (w *world) pauseOne() {
	for _, s := range w.streams {
		if !s.resumable || s.firstID > uint64(len(s.positions)) { // a client without an event id cannot resume
			continue
		}
		if (s.writer == nil || s.ended) && w.src.Intn(8) > 0 || w.src.Intn(2) > 0 {
			continue
		}
		want := s.writer != nil && !s.ended
		if got := s.real.Pause(time.Second); got != want {
			w.fail("I12", "%s is paused: %v, want %v", s.name, got, want)
		}
		if want {
			w.fault(Poll)
			s.pausing = true
			if s.of != nil {
				s.of.paused = true
			}
			if w.tracing() {
				w.logf("%s is paused", s.name)
			}
		}
		return
	}
}

// abortOne ends a random request as a deadline does.
func (w *world) abortOne() {
	if n := len(w.requests); n > 0 {
		if r := w.requests[w.src.Intn(n)]; r.parkable == nil {
			w.finish(r, true)
		}
	}
}

// trespass makes a client name a session of another principal.
func (w *world) trespass(c *client) {
	n := len(w.sessions)
	if n == 0 {
		return
	}
	s := w.sessions[w.src.Intn(n)]
	what := [...]action{call, get, remove, answer, cancelled, initialized}[w.src.Intn(6)]
	if s.client.principal == c.principal {
		return
	}
	t := clientMessage{what: what, from: c, principal: c.principal, sessID: s.real.ID, id: w.src.Intn(6)}
	if what == call || what == get {
		t.response = c.newResponse(w)
	}
	w.send(t)
}

// crash ends a client with all its connections. It restarts at once without any state.
//
// The gateway is not notified: the client's sessions remain until they are evicted or
// expire. Requests parked for its place are dropped at once, because no other client can
// have that place (M097).
func (c *client) crash(w *world) {
	w.fault(ClientCrash)
	for _, p := range c.responses {
		w.breakResponse(p, 0)
		p.known = true
	}
	c.responses, c.questions, c.cursors, c.states, c.sess = nil, nil, nil, nil, nil
	if w.tracing() {
		w.logf("%s crashes", c)
	}
	if c.place != 0 {
		for _, at := range w.replicas {
			w.checkDropped(at.parked.Drop(func(o session.Owner) bool { return o.Place == c.place }), func(j *parkable) bool { return j.home == at && j.place == c.place })
		}
	}
}

// restart crashes and restarts the gateway. It has no state, which clients learn from
// errors.
//
// Messages in transit still arrive, with names of sessions from before. They must be
// unknown, even if the new names look alike (M074).
func (w *world) restart() {
	w.fault(GatewayCrash)
	if w.tracing() {
		w.logf("the gateway crashes")
	}
	for _, c := range w.clients {
		for _, p := range c.responses {
			w.breakResponse(p, len(p.unread))
			p.known = true
		}
		c.responses, c.opening = nil, false
	}
	for _, s := range w.sessions {
		s.listed, s.ended = false, true
		s.running, s.asks = nil, nil
	}
	for _, b := range w.backends {
		b.connect()
	}
	for _, r := range w.requests {
		if !r.ended {
			r.ended, r.cancelled = true, true
		}
	}
	w.before.requests += len(w.requests)
	w.parkables = nil
	w.requests, w.sessions, w.streams, w.calls = nil, nil, nil, nil
	w.threads = w.threads[:0]
	w.boot()
	for i := range w.inTransit {
		w.inTransit[i].to = w.replicas[w.inTransit[i].to.no]
	}
}

// appendStandalone appends a message to the standalone stream of a session.
func (w *world) appendStandalone() bool {
	n := len(w.sessions)
	if n == 0 {
		return false
	}
	s := w.sessions[w.src.Intn(n)]
	e := entry{kind: change, key: w.src.Intn(len(keys)), size: 8}
	switch n := w.src.Intn(11); {
	case n < 6:
	case n == 10:
		w.retract(s.standalone, e.key)
		return true
	case n < 8:
		e = entry{kind: log, size: w.drawSize()}
	case n < 9:
		e = entry{kind: plain, size: w.drawSize()}
	default:
		if a := w.sendAsk(s.standalone, s); a != nil {
			w.spawn(&askWaiter{a: a, sess: s, late: w.now.Add(askDelivery), patience: w.src.Intn(8)})
		}
		return true
	}
	if w.appendEntry(s.standalone, e) != nil {
		s.standalone.waiters = s.standalone.waiters[:len(s.standalone.waiters)-1] // it is dropped: no thread waits
	}
	return true
}

// retract retracts a change that is no longer wanted.
func (w *world) retract(s *stream, key int) {
	unwanted := func(pk packet) bool {
		return w.marks[pk.mark].at == s && w.entryOf(pk.mark).kind == change && w.entryOf(pk.mark).key == key
	}
	waiting, given := s.hasChange(key), slices.ContainsFunc(s.requeued, unwanted)
	want := waiting || given
	if got := s.real.Retract(keys[key]); got != want {
		w.fail("I9", "%s: Retract = %v, want %v", s.name, got, want)
	}
	s.drop(func(e *entry) bool { return e.kind == change && e.key == key })
	s.requeued = slices.DeleteFunc(s.requeued, unwanted)
	if waiting {
		w.expectSpace(s)
	}
}
