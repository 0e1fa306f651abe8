// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// request is one request of a client, from the side of the gateway, with what is
// known of it.
//
// What a client has of it (got) and what the gateway has done (over, cancelled) are
// kept apart: between the two lies the way, on which a terminal can be lost, be
// fetched again, or arrive after a cancellation that was too late.
type request struct {
	no     int
	client *client
	sess   *sess // nil in the modern era
	id     mcp.ID
	x      *session.Exchange
	st     *stream
	pipe   *pipe

	on        *journey // that is served in it, if it can be parked
	state     *state   // that it ends with: the client is to come back
	isNote    bool     // it has no answer
	over      bool
	cancelled bool // it will have no terminal
	stopped   bool // its context has ended
	stops     int
	got       int  // terminals that the client has
	polled    bool // its response was ended for the client to come back
	again     bool // the client came back, and may have some of it twice

	progress, logs spent
	late           int       // index of the progress that is kept back, or -1
	lateAt         time.Time // when the timer for it goes off; zero: none is set
}

// ask is a question to a client.
type ask struct {
	real *session.Ask
	no   int
	at   *stream
	mark mark
	over bool
	want session.Terminal // what ended it
}

// spent is what was used of a pace: how much time must pass before all of it can
// be had again.
//
// The machine counts what may still be had, and refills it. Here it is counted the
// other way round, as a debt that time pays, so that a mistake in the rounding of
// the one is not made in the other.
type spent struct {
	debt time.Duration
	at   time.Time
}

// wait returns how long it is until one more may be had.
func (p *spent) wait(pace session.RateLimit, now time.Time) time.Duration {
	p.debt = max(0, p.debt-now.Sub(p.at))
	p.at = now
	return p.debt - time.Duration(pace.Burst-1)*pace.Every
}

func (r *request) String() string {
	if r.sess == nil {
		return fmt.Sprintf("%s/r%d", r.client, r.no)
	}
	return fmt.Sprintf("%s/r%d", r.sess, r.no)
}

// stop is what ends the context of whoever serves the request.
//
// It is called by the machine, under whatever lock: all that it does here is to
// take a note. That it comes once, and to those who run only, is I26.
func (w *world) stop(r *request) func(error) {
	return func(error) {
		r.stops++
		r.stopped = true
		w.stopped = append(w.stopped, r)
		if r.on != nil {
			r.on.stopped = true
		}
		if r.stops > 1 {
			w.fail("I26", "%s is stopped twice", r)
		}
	}
}

// message makes a message of a mark, padded to a size.
func (w *world) message(m mark, size int) session.Message {
	out := session.Message{Head: m.text()}
	if rest := size - len(out.Head); rest > 0 {
		out.Body = w.props.padding[:rest]
	}
	return out
}

// drawSize chooses how large a message is.
func (w *world) drawSize() int {
	if w.set.large {
		return 1 + w.src.Intn(60<<10)
	}
	return 1 + w.src.Intn(60)
}

