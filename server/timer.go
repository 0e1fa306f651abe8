// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync"
	"time"
)

// timer calls a function after a time. At most one call is scheduled, and the owner stops
// the timer. The zero timer is ready.
//
// A bare time.AfterFunc is not enough: its Stop does not wait for a call that has begun,
// which could then use state that the owner has released (I28).
type timer struct {
	mu      sync.Mutex
	stopped bool
	timer   *time.Timer
	running sync.WaitGroup // calls that have begun
}

// after schedules a call of f in d, on a goroutine of its own, unless a call is
// scheduled. f may call after again.
func (t *timer) after(d time.Duration, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped || t.timer != nil {
		return
	}
	t.timer = time.AfterFunc(d, func() {
		if t.begin() {
			defer t.running.Done()
			f()
		}
	})
}

// begin reports whether the call is still wanted, and makes stop wait for it. The lock
// decides whether the call or stop is first.
func (t *timer) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = nil
	if t.stopped {
		return false
	}
	t.running.Add(1)
	return true
}

// stop cancels a scheduled call and waits for a running one.
func (t *timer) stop() {
	t.cancel()
	t.running.Wait()
}

// cancel prevents further calls. It does not wait, because a running call may be about to
// take the lock in after.
func (t *timer) cancel() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}
