// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package gctune

import (
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// bench is a tuner with a simulated process.
type bench struct {
	*tuner
	now  time.Time
	live uint64
	sets []int
}

func newBench() *bench {
	b := &bench{}
	b.tuner = newTuner(func() uint64 { return b.live }, func(percent int) { b.sets = append(b.sets, percent) })
	b.now = b.last
	return b
}

// collect simulates a collection after a time, with so many MiB live.
func (b *bench) collect(after time.Duration, mib uint64) {
	b.now, b.live = b.now.Add(after), mib<<20
	b.collected(b.now)
}

func (b *bench) wants(t *testing.T, what string, want ...int) {
	t.Helper()
	if !slices.Equal(b.sets, want) {
		t.Errorf("%s: set to %v, want %v", what, b.sets, want)
	}
	b.sets = nil
}

func TestPercentage(t *testing.T) {
	for _, tt := range []struct {
		mib  uint64
		want int
	}{{0, 600}, {1, 600}, {4, 600}, {6, 400}, {8, 300}, {12, 300}, {21, 300}, {32, 200}, {64, 100}, {65, 100}, {4000, 100}} {
		if got := percentOf(tt.mib << 20); got != tt.want {
			t.Errorf("%d MiB in use: %d %%, want %d", tt.mib, got, tt.want)
		}
	}
}

// A process that collects often may have more garbage until it is idle.
func TestBusyAndIdle(t *testing.T) {
	b := newBench()
	b.collect(time.Second, 6)
	b.wants(t, "neither busy nor calm")
	b.collect(busyInterval-1, 6)
	b.wants(t, "busy", 400)
	b.collect(busyInterval-1, 6)
	b.collect(time.Second, 7)
	b.wants(t, "less often, for it has its room")
	b.collect(time.Second, 12)
	b.wants(t, "more in use", 300)
	b.collect(time.Second, 100)
	b.wants(t, "much in use", 100)
	b.collect(busyInterval-1, 100)
	b.wants(t, "much in use, and busy")
	b.collect(busyInterval-1, 6)
	b.wants(t, "little again", 400)
	b.collect(idleInterval, 6)
	b.wants(t, "calm", 100)
	b.collect(2*time.Minute, 6)
	b.wants(t, "calm still")
}

func TestStop(t *testing.T) {
	b := newBench()
	b.collect(0, 6)
	b.wants(t, "busy", 400)
	b.stop()
	b.wants(t, "the end", 100)
	b.collect(0, 6)
	b.wants(t, "after the end")
}

// The memory of the start is freed once, unless the tuner is stopped before.
func TestFreeAfterStart(t *testing.T) {
	for _, tt := range []struct {
		lives time.Duration
		freed int
	}{{startTime - 1, 0}, {startTime + 1, 1}, {time.Hour, 1}} {
		synctest.Test(t, func(t *testing.T) {
			freed := 0
			stop := newBench().freeAfterStart(func() { freed++ })
			time.Sleep(tt.lives)
			synctest.Wait()
			stop()
			time.Sleep(2 * startTime)
			synctest.Wait()
			if freed != tt.freed {
				t.Errorf("a process that lives for %v: freed %d times, want %d", tt.lives, freed, tt.freed)
			}
		})
	}
}

// The finalizer runs after each collection, and the percentage is restored by stop.
func TestKeep(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(defaultPercent)
	defer debug.SetGCPercent(before)
	seen := make(chan int, 1)
	k := newTuner(liveHeap, func(percent int) { seen <- percent })
	k.watch()
	deadline := time.After(10 * time.Second)
	for found := false; !found; {
		runtime.GC()
		select {
		case percent := <-seen:
			if found = percent > defaultPercent; !found {
				t.Fatalf("set to %d", percent)
			}
		case <-deadline:
			t.Fatal("collections were not seen")
		default:
			runtime.Gosched() // let finalizers run
		}
	}
	go k.stop() // ends when the percentage is received below
	if percent := <-seen; percent != defaultPercent {
		t.Errorf("left at %d, want %d", percent, defaultPercent)
	}
	Keep()()
	if got := debug.SetGCPercent(defaultPercent); got != defaultPercent {
		t.Errorf("Keep has left %d", got)
	}
}

// The operator's configuration has precedence.
func TestKeepLeavesTheOperators(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			t.Setenv(name, "50")
			before := debug.SetGCPercent(50)
			defer debug.SetGCPercent(before)
			Keep()()
			if got := debug.SetGCPercent(50); got != 50 {
				t.Errorf("Keep has set %d", got)
			}
		})
	}
}
