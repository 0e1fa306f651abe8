// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package headroom gives a process with little in its heap room to make garbage in
// while it is busy, and one with more so much that this costs no more.
//
// The collector begins when the heap is twice what is in use, and of a few MiB that is
// so many times in a second: a gateway keeps little, and makes garbage with each
// request. Of some tens of MiB it is seldom, but all of them are looked at each time.
// While collections come fast and no more is in use than that, the heap may grow by some
// MiB more before the next; when they come slowly again, or much is in use, all is as
// the runtime would have it, so that an idle process gives its memory back.
package headroom

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// room is how much garbage there may be at least, while the process is busy. Beyond it
	// is some times what is in use, up to ample: each collection looks at all that is, and
	// what a request costs must not grow with the sessions and backends beside it.
	room  = 24 << 20
	times = 3
	ample = 64 << 20

	// usual is the percentage of the runtime's own choice.
	usual = 100

	// most bounds the percentage, for when next to nothing is in use.
	most = 600

	// busy is how soon one collection follows another where there is too little room,
	// calm how late where there is no need for more.
	busy = 250 * time.Millisecond
	calm = 4 * time.Second

	// startTime is when a start is over, as a rule.
	startTime = 2 * time.Second
)

// Keep has the process have its room until stop is called, which is to be called once.
// Where the environment says how to collect (GOGC, GOMEMLIMIT), it does nothing: the
// operator knows better. There is one for the whole process; it takes no goroutine.
func Keep() (stop func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	k := newKeeper(inUse, func(percent int) { debug.SetGCPercent(percent) })
	k.watch()
	return k.settle(debug.FreeOSMemory)
}

// settle has the memory of the start freed when that is over, and returns what stops all.
func (k *keeper) settle(free func()) (stop func()) {
	started := time.AfterFunc(startTime, free)
	return func() {
		started.Stop()
		k.stop()
	}
}

// inUse is what the last collection has found to be in use.
func inUse() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return room // which is enough to change nothing
	}
	return sample[0].Value.Uint64()
}

// keeper chooses the percentage by which the heap may grow.
type keeper struct {
	live func() uint64
	set  func(percent int)

	mu      sync.Mutex
	over    bool
	last    time.Time // of the last collection
	percent int
}

func newKeeper(live func() uint64, set func(int)) *keeper {
	return &keeper{live: live, set: set, last: time.Now(), percent: usual}
}

// canary is garbage that says when it is collected.
type canary struct{ of *keeper }

// watch has the next collection looked at, and each after it. The runtime calls a
// finalizer once after each, on a goroutine of its own.
func (k *keeper) watch() {
	runtime.SetFinalizer(&canary{k}, func(c *canary) {
		if c.of.collected(time.Now()) {
			c.of.watch()
		}
	})
}

// collected looks at what a collection has left, and reports false once stop was called.
func (k *keeper) collected(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return false
	}
	since := now.Sub(k.last)
	k.last = now
	switch {
	case since >= calm:
		k.choose(usual)
	case since < busy, k.percent != usual:
		k.choose(percentOf(k.live()))
	}
	return true
}

// percentOf is by how much the heap may grow that has so much in use.
func percentOf(live uint64) int {
	garbage := min(max(room, times*live), ample)
	return int(min(max(garbage*100/max(live, 1), usual), most))
}

// choose sets the percentage, for which the runtime stops all for a moment: what is
// nearly the same stays.
func (k *keeper) choose(percent int) {
	if near := percent*4 > k.percent*3 && percent*3 < k.percent*4; near && percent != usual || percent == k.percent {
		return
	}
	k.percent = percent
	k.set(percent)
}

// stop leaves the process as it was found.
func (k *keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	k.choose(usual)
}
