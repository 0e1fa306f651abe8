// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// travel is a message of a client on its way to the gateway.
//
// It is on its way for as long as it is not drawn: that two requests of a client
// arrive in another order than they were sent is usual over HTTP, where each has a
// connection of its own.
type travel struct {
	what      errand
	from      *client
	to        *replica
	principal string
	sessID    string
	id        int // of a request, a cancellation or an answer
	pipe      *pipe
	script    int // what is to become of a request
	place     uint64
	state     *state // that a retry brings
	method    string // of a retry
	event     string // the last event id that a client names; "" where it begins anew
}

// errand is what a message is about.
type errand uint8

const (
	initialize errand = iota
	initialized
	call
	note
	cancelled
	answer
	get
	remove
	modernCall
	modernListen
	modernRetry
)

var errandNames = [...]string{"initialize", "initialized", "request", "notification", "cancelled", "answer", "GET", "DELETE", "modern request", "modern listen", "retry"} //nolint:gochecknoglobals // it is never changed

// send puts a message on its way.
func (w *world) send(t travel) {
	t.to = w.route(&t)
	w.travels = append(w.travels, t)
	if w.tell() {
		w.say("%s sends %s %d of %s", t.from, errandNames[t.what], t.id, t.sessID)
	}
}

// arriveOne has one of the messages arrive that are under way.
//
// What is dropped ends the connection that it came by, and its client sees that. An
// initialize or a request with a stream is not doubled: a client that sends it
// again gives it another id, or another connection.
func (w *world) arriveOne() bool {
	n := len(w.travels)
	if n == 0 {
		return false
	}
	at := 0
	if w.set.allows(Delay) && !w.calm {
		at = w.src.Intn(n)
		if at > 0 {
			w.fault(Delay)
		}
	}
	t := w.travels[at]
	switch {
	case !w.calm && w.set.allows(Duplicate) && w.src.OneIn(12) && t.what != initialize && t.pipe == nil:
		w.fault(Duplicate)
	case !w.calm && w.set.allows(Drop) && w.src.OneIn(12):
		w.fault(Drop)
		t.from.opening = t.from.opening && t.what != initialize
		w.travels = append(w.travels[:at], w.travels[at+1:]...)
		if t.pipe != nil {
			t.pipe.left, t.pipe.known, t.pipe.ended = true, true, true
		}
		return true
	default:
		w.travels = append(w.travels[:at], w.travels[at+1:]...)
	}
	w.spawn(&visit{travel: t})
	return true
}

// visit is the goroutine of a message that has arrived. It looks the session up,
// and only then does what the message is about: other things may happen between
// the two.
type visit struct {
	travel

	found     bool
	sess      *sess
	questions []*session.Question // that the request waits with which a retry is for
	asks      []*ponder           // those that it has to answer
}

func (t *visit) ready(*world) bool { return true }

func (t *visit) run(w *world) bool {
	switch {
	case t.what == initialize:
		return t.open(w)
	case t.what == modernCall || t.what == modernListen:
		w.beginAlone(t)
		return false
	case t.what == modernRetry:
		return t.comesBack(w)
	case !t.found:
		t.found = true
		t.sess = w.lookUp(t.to, t.sessID, t.principal)
		if t.sess == nil {
			t.turnAway()
			t.from.unlearns(t.sessID)
			return false
		}
		if t.sess.home != t.to {
			w.fail("I22", "%s is served by a replica that it does not belong to", t.sess)
		}
		return true
	}
	switch t.what {
	case call, note:
		w.begin(t)
	case get:
		if t.event != "" {
			w.resume(t)
		} else {
			w.openStandalone(t)
		}
	case cancelled:
		w.cancelByID(t.sess, t.id)
	case answer:
		w.answered(t.sess, t.id)
	case initialized:
		w.initialized(t.sess)
	case remove:
		w.end(t.sess)
		if t.sess.standalone.live != nil { // a client may cease to want something at this moment
			w.retract(t.sess.standalone, w.src.Intn(len(keys)))
		}
	default:
	}
	return false
}

