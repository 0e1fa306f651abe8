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

// Exchange is one request of a client in flight: its stream and its one terminal. It ends
// with its terminal, or without one when it is cancelled.
type Exchange struct {
	id mcp.ID

	// Below: guarded by stream.core.mu.
	stop     func(why error) // stops the Handler; called without the lock, nil once ended
	stream   Stream
	form     Form
	ended    bool
	deferred *Message // progress beyond the rate limit, or nil

	progress, logs rateLimiter
	lastProgress   string // see isStale

	queueBuf [1]Message // the first queue of the stream: most answers are one message
	textBuf  [256]byte  // of a small terminal; see Buffer
}

// begin initializes a zero Exchange, guarded by the lock of guard.
func (x *Exchange) begin(id mcp.ID, guard *core, stop func(why error)) {
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
func (s *Stateless) Begin(id mcp.ID, rules *Rules, stop func(why error)) *Exchange {
	s.core.rules = rules
	s.exchange.begin(id, &s.core, stop)
	return &s.exchange
}

// ChargeTo charges what is queued on an exchange without a session to the principal, plus
// beside bytes for memory that is retained as long. It must be called before the exchange
// is shared.
func (x *Exchange) ChargeTo(principal string, beside int) {
	x.stream.core.mu.Lock()
	defer x.stream.core.mu.Unlock()
	x.stream.core.principal, x.stream.overhead = principal, beside
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
func (x *Exchange) Cancel(why error) bool {
	stop := x.cancel()
	if stop == nil {
		return false
	}
	stop(why)
	return true
}

// cancel returns the function that stops the Handler, or nil if the exchange has ended.
func (x *Exchange) cancel() func(why error) {
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

// endLocked is the only way in which an exchange ends: the id becomes free, its asks fail,
// its stream ends. The reference to the Handler is dropped, because the stream may be
// retained for a client that reconnects.
func (x *Exchange) endLocked(asks error, terminal ...Message) bool {
	if x.ended {
		return false
	}
	x.ended = true
	x.stop = nil
	if s := x.stream.core.session; s != nil {
		s.removeLocked(x)
		if x.id.IsZero() {
			terminal = nil // a notification has no answer
		}
	}
	seen := x.stream.core.endAsksLocked(&x.stream, asks)
	x.stream.dropAsksLocked()
	if len(terminal) > 0 {
		x.flushDeferredLocked()
		// The client is notified that its open asks are cancelled, whether the exchange or
		// the wait for an answer ends first: the messages do not depend on a race.
		for _, a := range seen {
			if !x.stream.lost {
				x.stream.pushLocked(a.Withdrawal())
			}
		}
	}
	x.deferred = nil
	x.stream.endLocked(terminal...)
	return true
}

// Form returns the format of the answer over HTTP. It is final once decided: JSON if the
// terminal is the only message, otherwise SSE. With force it is decided now.
func (x *Exchange) Form(force bool) Form {
	x.stream.core.mu.Lock()
	defer x.stream.core.mu.Unlock()
	switch s := &x.stream; {
	case x.form != Undecided:
	case s.ended && len(s.queue) == 1 && s.lastPos == 0:
		x.form = JSON
	case s.ended, force, s.pausing, len(s.queue) > 0 && !s.held:
		x.form = SSE
	}
	return x.form
}
