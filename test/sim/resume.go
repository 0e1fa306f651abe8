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
// An id is untrusted text. It is checked in three ways: whether it is an id, whether this
// session has such a stream, and whether that position was ever issued. Otherwise it is
// refused without an effect on the stream (M059, M063, M068).
func (w *world) resume(t *arrival) {
	s := t.sess
	id, ok := session.ParseEventID(t.event)
	if !ok || id.String() != t.event {
		if w.isReal(t.event) || ok {
			w.fail("I14", "%q was an event id, and is rejected", t.event)
		}
		t.refuse()
		return
	}
	st := w.streamOf(s, id)
	if st != nil && s.real.IsStandalone(id) != (st == s.standalone) {
		w.fail("I8", "%s is the standalone stream of %s: %v", st.name, s, st != s.standalone)
	}
	out := &writer{stream: st, response: t.response, wake: make(chan struct{}, 1), resumed: true, pos: id.Pos}
	c, err := s.real.Resume(id, out.wake, w.now)
	w.updateExpired(s)
	gone := new(session.GoneError)
	switch isGone := errors.As(err, &gone); {
	case s.ended:
		w.wantErr(t, err, session.ErrEnded)
	case st == nil:
		w.wantErr(t, err, session.ErrUnknownEvent)
	case isGone && st.terminalTaken && st.of != nil && id.Pos >= uint64(len(st.positions)):
		w.fail("I13", "%s was dropped, and its client has all of it", st.name)
	case isGone:
		w.checkGone(s, st, gone)
	case w.mustBeGone(st) && err == nil:
		w.fail("I14", "%s expired at %v, and is resumed", st.name, st.retainedFrom.Add(w.set.limits.LogKeep))
	case id.Pos < st.firstID || id.Pos > uint64(len(st.positions)):
		w.wantErr(t, err, session.ErrUnknownEvent)
	case w.mayBeGone(st) && errors.Is(err, session.ErrUnknownEvent):
		if !st.reportedGone && st.of != nil && !st.of.cancelled && (id.Pos < uint64(len(st.positions)) || st.ended && st.hasQueued()) {
			w.fail("I13", "%s was dropped, and its client is refused an unknown id", st.name)
		}
		st.reportedGone = true
	case st.attached >= w.set.limits.Streams:
		w.fault(LimitHit)
		w.wantErr(t, err, session.ErrTooMany)
	case err != nil:
		w.fail("I13", "%s is not resumed at %s: %v", st.name, id, err)
	default:
		w.resumed(out, c)
		return
	}
	t.refuse()
}

func (w *world) wantErr(t *arrival, err, want error) {
	if !errors.Is(err, want) {
		w.fail("I14", "%s resumes from %s on %s: %v, want %v", t.from, t.event, t.sess, err, want)
	}
}

func (w *world) resumed(t *writer, c *session.Consumer) {
	s := t.stream
	if s.of != nil {
		s.of.resumed = true
	}
	s.requeued = nil
	old := s.writer
	w.attach(t, c)
	w.tookOver(old)
	w.resumes++
	if w.tracing() {
		w.logf("%s is resumed behind %d", s.name, t.pos)
	}
}

// streamOf returns the stream of the session that the event is on, or nil.
func (w *world) streamOf(s *sess, id session.EventID) *stream {
	for _, st := range w.streams {
		if st.sess == s && (st.resumable || st.reportedGone) && st.number == id.Stream {
			return st
		}
	}
	return nil
}

// isReal reports whether the text is an id that was issued.
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

