// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// pipe is the response of one HTTP request: what the gateway writes into it, the
// client reads after a while, unless it breaks.
//
// left and known are two facts: the client has gone, and the gateway has noticed.
// All that is written between them is gone without an error, as with a connection
// whose other end was switched off. room is small, so that writers wait in the
// middle of what they took.
type pipe struct {
	client *client
	at     *stream
	flow   []packet // written and not read yet
	room   int      // packets that fit
	left   bool     // the client has gone
	known  bool     // and the gateway has noticed
	ended  bool     // nothing will be written any more
	whole  bool     // and the end was not a break
	stuck  time.Time
	pos    uint64 // of the last event that the client has
	event  string // its id, "" while it has none
	stray  bool   // it was asked for with an event id that was made up
}

// packet is one event, or one JSON body.
type packet struct {
	mark  mark
	no    int // of a question or a withdrawal
	sort  sort
	pos   uint64
	event string
}

// write puts a packet on its way. blocked means to try again when the client has
// read, failed that the connection is gone.
func (w *world) write(p *pipe, pk packet) (blocked, failed bool) {
	switch {
	case p.known:
		return false, true
	case p.left: // the system takes it, and it goes nowhere
		return false, false
	case len(p.flow) >= p.room:
		if p.stuck.IsZero() {
			p.stuck = w.now
		}
		if w.now.Sub(p.stuck) >= writeTimeout {
			w.fault(Stall)
			w.breakPipe(p, 0)
			p.known = true
			return false, true
		}
		return true, false
	}
	p.stuck = time.Time{}
	p.flow = append(p.flow, pk)
	return false, false
}

const writeTimeout = 10 * time.Second

// breakPipe is the end of a connection: the client still gets what is among the
// first packets that were under way.
func (w *world) breakPipe(p *pipe, arrives int) {
	if p.left {
		return
	}
	for range min(arrives, len(p.flow)) {
		w.clientReads(p)
	}
	p.left = true
	p.flow = nil
}

// writer is the goroutine of an HTTP response: it carries a stream.
//
// Its phases are the waits of the real one. What must not happen between them is
// most of what this package looks for: a carrier that was superseded while it
// wrote, a stream that ended while its form was open, a client that went while the
// last bytes were in a buffer.
type writer struct {
	at      *stream
	c       *session.Consumer
	wake    chan struct{}
	pipe    *pipe
	pos     uint64  // that it has taken last
	prime   *packet // to be written before everything else
	resumed bool    // it carries the rest of what another has begun
	missed  int     // what its client is to be told of first; see stream.missed
	batch   []session.Message
	i       int
	state   session.State
	phase   phase
	grace   time.Time // when the form of the answer must be decided
	form    session.Form
	flush   time.Time // when the system has taken the last of it; zero: at once
	onGone  func(w *world)
}

// phase is what a writer is about to do.
type phase uint8

const (
	begins  phase = iota // makes the stream one to come back to
	decides              // waits until it is clear what form the answer has
	takes                // takes from the stream
	writes               // writes what it took
	listens              // waits to be woken
)

func (t *writer) ready(w *world) bool {
	switch t.phase {
	case decides:
		return len(t.wake) > 0 || t.pipe.known || !w.now.Before(t.grace)
	case listens:
		return len(t.wake) > 0 || t.pipe.known
	case writes:
		p := t.pipe
		if t.prime == nil && t.i >= len(t.batch) && !t.flush.IsZero() {
			return p.known || !w.now.Before(t.flush)
		}
		return t.i >= len(t.batch) || p.left || len(p.flow) < p.room || w.now.Sub(p.stuck) >= writeTimeout
	default:
		return true
	}
}

func (t *writer) run(w *world) bool {
	switch t.phase {
	case begins:
		t.phase = takes
		t.keep(w)
		return true
	case decides:
		return t.decide(w)
	case takes:
		t.take(w)
		return true
	case writes:
		return t.write(w)
	default:
		if len(t.wake) > 0 {
			<-t.wake
			t.phase = takes
			return true
		}
		return t.leave(w, true)
	}
}

