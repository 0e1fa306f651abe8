// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// deadline is the Caller of one call, and its timers. A message of the call resets the
// idle time. While the client has a request to answer both timers are paused, because a
// person may be thinking: that time is bounded by the inbound edge, and is not the
// backend's.
type deadline struct {
	mcp.Caller

	limits *limits
	cancel context.CancelCauseFunc // of the call's context
	times  *mcp.Timeline           // of the request, or nil
	began  time.Time

	mu           sync.Mutex
	timer        *time.Timer   // calls onTimer; nil without a limit
	ended        bool          // the timer is not set any more
	lastActivity time.Time     // the last activity
	paused       time.Duration // how long the maximum was paused, up to pausedSince
	pausedSince  time.Time     // set while waiting is not zero
	waiting      int           // reasons to pause: unanswered requests to the client and others
	cause        error         // set once, after a limit has passed
}

// limits are shared by the calls of a backend.
type limits struct {
	idle, max time.Duration // <= 0: none
	lag       lagProbe
}

func newLimits(cfg *Config) *limits {
	return &limits{idle: cmp.Or(cfg.Idle, DefaultIdle), max: cmp.Or(cfg.Max, DefaultMax), lag: lagProbe{report: cfg.Late}}
}

var (
	errIdle = errors.New("idle for too long")
	errMax  = errors.New("took too long")
)

// begin starts both timers of a call. They are not deadlines of the context, because
// they can be paused, and because the error must name the one that ended the call.
func (l *limits) begin(ctx context.Context, caller mcp.Caller, times *mcp.Timeline) (context.Context, *deadline) {
	now := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	d := &deadline{Caller: caller, limits: l, cancel: cancel, times: times, began: now, lastActivity: now}
	l.lag.start()
	if l.idle > 0 || l.max > 0 {
		d.mu.Lock()
		defer d.mu.Unlock()
		due, _ := d.dueLocked()
		d.timer = time.AfterFunc(due.Sub(now), d.onTimer) // it checks, and returns; stop stops it
	}
	return ctx, d
}

// Notify forwards the message and resets the idle time.
func (d *deadline) Notify(ctx context.Context, n *mcp.Notification) error {
	d.touch(0)
	return d.Caller.Notify(ctx, n)
}

// Start forwards the request and pauses the timers until it is answered.
func (d *deadline) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	wait, err := d.Caller.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	d.touch(+1)
	d.times.Asked(+1)
	return func() (*mcp.Result, error) {
		defer d.touch(-1)
		defer d.times.Asked(-1)
		return wait()
	}, nil
}

// Extension returns the caller itself, which changes all of it.
func (d *deadline) Extension() mcp.CallerExtension { return d }

// Pulse resets the idle time without a message to the client.
func (d *deadline) Pulse() {
	d.touch(0)
	d.Caller.Extension().Pulse()
}

// Poll asks the client to reconnect for the rest, if it can, and resets the idle time.
func (d *deadline) Poll(retry time.Duration) bool {
	d.touch(0)
	return d.Caller.Extension().Poll(retry)
}

// Pause stops both timers while the server starts, which limits.handshake bounds, and
// those of a gateway in front of this one in the same process.
func (d *deadline) Pause(on bool) {
	d.pause(on)
	d.Caller.Extension().Pause(on)
}

func (d *deadline) pause(on bool) {
	if on {
		d.touch(+1)
	} else {
		d.touch(-1)
	}
}

// Receive forwards a result while it arrives. Each piece resets the idle time. While
// the client takes one, both timers are paused, as during a request to it.
func (d *deadline) Receive(ctx context.Context, res mcp.StreamedResult) (taken bool, err error) {
	res.PauseWriting((*writePause)(d))
	return d.Caller.Extension().Receive(ctx, res)
}

// writePause is a deadline that is paused without its caller: the caller's own deadline is
// registered as well.
type writePause deadline

// Pause implements [mcp.Pauser].
func (p *writePause) Pause(on bool) { (*deadline)(p).pause(on) }

// touch records activity; delta changes the number of reasons to pause. It does not
// reset a timer if its limit has only moved further away: the timer checks when it
// fires.
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

// resumeLocked sets the timer, which may have fired while it was paused.
func (d *deadline) resumeLocked(now time.Time) {
	if d.timer == nil || d.ended || d.cause != nil {
		return
	}
	due, _ := d.dueLocked()
	d.timer.Reset(due.Sub(now))
}

// dueLocked returns the time at which the first of the limits passes without further
// activity, and the error of that limit. There is at least one limit.
func (d *deadline) dueLocked() (time.Time, error) {
	idle, most := d.lastActivity.Add(d.limits.idle), d.began.Add(d.limits.max+d.paused)
	if d.limits.max <= 0 || d.limits.idle > 0 && !most.Before(idle) {
		return idle, errIdle
	}
	return most, errMax
}

// onTimer is called when a limit may have passed. It cancels outside the lock, because
// cancellation runs code of other packages.
func (d *deadline) onTimer() {
	if cause := d.check(); cause != nil {
		d.cancel(cause)
	}
}

// check decides once whether a limit has passed, and otherwise sets the timer. While
// the call is paused, it leaves that to resumeLocked.
func (d *deadline) check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended || d.cause != nil || d.waiting > 0 {
		return nil
	}
	due, cause := d.dueLocked()
	if wait := time.Until(due); wait > 0 {
		d.timer.Reset(wait)
		return nil
	}
	d.cause = cause
	return cause
}

// expired returns a description of the limit that ended the call, or "". maxKey names
// the maximum, which an operator sets in more than one place.
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

// stop is called after the call has ended. It stops the timer.
func (d *deadline) stop() {
	d.cancel(nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.timer != nil {
		d.timer.Stop()
	}
}

const lagInterval = time.Second

// lagProbe measures how late a timer fires while calls begin, at most once in
// lagInterval. A process that has too little CPU time fires its timers late.
type lagProbe struct {
	report  func(time.Duration) // receives the delay; may be nil
	running atomic.Bool
}

// start sets the timer, unless it is set. It fires at most once after the last call.
func (p *lagProbe) start() {
	if p.report == nil || p.running.Load() || p.running.Swap(true) {
		return
	}
	due := time.Now().Add(lagInterval)
	time.AfterFunc(lagInterval, func() { p.fire(due) }) // does not block; no goroutine waits for it
}

func (p *lagProbe) fire(due time.Time) {
	p.running.Store(false)
	p.report(time.Since(due))
}
