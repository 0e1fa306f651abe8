// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"sync/atomic"
	"time"
)

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
