// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// response is the response of one HTTP request: the client reads later what the gateway
// writes, unless it breaks.
//
// left and known are separate: the client has disconnected, and the gateway has noticed.
// What is written between the two is lost without an error, as with a peer that was
// switched off. capacity is small, so that writers block in the middle of a batch.
type response struct {
	client   *client
	at       *stream
	unread   []packet // written and not read yet
	capacity int      // in packets
	left     bool     // the client has disconnected
	known    bool     // and the gateway has noticed
	ended    bool     // nothing will be written any more
	whole    bool     // and the end was regular
	stuck    time.Time
	pos      uint64 // of the last event that the client has
	event    string // the id of that event, "" for none
	stray    bool   // requested with a made-up event id
}

// packet is one event, or one JSON body.
type packet struct {
	mark  mark
	no    int // of a question or a withdrawal
	kind  kind
	pos   uint64
	event string
}

// writePacket writes a packet. blocked means that the caller must retry when the client has
// read, failed that the connection is gone.
func (w *world) writePacket(p *response, pk packet) (blocked, failed bool) {
	switch {
	case p.known:
		return false, true
	case p.left: // the system takes it, and it goes nowhere
		return false, false
	case len(p.unread) >= p.capacity:
		if p.stuck.IsZero() {
			p.stuck = w.now
		}
		if w.now.Sub(p.stuck) >= writeTimeout {
			w.fault(Stall)
			w.breakResponse(p, 0)
			p.known = true
			return false, true
		}
		return true, false
	}
	p.stuck = time.Time{}
	p.unread = append(p.unread, pk)
	return false, false
}

const writeTimeout = 10 * time.Second

// breakResponse breaks a connection. The client still receives the first arrives packets in
// transit.
func (w *world) breakResponse(p *response, arrives int) {
	if p.left {
		return
	}
	for range min(arrives, len(p.unread)) {
		w.clientReads(p)
	}
	p.left = true
	p.unread = nil
}

// writer is the goroutine of an HTTP response, which consumes a stream.
//
// Its phases are the waits of the real goroutine. Most bugs that this package looks for
// happen between them: a consumer superseded while it writes, a stream that ends before its
// form is decided, a client that disconnects while the last bytes are buffered.
type writer struct {
	stream   *stream
	consumer *session.Consumer
	wake     chan struct{}
	response *response
	pos      uint64  // of the message that was taken last
	prime    *packet // to be written before everything else
	resumed  bool    // it continues the stream of another writer
	missed   int     // the refusal to make up for first; see stream.missed
	batch    []session.Message
	i        int
	state    session.State
	phase    phase
	grace    time.Time // when the form of the answer must be decided
	form     session.Form
	flush    time.Time // when the system has accepted the last bytes; zero: at once
	onGone   func(w *world)
}

// phase is the next action of a writer.
type phase uint8

const (
	phaseStart phase = iota // makes the stream resumable
	phaseForm               // waits until the form of the answer is decided
	phaseTake               // takes from the stream
	phaseWrite              // writes what it took
	phaseWait               // waits for a wake-up
)

func (t *writer) ready(w *world) bool {
	switch t.phase {
	case phaseForm:
		return len(t.wake) > 0 || t.response.known || !w.now.Before(t.grace)
	case phaseWait:
		return len(t.wake) > 0 || t.response.known
	case phaseWrite:
		p := t.response
		if t.prime == nil && t.i >= len(t.batch) && !t.flush.IsZero() {
			return p.known || !w.now.Before(t.flush)
		}
		return t.i >= len(t.batch) || p.left || len(p.unread) < p.capacity || w.now.Sub(p.stuck) >= writeTimeout
	default:
		return true
	}
}

func (t *writer) run(w *world) bool {
	switch t.phase {
	case phaseStart:
		t.phase = phaseTake
		t.makeResumable(w)
		return true
	case phaseForm:
		return t.decide(w)
	case phaseTake:
		t.take(w)
		return true
	case phaseWrite:
		return t.write(w)
	default:
		if len(t.wake) > 0 {
			<-t.wake
			t.phase = phaseTake
			return true
		}
		return t.exit(w, true)
	}
}

