// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	workerIdleTime    = time.Second // after which an idle worker ends
	maxIdleWorkers    = 256
	maxWorkerRequests = 1 << 10 // after which a worker ends, so that a stack that one of them has grown does not stay
)

// workers reuses goroutines that have run a request. A Handler needs more stack than a
// new goroutine has, and growing the stack is a large part of the cost of a small request.
//
// The goroutine of net/http cannot run the Handler: it writes the messages of the Handler
// meanwhile, and must return before it if a legacy client disconnects or is asked to
// reconnect, or if a modern request is parked.
type workers struct {
	run   func(context.Context, *inflightRequest)
	jobs  chan job // unbuffered: received by idle workers
	idle  atomic.Int32
	wg    sync.WaitGroup // of all workers
	close func()         // ends the workers and returns after the last
}

// job is a request on its way from one goroutine to another.
type job struct {
	ctx     context.Context //nolint:containedctx // passed on and not kept
	request *inflightRequest
}

func newWorkers(run func(context.Context, *inflightRequest)) *workers {
	ws := &workers{run: run, jobs: make(chan job)}
	ws.close = sync.OnceFunc(func() {
		close(ws.jobs)
		ws.wg.Wait()
	})
	return ws
}

// start runs the request on a worker and returns at once. It must not be called after
// close.
func (ws *workers) start(ctx context.Context, ir *inflightRequest) {
	select {
	case ws.jobs <- job{ctx, ir}:
	default: // no worker is idle
		ws.wg.Go(ws.worker(job{ctx, ir})) // ends when it is not needed any more; close waits for it
	}
}

// worker returns the function of a goroutine, which runs one job after another until it is
// not needed. A Handler that ends its goroutine ends this one only.
func (ws *workers) worker(next job) func() {
	return func() {
		unneeded := time.NewTimer(workerIdleTime)
		defer unneeded.Stop()
		for left := maxWorkerRequests; next.request != nil; left-- {
			ws.run(next.ctx, next.request)
			next = job{} // an idle worker keeps no request
			if idle := ws.idle.Add(1); left > 1 && idle <= maxIdleWorkers {
				unneeded.Reset(workerIdleTime)
				select {
				case next = <-ws.jobs: // no request if it is closed
				case <-unneeded.C:
				}
			}
			ws.idle.Add(-1)
		}
	}
}