// turnAway answers a request with a refusal.
func (t *visit) turnAway() {
	if t.pipe != nil {
		t.pipe.ended, t.pipe.whole = true, true
	}
}

// open serves initialize: a session is published when it is complete.
//
// There is a step between making a session and publishing it. Whatever finds it in
// between finds it half made, and a request that is served by it runs before its
// handshake has an answer (M086).
func (t *visit) open(w *world) bool {
	if t.sess == nil {
		t.sess = w.newSess(t.from, t.to)
		return true
	}
	if w.publish(t.sess) {
		t.from.learns(w, t.sess)
	} else {
		t.from.opening = false
	}
	return false
}

func (w *world) initialized(s *sess) {
	news := s.real.Initialized()
	if news != (!s.ready && !s.ended) {
		w.fail("I34", "%s becomes ready: %v, was ready: %v, has ended: %v", s, news, s.ready, s.ended)
	}
	if s.ended {
		return
	}
	s.ready = true
	s.standalone.held = false
}

// begin serves a request of a session.
//
// The session may have ended since it was looked up. That is the race of M101: the
// table has said yes, and the session itself must say no.
func (w *world) begin(t *visit) {
	s := t.sess
	r := &request{no: len(w.requests), client: t.from, sess: s, id: idOf(t.id), late: -1, pipe: t.pipe, isNote: t.what == note}
	if r.isNote {
		r.id = mcp.ID{}
	}
	if !r.isNote && !s.ended && !w.mayBegin(t.from.principal) {
		t.turnAway()
		return
	}
	x, err := s.real.Begin(r.id, session.StopFunc(w.stop(r)))
	var want error
	switch {
	case s.ended:
		want = session.ErrEnded
	case w.running(s, r.id) != nil:
		want = session.ErrDuplicate
		w.fault(DuplicateID)
	case len(s.running) >= w.set.limits.Exchanges:
		want = session.ErrTooMany
		w.fault(LimitHit)
	}
	if !errors.Is(err, want) {
		w.fail("I5", "%s begins a request of id %s: %v, want %v", s, r.id, err, want)
	}
	if err != nil {
		t.turnAway()
		return
	}
	w.checkLevel(s)
	r.x = x
	r.st = &stream{name: r.String(), of: r, sess: s, real: x.Stream(), lost: r.isNote}
	s.running = append(s.running, r)
	w.serve(r, t)
}

// checkLevel: a session has the level that its client has set last.
func (w *world) checkLevel(s *sess) {
	if got := s.real.Level(); got != s.level {
		w.fail("I17", "%s has the level %d, want %d", s, got, s.level)
	}
	if w.src.OneIn(8) {
		s.level = mcp.LogLevel(w.src.Intn(int(mcp.LogUnset)))
		s.real.SetLevel(s.level)
	}
}

// serve has a request served, and answered.
func (w *world) serve(r *request, t *visit) {
	w.isNoneOther(r, t)
	w.requests = append(w.requests, r)
	w.streams = append(w.streams, r.st)
	r.client.mine = append(r.client.mine, r)
	if w.tell() {
		w.say("%s has begun, id %s", r, r.id)
	}
	switch {
	case r.on != nil:
	case t.what == modernCall && t.script < 4:
		w.startJourney(r, t.to)
	case t.what != modernListen && r.sess == nil && t.script >= handsOn:
		r.state = t.to.handOn(r)
		w.startTask(r, t.script)
	default:
		w.startTask(r, t.script)
	}
	if r.isNote {
		return
	}
	out := &writer{at: r.st, pipe: t.pipe, wake: make(chan struct{}, 1), phase: decides, grace: w.now.Add(formGrace)}
	if r.sess == nil {
		out.onGone = func(w *world) { w.leaves(r) }
	}
	w.attach(out, r.st.real.Attach(out.wake))
	out.settle(w, false)
}

// handsOn is from which script on a modern backend asks during a modern request.
const handsOn = 6