// attach makes the writer the consumer of its stream.
//
// The older consumer must be woken. Otherwise it may wait forever on a dead connection that
// it holds (M062, M131).
func (w *world) attach(t *writer, c *session.Consumer) {
	if old := t.stream.writer; old != nil && old != t && len(old.wake) == 0 {
		w.fail("I12", "%s was taken over, and its old consumer is not woken", t.stream.name)
	}
	if t.stream.writer == nil && t.stream.sess != nil {
		t.stream.sess.consumers++
	}
	s := t.stream
	if c.Missed() != (s.missed != 0 && !t.resumed) {
		w.fail("I33", "%s has a new consumer, missed: %d, reported: %v", s.name, s.missed, c.Missed())
	}
	if !t.resumed {
		t.missed = s.missed
		w.settleRequeued(s)
		t.pos = uint64(len(s.positions))
	}
	t.response.at, t.response.pos = s, t.pos
	if w.tracing() {
		w.logf("%s has a consumer, after %d", s.name, t.pos)
	}
	t.consumer = c
	s.writer = t
	s.attached++
	s.pausing = false
	s.retainedFrom = time.Time{}
	w.spawn(t)
}

func (t *writer) decide(w *world) bool {
	force := false
	switch {
	case len(t.wake) > 0:
		<-t.wake
	case t.response.known:
		return t.exit(w, true)
	default:
		force = true
	}
	t.decideForm(w, force)
	return true
}

// decideForm decides the form of the answer, and checks it against what was appended.
//
// The form depends only on the messages of this exchange so far, never on earlier ones of
// the session (M033, M035). It is queried again right away and at the end, because no
// client can read an answer that changes its form.
func (t *writer) decideForm(w *world, force bool) {
	r := t.stream.of
	form := r.x.Form(force)
	sure, most, end := t.stream.content()
	switch form {
	case session.JSON:
		if !end || sure != 1 {
			w.fail("I7", "%s is answered as JSON with %d messages, its terminal among them: %v", r, sure, end)
		}
	case session.SSE:
		if end && most == 1 && !force {
			w.fail("I7", "%s is answered as a stream with its terminal only", r)
		}
		if most == 0 && !force && !t.stream.ended {
			w.fail("I7", "%s is answered as a stream without a message", r)
		}
	default:
		if force || sure > 0 && !t.stream.held {
			w.fail("I7", "%s has %d messages, and its form is not decided", r, sure)
		}
		return
	}
	t.phase, t.form = phaseTake, form
	if form == session.SSE {
		t.makeResumable(w)
	}
	if again := r.x.Form(false); again != form {
		w.fail("I7", "%s changes its form from %v to %v", r, form, again)
	}
	t.response.capacity = max(t.response.capacity, 1)
	if w.tracing() {
		w.logf("%s is answered in form %d", r, form)
	}
}

// makeResumable makes the stream resumable, if the client supports it.
//
// Another connection may take over the stream at the same time: a superseded consumer must
// neither make it resumable nor issue an id for it.
func (t *writer) makeResumable(w *world) {
	s := t.stream
	if s.sess == nil || !s.sess.client.resumes {
		return
	}
	t.consumer.MakeResumable()
	switch {
	case s.writer != t: // superseded meanwhile
		if id := t.consumer.PrimingID(); !id.IsZero() || t.consumer.IsSpent() {
			w.fail("I12", "%s: a superseded consumer begins with %s", s.name, id)
		}
		return
	case !s.resumable && !s.lost && !s.sess.ended:
		s.resumable = true
		s.firstID = uint64(len(s.positions)) + 1
		s.noteEnd()
	}
	if t.isSpent(w) || !s.sess.client.primed {
		return
	}
	id := t.consumer.PrimingID()
	if id.IsZero() == s.resumable || s.resumable && id.Pos != t.pos {
		w.fail("I14", "%s begins at %d with the id %s, resumable: %v", s.name, t.pos, id, s.resumable)
	}
	if s.resumable {
		w.checkNumber(s, id.Stream)
		s.firstID = min(s.firstID, t.pos)
		t.prime = &packet{pos: t.pos, event: id.String()}
		t.phase = phaseWrite
	}
}

// isSpent reports whether a consumer has nothing to take and never will.
func (t *writer) isSpent(w *world) bool {
	s := t.stream
	most, sure := s.loads()
	spent := t.consumer.IsSpent()
	if rest := t.pos < uint64(len(s.positions)) || !s.ended; spent && (rest || sure.count > 0) || !spent && !rest && most.count == 0 {
		w.fail("I10", "%s: IsSpent = %v", s.name, spent)
	}
	return spent
}