// give appends a message to a stream, as the goroutine of a Handler does, and holds
// the answer against what the stream has room for.
//
// Each message has a mark of its own in its text. What comes out anywhere can be
// told from all else for that, and a message that comes out twice from two that say
// the same.
func (w *world) give(s *stream, e entry) (full <-chan struct{}) {
	e.mark = w.mint()
	m := w.message(e.mark, e.size)
	e.size = m.Len()
	m.Key = keys[e.key]
	switch e.sort {
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
	if s.of != nil && (e.sort == progress || e.sort == log) {
		return w.report(s, e, m)
	}
	full, err := s.real.Append(m)
	w.given(s, e, full, err)
	return full
}

// keys are those of progress and changes.
var keys = [...]string{"a", "b", "c"} //nolint:gochecknoglobals // it is never changed

// report is give for what has a pace.
func (w *world) report(s *stream, e entry, m session.Message) <-chan struct{} {
	r := s.of
	used, pace := &r.progress, w.set.limits.Progress
	if e.sort == log {
		used, pace = &r.logs, w.set.limits.Logs
	}
	wait := used.wait(pace, w.now)
	due, full, err := r.x.Report(m, w.now)
	if wait > 0 && !s.ended && !s.lost {
		w.beyondPace(r, e, wait, due, full, err)
		return nil
	}
	if !due.IsZero() {
		w.fail("I21", "%s: m%d is kept back, within its pace", s.name, e.mark)
	}
	w.given(s, e, full, err)
	if full == nil && err == nil {
		used.debt += pace.Every
		if e.sort == progress {
			w.supersedeLate(r)
		}
	}
	return full
}

// beyondPace: log messages go, and of the progress the latest is kept.
//
// The latest progress must come in the end, because a bar that stands at nine of
// ten for ever is wrong, and not merely old.
func (w *world) beyondPace(r *request, e entry, wait time.Duration, due time.Time, full <-chan struct{}, err error) {
	if full != nil || err != nil {
		w.fail("I21", "%s: m%d beyond the pace is not taken: %v", r, e.mark, err)
	}
	if e.sort == log {
		w.least.dropped++
		return
	}
	if want := w.now.Add(wait); !due.Equal(want) {
		w.fail("I21", "%s: m%d may go at %v, and is kept until %v", r, e.mark, want, due)
	}
	if w.tell() {
		w.say("%s keeps m%d until its time", r, e.mark)
	}
	w.supersedeLate(r)
	e.late = true
	w.add(r.st, e)
	r.late = len(r.st.entries) - 1
	if r.lateAt.IsZero() {
		w.spawn(&timer{r: r})
	}
	r.lateAt = due
}

func (w *world) supersedeLate(r *request) {
	if r.late >= 0 {
		r.st.entries[r.late].fate = gone
		r.late = -1
	}
}

// given notes what became of a message.
//
// The order of the cases is the order in which a message can come to nothing. After
// the end it is refused, and never kept for the next stream (M038); without a
// receiver it is dropped and counted; and only then is it a question of room.
func (w *world) given(s *stream, e entry, full <-chan struct{}, err error) {
	most, sure := s.loads()
	switch {
	case s.ended:
		if full != nil || !errors.Is(err, mcp.ErrRequestEnded) {
			w.fail("I10", "%s takes m%d behind its end: %v", s.name, e.mark, err)
		}
		return
	case err != nil:
		w.fail("I3", "%s refuses m%d: %v", s.name, e.mark, err)
		return
	case s.lost:
		w.least.dropped++
		if full != nil {
			w.fail("I30", "%s has lost its receiver, and has somebody wait", s.name)
		}
		return
	case e.sort == change && s.hasChange(e.key):
		w.least.merged++
		return // nothing new
	case e.sort == progress && w.isSlow(most):
		s.outdate(e.key)
		_, sure = s.loads()
	}
	if full != nil {
		w.refused(s, e, full, most)
		return
	}
	w.accepted(s, e, most, sure)
}

// Nobody may be made to wait for a client that is away: it may never come, and who
// speaks would stand still for as long as its stream is kept. Nor for room on an
// empty stream, where nothing will ever be taken.
func (w *world) refused(s *stream, e entry, full <-chan struct{}, most load) {
	l := &w.set.limits
	if s.isAway() || e.sort == opening || most.count == 0 || most.count < l.Messages && most.bytes+e.size <= l.Bytes {
		w.fail("I30", "%s has no room for m%d where %d messages of %d bytes wait", s.name, e.mark, most.count, most.bytes)
	}
	w.fault(LimitHit)
	s.fulls = append(s.fulls, full)
	if w.tell() {
		w.say("%s is full for m%d", s.name, e.mark)
	}
}

// An opening goes before all that waits already, whatever the limit is: without it
// nothing on the stream may be said, and nothing would ever make room (M171).
func (w *world) accepted(s *stream, e entry, most, sure load) {
	l := &w.set.limits
	switch e.sort {
	case opening:
		e.front, s.opening = true, true
		s.held = false
	case log:
		e.may = w.isSlow(most)
		if w.isSlow(sure) && !w.mayLack(s) {
			e.fate = gone
		}
	default:
	}
	if !s.isAway() && e.sort != opening && e.fate == waits && !e.may && sure.count > 0 &&
		(sure.count >= l.Messages || sure.bytes+e.size > l.Bytes) {
		w.fail("I21", "%s takes m%d beyond its limit: %d messages of %d bytes wait", s.name, e.mark, sure.count, sure.bytes)
	}
	w.add(s, e)
	if w.tell() {
		w.say("%s gets %s m%d", s.name, sortNames[e.sort], e.mark)
	}
}

var sortNames = [...]string{"message", "progress", "log", "change", "opening", "question", "withdrawal", "terminal"} //nolint:gochecknoglobals // it is never changed

// hasChange reports whether a change of that key waits.
func (s *stream) hasChange(key int) bool {
	for i := s.first; i < len(s.entries); i++ {
		if e := &s.entries[i]; e.sort == change && e.key == key && e.fate == waits {
			return true
		}
	}
	return false
}

// isAway reports whether the client of an exchange has gone and may come back.
func (s *stream) isAway() bool { return s.kept && s.of != nil && s.live == nil }

// outdate notes that progress may be missing, because there is newer.
func (s *stream) outdate(key int) {
	for i := s.first; i < len(s.entries); i++ {
		if e := &s.entries[i]; e.sort == progress && e.key == key && !e.late {
			e.may = true
		}
	}
}

// release is the timer of progress that was kept back.
//
// The timer may go off when there is nothing to release any more: newer progress
// has gone out within the pace, or the request is over. It must then do nothing,
// and must not be set again (M043).
func (w *world) release(r *request) {
	r.lateAt = time.Time{}
	wait := r.progress.wait(w.set.limits.Progress, w.now)
	most, _ := r.st.loads()
	due := r.x.Release(w.now)
	switch {
	case r.late < 0 || r.over:
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
		r.lateAt = due
		if wait <= 0 && w.isSlow(most) {
			r.st.outdate(r.st.entries[r.late].key)
		}
		return
	}
	if w.tell() {
		w.say("%s releases m%d", r, r.st.entries[r.late].mark)
	}
	r.progress.debt += w.set.limits.Progress.Every
	if w.isSlow(most) {
		r.st.outdate(r.st.entries[r.late].key)
	}
	w.place(r)
}

// place gives progress that was kept back its place in the order: the last.
func (w *world) place(r *request) {
	e := r.st.entries[r.late]
	r.st.entries[r.late].fate = gone
	r.late = -1
	e.late = false
	w.add(r.st, e)
}

// putAsk puts a question to the client of a stream.
//
// A question to which no answer can come is refused at once (I37): its stream is
// over, or has nobody who could read it. One that waits for a client that may come
// back is neither.
func (w *world) putAsk(s *stream, owner *sess) *ask {
	w.reap(owner)
	real, err := s.real.Ask("ask", nil, nil)
	w.reap(owner) // it may have cost another its room
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
		w.fail("I37", "%s: a question is answered with %v, want %v", s.name, err, want)
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
	e := w.add(s, entry{sort: question, key: no, size: len(mcp.AppendRequest(nil, real.ID(), "ask", nil))})
	a.mark = e.mark
	owner.asks = append(owner.asks, a)
	if w.tell() {
		w.say("%s asks question %d", s.name, no)
	}
	return a
}

// reap notes which questions were given up for want of room, on streams that
// nobody carries.
func (w *world) reap(owner *sess) {
	if !w.set.purges {
		return
	}
	for _, a := range append([]*ask(nil), owner.asks...) {
		if a.at.isAway() && !w.isTaken(a) && isClosed(a.real.Done()) {
			w.askEnded(owner, a, session.Terminal{Err: session.ErrNoReceiver})
		}
	}
}

// isTaken reports whether a carrier has had the question.
func (w *world) isTaken(a *ask) bool {
	o := w.marks[a.mark]
	return o.at.entries[o.index].fate == taken
}

// askEnded notes what ended a question, and that whoever waits hears of it.
func (w *world) askEnded(owner *sess, a *ask, want session.Terminal) {
	a.over, a.want = true, want
	for i, o := range owner.asks {
		if o == a {
			owner.asks = append(owner.asks[:i], owner.asks[i+1:]...)
			break
		}
	}
	if !w.isTaken(a) {
		o := w.marks[a.mark]
		o.at.entries[o.index].fate = gone
	}
	if !isClosed(a.real.Done()) {
		w.fail("I37", "question %d of %s is over, and who asked waits", a.no, a.at.name)
		return
	}
	got := a.real.Answer()
	if w.set.purges && a.at.kept && !w.isTaken(a) && errors.Is(got.Err, session.ErrNoReceiver) {
		return // given up for want of room
	}
	if got.Result != want.Result || want.Err != nil && !errors.Is(got.Err, want.Err) {
		w.fail("I37", "question %d of %s ended with %v, want %v", a.no, a.at.name, got, want)
	}
}

// finish ends a request with a terminal, as the goroutine that served it does.
//
// It is called for requests that are over, too. The second terminal must be refused
// and must leave nothing, whoever is first: the Handler, a deadline, the end of the
// session.
func (w *world) finish(r *request, abort bool) {
	e := entry{sort: terminal, mark: w.mint()}
	m := w.message(e.mark, w.drawSize())
	e.size = m.Len()
	var ok bool
	if abort {
		w.fault(Cancel)
		ok = r.x.Abort(m, errDeadline)
	} else {
		ok = r.x.Finish(m)
	}
	if ok == r.over {
		w.fail("I1", "%s gets a terminal: %v, and was over before: %v", r, ok, r.over)
	}
	if !ok || r.over {
		return
	}
	if w.tell() {
		w.say("%s ends with m%d", r, e.mark)
	}
	w.ended(r, &e)
	if abort && r.stops != 1 {
		w.fail("I3", "%s was ended, and who serves it was not told", r)
	}
}

var (
	errDeadline = errors.New("too late")
	errCancel   = errors.New("cancelled")
)

// cancel ends a request without a terminal.
func (w *world) cancel(r *request, ok bool) {
	if ok == r.over {
		w.fail("I24", "%s is cancelled: %v, and was over before: %v", r, ok, r.over)
	}
	if !ok || r.over {
		return
	}
	if r.stops != 1 {
		w.fail("I3", "%s was cancelled, and who serves it was not told", r)
	}
	r.cancelled = true
	r.st.drop(all)
	w.ended(r, nil)
	if w.tell() {
		w.say("%s is cancelled", r)
	}
}

// ended notes the end of a request: what is taken back, what precedes the terminal,
// and the terminal.
func (w *world) ended(r *request, end *entry) {
	s := r.st
	r.over = true
	if r.sess != nil {
		r.sess.running = slices.DeleteFunc(r.sess.running, func(o *request) bool { return o == r })
	}
	seen := w.endAsks(r.sess, s, mcp.ErrRequestEnded)
	s.drop(isQuestion)
	if r.isNote {
		end = nil
	}
	switch {
	case end == nil || s.lost:
		w.supersedeLate(r)
		if end != nil {
			w.least.undelivered++
		}
	default:
		w.lastWords(r, seen)
	}
	if s.held {
		s.drop(all)
		s.held = false
	}
	if end != nil {
		w.add(s, *end)
	}
	w.close(s)
}

// lastWords are what the client must hear before the terminal.
//
// A client that shows a question to a person must learn that nobody waits for the
// answer, and it can learn that before the terminal only: behind that the stream is
// over.
func (w *world) lastWords(r *request, seen []*ask) {
	if r.late >= 0 {
		if most, _ := r.st.loads(); w.isSlow(most) {
			r.st.outdate(r.st.entries[r.late].key)
		}
		w.place(r)
	}
	w.withdrawn += uint64(len(seen))
	for _, a := range seen {
		w.add(r.st, entry{sort: withdrawal, key: a.no})
	}
}

// endAsks notes that the questions of a stream are over, and returns those that
// the client has.
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
