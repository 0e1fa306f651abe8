// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"context"
	"sync"
)

// JobQueue runs jobs one after another, in order. It has a goroutine while there are jobs, so
// that callers never wait for a job, not even for one that blocks (on a pipe that is not
// read), and do not reveal by their timing that something is written. If the queue is full,
// jobs are dropped and counted.
//
// The zero value is ready to use, except for DropFunc.
type JobQueue struct {
	// DropFunc is called with the number of dropped things as soon as the current job has
	// returned. It runs like a job.
	DropFunc func(n int)

	mu       sync.Mutex
	queue    []queuedJob
	separate int // how many of queue are neverLostSeparate
	dropped  int
	busy     chan struct{} // closed when the goroutine ends; nil without one
}

// queuedJob is a queued job.
type queuedJob struct {
	job  func()
	lost int
}

// Special values of lost, which is otherwise the number of things lost with a job.
const (
	neverLost         = 0
	neverLostSeparate = -1 // never dropped, and not counted against MaxQueue
)

// MaxQueue bounds the queued jobs: some seconds of a busy log, and a few hundred KiB.
const MaxQueue = 1024

// Put queues a job, and does not wait for it.
func (o *JobQueue) Put(job func()) { o.PutFor(1, job) }

// PutFor is Put for a job that represents n things, for counting if it is dropped.
func (o *JobQueue) PutFor(n int, job func()) { o.put(job, n) }

// PutAlways is Put for a job that is never dropped. The caller bounds the number of such jobs.
func (o *JobQueue) PutAlways(job func()) { o.put(job, neverLost) }

// PutSeparate is PutAlways for jobs that do not reduce the space for others.
func (o *JobQueue) PutSeparate(job func()) { o.put(job, neverLostSeparate) }

func (o *JobQueue) put(job func(), lost int) {
	if !o.tryQueue(job, lost, true) {
		go o.run(job) // ends with the queue; Wait waits for it
	}
}

// RunAfter runs a job immediately if the queue is idle, and otherwise queues it like PutFor,
// or like PutAlways if lost is 0, so that it runs after the jobs queued before.
func (o *JobQueue) RunAfter(lost int, job func()) {
	if !o.tryQueue(job, lost, false) {
		job()
	}
}

// tryQueue queues a job if there is a goroutine, and reports whether there is one. If not, and
// start is set, the caller must start one with the job.
func (o *JobQueue) tryQueue(job func(), lost int, start bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy != nil {
		o.queueLocked(job, lost)
		return true
	}
	if start {
		o.busy = make(chan struct{})
	}
	return false
}

// queueLocked appends a job to the queue, or drops and counts it.
func (o *JobQueue) queueLocked(job func(), lost int) {
	if lost > 0 && len(o.queue)-o.separate >= MaxQueue {
		o.dropped += lost
		return
	}
	o.queue = append(o.queue, queuedJob{job, lost})
	if lost == neverLostSeparate {
		o.separate++
	}
}

func (o *JobQueue) run(job func()) {
	for job != nil {
		job()
		job = o.next()
	}
}

// next returns the next job. If it returns nil, the goroutine must end.
func (o *JobQueue) next() func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.dropped; n > 0 {
		o.dropped = 0
		return func() { o.DropFunc(n) }
	}
	if len(o.queue) == 0 {
		close(o.busy)
		o.busy, o.queue = nil, nil // release the memory of the queue
		return nil
	}
	first := o.queue[0]
	o.queue[0] = queuedJob{} // release what the job refers to
	o.queue = o.queue[1:]
	if first.lost == neverLostSeparate {
		o.separate--
	}
	return first.job
}

// Wait returns when the queue is idle, or when ctx ends.
func (o *JobQueue) Wait(ctx context.Context) {
	select {
	case <-o.writing():
	case <-ctx.Done():
	}
}

// writing returns a channel that is closed when the queue is next idle.
func (o *JobQueue) writing() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy != nil {
		return o.busy
	}
	idle := make(chan struct{})
	close(idle)
	return idle
}