// content returns how many messages of a stream were not dropped, certainly and at most,
// and whether the terminal is one of them.
func (s *stream) content() (sure, most int, end bool) {
	for i := range s.entries {
		e := &s.entries[i]
		if e.fate == dropped || e.deferred {
			continue
		}
		most++
		if e.optional && e.fate == queued {
			continue
		}
		sure++
		end = end || e.kind == terminal
	}
	return sure, most, end
}

func (t *writer) take(w *world) {
	s := t.stream
	t.clearMissed()
	t.batch, t.state = t.consumer.Take(t.batch[:0])
	t.i = 0
	t.phase = phaseWrite
	if s.writer != t {
		if t.state != session.Revoked || len(t.batch) > 0 {
			w.fail("I12", "%s: a superseded consumer takes %d messages, state %d", s.name, len(t.batch), t.state)
		}
		return
	}
	if t.state == session.Revoked {
		w.fail("I12", "%s: its only consumer was revoked", s.name)
		return
	}
	if len(t.batch) == 0 && t.state == session.Open && (s.hasQueued() || t.pos < uint64(len(s.positions))) {
		w.fail("I10", "%s returns nothing to its consumer, and a message is queued", s.name)
	}
	w.checkTaken(t, t.batch, t.state)
	if t.state == session.Paused && t.consumer.Retry() != time.Second {
		w.fail("I12", "%s is paused for %v, want a second", s.name, t.consumer.Retry())
	}
}

// clearMissed sends the client what may have changed in the messages it missed. A client
// that disconnects before that was not informed.
func (t *writer) clearMissed() {
	if t.missed == 0 {
		return
	}
	if t.stream.missed == t.missed {
		t.stream.missed = 0
	}
	t.missed = 0
	t.consumer.ClearMissed()
}

// write writes the next message of the batch.
func (t *writer) write(w *world) bool {
	if t.prime != nil {
		blocked, failed := w.writePacket(t.response, *t.prime)
		if failed {
			return t.exit(w, true)
		}
		if !blocked {
			t.prime = nil
			t.phase = phaseTake
		}
		return true
	}
	if t.i < len(t.batch) {
		pk := w.packet(t.stream, &t.batch[t.i])
		blocked, failed := w.writePacket(t.response, pk)
		switch {
		case failed:
			return t.exit(w, true)
		case !blocked:
			t.i++
		}
		return true
	}
	if t.state == session.Ended && t.flush.IsZero() && !w.quiescing && w.src.OneIn(t.stream.lingerOdds()) {
		t.flush = w.now.Add(time.Duration(1+5*w.src.Intn(3)) * time.Second)
		return true
	}
	switch {
	case t.state != session.Revoked && t.response.known: // the last bytes may have arrived all the same
		return t.exit(w, true)
	case t.state != session.Open:
		t.response.ended, t.response.whole = true, t.state == session.Ended
		return t.exit(w, t.state == session.Revoked)
	case len(t.batch) > 0:
		t.phase = phaseTake
		w.trimmer.due = w.trimmer.due || t.stream.resumable && w.rules.Logs.IsFull()
	default:
		t.phase = phaseWait
	}
	return true
}

// lingerOdds returns n, if in one of n cases the system is slow to accept the last bytes of
// a stream. A client that is asked for input may retry before that.
func (s *stream) lingerOdds() int {
	if s.of != nil && s.of.state != nil {
		return 2
	}
	return 4
}

// packet returns the packet of a message.
func (w *world) packet(s *stream, m *session.Message) packet {
	if n := readMark(m.Head); n != 0 && int(n) < len(w.marks) && w.marks[n].at != nil {
		o := w.marks[n]
		return packet{mark: n, kind: o.at.entries[o.index].kind, pos: m.Pos, event: eventOf(m)}
	}
	kind, no := parseGenerated(m.Head)
	pk := packet{no: no, kind: kind, pos: m.Pos, event: eventOf(m)}
	if i := int(m.Pos) - 1; i >= 0 && i < len(s.positions) {
		pk.mark = s.positions[i]
	}
	return pk
}

func eventOf(m *session.Message) string {
	if id := m.Event(); !id.IsZero() {
		return id.String()
	}
	return ""
}

