// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"
)

// disturb injects a fault that is not a matter of how something else is done.
//
// Those that break connections stand several times, because most orders that go
// wrong need a stream that was interrupted. What ends everything is held back by a
// second draw: after a crash of the gateway a schedule begins from nothing, and
// what came before is not looked at any more.
func (w *world) disturb() bool {
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
			w.closeLot(w.anyReplica())
		}
	default:
		if w.src.OneIn(8) {
			w.restart()
		}
	}
	return true
}

// loses breaks a connection of a client that comes back, or has it end.
func (w *world) loses() bool {
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

// resetOne breaks one of a client's connections. Some of what was under way
// arrives, and the gateway notices at once or later.
func (w *world) resetOne(c *client, f Fault) {
	n := len(c.pipes)
	if n == 0 {
		return
	}
	at := c.pickPipe(w, func(p *pipe) bool { return !p.left && !p.ended && (p.event != "" || p.at != nil && p.at.kept) })
	p := c.pipes[at]
	if p.left || p.at == nil || p.ended {
		return
	}
	w.fault(f)
	arrives := w.src.Intn(len(p.flow) + 1)
	if p.event == "" && p.at.kept {
		arrives = max(arrives, w.src.Intn(4)) // mostly enough to come back with
	}
	w.breakPipe(p, arrives)
	c.letGo(at)
	if w.tell() {
		w.say("%s loses its connection to %s", c, p.at.name)
	}
	if f == Reset {
		p.known = true
		return
	}
	w.spawn(&notice{p: p, at: w.now.Add(time.Duration(w.src.Intn(4)) * 10 * time.Second)})
}

// tookOver: another connection carries the stream of an older one. A client rarely opens
// a second one for nothing: often the older has broken, and the gateway learns of that
// only now, when the older carrier has taken what it cannot write any more. What it
// gives back then goes to a stream that is another's.
func (w *world) tookOver(old *writer) {
	if old == nil {
		return
	}
	w.fault(Takeover)
	p := old.pipe
	if w.calm || p.left || p.ended || !w.set.allows(Reset) || !w.src.OneIn(2) {
		return
	}
	w.fault(Reset)
	w.breakPipe(p, 0)
	p.known = true
	if at := slices.Index(p.client.pipes, p); at >= 0 {
		p.client.letGo(at)
	}
}

// notice is the moment at which the gateway learns that a client has gone.
//
// Between the break and the notice the gateway writes into nothing and takes it for
// read. What it took in that time is the rest that a client asks for when it is
// back (M056, M065).
type notice struct {
	p  *pipe
	at time.Time
}

func (t *notice) ready(w *world) bool { return !w.now.Before(t.at) }

func (t *notice) run(*world) bool {
	t.p.known = true
	return false
}

// pauseOne has the gateway end a connection whose client can come back for the rest.
//
// A pause for a stream that nobody carries, or that has ended, must do nothing: it
// would hold up the next carrier, which has come to read.
func (w *world) pauseOne() {
	for _, s := range w.streams {
		if !s.kept || s.since > uint64(len(s.seen)) { // whoever has no id cannot come back
			continue
		}
		if (s.live == nil || s.ended) && w.src.Intn(8) > 0 || w.src.Intn(2) > 0 {
			continue
		}
		want := s.live != nil && !s.ended
		if got := s.real.Pause(time.Second); got != want {
			w.fail("I12", "%s is paused: %v, want %v", s.name, got, want)
		}
		if want {
			w.fault(Poll)
			s.pausing = true
			if s.of != nil {
				s.of.polled = true
			}
			if w.tell() {
				w.say("%s is paused", s.name)
			}
		}
		return
	}
}

// abortOne is a deadline, or the end of the gateway's patience, for some request.
func (w *world) abortOne() {
	if n := len(w.requests); n > 0 {
		if r := w.requests[w.src.Intn(n)]; r.on == nil {
			w.finish(r, true)
		}
	}
}

// trespass has a client name a session of somebody else.
func (w *world) trespass(c *client) {
	n := len(w.sessions)
	if n == 0 {
		return
	}
	s := w.sessions[w.src.Intn(n)]
	what := [...]errand{call, get, remove, answer, cancelled, initialized}[w.src.Intn(6)]
	if s.client.principal == c.principal {
		return
	}
	t := travel{what: what, from: c, principal: c.principal, sessID: s.real.ID, id: w.src.Intn(6)}
	if what == call || what == get {
		t.pipe = c.newPipe(w)
	}
	w.send(t)
}

// crash is the end of a client, with all its connections. It is back at once, and
// has forgotten everything.
//
// Without a word to anybody: its sessions stay until nobody misses them, and what
// was parked for its place ends at once, because no other client can have that
// place (M097).
func (c *client) crash(w *world) {
	w.fault(ClientCrash)
	for _, p := range c.pipes {
		w.breakPipe(p, 0)
		p.known = true
	}
	c.pipes, c.questions, c.cursors, c.states, c.sess = nil, nil, nil, nil, nil
	if w.tell() {
		w.say("%s crashes", c)
	}
	if c.place != 0 {
		for _, at := range w.replicas {
			w.leave(at.lot.DropPlace(c.place), func(j *journey) bool { return j.home == at && j.place == c.place })
		}
	}
}

// restart is the end of the gateway, and its next beginning: nothing is known any
// more, and clients find that out.
//
// Messages that are on their way still arrive, with names of sessions that nobody
// has given out. They must be unknown, however alike the names are that the gateway
// gives now (M074).
func (w *world) restart() {
	w.fault(GatewayCrash)
	if w.tell() {
		w.say("the gateway crashes")
	}
	for _, c := range w.clients {
		for _, p := range c.pipes {
			w.breakPipe(p, len(p.flow))
			p.known = true
		}
		c.pipes, c.opening = nil, false
	}
	for _, s := range w.sessions {
		s.listed, s.ended = false, true
		s.running, s.asks = nil, nil
	}
	for _, b := range w.backends {
		b.connect()
	}
	for _, r := range w.requests {
		if !r.over {
			r.over, r.cancelled = true, true
		}
	}
	w.before.requests += len(w.requests)
	w.journeys = nil
	w.requests, w.sessions, w.streams, w.calls = nil, nil, nil, nil
	w.threads = w.threads[:0]
	w.boot()
	for i := range w.travels {
		w.travels[i].to = w.replicas[w.travels[i].to.no]
	}
}

// standaloneSays has the Handler say something that belongs to no request.
func (w *world) standaloneSays() bool {
	n := len(w.sessions)
	if n == 0 {
		return false
	}
	s := w.sessions[w.src.Intn(n)]
	e := entry{sort: change, key: w.src.Intn(len(keys)), size: 8}
	switch n := w.src.Intn(11); {
	case n < 6:
	case n == 10:
		w.retract(s.standalone, e.key)
		return true
	case n < 8:
		e = entry{sort: log, size: w.drawSize()}
	case n < 9:
		e = entry{sort: plain, size: w.drawSize()}
	default:
		if a := w.putAsk(s.standalone, s); a != nil {
			w.spawn(&asking{a: a, sess: s, late: w.now.Add(askDelivery), patience: w.src.Intn(8)})
		}
		return true
	}
	if w.give(s.standalone, e) != nil {
		s.standalone.fulls = s.standalone.fulls[:len(s.standalone.fulls)-1] // it is dropped: nobody waits
	}
	return true
}

// retract takes back a change that nobody wants to hear of any more.
func (w *world) retract(s *stream, key int) {
	unwanted := func(pk packet) bool {
		return w.marks[pk.mark].at == s && w.entryOf(pk.mark).sort == change && w.entryOf(pk.mark).key == key
	}
	waiting, given := s.hasChange(key), slices.ContainsFunc(s.back, unwanted)
	want := waiting || given
	if got := s.real.Retract(keys[key]); got != want {
		w.fail("I9", "%s: a change is taken back: %v, want %v", s.name, got, want)
	}
	s.drop(func(e *entry) bool { return e.sort == change && e.key == key })
	s.back = slices.DeleteFunc(s.back, unwanted)
	if waiting {
		w.expectRoom(s)
	}
}
