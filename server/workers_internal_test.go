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
func crewed(t *testing.T, do func(place uint64), f func(*testing.T, *workers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ws := &workers{run: func(_ context.Context, ir *inflightRequest) { do(ir.connID) }}
		f(t, ws)
		ws.close()
		ws.close()
		if n := ws.isIdle(); n != 0 {
			t.Errorf("%d are idle when the crew was closed", n)
		}
	})
}

func (ws *workers) isIdle() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.idle)
}

// begin has the crew do n things at once.
func (ws *workers) begin(ctx context.Context, n int) {
	for range n {
		ws.start(ctx, new(inflightRequest))
	}
}

// idles checks how many wait when all that could happen has happened.
func (ws *workers) idles(t *testing.T, when string, want int) {
	t.Helper()
	synctest.Wait()
	if got := ws.isIdle(); got != want {
		t.Errorf("%s: %d are idle, want %d", when, got, want)
	}
}

// Whoever is done does the next: what comes one after another takes one goroutine.
func TestCrewWorksAgain(t *testing.T) {
	crewed(t, func(uint64) {}, func(t *testing.T, ws *workers) {
		for range 100 {
			ws.begin(t.Context(), 1)
			synctest.Wait()
		}
		ws.idles(t, "after one at a time", 1)
	})
}

// I28: what a busy time needed ends after it, and what goes on needs no more than it
// did before.
func TestCrewEndsWhenNobodyNeedsIt(t *testing.T) {
	slow := func(place uint64) { <-time.After(time.Duration(place) * time.Millisecond) }
	crewed(t, slow, func(t *testing.T, ws *workers) {
		for range 40 {
			ws.start(t.Context(), &inflightRequest{connID: 10})
		}
		time.Sleep(20 * time.Millisecond)
		ws.idles(t, "after forty at once", 40)
		for range 300 {
			ws.start(t.Context(), &inflightRequest{connID: 5})
			time.Sleep(10 * time.Millisecond)
		}
		ws.idles(t, "after three seconds of one at a time", 1)
		time.Sleep(2*workerIdleTime + time.Millisecond)
		ws.idles(t, "after two quiet ones", 0)
		ws.wg.Wait() // nobody has ended but is counted, and nobody is left
		ws.begin(t.Context(), 1)
		ws.idles(t, "when there is something to do again", 1)
	})
}

// A flood leaves no more behind, even for a moment, than there may be idle.
func TestCrewKeepsNoMoreThanItMay(t *testing.T) {
	release := make(chan struct{})
	crewed(t, func(uint64) { <-release }, func(t *testing.T, ws *workers) {
		release = make(chan struct{}) // one of the bubble
		ws.begin(t.Context(), maxIdleWorkers+50)
		ws.idles(t, "while all work", 0)
		close(release)
		ws.idles(t, "when all are done", maxIdleWorkers)
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
	crewed(t, end, func(t *testing.T, ws *workers) {
		ws.begin(t.Context(), 1)
		ws.idles(t, "before", 1)
		ws.start(t.Context(), &inflightRequest{connID: 1})
		ws.idles(t, "after it has ended its goroutine", 0)
		ws.begin(t.Context(), 1)
		ws.idles(t, "after the next", 1)
		if done != 3 {
			t.Errorf("%d tasks were done, want 3", done)
		}
	})
}

// Close returns after the last goroutine, whatever that was doing when it began.
func TestCrewIsClosedWhenTheLastHasEnded(t *testing.T) {
	const slow = 10 * time.Second
	crewed(t, func(uint64) { <-time.After(slow) }, func(t *testing.T, ws *workers) {
		ws.begin(t.Context(), 3)
		began := time.Now()
		ws.close()
		if took := time.Since(began); took != slow {
			t.Errorf("close took %v, want %v", took, slow)
		}
	})
}

// What a task was is not held on to by a goroutine that waits for another.
func TestCrewHoldsNothing(t *testing.T) {
	crewed(t, func(uint64) {}, func(t *testing.T, ws *workers) {
		done := new(inflightRequest)
		left := weak.Make(done)
		ws.start(t.Context(), done)
		ws.idles(t, "afterwards", 1)
		runtime.GC()
		if left.Value() != nil {
			t.Error("the task is still there")
		}
	})
}