// attach makes the writer the carrier of its stream.
//
// The older carrier must be woken by it. It may sleep on a connection of which it
// does not know that it is dead, and hold it for ever else (M062, M131).
func (w *world) attach(t *writer, c *session.Consumer) {
	if old := t.at.live; old != nil && old != t && len(old.wake) == 0 {
		w.fail("I12", "%s was taken over, and its old carrier is not woken", t.at.name)
	}
	if t.at.live == nil && t.at.sess != nil {
		t.at.sess.carriers++
	}
	s := t.at
	if c.Missed() != (s.missed != 0 && !t.resumed) {
		w.fail("I33", "%s is carried, something was missed: %d, and that is said to be %v", s.name, s.missed, c.Missed())
	}
	if !t.resumed {
		t.missed = s.missed
		w.settleBack(s)
		t.pos = uint64(len(s.seen))
	}
	t.pipe.at, t.pipe.pos = s, t.pos
	if w.tell() {
		w.say("%s is carried, behind %d", s.name, t.pos)
	}
	t.c = c
	s.live = t
	s.open++
	s.pausing = false
	s.clock = time.Time{}
	w.spawn(t)
}

func (t *writer) decide(w *world) bool {
	force := false
	switch {
	case len(t.wake) > 0:
		<-t.wake
	case t.pipe.known:
		return t.leave(w, true)
	default:
		force = true
	}
	t.settle(w, force)
	return true
}

// settle asks for the form of the answer, and holds it against what was appended.
//
// The form is chosen once, from what this exchange has said by now, and never from
// what the session did before (M033, M035). It is asked for again right after that
// and at the end, because an answer that begins as one and goes on as the other can
// be read by nobody.
func (t *writer) settle(w *world, force bool) {
	r := t.at.of
	form := r.x.Form(force)
	sure, most, end := t.at.content()
	switch form {
	case session.JSON:
		if !end || sure != 1 {
			w.fail("I7", "%s is answered as JSON with %d messages, its terminal among them: %v", r, sure, end)
		}
	case session.SSE:
		if end && most == 1 && !force {
			w.fail("I7", "%s is answered as a stream, and has nothing but its terminal", r)
		}
		if most == 0 && !force && !t.at.ended {
			w.fail("I7", "%s is answered as a stream, and nothing is there", r)
		}
	default:
		if force || sure > 0 && !t.at.held {
			w.fail("I7", "%s has %d messages, and its form is not decided", r, sure)
		}
		return
	}
	t.phase, t.form = takes, form
	if form == session.SSE {
		t.keep(w)
	}
	if again := r.x.Form(false); again != form {
		w.fail("I7", "%s changes its form from %v to %v", r, form, again)
	}
	t.pipe.room = max(t.pipe.room, 1)
	if w.tell() {
		w.say("%s is answered in form %d", r, form)
	}
}

// keep makes the stream one to which the client can come back, if it knows how to.
//
// Whether there is something to come back to is decided while another connection
// may take the stream over: who was superseded must not make it one that is kept,
// nor give out an id for it.
func (t *writer) keep(w *world) {
	s := t.at
	if s.sess == nil || !s.sess.client.resumes {
		return
	}
	t.c.MakeResumable()
	switch {
	case s.live != t: // superseded meanwhile
		if id := t.c.Prime(); !id.IsZero() || t.c.IsSpent() {
			w.fail("I12", "%s: a carrier that was superseded begins with %s", s.name, id)
		}
		return
	case !s.kept && !s.lost && !s.sess.ended:
		s.kept = true
		s.since = uint64(len(s.seen)) + 1
		s.noteEnd()
	}
	if t.isSpent(w) || !s.sess.client.primed {
		return
	}
	id := t.c.Prime()
	if id.IsZero() == s.kept || s.kept && id.Pos != t.pos {
		w.fail("I14", "%s begins at %d with the id %s, is kept: %v", s.name, t.pos, id, s.kept)
	}
	if s.kept {
		w.checkNumber(s, id.Stream)
		s.since = min(s.since, t.pos)
		t.prime = &packet{pos: t.pos, event: id.String()}
		t.phase = writes
	}
}

// isSpent reports whether a carrier has nothing to take and never will.
func (t *writer) isSpent(w *world) bool {
	s := t.at
	most, sure := s.loads()
	spent := t.c.IsSpent()
	if rest := t.pos < uint64(len(s.seen)) || !s.ended; spent && (rest || sure.count > 0) || !spent && !rest && most.count == 0 {
		w.fail("I10", "%s: its carrier has nothing to expect: %v", s.name, spent)
	}
	return spent
}

