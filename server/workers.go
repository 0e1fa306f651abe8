// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync"
	"time"
)

const (
	// crewLull is how long nobody needs a goroutine that is kept before it ends.
	workerIdleTime = time.Second

	// crewIdle is how many are kept at most while they have nothing to do.
	maxIdleWorkers = 256
)

// crew keeps the goroutines that have run a task for the next ones. A Handler needs
// more stack than a new goroutine has, and to grow that, copy by copy, costs more than
// all else that is done here for a small request.
//
// The goroutine that net/http gave a request cannot be the one that runs its Handler:
// it writes what the Handler says while that runs, and has to return before that where
// a legacy client goes away, or is told to come back for the rest, or where a modern
// request is parked.
//
// The worker that worked last is the first to work again, so that what a quiet time
// does not need stays unused, and ends. There is one timer for all of them, and none
// while nobody is idle.
type workers struct {
	run       func(context.Context, *inflightRequest)
	trimTimer timer
	wg        sync.WaitGroup // workers, idle or not

	mu       sync.Mutex
	idle     []*worker // the last one has worked last
	minIdle  int       // the fewest that were idle since the last look: nobody has needed them
	trimming bool      // a look is to come
	closed   bool
}

// worker is one goroutine of the crew.
type worker struct{ jobs chan job }

// job is a task on its way from one goroutine to another.
type job struct {
	ctx     context.Context //nolint:containedctx // it is handed over, and not kept
	request *inflightRequest
}

// do runs the task on a goroutine of the crew and returns at once. It must not be
// called after close.
func (ws *workers) start(ctx context.Context, ir *inflightRequest) {
	next := job{ctx, ir}
	if w := ws.takeIdle(); w != nil {
		w.jobs <- next // which is empty
		return
	}
	w := &worker{jobs: make(chan job, 1)}
	ws.wg.Add(1)
	go w.loop(ws, next) // ends when it is not needed any more; close waits for it
}

// work does one job after another. A Handler that ends its goroutine ends this
// worker, and nothing else.
func (w *worker) loop(ws *workers, next job) {
	defer ws.wg.Done()
	for more := true; more; next, more = <-w.jobs {
		ws.run(next.ctx, next.request)
		if !ws.wait(w) {
			return
		}
	}
}

// take returns the worker that has worked last, nil where none is idle.
func (ws *workers) takeIdle() *worker {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	last := len(ws.idle) - 1
	if last < 0 {
		return nil
	}
	w := ws.idle[last]
	ws.idle[last] = nil
	ws.idle = ws.idle[:last]
	ws.minIdle = min(ws.minIdle, last)
	return w
}

// rest has the worker wait for its next job. It reports false where it is to end.
func (ws *workers) wait(w *worker) bool {
	kept, first := ws.addIdle(w)
	if first {
		ws.trimTimer.after(workerIdleTime, ws.trim)
	}
	return kept
}

// keep adds a worker to those that are idle. first says that the next look is the
// caller's to arrange.
func (ws *workers) addIdle(w *worker) (kept, first bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed || len(ws.idle) >= maxIdleWorkers {
		return false, false
	}
	ws.idle = append(ws.idle, w)
	first = !ws.trimming
	ws.trimming = true
	return true, first
}

// look ends the workers that nobody has needed since the last look.
func (ws *workers) trim() {
	unneeded, again := ws.takeUnneeded()
	for _, w := range unneeded {
		close(w.jobs)
	}
	if again {
		ws.trimTimer.after(workerIdleTime, ws.trim)
	}
}

func (ws *workers) takeUnneeded() (gone []*worker, again bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	gone = append(gone, ws.idle[:ws.minIdle]...)
	rest := copy(ws.idle, ws.idle[ws.minIdle:])
	clear(ws.idle[rest:])
	ws.idle = ws.idle[:rest]
	ws.minIdle, ws.trimming = rest, rest > 0
	if rest == 0 {
		ws.idle = nil // a slice keeps its room
	}
	return gone, ws.trimming
}

// close ends the workers and returns after the last. It may be called again.
func (ws *workers) close() {
	ws.trimTimer.stop()
	for _, w := range ws.takeAll() {
		close(w.jobs)
	}
	ws.wg.Wait()
}

func (ws *workers) takeAll() []*worker {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	idle := ws.idle
	ws.idle, ws.minIdle, ws.closed = nil, 0, true
	return idle
}
