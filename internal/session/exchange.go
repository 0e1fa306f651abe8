// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Form is the format of an answer over HTTP.
type Form uint8

// The forms of an answer.
const (
	Undecided Form = iota // nothing was appended yet
	JSON                  // one object, the terminal
	SSE                   // a stream
)

// Stopper ends the Handler that serves an exchange. End is called without a lock; why is
// the cause.
type Stopper interface{ End(why error) }

// StopFunc is an adapter that makes a function a [Stopper].
type StopFunc func(why error)

// End calls f.
func (f StopFunc) End(why error) { f(why) }

// Exchange is one request of a client in flight: its stream and its one terminal. It ends
// with its terminal, or without one when it is cancelled.
type Exchange struct {
	id      mcp.ID
	session *Session // nil in the modern era

	// Below: guarded by stream.core.mu.
	stop     Stopper // called without the lock; nil once ended
	stream   Stream
	form     Form
	ended    bool
	deferred *Message // progress beyond the rate limit, or nil

	progress, logs rateLimiter
	monotonic      monotonicProgress

	next, prev *Exchange // in the session

	queueBuf [1]Message // the first queue of the stream: most answers are one message
	textBuf  [256]byte  // of a small terminal; see Buffer
}

// begin initializes a zero Exchange, guarded by the lock of guard.
func (x *Exchange) begin(id mcp.ID, guard *core, stop Stopper) {
	x.id, x.stop = id, stop
	x.stream.core = guard
	x.stream.queue = x.queueBuf[:0]
}

// Stateless is an exchange without a session, in one allocation. The zero Stateless has not
// begun.
type Stateless struct {
	exchange Exchange
	core     core
}

// Begin begins the exchange of a request, and returns it. It must be called once. stop is
// called at most once, when the exchange is cancelled.
func (s *Stateless) Begin(id mcp.ID, rules *Rules, stop Stopper) *Exchange {
	s.core.rules = rules
	s.exchange.begin(id, &s.core, stop)
	return &s.exchange
}

// CountFor charges what is queued on an exchange without a session to the principal, plus
// beside bytes for memory that is retained as long. It must be called before the exchange
// is shared.
func (x *Exchange) CountFor(principal string, beside int) {
	x.stream.core.mu.Lock()
	defer x.stream.core.mu.Unlock()
	x.stream.core.principal, x.stream.overhead = principal, beside
}

// NewStateless returns the exchange of a request without a session; see [Stateless.Begin].
func NewStateless(id mcp.ID, rules *Rules, stop Stopper) *Exchange {
	return new(Stateless).Begin(id, rules, stop)
}

// Buffer returns an empty slice for the text of a small terminal, or for the beginning of a
// large one. Only the goroutine that makes the terminal may use it: all calls return the
// same memory.
func (x *Exchange) Buffer() []byte { return x.textBuf[:0] }

// ID returns the id of the request.
func (x *Exchange) ID() mcp.ID { return x.id }

// Stream returns the stream that answers the request.
func (x *Exchange) Stream() *Stream { return &x.stream }

// HoldUntilOpening withholds all messages until one of class Opening or the terminal is
// appended. It must be called before the exchange is shared.
func (x *Exchange) HoldUntilOpening() {
	x.stream.core.mu.Lock()
	defer x.stream.core.mu.Unlock()
	x.stream.held = true
}

// Finish appends the terminal, and the exchange ends. It reports false and appends nothing
// if the exchange has already ended.
func (x *Exchange) Finish(terminal Message) bool {
	x.stream.core.mu.Lock()
	defer x.stream.core.mu.Unlock()
	return x.endLocked(mcp.ErrRequestEnded, terminal)
}

// Cancel ends the exchange without a terminal: queued messages are dropped, and the Handler
// is stopped with the cause why. It reports false if the exchange has already ended.
func (x *Exchange) Cancel(why error) bool { return endStopper(x.cancel(), why) }

// cancel returns the Stopper of the Handler, or nil if the exchange has ended.
func (x *Exchange) cancel() Stopper {
	x.stream.core.mu.Lock()
	defer x.stream.core.mu.Unlock()
	if x.ended {
		return nil
	}
	x.stream.clearLocked()
	stop := x.stop
	x.endLocked(mcp.ErrRequestEnded)
	return stop
}

// endStopper calls stop.End, and reports false if stop is nil.
func endStopper(stop Stopper, why error) bool {
	if stop == nil {
		return false
	}
	stop.End(why)
	return true
}

// Abort ends the exchange with the given terminal and stops the Handler. It reports false
// if the exchange has already ended.
func (x *Exchange) Abort(terminal Message, why error) bool {
	return endStopper(x.abort(terminal), why)
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

// endLocked is the only way in which an exchange ends: the id becomes free, its asks fail,
// its stream ends. The reference to the Handler is dropped, because the stream may be
// retained for a client that reconnects.
func (x *Exchange) endLocked(asks error, terminal ...Message) bool {
	if x.ended {
		return false
	}
	x.ended = true
	x.stop = nil
	if x.session != nil {
		x.session.exchanges.remove(x)
	}
	if x.id.IsZero() && x.session != nil {
		terminal = nil // a notification has no answer
	}
	seen := x.stream.core.endAsksLocked(&x.stream, asks)
	x.stream.dropAsksLocked()
	if len(terminal) > 0 {
		x.flushDeferredLocked()
		x.cancelAsksLocked(seen)
	}
	x.deferred = nil
	x.stream.endLocked(terminal...)
	return true
}

// cancelAsksLocked notifies the client that its open asks are cancelled before it receives
// the terminal. It does so whether the exchange or the wait for an answer ends first, so
// that the messages to the client do not depend on a race.
func (x *Exchange) cancelAsksLocked(seen []*Ask) {
	if x.stream.lost {
		return
	}
	for _, a := range seen {
		x.stream.pushLocked(a.Withdrawal())
	}
}

// Form returns the format of the answer over HTTP. It is final once decided: JSON if the
// terminal is the only message, otherwise SSE. With force it is decided now.
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
	case s.ended && len(s.queue) == 1 && s.lastPos == 0:
		return JSON
	case s.ended, force, s.pausing, len(s.queue) > 0 && !s.held:
		return SSE
	default:
		return Undecided
	}
}
