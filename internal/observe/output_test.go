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

// Jobs run in their order, one at a time, and where nobody writes before put
// returns.
func TestOutputRunsInOrder(t *testing.T) {
	var o output
	var got []int
	for i := range 3 {
		o.put(func() { got = append(got, i) })
		if len(got) != i+1 {
			t.Fatalf("job %d has not run when put returns", i)
		}
	}
}

// A job that brings another one does not wait for itself.
func TestOutputTakesJobsFromJobs(t *testing.T) {
	var o output
	var got []string
	o.put(func() {
		o.put(func() { got = append(got, "second") })
		got = append(got, "first")
	})
	if diff := cmp.Diff(got, []string{"first", "second"}); diff != "" {
		t.Errorf("ran (-got +want):\n%s", diff)
	}
}

// While one job is stuck its caller alone waits. What the queue takes runs later
// and in order, and of the rest the number is told.
func TestOutputStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []int
		lost := 0
		o := output{lost: func(n int) { lost += n }}
		release := make(chan struct{})
		returned := make(chan struct{})
		go func() { // ends when the job does
			defer close(returned)
			o.put(func() { <-release })
		}()
		synctest.Wait()
		const over = 50
		for i := range maxQueue + over {
			o.put(func() { ran = append(ran, i) })
		}
		o.must(func() { ran = append(ran, -1) })
		if len(ran) != 0 || lost != 0 {
			t.Errorf("%d jobs ran and %d were lost beside one that is stuck", len(ran), lost)
		}
		close(release)
		<-returned
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
	o := output{aside: true}
	ran, lost := 0, 0
	o.lost = func(n int) { lost += n }
	release := make(chan struct{})
	o.put(func() { <-release })
	for range 3 * maxQueue {
		o.must(func() { ran++ })
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
		o := output{aside: true}
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

// With a goroutine of its own put returns at once, whatever the job does, and the
// goroutine ends with the work.
func TestOutputAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := output{aside: true}
		began := time.Now()
		var ran int
		for range 10 {
			o.put(func() { <-time.After(time.Second); ran++ })
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("put took %v", took)
		}
		o.wait(t.Context())
		if took := time.Since(began); took != 10*time.Second || ran != 10 {
			t.Errorf("%d ran within %v, want 10 one after another", ran, took)
		}
	})
}

// A job that panics leaves the output to others.
func TestOutputAfterAPanic(t *testing.T) {
	var o output
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic has not come through")
			}
		}()
		o.put(func() { panic("a handler of somebody's own") })
	}()
	ran := false
	o.put(func() { ran = true })
	if !ran {
		t.Error("nobody may write any more")
	}
	o.wait(t.Context())
}

func TestOutputConcurrently(t *testing.T) {
	var o output
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