// content returns how many messages a stream has had that were not taken back, for
// certain and at most, and whether the terminal is one.
func (s *stream) content() (sure, most int, end bool) {
	for i := range s.entries {
		e := &s.entries[i]
		if e.fate == gone || e.late {
			continue
		}
		most++
		if e.may && e.fate == waits {
			continue
		}
		sure++
		end = end || e.sort == terminal
	}
	return sure, most, end
}

func (t *writer) take(w *world) {
	s := t.at
	t.makeGood()
	t.batch, t.state = t.c.Take(t.batch[:0])
	t.i = 0
	t.phase = writes
	if s.live != t {
		if t.state != session.Revoked || len(t.batch) > 0 {
			w.fail("I12", "%s: a carrier that was superseded takes %d messages, state %d", s.name, len(t.batch), t.state)
		}
		return
	}
	if t.state == session.Revoked {
		w.fail("I12", "%s: its one carrier was revoked", s.name)
		return
	}
	if len(t.batch) == 0 && t.state == session.Open && (s.waiting() || t.pos < uint64(len(s.seen))) {
		w.fail("I10", "%s gives nothing to its carrier, and something waits", s.name)
	}
	w.took(t, t.batch, t.state)
	if t.state == session.Paused && t.c.Retry() != time.Second {
		w.fail("I12", "%s is paused for %v, want a second", s.name, t.c.Retry())
	}
}

// makeGood tells the client what may have changed in what it missed. One that leaves
// before has not been told.
func (t *writer) makeGood() {
	if t.missed == 0 {
		return
	}
	if t.at.missed == t.missed {
		t.at.missed = 0
	}
	t.missed = 0
	t.c.ClearMissed()
}

// write writes the next message of the batch.
func (t *writer) write(w *world) bool {
	if t.prime != nil {
		blocked, failed := w.write(t.pipe, *t.prime)
		if failed {
			return t.leave(w, true)
		}
		if !blocked {
			t.prime = nil
			t.phase = takes
		}
		return true
	}
	if t.i < len(t.batch) {
		pk := w.packet(t.at, &t.batch[t.i])
		blocked, failed := w.write(t.pipe, pk)
		switch {
		case failed:
			return t.leave(w, true)
		case !blocked:
			t.i++
		}
		return true
	}
	if t.state == session.Ended && t.flush.IsZero() && !w.calm && w.src.OneIn(t.at.lingers()) {
		t.flush = w.now.Add(time.Duration(1+5*w.src.Intn(3)) * time.Second)
		return true
	}
	switch {
	case t.state != session.Revoked && t.pipe.known: // the last of it may have arrived all the same
		return t.leave(w, true)
	case t.state != session.Open:
		t.pipe.ended, t.pipe.whole = true, t.state == session.Ended
		return t.leave(w, t.state == session.Revoked)
	case len(t.batch) > 0:
		t.phase = takes
		w.shed.due = w.shed.due || t.at.kept && w.rules.Logs.IsFull()
	default:
		t.phase = listens
	}
	return true
}

// lingers: once in so many times the system is slow to take the last of a stream. A
// client that is asked by it may be back before that.
func (s *stream) lingers() int {
	if s.of != nil && s.of.state != nil {
		return 2
	}
	return 4
}

// packet makes what goes over the wire of a message.
func (w *world) packet(s *stream, m *session.Message) packet {
	if n := readMark(m.Head); n != 0 && int(n) < len(w.marks) && w.marks[n].at != nil {
		o := w.marks[n]
		return packet{mark: n, sort: o.at.entries[o.index].sort, pos: m.Pos, event: eventOf(m)}
	}
	sort, no := madeByMachine(m.Head)
	pk := packet{no: no, sort: sort, pos: m.Pos, event: eventOf(m)}
	if i := int(m.Pos) - 1; i >= 0 && i < len(s.seen) {
		pk.mark = s.seen[i]
	}
	return pk
}

func eventOf(m *session.Message) string {
	if id := m.Event(); !id.IsZero() {
		return id.String()
	}
	return ""
}

