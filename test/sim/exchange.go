// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// request is one request of a client as the gateway sees it, with the model's state.
//
// The terminals that the client has received (terminals) and what the gateway has done
// (ended, cancelled) are separate: in transit between the two a terminal can be lost, be
// resumed, or arrive after a cancellation that was too late.
type request struct {
	no       int
	client   *client
	sess     *sess // nil in the modern era
	id       mcp.ID
	x        *session.Exchange
	stream   *stream
	response *response

	parkable       *parkable // served in it, if it can be parked
	state          *state    // that the request ends with: the client must retry
	isNotification bool      // it has no answer
	ended          bool
	cancelled      bool // it will have no terminal
	stopped        bool // its context has ended
	stops          int
	terminals      int  // received by the client
	paused         bool // its response was ended for the client to reconnect
	resumed        bool // the client resumed, and may receive a part twice

	progress, logs usage
	deferred       int       // index of the deferred progress, or -1
	deferredAt     time.Time // when its timer fires; zero: none is set
}

// ask is a question to a client.
type ask struct {
	real  *session.Ask
	no    int
	at    *stream
	mark  mark
	ended bool
	want  session.Terminal // the expected end
}

// usage is the used part of a rate limit: the time until a whole burst is available again.
//
// Package session stores the time of a full refill. The model stores a debt that decreases
// with time instead, so that a rounding mistake in the one is not repeated in the other.
type usage struct {
	debt      time.Duration
	updatedAt time.Time
}

// wait returns the time until one more event is allowed.
func (p *usage) wait(pace session.RateLimit, now time.Time) time.Duration {
	p.debt = max(0, p.debt-now.Sub(p.updatedAt))
	p.updatedAt = now
	return p.debt - time.Duration(pace.Burst-1)*pace.Every
}

func (r *request) String() string {
	if r.sess == nil {
		return fmt.Sprintf("%s/r%d", r.client, r.no)
	}
	return fmt.Sprintf("%s/r%d", r.sess, r.no)
}

// stop returns the function that stops the Handler of the request.
//
// It may be called with a lock held, so it only takes a note. That it is called once, and
// only for requests in flight, is I26.
func (w *world) stop(r *request) func(error) {
	return func(error) {
		r.stops++
		r.stopped = true
		w.stopped = append(w.stopped, r)
		if r.parkable != nil {
			r.parkable.stopped = true
		}
		if r.stops > 1 {
			w.fail("I26", "%s is stopped twice", r)
		}
	}
}

// message returns the message of a mark, padded to a size.
func (w *world) message(m mark, size int) session.Message {
	out := session.Message{Head: m.text()}
	if rest := size - len(out.Head); rest > 0 {
		out.Body = w.fixtures.padding[:rest]
	}
	return out
}

// drawSize chooses the size of a message.
func (w *world) drawSize() int {
	if w.set.large {
		return 1 + w.src.Intn(60<<10)
	}
	return 1 + w.src.Intn(60)
}

// appendEntry appends a message to a stream, as the goroutine of a Handler does, and
// compares the outcome with the space of the stream.
//
// Each message has a unique mark in its text. So every message can be identified wherever
// it is received, and a message received twice is distinguished from two equal ones.
func (w *world) appendEntry(s *stream, e entry) (full <-chan struct{}) {
	e.mark = w.mint()
	m := w.message(e.mark, e.size)
	e.size = m.Len()
	m.Key = keys[e.key]
	switch e.kind {
	case progress:
		m.Class = session.Progress
	case log:
		m.Class = session.Log
	case change:
		m.Class = session.Change
	case opening:
		m.Class = session.Opening
	default:
		m.Class = session.Plain
	}
	if s.of != nil && (e.kind == progress || e.kind == log) {
		return w.report(s, e, m)
	}
	full, err := s.real.Append(m)
	w.appended(s, e, full, err)
	return full
}

// keys are the keys of progress and changes.
var keys = [...]string{"a", "b", "c"} //nolint:gochecknoglobals // it is never changed

// report is appendEntry for messages with a rate limit.
func (w *world) report(s *stream, e entry, m session.Message) <-chan struct{} {
	r := s.of
	used, pace := &r.progress, w.set.limits.Progress
	if e.kind == log {
		used, pace = &r.logs, w.set.limits.Logs
	}
	wait := used.wait(pace, w.now)
	due, full, err := r.x.Report(m, w.now)
	if wait > 0 && !s.ended && !s.lost {
		w.overRate(r, e, wait, due, full, err)
		return nil
	}
	if !due.IsZero() {
		w.fail("I21", "%s: m%d is deferred within its rate limit", s.name, e.mark)
	}
	w.appended(s, e, full, err)
	if full == nil && err == nil {
		used.debt += pace.Every
		if e.kind == progress {
			w.dropDeferred(r)
		}
	}
	return full
}

