// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A job that queues another one does not deadlock.
func TestJobQueueAcceptsJobsFromJobs(t *testing.T) {
	var o JobQueue
	var got []string
	o.Put(func() {
		o.Put(func() { got = append(got, "second") })
		got = append(got, "first")
	})
	o.Wait(t.Context())
	if diff := cmp.Diff(got, []string{"first", "second"}); diff != "" {
		t.Errorf("ran (-got +want):\n%s", diff)
	}
}

// While a job is blocked, callers do not wait. Queued jobs run later in order, and the number
// of dropped ones is reported.
func TestJobQueueBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []int
		lost := 0
		o := JobQueue{DropFunc: func(n int) { lost += n }}
		release := make(chan struct{})
		o.Put(func() { <-release })
		synctest.Wait()
		const over = 50
		for i := range MaxQueue + over {
			o.Put(func() { ran = append(ran, i) })
		}
		o.PutAlways(func() { ran = append(ran, -1) })
		if len(ran) != 0 || lost != 0 {
			t.Errorf("%d jobs ran and %d were lost beside one that is stuck", len(ran), lost)
		}
		close(release)
		o.Wait(t.Context())
		if lost != over || len(ran) != MaxQueue+1 {
			t.Errorf("%d ran and %d were lost, want %d and %d", len(ran), lost, MaxQueue+1, over)
		}
		if got := ran[len(ran)-1]; got != -1 {
			t.Errorf("the last to run is %d, want the one that must", got)
		}
		if !slices.IsSorted(ran[:MaxQueue]) {
			t.Error("the jobs ran out of order")
		}
	})
}

// Jobs of PutAlways run however long the queue is blocked, and a dropped job counts with its
// number of things.
func TestJobQueueCountsLostThings(t *testing.T) {
	var o JobQueue
	ran, lost := 0, 0
	o.DropFunc = func(n int) { lost += n }
	release := make(chan struct{})
	o.Put(func() { <-release })
	for range 3 * MaxQueue {
		o.PutAlways(func() { ran++ })
	}
	o.PutFor(700, func() { t.Error("a job ran for which there was no room") })
	o.Put(func() { t.Error("so did another") })
	close(release)
	o.Wait(t.Context())
	if ran != 3*MaxQueue || lost != 701 {
		t.Errorf("%d ran that must, %d things are told to be lost; want %d and 701", ran, lost, 3*MaxQueue)
	}
}

// Wait returns when the queue is idle, or when the context ends.
func TestJobQueueWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o JobQueue
		o.Wait(t.Context()) // idle
		release := make(chan struct{})
		o.Put(func() { <-release })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		o.Wait(ctx)
		if took := time.Since(began); took != time.Second {
			t.Errorf("waited %v for a job that is stuck, want as long as the context", took)
		}
		go func() { // ends after a minute
			<-time.After(time.Minute)
			close(release)
		}()
		began = time.Now()
		o.Wait(t.Context())
		if took := time.Since(began); took != time.Minute {
			t.Errorf("waited %v, want until the job has ended", took)
		}
	})
}

// put returns at once, whatever the job does. Jobs run in order, one at a time, and the
// goroutine ends after the last.
func TestJobQueueDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o JobQueue
		began := time.Now()
		var ran []int
		for i := range 10 {
			o.Put(func() { <-time.After(time.Second); ran = append(ran, i) })
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("put took %v", took)
		}
		o.Wait(t.Context())
		if took := time.Since(began); took != 10*time.Second || len(ran) != 10 || !slices.IsSorted(ran) {
			t.Errorf("%v ran within %v, want 10 one after another", ran, took)
		}
	})
}

func TestJobQueueConcurrently(t *testing.T) {
	var o JobQueue
	ran := 0 // jobs do not run concurrently; the race detector checks it
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { // ends by itself; waited for below
			for range 100 {
				o.Put(func() { ran++ })
			}
		})
	}
	all.Wait()
	o.Wait(t.Context())
	if ran+o.dropped != 800 {
		t.Errorf("%d ran and %d were dropped of 800", ran, o.dropped)
	}
}
