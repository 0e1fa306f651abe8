// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"sync"
)

// output runs jobs one after another, in the order in which they came: whoever
// brings a job while nobody writes runs it, and those that come meanwhile. A job
// that does not return (a pipe that nobody reads) so holds up one caller and no
// other; what the queue cannot take is dropped, and counted.
//
// The zero value is ready, but for lost.
type output struct {
	// aside has the jobs run by a goroutine, which ends when there are none left,
	// so that no caller is held up at all, and none can tell by the time it takes
	// that something was written.
	aside bool

	// lost is told of what was dropped as soon as something can be written
	// again. It runs as a job does.
	lost func(n int)

	mu      sync.Mutex
	queue   []func()
	dropped int
	busy    chan struct{} // closed by who writes, at the end; nil while nobody does
}

// maxQueue is how many jobs may wait for a writer that is stuck: some seconds of
// a lively log, and a few hundred kilobytes.
const maxQueue = 1024

// put has a job run. It returns before that where another caller is writing.
func (o *output) put(job func()) { o.putFor(1, job) }

// putFor is put for a job that stands for n things: so many are lost with it.
func (o *output) putFor(n int, job func()) { o.enter(job, n) }

// must is put for a job that is never dropped. Nothing here bounds how many wait;
// whoever brings them does.
func (o *output) must(job func()) { o.enter(job, 0) }

// behind runs a job here and now where nobody writes, and else has it run as put
// or, where it is worth nothing, as must does: so that what was brought before it
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
	if worth > 0 && len(o.queue) >= maxQueue {
		o.dropped += worth
		return
	}
	o.queue = append(o.queue, job)
}

func (o *output) enter(job func(), worth int) {
	mine := o.begin(job, worth)
	switch {
	case mine == nil:
	case o.aside:
		go o.run(job, mine) // ends with the queue; wait waits for it
	default:
		o.run(job, mine)
	}
}

func (o *output) run(job func(), mine chan struct{}) {
	defer o.end(mine)
	for job != nil {
		job()
		job = o.next()
	}
}

// begin makes the caller the writer and returns the sign of that, or leaves the
// job to who is, and returns nil. A job that is worth nothing is never dropped.
func (o *output) begin(job func(), worth int) chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy == nil {
		o.busy = make(chan struct{})
		return o.busy
	}
	o.waitLocked(job, worth)
	return nil
}

// next returns the next job; with nil the caller is no longer the writer.
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
	job := o.queue[0]
	o.queue = o.queue[1:]
	return job
}

// end lets others write where a job has panicked: then who wrote still does.
func (o *output) end(mine chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy == mine {
		close(mine)
		o.busy = nil
	}
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
