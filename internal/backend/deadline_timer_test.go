// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// atOnce is a server that responds to each call at once.
var atOnce = mcp.HandlerFunc(func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
	return &mcp.Result{}, nil
})

// Many calls that begin at any time end each at its own time, to the nanosecond.
func TestEachCallHasItsOwnDeadline(t *testing.T) {
	for name, cfg := range map[string]Config{
		"far":              {Idle: 10 * time.Second, Max: 100 * time.Second},
		"short":            {Idle: 30 * time.Millisecond, Max: 20 * time.Millisecond},
		"only the maximum": {Idle: -1, Max: 3 * time.Second},
		"only the silence": {Idle: 3 * time.Second, Max: -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimits(&cfg)
				want := l.idle
				if want <= 0 || l.max > 0 && l.max < want {
					want = l.max
				}
				var all sync.WaitGroup
				for range 100 {
					time.Sleep(rand.N(want / 20))
					start := time.Now()
					ctx, d := l.begin(t.Context(), slowCaller{})
					all.Go(func() {
						defer d.stop()
						<-ctx.Done()
						if got := time.Since(start); got != want || d.expired("key") == "" {
							t.Errorf("ended after %v with %v, want %v", got, context.Cause(ctx), want)
						}
					})
				}
				all.Wait()
			})
		})
	}
}

// A call without limits has no timer.
func TestNoLimitIsNotWatched(t *testing.T) {
	l := newLimits(&Config{Idle: -1, Max: -1})
	ctx, d := l.begin(t.Context(), slowCaller{})
	progress(ctx, t, d)
	if d.timer != nil {
		t.Error("it has a timer")
	}
	d.stop()
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("its context: %v", ctx.Err())
	}
}

// A timer that fires while its call ends neither ends the call with a limit nor is set
// again.
func TestCallThatEndsWhileItsTimerFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimits(&Config{})
		ctx, d := l.begin(t.Context(), slowCaller{})
		d.stop()
		d.onTimer()
		if d.timer.Stop() || d.expired("key") != "" || !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("its timer is set, or it has expired: %q, %v", d.expired("key"), context.Cause(ctx))
		}
	})
}

// The deadline waits for each question, also for one that opens between the check of the
// timer and the end of the time.
func TestDeadlineWaitsForQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimits(&Config{Idle: 2 * time.Second, Max: 10 * time.Second})
		ctx, d := l.begin(t.Context(), slowCaller{})
		defer d.stop()
		for range 2 {
			if _, err := mcp.Ask(ctx, d, &mcp.Request{Method: "elicitation/create"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1500 * time.Millisecond) // the timer is set now, and not due
		}
		answered := time.Now().Add(-1500 * time.Millisecond)
		<-ctx.Done()
		if got := time.Since(answered); got != 2*time.Second || d.expired("key") == "" {
			t.Errorf("ended %v after the answer: %v", got, context.Cause(ctx))
		}
	})
}

// A call allocates its own struct, two for its context, and two for its timer.
func TestServeAllocations(t *testing.T) {
	b := New(Config{Name: "shelf", Handler: atOnce})
	req := &mcp.Request{Method: "tools/call"}
	got := testing.AllocsPerRun(1000, func() {
		if _, err := b.Serve(context.Background(), req, slowCaller{}); err != nil { //nolint:usetesting // that of a test has a parent, which has a list of its children
			t.Fatal(err)
		}
	})
	if got > 6 { // one of them is the server's result
		t.Errorf("%v allocations, want at most 6", got)
	}
}

func BenchmarkServe(b *testing.B) {
	back := New(Config{Name: "shelf", Handler: atOnce})
	req := &mcp.Request{Method: "tools/call"}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		for pb.Next() {
			if _, err := back.Serve(ctx, req, slowCaller{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