// exit ends the goroutine.
//
// Messages that were not written are requeued before Detach. In the opposite order another
// consumer could attach in between, and the requeued messages would follow those that it
// took.
func (t *writer) exit(w *world, cut bool) bool {
	s := t.stream
	if t.form != session.Undecided && s.of.x.Form(true) != t.form {
		w.fail("I7", "%s was answered in form %d, and its form is another now", s.of, t.form)
	}
	if t.i < len(t.batch) || t.response.known && len(t.batch) > 0 && !t.response.ended {
		t.consumer.Requeue(t.batch)
		w.requeued(t, t.batch)
		cut = true
	}
	t.response.ended = true
	t.consumer.Detach()
	w.detached(s, t)
	if s.sess != nil && !w.src.OneIn(3) { // a batch does this when all of it has ended
		w.retire(s.sess)
	}
	if cut && t.onGone != nil {
		t.onGone(w)
	}
	return false
}

// retire begins the retention of streams that have ended, as the product does when it has
// written all it can.
func (w *world) retire(s *sess) {
	var want time.Time
	for _, st := range w.streams {
		if w.startRetention(s, st) && st.real.IsAway() {
			want = w.now.Add(w.set.limits.LogKeep)
		}
	}
	if until := s.real.Retire(w.now); !until.Equal(want) {
		w.fail("I14", "the ended streams of %s are retained until %v, want %v", s, until, want)
	}
}

// requeued records what was requeued. On a resumable stream nothing is lost by it; on the
// standalone stream only a client that resumes gets all of it.
//
// The whole batch is requeued, including what was written, because it is unknown how much
// of that has arrived. This is why only changes may be sent again to a client that does not
// resume.
func (w *world) requeued(t *writer, batch []session.Message) {
	s := t.stream
	var back []packet
	for i := range batch {
		back = append(back, w.packet(s, &batch[i]))
	}
	if w.tracing() {
		w.logf("%s gets %d messages requeued, after %d", s.name, len(back), t.pos)
	}
	switch {
	case !s.resumable:
		w.requeue(s, back)
	case s.of != nil, s.writer != nil && s.writer.resumed:
	case s.writer == nil || s.writer == t:
		s.requeued = append(s.requeued, back...)
	default:
		w.requeue(s, back)
	}
}

// settleRequeued handles a consumer that begins anew: it did not resume from the requeued
// messages.
func (w *world) settleRequeued(s *stream) {
	back := s.requeued
	s.requeued = nil
	w.requeue(s, back)
}

// requeue queues changes again; other messages are lost.
func (w *world) requeue(s *stream, back []packet) {
	for _, pk := range back {
		if w.marks[pk.mark].at != s {
			continue
		}
		e := *w.entryOf(pk.mark)
		switch {
		case e.kind == question:
			w.askLost(s, e.key)
		case e.kind == change && s.of == nil && !s.ended && !s.hasChange(e.key):
			e.fate, e.front = queued, true
			w.add(s, e)
		}
	}
}

// askLost records that a question will never reach its client.
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

// detached records that a consumer has detached.
func (w *world) detached(s *stream, t *writer) {
	s.attached--
	if s.writer != t {
		return
	}
	s.writer = nil
	s.pausing = false
	if s.sess != nil {
		s.sess.consumers--
	}
	switch {
	case s.of == nil && s.ended:
		s.drop(all) // no consumer follows
	case s.of == nil:
	case s.resumable && s.firstID <= uint64(len(s.positions)):
		w.expectSpace(s) // no sender waits for a client that is away
	default:
		w.streamLost(s)
	}
	lost, away := s.real.IsLost(), s.real.IsAway()
	if lost != s.lost || lost && away || !lost && !s.trimmable && away != s.isAway() {
		w.fail("I25", "%s has no consumer, lost: %v, away: %v", s.name, lost, away)
	}
}

// streamLost records that the queue of a stream will never be taken.
//
// A thread that waits for space or for an answer waits for a client that does not return:
// all of them must be woken at once (M151).
func (w *world) streamLost(s *stream) {
	s.lost = true
	for i := s.firstQueued; i < len(s.entries); i++ {
		if e := &s.entries[i]; e.kind == question && e.fate == queued {
			w.askLost(s, e.key)
		}
	}
	s.drop(func(e *entry) bool { return !e.deferred })
	w.expectSpace(s)
}
