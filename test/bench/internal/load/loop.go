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

// Caller makes one call repeatedly. One goroutine uses a Caller at a time.
type Caller interface {
	// Call makes the call and returns the number of progress notifications.
	Call(ctx context.Context) (progress int, err error)
}

// CallerFunc makes a function a Caller.
type CallerFunc func(ctx context.Context) error

// Call calls the function.
func (f CallerFunc) Call(ctx context.Context) (int, error) { return 0, f(ctx) }

// Result is the result of a run.
type Result struct {
	Calls    int // successful calls
	Errors   int
	First    error // the first error
	Progress int   // notifications received
	Elapsed  time.Duration
	Latency  *hdrhistogram.Histogram // of successful calls, in nanoseconds
}

// PerSecond returns the number of calls per second.
func (r Result) PerSecond() float64 { return float64(r.Calls) / r.Elapsed.Seconds() }

// Quantile returns the quantile q of the call times.
func (r Result) Quantile(q float64) time.Duration {
	return time.Duration(r.Latency.ValueAtQuantile(100 * q))
}

// newHistogram returns a histogram of times of up to a minute, to a thousandth of each.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(patience), 3)
}

// Run makes n calls with all callers together, and returns after the last response. It ends
// early when ctx does.
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

// Pool merges several runs, for example for a quantile of the times of all of them if one
// has too few slow calls.
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
		// A time beyond the histogram's range belongs to a call that failed.
		_ = r.Latency.RecordValue(int64(took))
	}
	return r
}
