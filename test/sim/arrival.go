// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// clientMessage is a message of a client on its way to the gateway.
//
// It arrives when it is drawn. Over HTTP the requests of a client often arrive in another
// order than they were sent in, because each has a connection of its own.
type clientMessage struct {
	what      action
	from      *client
	to        *replica
	principal string
	sessID    string
	id        int // of a request, a cancellation or an answer
	response  *response
	script    int // what the handler does
	place     uint64
	state     *state // of a retry
	method    string // of a retry
	event     string // the last event id that the client has; "" if it begins anew
}

// action is the kind of a message.
type action uint8

const (
	initialize action = iota
	initialized
	call
	notification
	cancelled
	answer
	get
	remove
	modernCall
	modernListen
	modernRetry
)

var actionNames = [...]string{"initialize", "initialized", "request", "notification", "cancelled", "answer", "GET", "DELETE", "modern request", "modern listen", "retry"} //nolint:gochecknoglobals // it is never changed

// send sends a message.
func (w *world) send(t clientMessage) {
	t.to = w.route(&t)
	w.inTransit = append(w.inTransit, t)
	if w.tracing() {
		w.logf("%s sends %s %d of %s", t.from, actionNames[t.what], t.id, t.sessID)
	}
}

// deliverOne delivers one of the messages in transit.
//
// A dropped message breaks its connection, and its client notices. An initialize request or
// a request with a stream is not duplicated: a client that repeats it uses another id, or
// another connection.
func (w *world) deliverOne() bool {
	n := len(w.inTransit)
	if n == 0 {
		return false
	}
	at := 0
	if w.set.allows(Delay) && !w.quiescing {
		at = w.src.Intn(n)
		if at > 0 {
			w.fault(Delay)
		}
	}
	t := w.inTransit[at]
	switch {
	case !w.quiescing && w.set.allows(Duplicate) && w.src.OneIn(12) && t.what != initialize && t.response == nil:
		w.fault(Duplicate)
	case !w.quiescing && w.set.allows(Drop) && w.src.OneIn(12):
		w.fault(Drop)
		t.from.opening = t.from.opening && t.what != initialize
		w.inTransit = append(w.inTransit[:at], w.inTransit[at+1:]...)
		if t.response != nil {
			t.response.left, t.response.known, t.response.ended = true, true, true
		}
		return true
	default:
		w.inTransit = append(w.inTransit[:at], w.inTransit[at+1:]...)
	}
	w.spawn(&arrival{clientMessage: t})
	return true
}

// arrival is the goroutine of a message that has arrived. It looks up the session first,
// and handles the message in a second step: other events may happen between the two.
type arrival struct {
	clientMessage

	found     bool
	sess      *sess
	questions []*session.Question // of the parked request that a retry is for
	asks      []*inputRequest     // those that the retry answers
}

func (t *arrival) ready(*world) bool { return true }

func (t *arrival) run(w *world) bool {
	switch {
	case t.what == initialize:
		return t.openSession(w)
	case t.what == modernCall || t.what == modernListen:
		w.beginStateless(t)
		return false
	case t.what == modernRetry:
		return t.retry(w)
	case !t.found:
		t.found = true
		t.sess = w.lookUp(t.to, t.sessID, t.principal)
		if t.sess == nil {
			t.refuse()
			t.from.sessionUnknown(t.sessID)
			return false
		}
		if t.sess.home != t.to {
			w.fail("I22", "%s is served by a replica that does not have it", t.sess)
		}
		return true
	}
	switch t.what {
	case call, notification:
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
		if t.sess.standalone.writer != nil { // a client may cease to want something at this moment
			w.retract(t.sess.standalone, w.src.Intn(len(keys)))
		}
	default:
	}
	return false
}

// refuse refuses a request.
func (t *arrival) refuse() {
	if t.response != nil {
		t.response.ended, t.response.whole = true, true
	}
}