// checkGone handles the answer that messages are no longer retained, which is final for the
// request.
//
// The client stops waiting, and calls again or gives up. So the answer must be true, must
// name the right request, and must be final: a stream that was reported as gone and
// continues later would deliver a second answer.
func (w *world) checkGone(s *sess, st *stream, gone *session.GoneError) {
	switch {
	case !w.mayBeGone(st):
		w.fail("I13", "%s was dropped before its time and within the limits", st.name)
	case st.of != nil && gone.Request != st.of.id:
		w.fail("I14", "%s was dropped, reported for request %s", st.name, gone.Request)
	case gone.Expired && st.of != nil && st.of.cancelled:
		w.fail("I13", "%s was cancelled, and is reported as expired", st.name)
	case gone.SharedLimit && w.set.pool == unlimited:
		w.fail("I13", "%s was dropped for other sessions, and the pool is unlimited", st.name)
	case gone.Expired && !st.expired, !gone.Expired && !w.set.purges:
		w.fail("I13", "%s was dropped, expired: %v, reported: %v", st.name, st.expired, gone.Expired)
	case st.of == nil && !gone.Request.IsZero():
		w.fail("I14", "%s was dropped, reported for request %s", st.name, gone.Request)
	case !st.reportedGone && gone.Ended != st.ended:
		w.fail("I13", "%s was dropped, has ended: %v, reported: %v", st.name, st.ended, gone.Ended)
	}
	w.gones++
	if st.of == nil {
		st.refusals++
		st.missed = st.refusals
	}
	if st.of == nil || st.reportedGone {
		return
	}
	st.reportedGone = true
	st.of.terminals++
	st.of.resumed = true
	if st.of.ended {
		return
	}
	if st.writer != nil {
		st.writer = nil
		s.consumers--
	}
	w.streamLost(st)
	st.resumable = false
}

// mayBeGone reports whether a part of a stream may have been dropped: to stay within a
// limit, or because its retention has ended.
func (w *world) mayBeGone(st *stream) bool {
	return st.trimmable || st.reportedGone || w.mustBeGone(st)
}

func (w *world) mustBeGone(st *stream) bool {
	return st.ended && !st.retainedFrom.IsZero() && st.writer == nil && w.now.Sub(st.retainedFrom) >= w.set.limits.LogKeep
}

// updateExpired records that a session has dropped what has expired.
func (w *world) updateExpired(s *sess) {
	for _, st := range w.streams {
		w.startRetention(s, st)
		st.expired = st.expired || st.sess == s && st.resumable && w.mustBeGone(st)
	}
}

// startRetention begins the retention of a stream of the session, and reports whether it
// did.
func (w *world) startRetention(s *sess, st *stream) bool {
	if st.sess != s || !st.resumable || !st.ended || st.writer != nil || !st.retainedFrom.IsZero() {
		return false
	}
	st.retainedFrom = w.now
	return true
}

// retentionTimer is the timer that makes a session drop what has expired.
//
// It is needed because a session that is not used any more would otherwise retain
// everything to its end (M095).
type retentionTimer struct {
	s  *sess
	at time.Time
}

func (t *retentionTimer) ready(w *world) bool { return !w.now.Before(t.at) }

func (t *retentionTimer) run(w *world) bool {
	next := t.s.real.Expire(w.now)
	w.updateExpired(t.s)
	if !next.IsZero() && !next.After(w.now) {
		w.fail("I28", "%s expires next at %v, and it is %v", t.s, next, w.now)
	}
	if next.After(w.now.Add(w.set.limits.LogKeep)) {
		w.fail("I21", "%s retains something until %v", t.s, next)
	}
	w.checkNotExpired(t.s, next)
	t.at = next
	if next.IsZero() {
		t.at = w.now.Add(w.set.limits.LogKeep)
	}
	return !t.s.ended
}

// checkNotExpired checks that a session's next expiry is not later than that of any of its
// streams.
func (w *world) checkNotExpired(s *sess, next time.Time) {
	for _, st := range w.streams {
		if st.sess != s || s.ended || !st.resumable || st.expired || !st.ended || st.writer != nil || !st.real.IsAway() {
			continue
		}
		if due := st.retainedFrom.Add(w.set.limits.LogKeep); next.IsZero() || next.After(due) {
			w.fail("I28", "%s is retained until %v, and its session expires it at %v", st.name, due, next)
		}
	}
}

// hostileCursor returns a made-up event id, or one of another client: texts that other
// number parsers accept, positions beyond the end, and valid ids.
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
			beyond = 1 // dropped messages have left positions that no client has received
		}
		pos := uint64(w.src.Intn(len(of.positions) + beyond))
		return session.EventID{Stream: of.number, Pos: pos}.String()
	}
}

// older returns an id that the client has received before its last.
func (w *world) older(at cursor) string {
	id, _ := session.ParseEventID(at.event)
	if id.Pos <= at.at.firstID {
		return at.event
	}
	w.fault(OldCursor)
	id.Pos -= uint64(w.src.Intn(int(id.Pos-at.at.firstID) + 1))
	return id.String()
}
