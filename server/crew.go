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
	crewLull = time.Second

	// crewIdle is how many are kept at most while they have nothing to do.
	crewIdle = 256
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
type crew struct {
	run  func(context.Context, *task)
	lull alarm
	all  sync.WaitGroup // workers, idle or not

	mu      sync.Mutex
	idle    []*worker // the last one has worked last
	spare   int       // the fewest that were idle since the last look: nobody has needed them
	watched bool      // a look is to come
	closed  bool
}

// worker is one goroutine of the crew.
type worker struct{ jobs chan job }

// job is a task on its way from one goroutine to another.
type job struct {
	ctx  context.Context //nolint:containedctx // it is handed over, and not kept
	task *task
}

// do runs the task on a goroutine of the crew and returns at once. It must not be
// called after close.
func (c *crew) do(ctx context.Context, t *task) {
	next := job{ctx, t}
	if w := c.take(); w != nil {
		w.jobs <- next // which is empty
		return
	}
	w := &worker{jobs: make(chan job, 1)}
	c.all.Add(1)
	go w.work(c, next) // ends when it is not needed any more; close waits for it
}

// work does one job after another. A Handler that ends its goroutine ends this
// worker, and nothing else.
func (w *worker) work(c *crew, next job) {
	defer c.all.Done()
	for more := true; more; next, more = <-w.jobs {
		c.run(next.ctx, next.task)
		if !c.rest(w) {
			return
		}
	}
}

// take returns the worker that has worked last, nil where none is idle.
func (c *crew) take() *worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.idle) - 1
	if last < 0 {
		return nil
	}
	w := c.idle[last]
	c.idle[last] = nil
	c.idle = c.idle[:last]
	c.spare = min(c.spare, last)
	return w
}

// rest has the worker wait for its next job. It reports false where it is to end.
func (c *crew) rest(w *worker) bool {
	kept, first := c.keep(w)
	if first {
		c.lull.after(crewLull, c.look)
	}
	return kept
}

// keep adds a worker to those that are idle. first says that the next look is the
// caller's to arrange.
func (c *crew) keep(w *worker) (kept, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= crewIdle {
		return false, false
	}
	c.idle = append(c.idle, w)
	first = !c.watched
	c.watched = true
	return true, first
}

// look ends the workers that nobody has needed since the last look.
func (c *crew) look() {
	unneeded, again := c.unneeded()
	for _, w := range unneeded {
		close(w.jobs)
	}
	if again {
		c.lull.after(crewLull, c.look)
	}
}

func (c *crew) unneeded() (gone []*worker, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone = append(gone, c.idle[:c.spare]...)
	rest := copy(c.idle, c.idle[c.spare:])
	clear(c.idle[rest:])
	c.idle = c.idle[:rest]
	c.spare, c.watched = rest, rest > 0
	if rest == 0 {
		c.idle = nil // a slice keeps its room
	}
	return gone, c.watched
}

// close ends the workers and returns after the last. It may be called again.
func (c *crew) close() {
	c.lull.stop()
	for _, w := range c.dismiss() {
		close(w.jobs)
	}
	c.all.Wait()
}

func (c *crew) dismiss() []*worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := c.idle
	c.idle, c.spare, c.closed = nil, 0, true
	return idle
}
