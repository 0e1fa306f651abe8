// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"sync"
)

// output runs jobs one after another, in order. It has a goroutine while there are jobs, so
// that callers never wait for a job, not even for one that blocks (on a pipe that is not read),
// and do not reveal by their timing that something is written. If the queue is full, jobs are
// dropped and counted.
//
// The zero value is ready to use, except for lost.
type output struct {
	// lost is called with the number of dropped things as soon as the current job has
	// returned. It runs like a job.
	lost func(n int)

	mu      sync.Mutex
	queue   []waiting
	apart   int // the number of jobs in queue with ownRoom
	dropped int
	busy    chan struct{} // closed when the goroutine ends; nil without one
}

// waiting is a queued job.
type waiting struct {
	job   func()
	worth int
}

// Special values of worth, which is otherwise the number of things lost with a job.
const (
	neverLost = 0
	ownRoom   = -1 // never dropped, and not counted against maxQueue
)

// maxQueue bounds the queued jobs: some seconds of a busy log, and a few hundred KiB.
const maxQueue = 1024

// put queues a job, and does not wait for it.
func (o *output) put(job func()) { o.putFor(1, job) }

// putFor is put for a job that represents n things, for counting if it is dropped.
func (o *output) putFor(n int, job func()) { o.enter(job, n) }

// must is put for a job that is never dropped. The caller bounds the number of such jobs.
func (o *output) must(job func()) { o.enter(job, neverLost) }

// mustBeside is must for jobs that do not reduce the space for others.
func (o *output) mustBeside(job func()) { o.enter(job, ownRoom) }

// behind runs a job immediately if the queue is idle, and otherwise queues it like put or must,
// so that it runs after the jobs queued before.
func (o *output) behind(worth int, job func()) {
	if !o.joins(job, worth) {
		job()
	}
}

// joins queues a job if there is a goroutine, and reports whether there is one.
func (o *output) joins(job func(), worth int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy != nil {
		o.waitLocked(job, worth)
	}
	return o.busy != nil
}

// waitLocked appends a job to the queue, or drops and counts it.
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

// begin reports whether the caller has to start a goroutine with the job. Otherwise it queues the
// job for the existing one.
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

// next returns the next job, or nil if there is none, after which the goroutine must end.
func (o *output) next() func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.dropped; n > 0 {
		o.dropped = 0
		return func() { o.lost(n) }
	}
	if len(o.queue) == 0 {
		close(o.busy)
		o.busy, o.queue = nil, nil // release the memory of the queue
		return nil
	}
	first := o.queue[0]
	o.queue[0] = waiting{} // release what the job refers to
	o.queue = o.queue[1:]
	if first.worth == ownRoom {
		o.apart--
	}
	return first.job
}

// wait returns when the queue is idle, or when ctx ends.
func (o *output) wait(ctx context.Context) {
	select {
	case <-o.writing():
	case <-ctx.Done():
	}
}

// writing returns a channel that is closed when the queue is next idle.
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
