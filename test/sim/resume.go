// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// resume serves a GET with Last-Event-ID.
//
// An id is text from outside. It is held against three things: whether it is one,
// whether this session has such a stream, and whether that place was ever given
// out. What does not agree is refused, without an effect on the stream that it
// happens to name (M059, M063, M068).
func (w *world) resume(t *visit) {
	s := t.sess
	id, ok := session.ParseEventID(t.event)
	if !ok || id.String() != t.event {
		if w.isReal(t.event) || ok {
			w.fail("I14", "%q was an event id, and is not read", t.event)
		}
		t.turnAway()
		return
	}
	st := w.streamOf(s, id)
	if st != nil && s.real.IsStandalone(id) != (st == s.standalone) {
		w.fail("I8", "%s is the standalone stream of %s: %v", st.name, s, st != s.standalone)
	}
	out := &writer{at: st, pipe: t.pipe, wake: make(chan struct{}, 1), resumed: true, pos: id.Pos}
	// It is asked for its opinion before it is asked to do it, as the product does
	// before it writes a header. A look that changes something, or another answer
	// to the second question, is a response that has begun and has nothing to say.
	can := s.real.CanResume(id, w.now)
	if st != nil && st.real.IsLost() != st.lost {
		w.fail("I25", "%s was only looked at, and is lost: %v", st.name, !st.lost)
	}
	c, err := s.real.Resume(id, out.wake, w.now)
	if (can == nil) != (err == nil) {
		w.fail("I14", "%s is resumed at %s: %v, and was to be: %v", s, id, err, can)
	}
	w.agedBy(s)
	gone := new(session.GoneError)
	switch isGone := errors.As(err, &gone); {
	case s.ended:
		w.want(t, err, session.ErrEnded)
	case st == nil:
		w.want(t, err, session.ErrUnknownEvent)
	case isGone && st.over && st.of != nil && id.Pos >= uint64(len(st.seen)):
		w.fail("I13", "%s is given up, and its client has all of it", st.name)
	case isGone:
		w.goneFor(s, st, gone)
	case w.mustBeGone(st) && err == nil:
		w.fail("I14", "%s was to be given up by %v, and is resumed", st.name, st.clock.Add(w.set.limits.LogKeep))
	case id.Pos < st.since || id.Pos > uint64(len(st.seen)):
		w.want(t, err, session.ErrUnknownEvent)
	case w.mayBeGone(st) && errors.Is(err, session.ErrUnknownEvent):
		if !st.buried && st.of != nil && !st.of.cancelled && (id.Pos < uint64(len(st.seen)) || st.ended && st.waiting()) {
			w.fail("I13", "%s is given up, and its client is told that it never was", st.name)
		}
		st.buried = true
	case st.open >= w.set.limits.Streams:
		w.fault(LimitHit)
		w.want(t, err, session.ErrTooMany)
	case err != nil:
		w.fail("I13", "%s is not resumed at %s: %v", st.name, id, err)
	default:
		w.resumed(out, c)
		return
	}
	t.turnAway()
}

func (w *world) want(t *visit, err, want error) {
	if !errors.Is(err, want) {
		w.fail("I14", "%s comes back with %s to %s: %v, want %v", t.from, t.event, t.sess, err, want)
	}
}

func (w *world) resumed(t *writer, c *session.Consumer) {
	s := t.at
	if s.of != nil {
		s.of.again = true
	}
	s.back = nil
	old := s.live
	w.attach(t, c)
	w.tookOver(old)
	w.resumes++
	if w.tell() {
		w.say("%s is resumed behind %d", s.name, t.pos)
	}
}

// streamOf returns the stream of the session that the event is on, or nil.
func (w *world) streamOf(s *sess, id session.EventID) *stream {
	for _, st := range w.streams {
		if st.sess == s && (st.kept || st.buried) && st.number == id.Stream {
			return st
		}
	}
	return nil
}

// isReal reports whether the text is an id that was given out.
func (w *world) isReal(text string) bool {
	for _, c := range w.clients {
		for _, at := range c.cursors {
			if at.event == text {
				return true
			}
		}
	}
	return false
}

