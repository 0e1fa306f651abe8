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
type alarm struct {
	mu      sync.Mutex
	stopped bool
	timer   *time.Timer
	running sync.WaitGroup // calls that have begun
}

// after has f called in d, on the timer's goroutine, unless a call is to come
// anyway. f may call after again.
func (a *alarm) after(d time.Duration, f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped || a.timer != nil {
		return
	}
	a.timer = time.AfterFunc(d, func() {
		if a.begin() {
			defer a.running.Done()
			f()
		}
	})
}

// begin reports whether the call is still wanted. From then on stop waits for
// it: whether a call or a stop comes first is decided under the lock.
func (a *alarm) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer = nil
	if a.stopped {
		return false
	}
	a.running.Add(1)
	return true
}

// stop returns after the last call.
func (a *alarm) stop() {
	a.halt()
	a.running.Wait()
}

// halt has no further call begin. It does not wait, because a call may be on its
// way to after, which takes the lock.
func (a *alarm) halt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}
