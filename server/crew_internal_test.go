// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"
)

// crewed runs f in a bubble with a crew whose tasks do what their place says, and
// closes the crew afterwards, so that whoever is left fails the test.
func crewed(t *testing.T, do func(place uint64), f func(*testing.T, *crew)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &crew{run: func(_ context.Context, t *task) { do(t.place) }}
		f(t, c)
		c.close()
		c.close()
		if n := c.isIdle(); n != 0 {
			t.Errorf("%d are idle when the crew was closed", n)
		}
	})
}

func (c *crew) isIdle() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.idle)
}

// begin has the crew do n things at once.
func (c *crew) begin(ctx context.Context, n int) {
	for range n {
		c.do(ctx, new(task))
	}
}

// idles checks how many wait when all that could happen has happened.
func (c *crew) idles(t *testing.T, when string, want int) {
	t.Helper()
	synctest.Wait()
	if got := c.isIdle(); got != want {
		t.Errorf("%s: %d are idle, want %d", when, got, want)
	}
}

// Whoever is done does the next: what comes one after another takes one goroutine.
func TestCrewWorksAgain(t *testing.T) {
	crewed(t, func(uint64) {}, func(t *testing.T, c *crew) {
		for range 100 {
			c.begin(t.Context(), 1)
			synctest.Wait()
		}
		c.idles(t, "after one at a time", 1)
	})
}

// I28: what a busy time needed ends after it, and what goes on needs no more than it
// did before.
func TestCrewEndsWhenNobodyNeedsIt(t *testing.T) {
	slow := func(place uint64) { <-time.After(time.Duration(place) * time.Millisecond) }
	crewed(t, slow, func(t *testing.T, c *crew) {
		for range 40 {
			c.do(t.Context(), &task{place: 10})
		}
		time.Sleep(20 * time.Millisecond)
		c.idles(t, "after forty at once", 40)
		for range 300 {
			c.do(t.Context(), &task{place: 5})
			time.Sleep(10 * time.Millisecond)
		}
		c.idles(t, "after three seconds of one at a time", 1)
		time.Sleep(2*crewLull + time.Millisecond)
		c.idles(t, "after two quiet ones", 0)
		c.all.Wait() // nobody has ended but is counted, and nobody is left
		c.begin(t.Context(), 1)
		c.idles(t, "when there is something to do again", 1)
	})
}

// A flood leaves no more behind, even for a moment, than there may be idle.
func TestCrewKeepsNoMoreThanItMay(t *testing.T) {
	release := make(chan struct{})
	crewed(t, func(uint64) { <-release }, func(t *testing.T, c *crew) {
		release = make(chan struct{}) // one of the bubble
		c.begin(t.Context(), crewIdle+50)
		c.idles(t, "while all work", 0)
		close(release)
		c.idles(t, "when all are done", crewIdle)
	})
}

// I29: a task that ends its goroutine ends nobody else's.
func TestCrewOutlivesATaskThatEndsItsGoroutine(t *testing.T) {
	done := 0
	end := func(place uint64) {
		if done++; place == 1 {
			runtime.Goexit()
		}
	}
	crewed(t, end, func(t *testing.T, c *crew) {
		c.begin(t.Context(), 1)
		c.idles(t, "before", 1)
		c.do(t.Context(), &task{place: 1})
		c.idles(t, "after it has ended its goroutine", 0)
		c.begin(t.Context(), 1)
		c.idles(t, "after the next", 1)
		if done != 3 {
			t.Errorf("%d tasks were done, want 3", done)
		}
	})
}

// Close returns after the last goroutine, whatever that was doing when it began.
func TestCrewIsClosedWhenTheLastHasEnded(t *testing.T) {
	const slow = 10 * time.Second
	crewed(t, func(uint64) { <-time.After(slow) }, func(t *testing.T, c *crew) {
		c.begin(t.Context(), 3)
		began := time.Now()
		c.close()
		if took := time.Since(began); took != slow {
			t.Errorf("close took %v, want %v", took, slow)
		}
	})
}

// What a task was is not held on to by a goroutine that waits for another.
func TestCrewHoldsNothing(t *testing.T) {
	crewed(t, func(uint64) {}, func(t *testing.T, c *crew) {
		done := new(task)
		left := weak.Make(done)
		c.do(t.Context(), done)
		c.idles(t, "afterwards", 1)
		runtime.GC()
		if left.Value() != nil {
			t.Error("the task is still there")
		}
	})
}
