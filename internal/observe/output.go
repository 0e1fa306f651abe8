// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"sync"
)

// output runs jobs one after another, in the order in which they came. A goroutine
// does, which is there as long as there are any: who brings a job is held up by
// none, be it one that does not return (a pipe that nobody reads), and cannot tell
// by the time it takes that something was written. What the queue cannot take is
// dropped, and counted.
//
// The zero value is ready, but for lost.
type output struct {
	// lost is told of what was dropped as soon as something can be written
	// again. It runs as a job does.
	lost func(n int)

	mu      sync.Mutex
	queue   []waiting
	apart   int // of the queue: those that have room of their own
	dropped int
	busy    chan struct{} // closed when the goroutine ends; nil while there is none
}

// waiting is a job in the queue.
type waiting struct {
	job   func()
	worth int
}

// What a job may be worth besides the number of things that are lost with it.
const (
	neverLost = 0
	ownRoom   = -1 // never lost either, and it takes no room from those that may be
)

// maxQueue is how many jobs may wait for a writer that is stuck: some seconds of
// a lively log, and a few hundred kilobytes.
const maxQueue = 1024

// put has a job run. It does not wait for that.
func (o *output) put(job func()) { o.putFor(1, job) }

// putFor is put for a job that stands for n things: so many are lost with it.
func (o *output) putFor(n int, job func()) { o.enter(job, n) }

// must is put for a job that is never dropped. Nothing here bounds how many wait;
// whoever brings them does.
func (o *output) must(job func()) { o.enter(job, neverLost) }

// mustBeside is must for jobs that leave as much room for all others as if they were
// not there.
func (o *output) mustBeside(job func()) { o.enter(job, ownRoom) }

// behind runs a job here and now where nobody writes, and else has it run as put
// or, where it is never lost, as must does: so that what was brought before it
// comes before it.
func (o *output) behind(worth int, job func()) {
	if !o.joins(job, worth) {
		job()
	}
}

// joins leaves a job to who writes, and reports whether anybody does.
func (o *output) joins(job func(), worth int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy != nil {
		o.waitLocked(job, worth)
	}
	return o.busy != nil
}

// waitLocked has a job wait for its turn, or counts what it is worth.
func (o *output) waitLocked(job func(), worth int) {
	if worth > 0 && len(o.queue)-o.apart >= maxQueue {
		o.dropped += worth
		return
	}
	o.queue = append(o.queue, waiting{job, worth})
	if worth == ownRoom {
		o.apart++
	}
}

func (o *output) enter(job func(), worth int) {
	if o.begin(job, worth) {
		go o.run(job) // ends with the queue; wait waits for it
	}
}

func (o *output) run(job func()) {
	for job != nil {
		job()
		job = o.next()
	}
}

// begin reports whether the job needs a goroutine, or leaves it to the one that is
// there. A job that is worth nothing is never dropped.
func (o *output) begin(job func(), worth int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy == nil {
		o.busy = make(chan struct{})
		return true
	}
	o.waitLocked(job, worth)
	return false
}

// next returns the next job; with nil the goroutine is no longer there for any.
func (o *output) next() func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.dropped; n > 0 {
		o.dropped = 0
		return func() { o.lost(n) }
	}
	if len(o.queue) == 0 {
		close(o.busy)
		o.busy, o.queue = nil, nil // what has grown is let go
		return nil
	}
	first := o.queue[0]
	o.queue[0] = waiting{} // what it holds is let go with it
	o.queue = o.queue[1:]
	if first.worth == ownRoom {
		o.apart--
	}
	return first.job
}

// wait returns when nobody writes, or when ctx ends.
func (o *output) wait(ctx context.Context) {
	select {
	case <-o.writing():
	case <-ctx.Done():
	}
}

// writing returns a channel that is closed when what is written now has been.
func (o *output) writing() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy != nil {
		return o.busy
	}
	idle := make(chan struct{})
	close(idle)
	return idle
}