// overRate handles a message beyond the rate limit: log messages are dropped, and the
// latest progress is deferred.
//
// The latest progress must be delivered in the end: a progress bar that remains at nine of
// ten is wrong, not merely late.
func (w *world) overRate(r *request, e entry, wait time.Duration, due time.Time, full <-chan struct{}, err error) {
	if full != nil || err != nil {
		w.fail("I21", "%s: m%d beyond the rate limit is refused: %v", r, e.mark, err)
	}
	if e.kind == log {
		w.minLosses.dropped++
		return
	}
	if want := w.now.Add(wait); !due.Equal(want) {
		w.fail("I21", "%s: m%d is due at %v, and deferred until %v", r, e.mark, want, due)
	}
	if w.tracing() {
		w.logf("%s defers m%d", r, e.mark)
	}
	w.dropDeferred(r)
	e.deferred = true
	w.add(r.stream, e)
	r.deferred = len(r.stream.entries) - 1
	if r.deferredAt.IsZero() {
		w.spawn(&releaseTimer{r: r})
	}
	r.deferredAt = due
}

func (w *world) dropDeferred(r *request) {
	if r.deferred >= 0 {
		r.stream.entries[r.deferred].fate = dropped
		r.deferred = -1
	}
}

// appended records the outcome of an append.
//
// The order of the cases is significant. After the end the message is refused, and never
// kept for the next stream (M038); without a receiver it is dropped and counted; only then
// does space matter.
func (w *world) appended(s *stream, e entry, full <-chan struct{}, err error) {
	most, sure := s.loads()
	switch {
	case s.ended:
		if full != nil || !errors.Is(err, mcp.ErrRequestEnded) {
			w.fail("I10", "%s accepts m%d after its end: %v", s.name, e.mark, err)
		}
		return
	case err != nil:
		w.fail("I3", "%s refuses m%d: %v", s.name, e.mark, err)
		return
	case s.lost:
		w.minLosses.dropped++
		if full != nil {
			w.fail("I30", "%s has lost its receiver, and makes a sender wait", s.name)
		}
		return
	case e.kind == change && s.hasChange(e.key):
		w.minLosses.merged++
		return // merged
	case e.kind == progress && w.isSlow(most):
		s.markOptional(e.key)
		_, sure = s.loads()
	}
	if full != nil {
		w.appendRefused(s, e, full, most)
		return
	}
	w.appendAccepted(s, e, most, sure)
}

// No sender may wait for a client that is away: the client may never return, and the sender
// would be blocked for as long as the stream is retained. Nor may it wait for space on an
// empty stream, where no Take follows.
func (w *world) appendRefused(s *stream, e entry, full <-chan struct{}, most load) {
	l := &w.set.limits
	if s.isAway() || e.kind == opening || most.count == 0 || most.count < l.Messages && most.bytes+e.size <= l.Bytes {
		w.fail("I30", "%s has no space for m%d with %d messages of %d bytes queued", s.name, e.mark, most.count, most.bytes)
	}
	w.fault(LimitHit)
	s.waiters = append(s.waiters, full)
	if w.tracing() {
		w.logf("%s is full for m%d", s.name, e.mark)
	}
}

// An opening precedes everything queued, whatever the limit: without it nothing on the
// stream may be delivered, and no space would ever be freed (M171).
func (w *world) appendAccepted(s *stream, e entry, most, sure load) {
	l := &w.set.limits
	switch e.kind {
	case opening:
		e.front, s.opening = true, true
		s.held = false
	case log:
		e.optional = w.isSlow(most)
		if w.isSlow(sure) && !w.mayBeTrimmed(s) {
			e.fate = dropped
		}
	default:
	}
	if !s.isAway() && e.kind != opening && e.fate == queued && !e.optional && sure.count > 0 &&
		(sure.count >= l.Messages || sure.bytes+e.size > l.Bytes) {
		w.fail("I21", "%s accepts m%d beyond its limit: %d messages of %d bytes are queued", s.name, e.mark, sure.count, sure.bytes)
	}
	w.add(s, e)
	if w.tracing() {
		w.logf("%s gets %s m%d", s.name, kindNames[e.kind], e.mark)
	}
}

var kindNames = [...]string{"message", "progress", "log", "change", "opening", "question", "withdrawal", "terminal"} //nolint:gochecknoglobals // it is never changed

