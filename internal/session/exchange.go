// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Form is how the answer of an exchange goes over HTTP.
type Form uint8

// The forms of an answer.
const (
	Undecided Form = iota // nothing was appended yet
	JSON                  // one object, the terminal
	SSE                   // a stream
)

// Stopper is the life of whoever serves an exchange. End ends it, for the reason why, and
// is called without a lock.
type Stopper interface{ End(why error) }

// StopFunc is a function as a [Stopper].
type StopFunc func(why error)

// End calls f.
func (f StopFunc) End(why error) { f(why) }

// Exchange is one request of a client while it is served: its stream, and the
// one terminal that ends it. It is over when it has its terminal, or when it is
// cancelled and will never have one.
type Exchange struct {
	id    mcp.ID
	owner *Session // nil in the modern era

	// Below: guarded by stream.core.mu.
	stop   Stopper // of whoever serves; called without the lock; nil when over
	stream Stream
	form   Form
	over   bool
	late   *Message // progress beyond the pace, or nil

	progress, logs meter
	reached        advance

	next, prev *Exchange // in the session

	room [1]Message // of the stream: most answers are one
	text [256]byte  // of a small terminal; see Room
}

// begin makes the exchange of a request, which that machine guards, out of a zero one.
func (x *Exchange) begin(id mcp.ID, guard *core, stop Stopper) {
	x.id, x.stop = id, stop
	x.stream.core = guard
	x.stream.queue = x.room[:0]
}

// Stateless is an exchange that belongs to no session, and all that it needs, in one piece.
// The zero Stateless has not begun.
type Stateless struct {
	exchange Exchange
	own      core
}

// Begin begins the exchange of a request, and returns it. It is called once. stop is
// called at most once, when the exchange is cancelled.
func (l *Stateless) Begin(id mcp.ID, rules *Rules, stop Stopper) *Exchange {
	l.own.rules = rules
	l.exchange.begin(id, &l.own, stop)
	return &l.exchange
}

// CountFor has what waits on an exchange without a session count for the principal, and
// so many bytes besides that its memory keeps as long. It must be called before the
// exchange is known to others.
func (x *Exchange) CountFor(principal string, beside int) {
	x.stream.core.mu.Lock()
	defer x.stream.core.mu.Unlock()
	x.stream.core.principal, x.stream.beside = principal, beside
}

// NewStateless returns the exchange of a request that belongs to no session, as [Stateless.Begin]
// makes it.
func NewStateless(id mcp.ID, rules *Rules, stop Stopper) *Exchange {
	return new(Stateless).Begin(id, rules, stop)
}

// Room returns room for the text of a small terminal, or of the beginning of a large
// one, to append to. Whoever is the one to make the terminal has it: it is the same room
// each time.
func (x *Exchange) Buffer() []byte { return x.text[:0] }

// ID returns the id of the request.
func (x *Exchange) ID() mcp.ID { return x.id }

// Stream returns the stream that answers the request.
func (x *Exchange) Stream() *Stream { return &x.stream }

// Hold keeps everything back until a message of class Opening, or the
// terminal, is there. It must be called before the exchange is known to others.
func (x *Exchange) HoldUntilOpening() {
	x.stream.core.mu.Lock()
	defer x.stream.core.mu.Unlock()
	x.stream.held = true
}

// Finish appends the terminal, after which the exchange is over. It reports
// false, and appends nothing, where it is over already.
func (x *Exchange) Finish(terminal Message) bool {
	x.stream.core.mu.Lock()
	defer x.stream.core.mu.Unlock()
	return x.endLocked(mcp.ErrRequestEnded, terminal)
}

// Cancel ends the exchange without a terminal: nothing more is given out, and
// who serves it is told to stop, for the reason why. It reports false where the
// exchange is over already.
func (x *Exchange) Cancel(why error) bool { return call(x.cancel(), why) }

// cancel returns how to stop who serves, nil where the exchange is over.
func (x *Exchange) cancel() Stopper {
	x.stream.core.mu.Lock()
	defer x.stream.core.mu.Unlock()
	if x.over {
		return nil
	}
	x.stream.clearLocked()
	stop := x.stop
	x.endLocked(mcp.ErrRequestEnded)
	return stop
}

// call calls what ends a context, if there is such a thing.
func call(stop Stopper, why error) bool {
	if stop == nil {
		return false
	}
	stop.End(why)
	return true
}

// Abort ends the exchange with a terminal of ours, and who serves it is told to
// stop. It reports false where the exchange is over already.
func (x *Exchange) Abort(terminal Message, why error) bool {
	return call(x.abort(terminal), why)
}

func (x *Exchange) abort(terminal Message) Stopper {
	x.stream.core.mu.Lock()
	defer x.stream.core.mu.Unlock()
	stop := x.stop
	if !x.endLocked(mcp.ErrRequestEnded, terminal) {
		return nil
	}
	return stop
}

// endLocked is the one way in which an exchange ends: the id becomes free, its
// asks fail, its stream ends. What served it is let go of, because the stream may
// be kept for a client that comes back.
func (x *Exchange) endLocked(asks error, terminal ...Message) bool {
	if x.over {
		return false
	}
	x.over = true
	x.stop = nil
	if x.owner != nil {
		x.owner.exchanges.remove(x)
	}
	if x.id.IsZero() && x.owner != nil {
		terminal = nil // a notification has no answer
	}
	seen := x.stream.core.endAsksLocked(&x.stream, asks)
	x.stream.dropAsksLocked()
	if len(terminal) > 0 {
		x.flushLocked()
		x.withdrawLocked(seen)
	}
	x.late = nil
	x.stream.endLocked(terminal...)
	return true
}

// withdrawLocked has the client close its questions before it learns how the
// request ended, whether that was known here first or that nobody waits for the
// answers: which of the two comes first is chance, and what the client gets is
// not.
func (x *Exchange) withdrawLocked(seen []*Ask) {
	if x.stream.lost {
		return
	}
	for _, a := range seen {
		x.stream.pushLocked(a.Withdrawal())
	}
}

// Form returns how the answer goes over HTTP. Once it is decided it stays: JSON
// where nothing but the terminal was appended, SSE otherwise, or when the caller
// does not want to wait any longer.
func (x *Exchange) Form(force bool) Form {
	x.stream.core.mu.Lock()
	defer x.stream.core.mu.Unlock()
	if x.form == Undecided {
		x.form = x.chooseLocked(force)
	}
	return x.form
}

func (x *Exchange) chooseLocked(force bool) Form {
	s := &x.stream
	switch {
	case s.ended && len(s.queue) == 1 && s.taken == 0:
		return JSON
	case s.ended, force, s.pausing, len(s.queue) > 0 && !s.held:
		return SSE
	default:
		return Undecided
	}
}