// leave is the end of the goroutine: what it took and did not write goes back, and
// with it the right to carry.
//
// First what was not written goes back, then the right to carry. The other way
// round somebody could carry the stream in between, and what goes back would come
// behind what he took.
func (t *writer) leave(w *world, cut bool) bool {
	s := t.at
	if t.form != session.Undecided && s.of.x.Form(true) != t.form {
		w.fail("I7", "%s was answered in form %d, and its form is another now", s.of, t.form)
	}
	if t.i < len(t.batch) || t.pipe.known && len(t.batch) > 0 && !t.pipe.ended {
		t.c.Requeue(t.batch)
		w.returned(t, t.batch)
		cut = true
	}
	t.pipe.ended = true
	t.c.Detach()
	w.detached(s, t)
	if s.sess != nil && !w.src.OneIn(3) { // a batch looks when all of it is over
		w.retires(s.sess)
	}
	if cut && t.onGone != nil {
		t.onGone(w)
	}
	return false
}

// retires has the time begin for which streams are kept that have ended, as the product
// does when it has written all that it can.
func (w *world) retires(s *sess) {
	var want time.Time
	for _, st := range w.streams {
		if w.clocked(s, st) && st.real.IsAway() {
			want = w.now.Add(w.set.limits.LogKeep)
		}
	}
	if until := s.real.Retire(w.now); !until.Equal(want) {
		w.fail("I14", "what has ended of %s is kept until %v, want %v", s, until, want)
	}
}

// returned notes what was given back. Where a client can come back nothing is lost
// by it; of the standalone stream only who comes back gets it as it was.
//
// All of the batch goes back, also what was written of it: how much of that has
// arrived, nobody on this side knows. That is why nothing but changes may be told
// again to a client that cannot name its place.
func (w *world) returned(t *writer, batch []session.Message) {
	s := t.at
	var back []packet
	for i := range batch {
		back = append(back, w.packet(s, &batch[i]))
	}
	if w.tell() {
		w.say("%s gets %d messages back, behind %d", s.name, len(back), t.pos)
	}
	switch {
	case !s.kept:
		w.takeBack(s, back)
	case s.of != nil, s.live != nil && s.live.resumed:
	case s.live == nil || s.live == t:
		s.back = append(s.back, back...)
	default:
		w.takeBack(s, back)
	}
}

// settleBack: whoever begins anew has not asked for what was given back.
func (w *world) settleBack(s *stream) {
	back := s.back
	s.back = nil
	w.takeBack(s, back)
}

// takeBack: changes are still to be told, all else is lost.
func (w *world) takeBack(s *stream, back []packet) {
	for _, pk := range back {
		if w.marks[pk.mark].at != s {
			continue
		}
		e := *w.entryOf(pk.mark)
		switch {
		case e.sort == question:
			w.askLost(s, e.key)
		case e.sort == change && s.of == nil && !s.ended && !s.hasChange(e.key):
			e.fate, e.front = waits, true
			w.add(s, e)
		}
	}
}

// askLost notes that a question will never reach its client.
func (w *world) askLost(s *stream, no int) {
	if s.sess == nil {
		return
	}
	for _, a := range s.sess.asks {
		if a.no == no && a.at == s {
			w.askEnded(s.sess, a, session.Terminal{Err: session.ErrNoReceiver})
			return
		}
	}
}

// detached notes that a carrier has gone.
func (w *world) detached(s *stream, t *writer) {
	s.open--
	if s.live != t {
		return
	}
	s.live = nil
	s.pausing = false
	if s.sess != nil {
		s.sess.carriers--
	}
	switch {
	case s.of == nil && s.ended:
		s.drop(all) // no carrier comes after it
	case s.of == nil:
	case s.kept && s.since <= uint64(len(s.seen)):
		w.expectRoom(s) // nobody waits for a client that is away
	default:
		w.lose(s)
	}
	lost, away := s.real.IsLost(), s.real.IsAway()
	if lost != s.lost || lost && away || !lost && !s.tight && away != s.isAway() {
		w.fail("I25", "%s is carried no more, lost: %v, and waits for its client: %v", s.name, lost, away)
	}
}

// lose notes that nobody will ever take what a stream has.
//
// Whoever waits, for room or for an answer, waits for a client that will not come:
// all of them are to hear of it at once (M151).
func (w *world) lose(s *stream) {
	s.lost = true
	for i := s.first; i < len(s.entries); i++ {
		if e := &s.entries[i]; e.sort == question && e.fate == waits {
			w.askLost(s, e.key)
		}
	}
	s.drop(func(e *entry) bool { return !e.late })
	w.expectRoom(s)
}