// hasChange reports whether a change of that key is queued.
func (s *stream) hasChange(key int) bool {
	for i := s.firstQueued; i < len(s.entries); i++ {
		if e := &s.entries[i]; e.kind == change && e.key == key && e.fate == queued {
			return true
		}
	}
	return false
}

// isAway reports whether the client of an exchange has disconnected and may resume.
func (s *stream) isAway() bool { return s.resumable && s.of != nil && s.writer == nil }

// markOptional notes that progress may be missing, because there is a newer one.
func (s *stream) markOptional(key int) {
	for i := s.firstQueued; i < len(s.entries); i++ {
		if e := &s.entries[i]; e.kind == progress && e.key == key && !e.deferred {
			e.optional = true
		}
	}
}

// release handles the timer of deferred progress.
//
// When the timer fires there may be nothing to release: newer progress was sent within the
// rate limit, or the request has ended. Then it must do nothing, and must not be set again
// (M043).
func (w *world) release(r *request) {
	r.deferredAt = time.Time{}
	wait := r.progress.wait(w.set.limits.Progress, w.now)
	most, _ := r.stream.loads()
	due := r.x.Release(w.now)
	switch {
	case r.deferred < 0 || r.ended:
		if !due.IsZero() {
			w.fail("I28", "%s has a timer and nothing to release", r)
		}
		return
	case wait > 0 && due.IsZero():
		w.fail("I21", "%s releases progress before its time", r)
		return
	case !due.IsZero():
		if !due.After(w.now) {
			w.fail("I28", "%s wants to release progress at %v, and it is %v", r, due, w.now)
		}
		r.deferredAt = due
		if wait <= 0 && w.isSlow(most) {
			r.stream.markOptional(r.stream.entries[r.deferred].key)
		}
		return
	}
	if w.tracing() {
		w.logf("%s releases m%d", r, r.stream.entries[r.deferred].mark)
	}
	r.progress.debt += w.set.limits.Progress.Every
	if w.isSlow(most) {
		r.stream.markOptional(r.stream.entries[r.deferred].key)
	}
	w.placeDeferred(r)
}

// placeDeferred moves deferred progress to the end of the order.
func (w *world) placeDeferred(r *request) {
	e := r.stream.entries[r.deferred]
	r.stream.entries[r.deferred].fate = dropped
	r.deferred = -1
	e.deferred = false
	w.add(r.stream, e)
}

// sendAsk asks the client of a stream a question.
//
// A question that cannot be answered is refused at once (I37): its stream has ended, or has
// no receiver. One that waits for a client that may resume is not refused.
func (w *world) sendAsk(s *stream, owner *sess) *ask {
	w.reapTrimmedAsks(owner)
	real, err := s.real.Ask("ask", nil, nil)
	w.reapTrimmedAsks(owner) // it may have trimmed another ask
	var want error
	switch {
	case s.ended:
		want = mcp.ErrRequestEnded
	case s.lost:
		want = session.ErrNoReceiver
	case len(owner.asks) >= w.set.limits.Asks:
		want = session.ErrTooMany
		w.fault(LimitHit)
	}
	if !errors.Is(err, want) {
		w.fail("I37", "%s: Ask = %v, want %v", s.name, err, want)
	}
	if err != nil {
		return nil
	}
	no, _ := strconv.Atoi(real.ID().String())
	for _, other := range owner.asks {
		if other.no == no {
			w.fail("I4", "%s: two open questions have the id %d", s.name, no)
		}
	}
	a := &ask{real: real, no: no, at: s}
	w.asked++
	e := w.add(s, entry{kind: question, key: no, size: len(jsonrpc.AppendRequest(nil, real.ID(), "ask", nil))})
	a.mark = e.mark
	owner.asks = append(owner.asks, a)
	if w.tracing() {
		w.logf("%s asks question %d", s.name, no)
	}
	return a
}

// reapTrimmedAsks records which questions were trimmed on streams without a consumer.
func (w *world) reapTrimmedAsks(owner *sess) {
	if !w.set.purges {
		return
	}
	for _, a := range append([]*ask(nil), owner.asks...) {
		if a.at.isAway() && !w.isTaken(a) && isClosed(a.real.Done()) {
			w.askEnded(owner, a, session.Terminal{Err: session.ErrNoReceiver})
		}
	}
}

// isTaken reports whether a consumer has taken the question.
func (w *world) isTaken(a *ask) bool {
	o := w.marks[a.mark]
	return o.at.entries[o.index].fate == taken
}

