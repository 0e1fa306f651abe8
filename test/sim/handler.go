// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// handler is the goroutine that serves a request: a Handler that sends some messages and
// asks some questions, or a call to a backend.
type handler struct {
	r       *request
	left    int // messages to send before it ends
	asks    bool
	listen  bool
	blocked <-chan struct{} // it waits for space, to send again
	again   entry
	call    *outCall
	wants   int // the index of the backend to call, -1: none
}

// startTask serves a request by the script that its client has drawn.
func (w *world) startTask(r *request, script int) {
	t := &handler{r: r, wants: -1, listen: r.stream.held}
	switch {
	case script == 0 || r.isNotification:
	case script >= 4 && w.set.calls && !t.listen:
		t.wants = script % len(w.backends)
	default:
		t.left = 1 + w.src.Intn(10)
		t.asks = script == 2 && r.sess != nil
	}
	w.spawn(t)
}

func (t *handler) ready(*world) bool {
	switch {
	case t.blocked != nil:
		return isClosed(t.blocked) || t.r.stopped || t.listen && t.r.stream.held
	case t.call != nil:
		return t.call.draining || len(t.call.real.Wake()) > 0 || t.r.stopped && !t.call.gaveUp
	default:
		return true
	}
}

func (t *handler) run(w *world) bool {
	switch {
	case t.blocked != nil && t.r.stream.held:
		w.appendEntry(t.r.stream, entry{kind: opening, size: 10}) // queued messages are delivered after that
		return true
	case t.blocked != nil && !t.r.stopped:
		t.send(w, t.again)
		return true
	case t.wants >= 0 && t.call == nil:
		t.open(w)
		return true
	case t.call != nil:
		t.blocked = nil
		return t.relay(w)
	case t.r.stopped || t.left == 0:
		w.finish(t.r, false)
		return false
	}
	t.left--
	t.act(w)
	return true
}

// act sends a message or asks a question.
func (t *handler) act(w *world) {
	e := entry{kind: plain, size: w.drawSize()}
	switch n := w.src.Intn(10); {
	case t.listen && n < 2:
		e.kind = opening
		if !t.r.stream.held {
			e.kind = plain
		}
	case t.listen:
		e.kind, e.key = change, n%len(keys)
	case n < 4:
	case n < 6:
		e.kind = progress
	case n < 8:
		e.kind = log
	case t.asks || n == 8 && t.r.sess != nil && w.src.OneIn(3):
		t.ask(w, t.r.stream, nil)
		return
	case n == 9 && w.src.OneIn(4):
		w.finish(t.r, true)
		return
	}
	t.send(w, e)
}

func (t *handler) send(w *world, e entry) {
	t.again = e
	t.blocked = w.appendEntry(t.r.stream, e)
}

// ask asks the client a question, in a goroutine of its own.
func (t *handler) ask(w *world, s *stream, from *outCall) {
	a := w.sendAsk(s, t.r.sess)
	if a == nil {
		if from != nil {
			from.replied++
		}
		return
	}
	w.spawn(&askWaiter{a: a, sess: t.r.sess, r: t.r, late: w.now.Add(askDelivery), patience: w.src.Intn(8), from: from})
}

// askDelivery is how long a question waits for a consumer.
const askDelivery = 10 * time.Second

// askWaiter is the goroutine that waits for an answer.
type askWaiter struct {
	a        *ask
	sess     *sess
	r        *request // nil for a question that belongs to no request
	late     time.Time
	patience int // 0: the question is withdrawn before it is answered
	from     *outCall
}

func (t *askWaiter) ready(w *world) bool {
	return isClosed(t.a.real.Done()) || t.patience == 0 || !t.late.IsZero() && !w.now.Before(t.late)
}

func (t *askWaiter) run(w *world) bool {
	switch {
	case t.patience == 0: // it may have ended at this moment
		t.patience = -1
		w.reapTrimmedAsks(t.sess)
		w.withdraw(t.sess, t.a)
	case isClosed(t.a.real.Done()):
		w.reapTrimmedAsks(t.sess)
		if !t.a.ended {
			w.fail("I37", "question %d of %s has ended without a cause", t.a.no, t.a.at.name)
		}
		if t.from != nil {
			t.from.replied++
		}
		return false
	default:
		t.late = time.Time{}
		w.withdrawUntaken(t.sess, t.a)
	}
	return true
}

// withdraw withdraws a question, and notifies the client if it has received it.
//
// A question that was not taken is removed from the queue, and the client never receives
// it. One that was taken is followed by a notification. The decision and the action are one
// step: otherwise a consumer could take the question between the two.
func (w *world) withdraw(owner *sess, a *ask) {
	s := a.at
	want := !a.ended && w.isTaken(a) && !s.ended && !s.lost
	tell := s.real.Withdraw(a.real, errCancel)
	if tell != want {
		w.fail("I37", "question %d of %s is withdrawn, notify the client: %v, want %v", a.no, s.name, tell, want)
	}
	if !a.ended {
		w.askEnded(owner, a, session.Terminal{Err: errCancel})
	}
	if !tell {
		return
	}
	w.withdrawn++
	m := a.real.Withdrawal()
	full, err := s.real.Append(m)
	w.appended(s, entry{kind: withdrawal, key: a.no, size: m.Len(), optional: w.slowNow(s)}, full, err)
	if full != nil {
		s.waiters = s.waiters[:len(s.waiters)-1] // no thread waits
	}
}

func (w *world) slowNow(s *stream) bool {
	most, _ := s.loads()
	return w.isSlow(most)
}

// withdrawUntaken withdraws a question that was not taken.
//
// A client that does not read is distinguished from a person that takes time to answer: the
// first has a short time, the second as long as it takes.
func (w *world) withdrawUntaken(owner *sess, a *ask) {
	want := !a.ended && !w.isTaken(a)
	if got := a.at.real.WithdrawUntaken(a.real, session.ErrNoReceiver); got != want {
		w.fail("I37", "question %d of %s is withdrawn untaken: %v, want %v", a.no, a.at.name, got, want)
	}
	if want {
		w.askEnded(owner, a, session.Terminal{Err: session.ErrNoReceiver})
	}
}

// releaseTimer releases deferred progress when its time has come.
type releaseTimer struct{ r *request }

func (t *releaseTimer) ready(w *world) bool {
	return t.r.deferredAt.IsZero() || !w.now.Before(t.r.deferredAt)
}

func (t *releaseTimer) run(w *world) bool {
	if !t.r.deferredAt.IsZero() {
		w.release(t.r)
	}
	return !t.r.deferredAt.IsZero()
}
