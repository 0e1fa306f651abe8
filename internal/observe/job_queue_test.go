// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A job that brings another one does not wait for itself.
func TestOutputTakesJobsFromJobs(t *testing.T) {
	var o jobQueue
	var got []string
	o.put(func() {
		o.put(func() { got = append(got, "second") })
		got = append(got, "first")
	})
	o.wait(t.Context())
	if diff := cmp.Diff(got, []string{"first", "second"}); diff != "" {
		t.Errorf("ran (-got +want):\n%s", diff)
	}
}

// While one job is stuck nobody waits for it. What the queue takes runs later
// and in order, and of the rest the number is told.
func TestOutputStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []int
		lost := 0
		o := jobQueue{dropFunc: func(n int) { lost += n }}
		release := make(chan struct{})
		o.put(func() { <-release })
		synctest.Wait()
		const over = 50
		for i := range maxQueue + over {
			o.put(func() { ran = append(ran, i) })
		}
		o.putAlways(func() { ran = append(ran, -1) })
		if len(ran) != 0 || lost != 0 {
			t.Errorf("%d jobs ran and %d were lost beside one that is stuck", len(ran), lost)
		}
		close(release)
		o.wait(t.Context())
		if lost != over || len(ran) != maxQueue+1 {
			t.Errorf("%d ran and %d were lost, want %d and %d", len(ran), lost, maxQueue+1, over)
		}
		if got := ran[len(ran)-1]; got != -1 {
			t.Errorf("the last to run is %d, want the one that must", got)
		}
		if !slices.IsSorted(ran[:maxQueue]) {
			t.Error("the jobs ran out of order")
		}
	})
}

// However long the writer is stuck, what must run does, and a job that stands for
// many things counts for all of them where it is lost.
func TestOutputCountsWhatAJobStandsFor(t *testing.T) {
	var o jobQueue
	ran, lost := 0, 0
	o.dropFunc = func(n int) { lost += n }
	release := make(chan struct{})
	o.put(func() { <-release })
	for range 3 * maxQueue {
		o.putAlways(func() { ran++ })
	}
	o.putFor(700, func() { t.Error("a job ran for which there was no room") })
	o.put(func() { t.Error("so did another") })
	close(release)
	o.wait(t.Context())
	if ran != 3*maxQueue || lost != 701 {
		t.Errorf("%d ran that must, %d things are told to be lost; want %d and 701", ran, lost, 3*maxQueue)
	}
}

// wait returns at the end of what is written now, or with the context.
func TestOutputWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o jobQueue
		o.wait(t.Context()) // nobody writes
		release := make(chan struct{})
		o.put(func() { <-release })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		o.wait(ctx)
		if took := time.Since(began); took != time.Second {
			t.Errorf("waited %v for a job that is stuck, want as long as the context", took)
		}
		go func() { // ends after a minute
			<-time.After(time.Minute)
			close(release)
		}()
		began = time.Now()
		o.wait(t.Context())
		if took := time.Since(began); took != time.Minute {
			t.Errorf("waited %v, want until the job has ended", took)
		}
	})
}

// put returns at once, whatever the job does; jobs run in their order, one at a
// time, and their goroutine ends with the work.
func TestOutputIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o jobQueue
		began := time.Now()
		var ran []int
		for i := range 10 {
			o.put(func() { <-time.After(time.Second); ran = append(ran, i) })
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("put took %v", took)
		}
		o.wait(t.Context())
		if took := time.Since(began); took != 10*time.Second || len(ran) != 10 || !slices.IsSorted(ran) {
			t.Errorf("%v ran within %v, want 10 one after another", ran, took)
		}
	})
}

func TestOutputConcurrently(t *testing.T) {
	var o jobQueue
	ran := 0 // the output itself keeps jobs apart; the race detector watches
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { // ends by itself; waited for below
			for range 100 {
				o.put(func() { ran++ })
			}
		})
	}
	all.Wait()
	o.wait(t.Context())
	if ran+o.dropped != 800 {
		t.Errorf("%d ran and %d were dropped of 800", ran, o.dropped)
	}
}
