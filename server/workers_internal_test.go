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

// withWorkers runs f in a bubble with workers that call do with the connID of each
// request. It closes them afterwards, so that a worker that is left fails the test.
func withWorkers(t *testing.T, do func(connID uint64), f func(*testing.T, *workers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ws := newWorkers(func(_ context.Context, ir *inflightRequest) { do(ir.connID) })
		f(t, ws)
		ws.close()
		ws.close()
		if n := ws.idle.Load(); n != 0 {
			t.Errorf("%d are idle after close", n)
		}
	})
}

// begin starts n requests at once.
func (ws *workers) begin(ctx context.Context, n int) {
	for range n {
		ws.start(ctx, new(inflightRequest))
	}
}

// wantIdle checks the number of idle workers when all goroutines are blocked.
func (ws *workers) wantIdle(t *testing.T, when string, want int32) {
	t.Helper()
	synctest.Wait()
	if got := ws.idle.Load(); got != want {
		t.Errorf("%s: %d are idle, want %d", when, got, want)
	}
}

// Requests one after another use one goroutine.
func TestWorkerIsReused(t *testing.T) {
	withWorkers(t, func(uint64) {}, func(t *testing.T, ws *workers) {
		for range 100 {
			ws.begin(t.Context(), 1)
			synctest.Wait()
		}
		ws.wantIdle(t, "after one at a time", 1)
	})
}

// I28: surplus workers end, and so does each after many requests, whether or not it is
// needed: in a steady load the next one replaces it.
func TestSurplusWorkersEnd(t *testing.T) {
	withWorkers(t, func(uint64) { <-time.After(time.Millisecond) }, func(t *testing.T, ws *workers) {
		ws.begin(t.Context(), 40)
		time.Sleep(2 * time.Millisecond)
		ws.wantIdle(t, "after forty at once", 40)
		for range 40*maxWorkerRequests + 1 {
			ws.begin(t.Context(), 1)
			time.Sleep(2 * time.Millisecond)
		}
		ws.wantIdle(t, "after a long time of one at a time", 1)
		time.Sleep(workerIdleTime)
		ws.wantIdle(t, "after a quiet second", 0)
		ws.wg.Wait() // every worker that has ended is counted
		ws.begin(t.Context(), 1)
		time.Sleep(2 * time.Millisecond)
		ws.wantIdle(t, "when there is something to do again", 1)
	})
}

// After a flood no more workers are idle than allowed, even for a moment.
func TestIdleWorkersAreBounded(t *testing.T) {
	release := make(chan struct{})
	withWorkers(t, func(uint64) { <-release }, func(t *testing.T, ws *workers) {
		release = make(chan struct{}) // belongs to the bubble
		ws.begin(t.Context(), maxIdleWorkers+50)
		ws.wantIdle(t, "while all work", 0)
		close(release)
		ws.wantIdle(t, "when all are done", maxIdleWorkers)
	})
}

// I29: a request that ends its goroutine ends no other.
func TestWorkersOutliveARequestThatEndsItsGoroutine(t *testing.T) {
	done := 0
	end := func(connID uint64) {
		if done++; connID == 1 {
			runtime.Goexit()
		}
	}
	withWorkers(t, end, func(t *testing.T, ws *workers) {
		ws.begin(t.Context(), 1)
		ws.wantIdle(t, "before", 1)
		ws.start(t.Context(), &inflightRequest{connID: 1})
		ws.wantIdle(t, "after it has ended its goroutine", 0)
		ws.begin(t.Context(), 1)
		ws.wantIdle(t, "after the next", 1)
		if done != 3 {
			t.Errorf("%d requests were run, want 3", done)
		}
	})
}

// close returns after the last goroutine, whatever it is doing.
func TestCloseWaitsForTheLastWorker(t *testing.T) {
	const slow = 10 * time.Second
	withWorkers(t, func(uint64) { <-time.After(slow) }, func(t *testing.T, ws *workers) {
		ws.begin(t.Context(), 3)
		began := time.Now()
		ws.close()
		if took := time.Since(began); took != slow {
			t.Errorf("close took %v, want %v", took, slow)
		}
	})
}

// An idle worker keeps no reference to the last request.
func TestIdleWorkerReleasesItsRequest(t *testing.T) {
	withWorkers(t, func(uint64) {}, func(t *testing.T, ws *workers) {
		done := new(inflightRequest)
		left := weak.Make(done)
		ws.start(t.Context(), done)
		ws.wantIdle(t, "afterwards", 1)
		runtime.GC()
		if left.Value() != nil {
			t.Error("the request is still referenced")
		}
	})
}