// askEnded records the end of a question, and checks that its waiter is woken.
func (w *world) askEnded(owner *sess, a *ask, want session.Terminal) {
	a.ended, a.want = true, want
	for i, o := range owner.asks {
		if o == a {
			owner.asks = append(owner.asks[:i], owner.asks[i+1:]...)
			break
		}
	}
	if !w.isTaken(a) {
		o := w.marks[a.mark]
		o.at.entries[o.index].fate = dropped
	}
	if !isClosed(a.real.Done()) {
		w.fail("I37", "question %d of %s has ended, and its waiter is not woken", a.no, a.at.name)
		return
	}
	got := a.real.Answer()
	if w.set.purges && a.at.resumable && !w.isTaken(a) && errors.Is(got.Err, session.ErrNoReceiver) {
		return // trimmed
	}
	if got.Result != want.Result || want.Err != nil && !errors.Is(got.Err, want.Err) {
		w.fail("I37", "question %d of %s ended with %v, want %v", a.no, a.at.name, got, want)
	}
}

// finish ends a request with a terminal, as the goroutine that served it does.
//
// It is also called for requests that have ended. The second terminal must be refused and
// leave nothing, whichever is first: the Handler, a deadline, or the end of the session.
func (w *world) finish(r *request, abort bool) {
	e := entry{kind: terminal, mark: w.mint()}
	m := w.message(e.mark, w.drawSize())
	e.size = m.Len()
	if abort {
		w.fault(Cancel)
	}
	ok := r.x.Finish(m)
	if ok && abort {
		w.stop(r)(errDeadline)
	}
	if abort && r.x.Cancel(errCancel) {
		w.fail("I24", "%s has ended, and is cancelled", r)
	}
	if ok == r.ended {
		w.fail("I1", "%s gets a terminal: %v, and had ended before: %v", r, ok, r.ended)
	}
	if !ok || r.ended {
		return
	}
	if w.tracing() {
		w.logf("%s ends with m%d", r, e.mark)
	}
	w.requestEnded(r, &e)
	if abort && r.stops != 1 {
		w.fail("I3", "%s was ended, and its handler was not stopped", r)
	}
}

var (
	errDeadline = errors.New("too late")
	errCancel   = errors.New("cancelled")
)

// cancel ends a request without a terminal.
func (w *world) cancel(r *request, ok bool) {
	if ok == r.ended {
		w.fail("I24", "%s is cancelled: %v, and had ended before: %v", r, ok, r.ended)
	}
	if !ok || r.ended {
		return
	}
	if r.stops != 1 {
		w.fail("I3", "%s was cancelled, and its handler was not stopped", r)
	}
	r.cancelled = true
	r.stream.drop(all)
	w.requestEnded(r, nil)
	if w.tracing() {
		w.logf("%s is cancelled", r)
	}
}

// requestEnded records the end of a request: what is dropped, what precedes the terminal,
// and the terminal.
func (w *world) requestEnded(r *request, end *entry) {
	s := r.stream
	r.ended = true
	if r.sess != nil {
		r.sess.running = slices.DeleteFunc(r.sess.running, func(o *request) bool { return o == r })
	}
	seen := w.endAsks(r.sess, s, mcp.ErrRequestEnded)
	s.drop(isQuestion)
	if r.isNotification {
		end = nil
	}
	switch {
	case end == nil || s.lost:
		w.dropDeferred(r)
		if end != nil {
			w.minLosses.undelivered++
		}
	default:
		w.beforeTerminal(r, seen)
	}
	if s.held {
		s.drop(all)
		s.held = false
	}
	if end != nil {
		w.add(s, *end)
	}
	w.streamEnded(s)
}

// beforeTerminal records what the client must receive before the terminal.
//
// A client that shows a question to a person must learn that the answer is no longer
// awaited, and can learn it only before the terminal, which ends the stream.
func (w *world) beforeTerminal(r *request, seen []*ask) {
	if r.deferred >= 0 {
		if most, _ := r.stream.loads(); w.isSlow(most) {
			r.stream.markOptional(r.stream.entries[r.deferred].key)
		}
		w.placeDeferred(r)
	}
	w.withdrawn += uint64(len(seen))
	for _, a := range seen {
		w.add(r.stream, entry{kind: withdrawal, key: a.no})
	}
}

// endAsks records that the questions of a stream have ended, and returns those that the
// client has.
func (w *world) endAsks(owner *sess, s *stream, why error) (seen []*ask) {
	if owner == nil {
		return nil
	}
	open := append([]*ask(nil), owner.asks...)
	for _, a := range open {
		if a.at != s {
			continue
		}
		if w.isTaken(a) {
			seen = append(seen, a)
		}
		w.askEnded(owner, a, session.Terminal{Err: why})
	}
	return seen
}