// leaves: a client that goes away has cancelled its request, also where it was about
// to be asked.
//
// The answer may be on its way when its client goes. The request is over then, and
// nothing is left to cancel, but where the answer was a question the request waits
// elsewhere, and would wait for nobody.
func (w *world) leaves(r *request) {
	was := r.over
	w.cancel(r, r.x.Cancel(errCancel))
	if was && r.on != nil {
		w.loseParked(r.on, r)
	}
}

// formGrace is how long the form of an answer may be open.
const formGrace = 5 * time.Second

// beginAlone serves a request that belongs to no session.
func (w *world) beginAlone(t *visit) {
	if !w.mayBegin(t.from.principal) {
		t.turnAway()
		return
	}
	r := &request{no: len(w.requests), client: t.from, id: idOf(t.id), late: -1, pipe: t.pipe}
	r.x = session.NewStateless(r.id, w.rules, session.StopFunc(w.stop(r)))
	r.x.CountFor(t.from.principal, 0)
	r.st = &stream{name: r.String(), of: r, real: r.x.Stream()}
	if t.what == modernListen {
		r.x.HoldUntilOpening()
		r.st.held = true
	}
	w.serve(r, t)
}

// running returns the request of an id that is in flight.
func (w *world) running(s *sess, id mcp.ID) *request {
	for _, r := range s.running {
		if !r.isNote && r.id == id {
			return r
		}
	}
	return nil
}

// cancelByID serves notifications/cancelled.
func (w *world) cancelByID(s *sess, n int) {
	id := idOf(n)
	if n == noID {
		id = mcp.ID{}
	}
	r := w.running(s, id)
	if got := s.real.InFlight(id); got != (r != nil) {
		w.fail("I4", "%s: a request of id %s is in flight: %v", s, id, got)
	}
	ok := s.real.Cancel(id, errCancel)
	if r == nil {
		if ok {
			w.fail("I24", "%s: nothing of id %s was running, and something was cancelled", s, id)
		}
		return
	}
	w.fault(Cancel)
	w.cancel(r, ok)
}

// answered serves the answer to a question.
//
// Only a question that a carrier has had can be answered. An answer to one that is
// still in the queue was guessed, and must not be taken (M018).
func (w *world) answered(s *sess, no int) {
	var open *ask
	for _, a := range s.asks {
		if a.no == no && w.isTaken(a) {
			open = a
		}
	}
	end := session.Terminal{Result: &mcp.Result{}}
	ok := s.real.Answer(mcp.NumberID(uint64(no)), end)
	if ok != (open != nil) {
		w.fail("I37", "%s: an answer to question %d is taken: %v, the question is open: %v", s, no, ok, open != nil)
	}
	if open == nil {
		w.strays++
		w.fault(DeadAnswer)
		return
	}
	w.askEnded(s, open, end)
	if w.tell() {
		w.say("%s: question %d is answered", s, no)
	}
}

// openStandalone serves a GET.
func (w *world) openStandalone(t *visit) {
	s := t.sess
	out := &writer{at: s.standalone, pipe: t.pipe, wake: make(chan struct{}, 1)}
	c, err := s.standalone.real.TryAttach(out.wake)
	if full := s.standalone.open >= w.set.limits.Streams; full != errors.Is(err, session.ErrTooMany) {
		w.fail("I21", "%s has %d connections of its stream of %d, and one more is answered with %v", s, s.standalone.open, w.set.limits.Streams, err)
	}
	if err != nil {
		w.fault(LimitHit)
		t.turnAway()
		return
	}
	old := s.standalone.live
	w.attach(out, c)
	w.tookOver(old)
}

// noID is what a cancellation names that names nothing.
const noID = 6

// idOf is one of a few ids that clients use: ids that only look alike among them.
func idOf(n int) mcp.ID { return ids[n%len(ids)] }

var ids = [...]mcp.ID{mcp.NumberID(0), mcp.NumberID(1), mcp.StringID("1"), mcp.StringID(""), mcp.NumberID(1 << 60), mcp.StringID("a")} //nolint:gochecknoglobals // it is never changed
