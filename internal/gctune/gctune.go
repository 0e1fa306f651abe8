// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gctune makes collections less frequent in a busy process with a small live heap.
//
// The collector starts when the heap is twice the live heap. With a few MiB, as in a gateway,
// this happens many times a second, since each request makes garbage. With tens of MiB it is
// rare, but each collection scans all of it. While collections are frequent and the live heap
// is smaller than that, the heap may grow by some MiB more before the next collection. When
// they become rare, or the live heap is large, the runtime's default applies again, so that an
// idle process returns its memory.
package gctune

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// minGarbage is the least garbage permitted while the process is busy. Beyond it, the
	// permitted garbage is liveFactor times the live heap, up to maxGarbage: a collection
	// scans the live heap, and the cost of a request must not grow with sessions and backends.
	minGarbage = 24 << 20
	liveFactor = 3
	maxGarbage = 64 << 20

	// defaultPercent is the runtime's default.
	defaultPercent = 100

	// maxPercent bounds the percentage for a nearly empty heap.
	maxPercent = 600

	// busyInterval is the time between collections below which more garbage is permitted,
	// and idleInterval the time above which the default applies.
	busyInterval = 250 * time.Millisecond
	idleInterval = 4 * time.Second

	// startTime is the usual duration of a start.
	startTime = 2 * time.Second
)

// Keep tunes the collector until stop is called. stop must be called once. If the environment
// configures the collector (GOGC, GOMEMLIMIT), Keep does nothing. It must be used only once in
// a process, and uses no goroutine.
func Keep() (stop func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	k := newTuner(liveHeap, func(percent int) { debug.SetGCPercent(percent) })
	k.watch()
	return k.freeAfterStart(debug.FreeOSMemory)
}

// freeAfterStart frees the memory of the start when that is over, and returns the function
// that stops everything.
func (k *tuner) freeAfterStart(free func()) (stop func()) {
	started := time.AfterFunc(startTime, free)
	return func() {
		started.Stop()
		k.stop()
	}
}

// liveHeap returns the size of the live heap after the last collection.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return minGarbage // changes nothing
	}
	return sample[0].Value.Uint64()
}

// tuner sets the percentage by which the heap may grow.
type tuner struct {
	live func() uint64
	set  func(percent int)

	mu      sync.Mutex
	stopped bool
	last    time.Time // the time of the last collection
	percent int
}

func newTuner(live func() uint64, set func(int)) *tuner {
	return &tuner{live: live, set: set, last: time.Now(), percent: defaultPercent}
}

// sentinel is an unreachable object with a finalizer, which runs after a collection.
type sentinel struct{ of *tuner }

// watch calls collected after the next collection, and after each later one. The runtime runs
// a finalizer once, on a goroutine of its own.
func (k *tuner) watch() {
	runtime.SetFinalizer(&sentinel{k}, func(c *sentinel) {
		if c.of.collected(time.Now()) {
			c.of.watch()
		}
	})
}

// collected adjusts the percentage after a collection. It returns false after stop.
func (k *tuner) collected(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return false
	}
	since := now.Sub(k.last)
	k.last = now
	switch {
	case since >= idleInterval:
		k.choose(defaultPercent)
	case since < busyInterval, k.percent != defaultPercent:
		k.choose(percentOf(k.live()))
	}
	return true
}

// percentOf returns the percentage by which a heap with so many live bytes may grow.
func percentOf(live uint64) int {
	garbage := min(max(minGarbage, liveFactor*live), maxGarbage)
	return int(min(max(garbage*100/max(live, 1), defaultPercent), maxPercent))
}

// choose sets the percentage. This stops all goroutines for a moment, so nearly equal
// percentages are ignored.
func (k *tuner) choose(percent int) {
	if near := percent*4 > k.percent*3 && percent*3 < k.percent*4; near && percent != defaultPercent || percent == k.percent {
		return
	}
	k.percent = percent
	k.set(percent)
}

// stop restores the default.
func (k *tuner) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.choose(defaultPercent)
}