// openSession serves initialize: a session is published when it is complete.
//
// Making and publishing a session are separate steps. A session found between the two would
// be incomplete, and a request on it would run before its handshake is answered (M086).
func (t *arrival) openSession(w *world) bool {
	if t.sess == nil {
		t.sess = w.newSess(t.from, t.to)
		return true
	}
	if w.publish(t.sess) {
		t.from.sessionOpened(w, t.sess)
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
// The session may have ended since the lookup. This is the race of M101: the table has
// accepted the request, and the session itself must refuse it.
func (w *world) begin(t *arrival) {
	s := t.sess
	r := &request{no: len(w.requests), client: t.from, sess: s, id: idOf(t.id), deferred: -1, response: t.response, isNotification: t.what == notification}
	if r.isNotification {
		r.id = mcp.ID{}
	}
	if !r.isNotification && !s.ended && !w.mayBegin(t.from.principal) {
		t.refuse()
		return
	}
	x, err := s.real.Begin(r.id, w.stop(r))
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
		t.refuse()
		return
	}
	w.checkLevel(s)
	r.x = x
	r.stream = &stream{name: r.String(), of: r, sess: s, real: x.Stream(), lost: r.isNotification}
	s.running = append(s.running, r)
	w.serve(r, t)
}

// checkLevel checks that a session has the level that its client set last.
func (w *world) checkLevel(s *sess) {
	if got := s.real.Level(); got != s.level {
		w.fail("I17", "%s has the level %d, want %d", s, got, s.level)
	}
	if w.src.OneIn(8) {
		s.level = mcp.LogLevel(w.src.Intn(int(mcp.LogUnset)))
		s.real.SetLevel(s.level)
	}
}

// serve starts the handler and the writer of a request.
func (w *world) serve(r *request, t *arrival) {
	w.checkRetry(r, t)
	w.requests = append(w.requests, r)
	w.streams = append(w.streams, r.stream)
	r.client.requests = append(r.client.requests, r)
	if w.tracing() {
		w.logf("%s has begun, id %s", r, r.id)
	}
	switch {
	case r.parkable != nil:
	case t.what == modernCall && t.script < 4:
		w.startParkable(r, t.to)
	case t.what != modernListen && r.sess == nil && t.script >= firstStateScript:
		r.state = t.to.sealBackendState(r)
		w.startTask(r, t.script)
	default:
		w.startTask(r, t.script)
	}
	if r.isNotification {
		return
	}
	out := &writer{stream: r.stream, response: t.response, wake: make(chan struct{}, 1), phase: phaseForm, grace: w.now.Add(formGrace)}
	if r.sess == nil {
		out.onGone = func(w *world) { w.clientLeft(r) }
	}
	w.attach(out, r.stream.real.Attach(out.wake))
	out.decideForm(w, false)
}

// firstStateScript is the first script in which a modern backend asks for input.
const firstStateScript = 6

// clientLeft handles a disconnect of a modern client, which cancels its request, even one
// that is about to be parked.
//
// The answer may be in transit when its client disconnects. The request has ended then, and
// there is nothing to cancel, unless the answer was a question: then the parked request
// would wait for a client that does not return.
func (w *world) clientLeft(r *request) {
	was := r.ended
	w.cancel(r, r.x.Cancel(errCancel))
	if was && r.parkable != nil {
		w.dropIfParked(r.parkable, r)
	}
}

// formGrace is how long the form of an answer may remain undecided.
const formGrace = 5 * time.Second

// beginStateless serves a request that belongs to no session.
func (w *world) beginStateless(t *arrival) {
	if !w.mayBegin(t.from.principal) {
		t.refuse()
		return
	}
	r := &request{no: len(w.requests), client: t.from, id: idOf(t.id), deferred: -1, response: t.response}
	r.x = new(session.Stateless).Begin(r.id, w.rules, w.stop(r))
	r.x.ChargeTo(t.from.principal, 0)
	r.stream = &stream{name: r.String(), of: r, real: r.x.Stream()}
	if t.what == modernListen {
		r.x.HoldUntilOpening()
		r.stream.held = true
	}
	w.serve(r, t)
}

// running returns the request of an id that is in flight, or nil.
func (w *world) running(s *sess, id mcp.ID) *request {
	for _, r := range s.running {
		if !r.isNotification && r.id == id {
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
			w.fail("I24", "%s: no request of id %s was in flight, and one was cancelled", s, id)
		}
		return
	}
	w.fault(Cancel)
	w.cancel(r, ok)
}

// answered serves the answer to a question.
//
// Only a question that a consumer has taken can be answered. An answer to one that is still
// queued was guessed, and must be rejected (M018).
func (w *world) answered(s *sess, no int) {
	var open *ask
	for _, a := range s.asks {
		if a.no == no && w.isTaken(a) {
			open = a
		}
	}
	end := session.Terminal{Result: &mcp.Result{}}
	ok := s.real.Answer(jsonrpc.NumberID(uint64(no)), end)
	if ok != (open != nil) {
		w.fail("I37", "%s: an answer to question %d is accepted: %v, the question is open: %v", s, no, ok, open != nil)
	}
	if open == nil {
		w.strays++
		w.fault(DeadAnswer)
		return
	}
	w.askEnded(s, open, end)
	if w.tracing() {
		w.logf("%s: question %d is answered", s, no)
	}
}

// openStandalone serves a GET.
func (w *world) openStandalone(t *arrival) {
	s := t.sess
	out := &writer{stream: s.standalone, response: t.response, wake: make(chan struct{}, 1)}
	c, err := s.standalone.real.TryAttach(out.wake)
	if full := s.standalone.attached >= w.set.limits.Streams; full != errors.Is(err, session.ErrTooMany) {
		w.fail("I21", "%s has %d connections of its stream of %d, and one more is answered with %v", s, s.standalone.attached, w.set.limits.Streams, err)
	}
	if err != nil {
		w.fault(LimitHit)
		t.refuse()
		return
	}
	old := s.standalone.writer
	w.attach(out, c)
	w.tookOver(old)
}

// noID is the id in a cancellation without one.
const noID = 6

// idOf returns one of a few ids that clients use, among them ids that only look alike.
func idOf(n int) mcp.ID { return ids[n%len(ids)] }

var ids = [...]mcp.ID{jsonrpc.NumberID(0), jsonrpc.NumberID(1), jsonrpc.StringID("1"), jsonrpc.StringID(""), jsonrpc.NumberID(1 << 60), jsonrpc.StringID("a")} //nolint:gochecknoglobals // it is never changed
