// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
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

// inOrder returns the list, and fails the test if its two directions differ.
func (y *young) inOrder(t *testing.T) []*deadline {
	t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	var there, back []*deadline
	for d := y.first; d != nil; d = d.behind {
		there = append(there, d)
	}
	for d := y.last; d != nil; d = d.before {
		back = append(back, d)
	}
	slices.Reverse(back)
	if !slices.Equal(there, back) {
		t.Fatalf("forwards there are %d calls, backwards %d others", len(there), len(back))
	}
	return there
}

func (y *young) isTicking() bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.ticking
}

// The delay of the timer of the young calls is reported while there are calls.
func TestLateTimerIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late []time.Duration
		l := newLimits(&Config{Late: func(d time.Duration) { late = append(late, d) }})
		_, d := l.begin(t.Context(), slowCaller{})
		time.Sleep(youth)
		synctest.Wait()
		d.stop()
		_, d = l.begin(t.Context(), slowCaller{})
		l.young.mu.Lock()
		l.young.due = l.young.due.Add(-700 * time.Millisecond) // as if the machine had been busy
		l.young.mu.Unlock()
		time.Sleep(time.Hour)
		d.stop()
		if want := []time.Duration{0, 700 * time.Millisecond}; !slices.Equal(late, want) {
			t.Errorf("told %v, want %v", late, want)
		}
	})
}

// In any order of begins and ends, the list contains the young calls that have not ended,
// oldest first. Each call is removed by the timer at most once, when its time is up.
func TestYoungAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 5))
		l := newLimits(&Config{Idle: time.Hour, Max: time.Hour})
		var open []*deadline // oldest first
		for range 2000 {
			switch r.IntN(5) {
			case 0, 1:
				_, d := l.begin(t.Context(), slowCaller{})
				open = append(open, d)
			case 2, 3:
				if len(open) > 0 {
					i := r.IntN(len(open))
					open[i].stop()
					open = slices.Delete(open, i, i+1)
				}
			default:
				time.Sleep(rand.N(youth / 3))
				synctest.Wait()
			}
			isOld := func(d *deadline) bool { return time.Since(d.began) >= youth }
			for _, d := range open {
				if d.grown != isOld(d) || (d.timer != nil) != isOld(d) {
					t.Fatalf("after %v: it has grown: %v, with a timer: %v", time.Since(d.began), d.grown, d.timer != nil)
				}
			}
			if want := slices.DeleteFunc(slices.Clone(open), isOld); !slices.Equal(l.young.inOrder(t), want) {
				t.Fatalf("got %d calls, want %d others", len(l.young.inOrder(t)), len(want))
			}
		}
		for _, d := range open {
			d.stop()
		}
	})
}

// Many calls that begin at any time and share a timer at first end each at its own
// time, to the nanosecond.
func TestEachCallHasItsOwnDeadline(t *testing.T) {
	for name, cfg := range map[string]Config{
		"far":              {Idle: 10 * time.Second, Max: 100 * time.Second},
		"within the youth": {Idle: 30 * time.Millisecond, Max: 20 * time.Millisecond},
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

// A call without limits is not in the list.
func TestNoLimitIsNotWatched(t *testing.T) {
	l := newLimits(&Config{Idle: -1, Max: -1})
	ctx, d := l.begin(t.Context(), slowCaller{})
	progress(ctx, t, d)
	if len(l.young.inOrder(t)) != 0 || l.young.ticking {
		t.Error("it is watched")
	}
	d.stop()
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("its context: %v", ctx.Err())
	}
}

// A call that ends after the sweep has removed it sets no timer.
func TestCallThatEndsWhileItGrowsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimits(&Config{})
		_, d := l.begin(t.Context(), slowCaller{})
		l.young.tickLocked(time.Hour) // the test sweeps by itself
		l.young.ticking = true
		if got := l.young.grown(d.began.Add(youth)); got != d {
			t.Fatalf("got %p, want %p", got, d)
		}
		d.stop()
		d.onTimer()
		if d.timer != nil {
			t.Error("it has a timer")
		}
	})
}

// The deadline waits for a question that is open when the call is no longer young, and for
// one that opens between the check of the timer and the end of the time.
func TestCallGrowsUpWhileItsClientThinks(t *testing.T) {
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

// There is one timer while calls begin and end all the time, and no timer after the last.
func TestYoungShareOneTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Name: "shelf", Handler: atOnce})
		for range 5000 {
			if _, err := b.Serve(t.Context(), &mcp.Request{}, slowCaller{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if !b.limits.young.isTicking() {
			t.Error("nobody watches the calls")
		}
		time.Sleep(youth)
		synctest.Wait()
		if y := &b.limits.young; y.isTicking() || len(y.inOrder(t)) > 0 {
			t.Errorf("left behind: a timer: %v, and %d calls", y.isTicking(), len(y.inOrder(t)))
		}
	})
}

// A call allocates its own struct and its context.
func TestServeAllocations(t *testing.T) {
	b := New(Config{Name: "shelf", Handler: atOnce})
	req := &mcp.Request{Method: "tools/call"}
	got := testing.AllocsPerRun(1000, func() {
		if _, err := b.Serve(context.Background(), req, slowCaller{}); err != nil { //nolint:usetesting // that of a test has a parent, which has a list of its children
			t.Fatal(err)
		}
	})
	if got > 4 { // one of them is the server's result
		t.Errorf("%v allocations, want at most 4", got)
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
