// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// deadline is the Caller of one call, and its clocks. A message of the call
// starts the idle time anew. While the client is asked something both clocks stand
// still, because a human may be thinking: how long that may take is bounded where
// the client is asked, and says nothing of the backend.
type deadline struct {
	mcp.Caller

	idle   time.Duration // <= 0: none
	max    time.Duration
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer   // fires at the end of the idle time
	total *time.Timer   // fires at the maximum
	left  time.Duration // of the maximum, when since was
	since time.Time     // when total began to count, which it does while no ask is open
	asks  int           // asks that wait for an answer
	cause error         // set once, when a timer fired
}

var (
	errIdle = errors.New("idle for too long")
	errMax  = errors.New("took too long")
)

// newDeadline starts both clocks. They are timers and not deadlines of the context,
// because one of them stands still at times, and because the error has to name the
// one that ended the call.
func newDeadline(ctx context.Context, caller mcp.Caller, idle, maximum time.Duration) (context.Context, *deadline) {
	ctx, cancel := context.WithCancelCause(ctx)
	d := &deadline{Caller: caller, idle: idle, max: maximum, cancel: cancel, left: maximum, since: time.Now()}
	if idle > 0 {
		d.timer = time.AfterFunc(idle, func() { d.expire(errIdle) })
	}
	if maximum > 0 {
		d.total = time.AfterFunc(maximum, func() { d.expire(errMax) })
	}
	return ctx, d
}

// Notify passes the message on; the call is alive.
func (d *deadline) Notify(ctx context.Context, n *mcp.Notification) error {
	d.moved(0)
	return d.Caller.Notify(ctx, n)
}

// Ask passes the question on; the clocks stand still until it is answered.
func (d *deadline) Ask(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	d.moved(+1)
	defer d.moved(-1)
	return d.Caller.Ask(ctx, req)
}

// Start likewise.
func (d *deadline) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	wait, err := mcp.Start(ctx, d.Caller, req)
	if err != nil {
		return nil, err
	}
	d.moved(+1)
	return func() (*mcp.Result, error) {
		defer d.moved(-1)
		return wait()
	}, nil
}

// Pulse notes that the call is alive, of which the client is told nothing.
func (d *deadline) Pulse() {
	d.moved(0)
	mcp.Pulse(d.Caller)
}

// moved notes a sign of life; delta counts the asks that are open.
func (d *deadline) moved(delta int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.asks
	d.asks += delta
	switch {
	case d.cause != nil:
	case d.asks > 0 && before == 0:
		d.haltLocked()
	case d.asks == 0:
		d.goOnLocked(before > 0)
	}
}

// haltLocked stops both clocks.
func (d *deadline) haltLocked() {
	if d.timer != nil {
		d.timer.Stop()
	}
	if d.total != nil {
		d.total.Stop()
		d.left -= time.Since(d.since)
	}
}

// goOnLocked starts the idle time anew, and the maximum where it was halted, with
// what is left of it.
func (d *deadline) goOnLocked(halted bool) {
	if d.timer != nil {
		d.timer.Reset(d.idle)
	}
	if d.total != nil && halted {
		d.since = time.Now()
		d.total.Reset(d.left)
	}
}

// expire cancels outside the lock: what a context's end sets off is not ours.
func (d *deadline) expire(cause error) {
	if d.fire(cause) {
		d.cancel(cause)
	}
}

// fire decides once. A timer that was stopped may have fired already and wait for
// the lock while a question is put; it does not count then.
func (d *deadline) fire(cause error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cause != nil || d.asks > 0 {
		return false
	}
	d.cause = cause
	return true
}

// expired says in words which limit ended the call, or "". maxKey names the
// maximum, which an operator sets in more than one place.
func (d *deadline) expired(maxKey string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.cause == nil:
		return ""
	case errors.Is(d.cause, errIdle):
		return fmt.Sprintf("no answer and no sign of life for %v (limits.callIdle)", d.idle)
	default:
		return fmt.Sprintf("no answer within %v (%s)", d.max, maxKey)
	}
}

// stop is called when the call has its terminal: no timer of it is left behind.
func (d *deadline) stop() {
	d.cancel(nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	if d.total != nil {
		d.total.Stop()
	}
}
