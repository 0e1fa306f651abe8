// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"sync"
	"time"
)

// youth is how long a call is young. Nearly all calls have ended by then, and it is
// far less than what any sensible limit is.
const youth = time.Second

// young are the calls of a backend that began a moment ago, oldest first. They have
// one timer together, and a call that ends in time has none of its own: to set a
// timer and stop it again costs more than to be one of a list.
type young struct {
	span time.Duration       // for which a call is young; no limit is shorter
	late func(time.Duration) // told how late the timer has fired; may be nil

	mu          sync.Mutex
	first, last *deadline
	ticking     bool      // sweep will be called
	due         time.Time // then
}

// youthOf returns for how long calls with these limits are young, of which negative
// or zero means none. The list keeps its order because it is the same for all.
func youthOf(limits ...time.Duration) time.Duration {
	span := youth
	for _, limit := range limits {
		if limit > 0 {
			span = min(span, limit)
		}
	}
	return span
}

// enter adds a call that begins now.
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

// leave takes out a call that has ended. It reports false if it is young no more.
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

// tickLocked has sweep called, once. It is not taken back where the call that it is
// for ends before: it fires at most once in a span, and then finds the next one.
func (y *young) tickLocked(in time.Duration) {
	y.ticking, y.due = true, time.Now().Add(in)
	time.AfterFunc(in, y.sweep) // it returns at once; nobody waits for it
}

// sweep has the calls look at the time by themselves that are young no more.
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

// grown takes out the oldest call if it is young no more. Where it is still, or where
// there is none, sweep has done, and is called again when it is time to.
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
