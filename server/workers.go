// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync"
	"time"
)

const (
	// workerIdleTime is how long a worker is kept that is not needed.
	workerIdleTime = time.Second

	// maxIdleWorkers bounds the idle workers.
	maxIdleWorkers = 256
)

// workers reuses goroutines that have run a request. A Handler needs more stack than a
// new goroutine has, and growing the stack, copy by copy, costs more than everything else
// that is done here for a small request.
//
// The goroutine of net/http cannot run the Handler: it writes the messages of the Handler
// meanwhile, and must return before it if a legacy client disconnects or is asked to
// reconnect, or if a modern request is parked.
//
// The worker that became idle last is used first, so that surplus workers stay idle and
// end. There is one timer for all of them, and none while no worker is idle.
type workers struct {
	run       func(context.Context, *inflightRequest)
	trimTimer timer
	wg        sync.WaitGroup // workers, idle or not

	mu       sync.Mutex
	idle     []*worker // the last one became idle last
	minIdle  int       // the lowest number of idle workers since the last trim: these were not needed
	trimming bool      // a trim is scheduled
	closed   bool
}

// worker is one goroutine of the pool.
type worker struct{ jobs chan job }

// job is a request on its way from one goroutine to another.
type job struct {
	ctx     context.Context //nolint:containedctx // passed on and not kept
	request *inflightRequest
}

// start runs the request on a worker and returns at once. It must not be called after
// close.
func (ws *workers) start(ctx context.Context, ir *inflightRequest) {
	next := job{ctx, ir}
	if w := ws.takeIdle(); w != nil {
		w.jobs <- next // the channel is empty
		return
	}
	w := &worker{jobs: make(chan job, 1)}
	ws.wg.Add(1)
	go w.loop(ws, next) // ends when it is not needed any more; close waits for it
}

// loop runs one job after another. A Handler that ends its goroutine ends this worker
// only.
func (w *worker) loop(ws *workers, next job) {
	defer ws.wg.Done()
	for more := true; more; next, more = <-w.jobs {
		ws.run(next.ctx, next.request)
		if !ws.wait(w) {
			return
		}
	}
}

// takeIdle returns the worker that became idle last, or nil if none is idle.
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

// wait makes the worker idle, and reports false if it must end instead.
func (ws *workers) wait(w *worker) bool {
	kept, first := ws.addIdle(w)
	if first {
		ws.trimTimer.after(workerIdleTime, ws.trim)
	}
	return kept
}

// addIdle adds an idle worker. first reports that the caller must schedule the next trim.
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

// trim ends the workers that were not needed since the last trim.
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
		ws.idle = nil // a slice keeps its array
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
