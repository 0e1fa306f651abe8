// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// task is the goroutine in which a request is served: by a Handler that says a few
// things and asks a few, or by a call to a backend.
type task struct {
	r       *request
	left    int // things to say before it ends
	asks    bool
	listen  bool
	blocked <-chan struct{} // it waits for room, to say again what it could not
	again   entry
	call    *ocall
	wants   int // the backend to call, -1: none
}

// startTask has a request served in the way that its client has drawn.
func (w *world) startTask(r *request, script int) {
	t := &task{r: r, wants: -1, listen: r.st.held}
	switch {
	case script == 0 || r.isNote:
	case script >= 4 && w.set.calls && !t.listen:
		t.wants = script % len(w.backends)
	default:
		t.left = 1 + w.src.Intn(10)
		t.asks = script == 2 && r.sess != nil
	}
	w.spawn(t)
}

func (t *task) ready(*world) bool {
	switch {
	case t.blocked != nil:
		return isClosed(t.blocked) || t.r.stopped || t.listen && t.r.st.held
	case t.call != nil:
		return t.call.takes || len(t.call.real.Wake()) > 0 || t.r.stopped && !t.call.gaveUp
	default:
		return true
	}
}

func (t *task) run(w *world) bool {
	switch {
	case t.blocked != nil && t.r.st.held:
		w.give(t.r.st, entry{sort: opening, size: 10}) // what waits can be said after that
		return true
	case t.blocked != nil && !t.r.stopped:
		t.say(w, t.again)
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

// act says or asks one thing.
func (t *task) act(w *world) {
	e := entry{sort: plain, size: w.drawSize()}
	switch n := w.src.Intn(10); {
	case t.listen && n < 2:
		e.sort = opening
		if !t.r.st.held {
			e.sort = plain
		}
	case t.listen:
		e.sort, e.key = change, n%len(keys)
	case n < 4:
	case n < 6:
		e.sort = progress
	case n < 8:
		e.sort = log
	case t.asks || n == 8 && t.r.sess != nil && w.src.OneIn(3):
		t.ask(w, t.r.st, nil)
		return
	case n == 9 && w.src.OneIn(4):
		w.finish(t.r, true)
		return
	}
	t.say(w, e)
}

func (t *task) say(w *world, e entry) {
	t.again = e
	t.blocked = w.give(t.r.st, e)
}

// ask puts a question to the client, in a goroutine of its own.
func (t *task) ask(w *world, s *stream, from *ocall) {
	a := w.putAsk(s, t.r.sess)
	if a == nil {
		if from != nil {
			from.replied++
		}
		return
	}
	w.spawn(&asking{a: a, sess: t.r.sess, r: t.r, late: w.now.Add(askDelivery), patience: w.src.Intn(8), from: from})
}

// askDelivery is how long a question waits for a carrier.
const askDelivery = 10 * time.Second

// asking is the goroutine of whoever asked a question.
type asking struct {
	a        *ask
	sess     *sess
	r        *request // nil for a question that belongs to no request
	late     time.Time
	patience int // 0: the question is taken back before it is answered
	from     *ocall
}

func (t *asking) ready(w *world) bool {
	return isClosed(t.a.real.Done()) || t.patience == 0 || !t.late.IsZero() && !w.now.Before(t.late)
}

func (t *asking) run(w *world) bool {
	switch {
	case t.patience == 0: // it may have ended at this moment
		t.patience = -1
		w.reap(t.sess)
		w.withdraw(t.sess, t.a)
	case isClosed(t.a.real.Done()):
		w.reap(t.sess)
		if !t.a.over {
			w.fail("I37", "question %d of %s has ended, and nothing ended it", t.a.no, t.a.at.name)
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

// withdraw takes a question back, and tells the client if it has it.
//
// A question that is on no wire is taken out of the queue, and the client never
// sees it. One that it may have seen is followed by a notice. To know which it is
// and to act on it is one step of the machine: a carrier may take the question
// between two.
func (w *world) withdraw(owner *sess, a *ask) {
	s := a.at
	want := !a.over && w.isTaken(a) && !s.ended && !s.lost
	tell := s.real.Withdraw(a.real, errCancel)
	if tell != want {
		w.fail("I37", "question %d of %s is taken back, and the client is to be told: %v, want %v", a.no, s.name, tell, want)
	}
	if !a.over {
		w.askEnded(owner, a, session.Terminal{Err: errCancel})
	}
	if !tell {
		return
	}
	w.withdrawn++
	m := a.real.Withdrawal()
	full, err := s.real.Append(m)
	w.given(s, entry{sort: withdrawal, key: a.no, size: m.Len(), may: w.slowNow(s)}, full, err)
	if full != nil {
		s.fulls = s.fulls[:len(s.fulls)-1] // nobody waits
	}
}

func (w *world) slowNow(s *stream) bool {
	most, _ := s.loads()
	return w.isSlow(most)
}

// withdrawUntaken gives up a question that is on no wire.
//
// A client that does not listen is told from a person who thinks: the first has a
// short time, the second as long as it takes.
func (w *world) withdrawUntaken(owner *sess, a *ask) {
	want := !a.over && !w.isTaken(a)
	if got := a.at.real.WithdrawUntaken(a.real, session.ErrNoReceiver); got != want {
		w.fail("I37", "question %d of %s is given up: %v, want %v", a.no, a.at.name, got, want)
	}
	if want {
		w.askEnded(owner, a, session.Terminal{Err: session.ErrNoReceiver})
	}
}

// timer has progress that was kept back released when its time has come.
type timer struct{ r *request }

func (t *timer) ready(w *world) bool { return t.r.lateAt.IsZero() || !w.now.Before(t.r.lateAt) }

func (t *timer) run(w *world) bool {
	if !t.r.lateAt.IsZero() {
		w.release(t.r)
	}
	return !t.r.lateAt.IsZero()
}
