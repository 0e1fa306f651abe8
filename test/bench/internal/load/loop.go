// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Caller does one thing over and over. A Caller is used by one goroutine at a time.
type Caller interface {
	// Call does it once and returns how many notifications of progress came.
	Call(ctx context.Context) (progress int, err error)
}

// CallerFunc is a function that is a Caller.
type CallerFunc func(ctx context.Context) error

// Call calls the function.
func (f CallerFunc) Call(ctx context.Context) (int, error) { return 0, f(ctx) }

// Result is what came of a run.
type Result struct {
	Calls    int // those that succeeded
	Errors   int
	First    error // the first that went wrong
	Progress int   // notifications that came
	Elapsed  time.Duration
	Latency  *hdrhistogram.Histogram // of those that succeeded, in nanoseconds
}

// PerSecond is how many calls there were in a second.
func (r Result) PerSecond() float64 { return float64(r.Calls) / r.Elapsed.Seconds() }

// Quantile is how long a share of the calls took at most.
func (r Result) Quantile(q float64) time.Duration {
	return time.Duration(r.Latency.ValueAtQuantile(100 * q))
}

// newHistogram holds times of up to a minute, to a thousandth of each.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(patience), 3)
}

// Run has all callers make n calls together, and returns when the last has its
// answer. It ends early when ctx does.
func Run[C Caller](ctx context.Context, callers []C, n int) Result {
	parts := make([]Result, len(callers))
	var (
		left atomic.Int64
		wg   sync.WaitGroup
	)
	left.Store(int64(n))
	start := time.Now()
	for i, c := range callers {
		// Ends when no calls are left or ctx is done; Run waits for it.
		wg.Go(func() { parts[i] = repeat(ctx, c, &left) })
	}
	wg.Wait()
	all := Pool(parts...)
	all.Elapsed = time.Since(start)
	return all
}

// Pool is what came of several runs together, as if they had been one: a quantile of
// the times of all of them, say, where one has too few that are slow.
func Pool(runs ...Result) Result {
	all := Result{Latency: newHistogram()}
	for _, r := range runs {
		all.Calls += r.Calls
		all.Errors += r.Errors
		all.Progress += r.Progress
		all.Elapsed += r.Elapsed
		if r.Latency != nil {
			all.Latency.Merge(r.Latency)
		}
		if all.First == nil {
			all.First = r.First
		}
	}
	return all
}

// repeat is one caller's part of a run.
func repeat(ctx context.Context, c Caller, left *atomic.Int64) Result {
	r := Result{Latency: newHistogram()}
	for left.Add(-1) >= 0 && ctx.Err() == nil {
		start := time.Now()
		progress, err := c.Call(ctx)
		took := time.Since(start)
		if err != nil {
			r.Errors++
			if r.First == nil {
				r.First = err
			}
			continue
		}
		r.Calls++
		r.Progress += progress
		// One that took longer than a histogram holds has ended with an error.
		_ = r.Latency.RecordValue(int64(took))
	}
	return r
}
