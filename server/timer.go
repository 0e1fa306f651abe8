// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync"
	"time"
)

// alarm calls a function when a time has passed. It has one timer at most, and
// its owner stops it. The zero alarm is ready.
//
// A bare time.AfterFunc is not enough: Stop on it does not wait for a call that
// has begun, which would then touch what its owner has let go of (I28).
type timer struct {
	mu      sync.Mutex
	stopped bool
	timer   *time.Timer
	running sync.WaitGroup // calls that have begun
}

// after has f called in d, on the timer's goroutine, unless a call is to come
// anyway. f may call after again.
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

// begin reports whether the call is still wanted. From then on stop waits for
// it: whether a call or a stop comes first is decided under the lock.
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

// stop returns after the last call.
func (t *timer) stop() {
	t.cancel()
	t.running.Wait()
}

// halt has no further call begin. It does not wait, because a call may be on its
// way to after, which takes the lock.
func (t *timer) cancel() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}