// goneFor notes that a client was told that what it wants is kept no more: that is
// the last word on its request.
//
// A client that is told so stops waiting, and calls again or gives up. So it must
// be true, must be said of the request that it is about, and is final: a stream
// that was told to be gone and is there again later would give a second answer.
func (w *world) goneFor(s *sess, st *stream, gone *session.GoneError) {
	switch {
	case !w.mayBeGone(st):
		w.fail("I13", "%s is given up, and there was time and room for it", st.name)
	case st.of != nil && gone.Request != st.of.id:
		w.fail("I14", "%s is given up, and that is said of request %s", st.name, gone.Request)
	case gone.Aged && st.of != nil && st.of.cancelled:
		w.fail("I13", "%s was cancelled, and its client is told that it is gone", st.name)
	case gone.Shared && w.set.pool == noPool:
		w.fail("I13", "%s is given up for the sake of other sessions, and there is room for all", st.name)
	case gone.Aged && !st.aged, !gone.Aged && !w.set.purges:
		w.fail("I13", "%s is given up, its time is over: %v, and its client is told: %v", st.name, st.aged, gone.Aged)
	case st.of == nil && !gone.Request.IsZero():
		w.fail("I14", "%s is given up, and that is said of request %s", st.name, gone.Request)
	case !st.buried && gone.Over != st.ended:
		w.fail("I13", "%s is given up, and has ended: %v, and its client is told: %v", st.name, st.ended, gone.Over)
	}
	w.gones++
	if st.of == nil {
		st.refused++
		st.missed = st.refused
	}
	if st.of == nil || st.buried {
		return
	}
	st.buried = true
	st.of.got++
	st.of.again = true
	if st.of.over {
		return
	}
	if st.live != nil {
		st.live = nil
		s.carriers--
	}
	w.lose(st)
	st.kept = false
}

// mayBeGone reports whether what a stream keeps may have been given up: there was
// too much, or its time is over.
func (w *world) mayBeGone(st *stream) bool { return st.tight || st.buried || w.mustBeGone(st) }

func (w *world) mustBeGone(st *stream) bool {
	return st.ended && !st.clock.IsZero() && st.live == nil && w.now.Sub(st.clock) >= w.set.limits.LogKeep
}

// agedBy notes that a session has looked at the time.
func (w *world) agedBy(s *sess) {
	for _, st := range w.streams {
		w.clocked(s, st)
		st.aged = st.aged || st.sess == s && st.kept && w.mustBeGone(st)
	}
}

// clocked has the time of a stream begin, if it is one of the session that is to, and
// reports whether it has.
func (w *world) clocked(s *sess, st *stream) bool {
	if st.sess != s || !st.kept || !st.ended || st.live != nil || !st.clock.IsZero() {
		return false
	}
	st.clock = w.now
	return true
}

// keeper is the timer that has a session give up what was kept for its time.
//
// It looks on its own at what was kept for its time: a session that nobody uses any
// more is asked by nobody, and would keep everything to its end (M095).
type keeper struct {
	s  *sess
	at time.Time
}

func (t *keeper) ready(w *world) bool { return !w.now.Before(t.at) }

func (t *keeper) run(w *world) bool {
	next := t.s.real.Expire(w.now)
	w.agedBy(t.s)
	if !next.IsZero() && !next.After(w.now) {
		w.fail("I28", "%s wants to give up what it keeps at %v, and it is %v", t.s, next, w.now)
	}
	if next.After(w.now.Add(w.set.limits.LogKeep)) {
		w.fail("I21", "%s keeps something until %v", t.s, next)
	}
	w.notExpired(t.s, next)
	t.at = next
	if next.IsZero() {
		t.at = w.now.Add(w.set.limits.LogKeep)
	}
	return !t.s.ended
}

// notExpired holds against the rules when a session looks again at what it keeps: as soon
// as the time of some of it is over.
func (w *world) notExpired(s *sess, next time.Time) {
	for _, st := range w.streams {
		if st.sess != s || s.ended || !st.kept || st.aged || !st.ended || st.live != nil || !st.real.IsAway() {
			continue
		}
		if due := st.clock.Add(w.set.limits.LogKeep); next.IsZero() || next.After(due) {
			w.fail("I28", "%s is kept until %v, and its session looks at that at %v", st.name, due, next)
		}
	}
}

// hostileCursor makes up an event id, or takes that of somebody else.
//
// Texts that other readers of numbers accept, places beyond the end, and true ids
// of whoever has some.
func (w *world) hostileCursor() string {
	switch n := w.src.Intn(6); n {
	case 0:
		return "0-0"
	case 1:
		return [...]string{"-", "1", "1-", "-1", "01-1", "A-1", "1-1-1", "+1-1", "zzzzzzzzzzzzzzzzz-1"}[w.src.Intn(9)]
	default:
		var of *stream
		for _, st := range w.streams {
			if st.number != 0 && (of == nil || w.src.OneIn(3)) {
				of = st
			}
		}
		if of == nil {
			return "1-1"
		}
		beyond := 3
		if w.set.purges {
			beyond = 1 // what was given up has left places that nobody has heard of
		}
		pos := uint64(w.src.Intn(len(of.seen) + beyond))
		return session.EventID{Stream: of.number, Pos: pos}.String()
	}
}

// older returns an id that the client has had before its last.
func (w *world) older(at cursor) string {
	id, _ := session.ParseEventID(at.event)
	if id.Pos <= at.at.since {
		return at.event
	}
	w.fault(OldCursor)
	id.Pos -= uint64(w.src.Intn(int(id.Pos-at.at.since) + 1))
	return id.String()
}
