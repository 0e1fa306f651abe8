// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/life"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// deadline is the Caller of one call, and its clocks. A message of the call
// starts the idle time anew. While the client is asked something both clocks stand
// still, because a human may be thinking: how long that may take is bounded where
// the client is asked, and says nothing of the backend.
type deadline struct {
	mcp.Caller

	limits *limits
	life   life.Context // of the call
	began  time.Time

	// Guarded by limits.young.mu: the neighbours while it is one of those.
	before, behind *deadline
	isYoung        bool

	mu           sync.Mutex
	grown        bool          // it is young no more: the timer is its own to set
	timer        *time.Timer   // calls ring
	ended        bool          // it is never set any more
	lastActivity time.Time     // the last sign of life
	paused       time.Duration // how long the maximum stood still, up to halt
	pausedSince  time.Time     // since when asks wait for an answer; where there are any
	waiting      int           // that do
	cause        error         // set once, when a limit had passed
}

// limits are what the calls of a backend share.
type limits struct {
	idle, max time.Duration // <= 0: none
	young     young
}

func newLimits(cfg *Config) *limits {
	l := &limits{idle: orDefault(cfg.Idle, DefaultIdle), max: orDefault(cfg.Max, DefaultMax)}
	l.young.span, l.young.late = youthOf(l.idle, l.max), cfg.Late
	return l
}

var (
	errIdle = errors.New("idle for too long")
	errMax  = errors.New("took too long")
)

// begin starts both clocks of a call. They are no deadlines of the context, because
// one of them stands still at times, and because the error has to name the one that
// ended the call.
func (l *limits) begin(ctx context.Context, caller mcp.Caller) (context.Context, *deadline) {
	now := time.Now()
	d := &deadline{Caller: caller, limits: l, began: now, lastActivity: now}
	d.life.Carry(ctx)
	d.life.Follow(ctx)
	if l.idle > 0 || l.max > 0 {
		l.young.enter(d)
	}
	return &d.life, d
}

// Notify passes the message on; the call is alive.
func (d *deadline) Notify(ctx context.Context, n *mcp.Notification) error {
	d.touch(0)
	return d.Caller.Notify(ctx, n)
}

// Ask passes the question on; the clocks stand still until it is answered.
func (d *deadline) Ask(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	d.touch(+1)
	defer d.touch(-1)
	return d.Caller.Ask(ctx, req)
}

// Start likewise.
func (d *deadline) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	wait, err := mcp.Start(ctx, d.Caller, req)
	if err != nil {
		return nil, err
	}
	d.touch(+1)
	return func() (*mcp.Result, error) {
		defer d.touch(-1)
		return wait()
	}, nil
}

// Pulse notes that the call is alive, of which the client is told nothing.
func (d *deadline) Pulse() {
	d.touch(0)
	mcp.Pulse(d.Caller)
}

// Poll has the client come back for the rest, where it can. The call is alive.
func (d *deadline) Poll(retry time.Duration) bool {
	d.touch(0)
	return mcp.Poll(d.Caller, retry)
}

// Pause stops both clocks while the server starts, which limits.handshake bounds.
func (d *deadline) Pause(on bool) {
	if on {
		d.touch(+1)
	} else {
		d.touch(-1)
	}
}

// Receive passes a result on while it arrives. Each piece is a sign of life. While the
// client takes one both clocks stand still, as while it is asked something.
func (d *deadline) Receive(ctx context.Context, a *mcp.Arriving) (taken bool, err error) {
	a.Around(func(taking bool) {
		if taking {
			d.touch(+1)
		} else {
			d.touch(-1)
		}
	})
	return mcp.Receive(ctx, d.Caller, a)
}

// moved notes a sign of life; delta counts what the client is waited for. A timer that is set
// stays as it is where the limit is only further away than it was: it finds out.
func (d *deadline) touch(delta int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, halted := time.Now(), d.waiting > 0
	d.waiting += delta
	switch {
	case d.waiting > 0 && !halted:
		d.pausedSince = now
	case d.waiting == 0:
		d.lastActivity = now
		if halted {
			d.paused += now.Sub(d.pausedSince)
			d.resumeLocked(now)
		}
	}
}

// resumeLocked sets the timer, which may have fired while the clocks stood still.
func (d *deadline) resumeLocked(now time.Time) {
	if !d.grown || d.ended || d.cause != nil {
		return
	}
	due, _ := d.dueLocked()
	d.setLocked(due.Sub(now))
}

func (d *deadline) setLocked(wait time.Duration) {
	if d.timer == nil {
		d.timer = time.AfterFunc(wait, d.onTimer) // it looks, and returns; stop stops it
		return
	}
	d.timer.Reset(wait)
}

// dueLocked returns when the first of the limits has passed if nothing happens until
// then, and which one that is. There is one at least.
func (d *deadline) dueLocked() (time.Time, error) {
	idle, most := d.lastActivity.Add(d.limits.idle), d.began.Add(d.limits.max+d.paused)
	if d.limits.max <= 0 || d.limits.idle > 0 && !most.Before(idle) {
		return idle, errIdle
	}
	return most, errMax
}

// ring is called when a limit may have passed. It cancels outside the lock: what a
// context's end sets off is not ours.
func (d *deadline) onTimer() {
	if cause := d.check(); cause != nil {
		d.life.End(cause)
	}
}

// look decides once, and otherwise sets the timer to when it is worth another look.
// While questions wait for their answers that is when they have got them.
func (d *deadline) check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.grown = true
	if d.ended || d.cause != nil || d.waiting > 0 {
		return nil
	}
	due, cause := d.dueLocked()
	if wait := time.Until(due); wait > 0 {
		d.setLocked(wait)
		return nil
	}
	d.cause = cause
	return cause
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
		return fmt.Sprintf("no response or progress for %v (limits.callIdle)", d.limits.idle)
	default:
		return fmt.Sprintf("no response within %v (%s)", d.limits.max, maxKey)
	}
}

// stop is called when the call has its terminal: no timer of it is left behind.
func (d *deadline) stop() {
	d.life.End(nil)
	if d.limits.young.leave(d) {
		return // it never had one
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.timer != nil {
		d.timer.Stop()
	}
}
