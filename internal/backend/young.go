// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"sync"
	"time"
)

// youth is the time for which a call is young. Nearly all calls end earlier, and any
// sensible limit is far longer.
const youth = time.Second

// young is the list of the young calls of a backend, oldest first. They share one timer,
// and a call that ends in time has none of its own: setting and stopping a timer costs
// more than an entry in a list.
type young struct {
	span time.Duration       // a call is young for this time; no limit is shorter
	late func(time.Duration) // receives the delay of the timer; may be nil

	mu          sync.Mutex
	first, last *deadline
	ticking     bool      // the timer is set
	due         time.Time // of the timer
}

// youthOf returns the time for which calls with these limits are young. Zero and negative
// limits are ignored. The time is the same for all calls, which keeps the list in order.
func youthOf(limits ...time.Duration) time.Duration {
	span := youth
	for _, limit := range limits {
		if limit > 0 {
			span = min(span, limit)
		}
	}
	return span
}

// enter adds a call that begins now to the list.
func (y *young) enter(d *deadline) {
	y.mu.Lock()
	defer y.mu.Unlock()
	d.isYoung = true
	d.before = y.last
	if y.last == nil {
		y.first = d
	} else {
		y.last.behind = d
	}
	y.last = d
	if !y.ticking {
		y.tickLocked(y.span)
	}
}

// leave removes a call that has ended. It reports false if the call is no longer young.
func (y *young) leave(d *deadline) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	if !d.isYoung {
		return false
	}
	y.takeLocked(d)
	return true
}

func (y *young) takeLocked(d *deadline) {
	if d.before == nil {
		y.first = d.behind
	} else {
		d.before.behind = d.behind
	}
	if d.behind == nil {
		y.last = d.before
	} else {
		d.behind.before = d.before
	}
	d.before, d.behind, d.isYoung = nil, nil, false
}

// tickLocked sets the timer. It is not stopped if its call ends before: it fires at most
// once in a span, and is then set for the next call.
func (y *young) tickLocked(in time.Duration) {
	y.ticking, y.due = true, time.Now().Add(in)
	time.AfterFunc(in, y.sweep) // it does not block; no goroutine waits for it
}

// sweep calls onTimer of each call that is no longer young.
func (y *young) sweep() {
	if y.late != nil {
		y.late(time.Since(y.dueAt()))
	}
	for d := y.grown(time.Now()); d != nil; d = y.grown(time.Now()) {
		d.onTimer()
	}
}

func (y *young) dueAt() time.Time {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.due
}

// grown removes and returns the oldest call if it is no longer young. Otherwise it returns
// nil, and sets the timer if the list is not empty.
func (y *young) grown(now time.Time) *deadline {
	y.mu.Lock()
	defer y.mu.Unlock()
	d := y.first
	switch {
	case d == nil:
		y.ticking = false
		return nil
	case now.Sub(d.began) < y.span:
		y.tickLocked(y.span - now.Sub(d.began))
		return nil
	}
	y.takeLocked(d)
	return d
}
