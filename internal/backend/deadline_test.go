// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// slowCaller is a client that takes a minute to answer.
type slowCaller struct{}

func (slowCaller) Notify(context.Context, *mcp.Notification) error { return nil }

func (c slowCaller) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return func() (*mcp.Result, error) { return c.ask(ctx, req) }, nil
}

func (slowCaller) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func (slowCaller) ask(ctx context.Context, _ *mcp.Request) (*mcp.Result, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Minute):
		return mcp.NewResult([]byte(`{"action":"accept"}`))
	}
}

func progress(ctx context.Context, t *testing.T, c mcp.Caller) {
	t.Helper()
	if err := c.Notify(ctx, &mcp.Notification{Method: "notifications/progress"}); err != nil {
		t.Error(err)
	}
}

// C7+ 2026-07-28 basic/patterns/cancellation: "Implementations SHOULD establish
// timeouts for all sent requests, to prevent hung connections and resource
// exhaustion."
//
// C7- 2026-07-28 basic/patterns/cancellation: "implementations SHOULD always enforce a
// maximum timeout, regardless of progress notifications"
func TestDeadlines(t *testing.T) {
	for _, tt := range []struct {
		name string
		work func(ctx context.Context, t *testing.T, c mcp.Caller)
		want time.Duration // when the call ends
		text string
	}{
		{"silence", func(ctx context.Context, _ *testing.T, _ mcp.Caller) { <-ctx.Done() },
			10 * time.Second, "no response or progress for 10s (limits.callIdle)"},
		{"progress keeps it alive", func(ctx context.Context, t *testing.T, c mcp.Caller) {
			for range 5 {
				time.Sleep(9 * time.Second)
				progress(ctx, t, c)
			}
			<-ctx.Done()
		}, 55 * time.Second, "(limits.callIdle)"},
		{"endless progress is cut at the maximum", func(ctx context.Context, t *testing.T, c mcp.Caller) {
			for ctx.Err() == nil {
				progress(ctx, t, c)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}, 100 * time.Second, "no response within 1m40s (limits.callMax)"},
		{"a human may think", func(ctx context.Context, t *testing.T, c mcp.Caller) {
			if _, err := mcp.Ask(ctx, c, &mcp.Request{Method: "elicitation/create"}); err != nil {
				t.Errorf("the question was cut off: %v", err)
			}
			<-ctx.Done()
		}, 70 * time.Second, "(limits.callIdle)"},
		{"the maximum is paused while the client thinks", func(ctx context.Context, t *testing.T, c mcp.Caller) {
			for range 3 {
				time.Sleep(8 * time.Second)
				if _, err := mcp.Ask(ctx, c, &mcp.Request{Method: "elicitation/create"}); err != nil {
					t.Errorf("the question was cut off: %v", err)
				}
			}
			for ctx.Err() == nil {
				progress(ctx, t, c)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}, 280 * time.Second, "no response within 1m40s (limits.callMax)"},
		{"questions at once halt it once", func(ctx context.Context, t *testing.T, c mcp.Caller) {
			done := make(chan error)
			for range 2 {
				go func() { // waited for below; ends with the answer
					_, err := mcp.Ask(ctx, c, &mcp.Request{Method: "elicitation/create"})
					done <- err
				}()
				time.Sleep(5 * time.Second)
			}
			for range 2 {
				if err := <-done; err != nil {
					t.Errorf("a question was cut off: %v", err)
				}
			}
			<-ctx.Done()
		}, 75 * time.Second, "(limits.callIdle)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newToolServer(false)
				s.onCall = func(ctx context.Context, c mcp.Caller) { tt.work(ctx, t, c) }
				b := New(Config{Name: "shelf", Handler: s, Idle: 10 * time.Second, Max: 100 * time.Second})
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // if nothing else ends it
				defer cancel()
				_, err := b.Serve(ctx, &mcp.Request{Method: "tools/call"}, slowCaller{})
				fault, ok := errors.AsType[*mcp.Fault](err)
				if !ok || fault.Code != mcp.CodeDeadline || fault.Outcome != mcp.Unknown || fault.Backend != "shelf" {
					t.Fatalf("got %#v, want a deadline fault that names the backend, outcome unknown", err)
				}
				if !strings.Contains(fault.Message, tt.text) {
					t.Errorf("text: got %q, want it to contain %q", fault.Message, tt.text)
				}
				if got := time.Since(start); got != tt.want {
					t.Errorf("ended after %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// The error of a call that took too long names the setting of the limit.
//
// C7+ 2026-07-28 basic/patterns/cancellation: "SDKs and other middleware SHOULD allow
// these timeouts to be configured on a per-request basis."
func TestDeadlineNamesItsKey(t *testing.T) {
	for key, want := range map[string]string{"": "no response within 1s (limits.callMax)", "timeout": "no response within 1s (timeout)"} {
		t.Run(key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newToolServer(false)
				s.onCall = func(ctx context.Context, _ mcp.Caller) { <-ctx.Done() }
				b := New(Config{Name: "shelf", Handler: s, Max: time.Second, MaxKey: key})
				_, err := b.Serve(t.Context(), &mcp.Request{Method: "tools/call"}, slowCaller{})
				if f, ok := errors.AsType[*mcp.Fault](err); !ok || f.Message != want {
					t.Errorf("got %v, want %q", err, want)
				}
			})
		})
	}
}

func TestDeadlineBeforeTheCallWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiting := mcp.HandlerFunc(func(ctx context.Context, _ *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			<-ctx.Done()
			return nil, &mcp.Fault{Outcome: mcp.NotDispatched}
		})
		b := New(Config{Name: "shelf", Handler: waiting})
		_, err := b.Serve(t.Context(), &mcp.Request{Method: "tools/call"}, slowCaller{})
		fault, ok := errors.AsType[*mcp.Fault](err)
		if !ok || fault.Code != mcp.CodeDeadline || fault.Outcome != mcp.NotDispatched {
			t.Errorf("got %#v, want a deadline fault, outcome not_dispatched", err)
		}
	})
}

func TestCancelledCallIsNotADeadline(t *testing.T) {
	s := newToolServer(false)
	s.onCall = func(ctx context.Context, _ mcp.Caller) { <-ctx.Done() }
	b := New(Config{Name: "shelf", Handler: s})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Serve(ctx, &mcp.Request{Method: "tools/call"}, slowCaller{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

// A call that could not be sent because of the server requests a fetch of the lists;
// one that exceeded a limit, or was cancelled by its client, does not.
func TestUnsentCallRefreshesTheLists(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{&mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched}, true},
		{&mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.Unknown}, false},
		{&mcp.Fault{Code: mcp.CodeLimit, Outcome: mcp.NotDispatched}, false},
		{&mcp.Fault{Code: mcp.CodeSessionEnded, Outcome: mcp.NotDispatched}, false},
		{&mcp.Fault{Code: mcp.CodeShuttingDown, Outcome: mcp.NotDispatched}, false},
		{mcp.Errorf(mcp.CodeInternalError, "the server's own word"), false},
		{errors.New("odd"), false},
	} {
		s := newToolServer(false)
		s.broken = tt.err
		b := New(Config{Name: "shelf", Handler: s})
		if _, err := b.Serve(t.Context(), &mcp.Request{Method: "tools/call"}, slowCaller{}); err == nil {
			t.Fatal("no error")
		}
		looked := false
		select {
		case <-b.refresh:
			looked = true
		default:
		}
		if looked != tt.want {
			t.Errorf("after %v the server is looked at: %v, want %v", tt.err, looked, tt.want)
		}
	}
}

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
					ctx, d := l.begin(t.Context(), slowCaller{}, nil)
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
	ctx, d := l.begin(t.Context(), slowCaller{}, nil)
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
		ctx, d := l.begin(t.Context(), slowCaller{}, nil)
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
		ctx, d := l.begin(t.Context(), slowCaller{}, nil)
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

// slowReader is a client that takes each piece of an arriving result slowly.
type slowReader struct {
	slowCaller
	mcp.NoExtension
	every time.Duration
}

func (c slowReader) Extension() mcp.CallerExtension { return c }

func (c slowReader) Receive(_ context.Context, res mcp.StreamedResult) (bool, error) {
	return true, res.(*jsonrpc.Arriving).Flow(c)
}

func (c slowReader) Write(p []byte) (int, error) {
	time.Sleep(c.every)
	return len(p), nil
}

// Each piece of an arriving result resets the idle time, and only the time of the
// server counts: a client that is slow to take a piece uses up none of it.
func TestDeadlineOfAResultThatArrives(t *testing.T) {
	const pieces = 8
	tests := []struct {
		name   string
		server time.Duration // before each piece
		client time.Duration // over each
		want   string        // "" means that it arrives
	}{
		{"a slow server", 9 * time.Second, 0, ""},
		{"a slow client", 0, 15 * time.Minute, ""},
		{"a server that stalls", 11 * time.Second, 0, "no response or progress for 10s (limits.callIdle)"},
		{"a server that takes for ever", 9900 * time.Millisecond, 0, "no response within 1m15s (limits.callMax)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := mcp.HandlerFunc(func(ctx context.Context, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
					return receive(ctx, c, pieces, tt.server)
				})
				b := New(Config{Name: "shelf", Handler: h, Idle: 10 * time.Second, Max: 75 * time.Second})
				res, err := b.Serve(t.Context(), &mcp.Request{Method: "tools/call"}, slowReader{every: tt.client})
				if tt.want == "" {
					if err != nil || !res.Delivered {
						t.Errorf("the result did not arrive: %v", err)
					}
					return
				}
				if f, ok := errors.AsType[*mcp.Fault](err); !ok || !strings.Contains(f.Message, tt.want) || f.Outcome != mcp.Unknown {
					t.Errorf("got %v, want %q", err, tt.want)
				}
			})
		})
	}
}

// receive passes the caller a result in so many pieces.
func receive(ctx context.Context, c mcp.Caller, pieces int, every time.Duration) (*mcp.Result, error) {
	body, w := io.Pipe()
	filler := strings.Repeat("x", 64<<10)
	var says sync.WaitGroup
	defer says.Wait()
	defer body.Close()
	says.Go(func() { // ends with the result, or when the pipe is closed; waited for here
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":["`+filler)
		for range pieces {
			time.Sleep(every)
			if _, err := io.WriteString(w, filler); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, `"]}}`)
		w.Close()
	})
	stop := context.AfterFunc(ctx, func() { body.CloseWithError(ctx.Err()) })
	defer stop()
	a := jsonrpc.NewArrival(body, -1, mcp.Limits{}, 1<<30)
	if whole, err := a.Begin(); whole != nil || err != nil {
		return nil, errors.Join(errors.New("there is no window"), err)
	}
	arriving := jsonrpc.NewArriving(&a, mcp.V20251125, func() { body.Close() })
	if taken, err := c.Extension().Receive(ctx, arriving); !taken || err != nil {
		return nil, errors.Join(errors.New("it was not taken"), err)
	}
	return arriving.Result(), nil
}

// While calls begin, the delay of a timer is reported once a second, and not after the
// last.
func TestLateTimerIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported := make(chan time.Duration, 10)
		b := New(Config{Name: "shelf", Handler: atOnce, Late: func(d time.Duration) { reported <- d }})
		for range 2500 {
			if _, err := b.Serve(t.Context(), &mcp.Request{}, slowCaller{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Hour)
		b.limits.lag.fire(time.Now().Add(-700 * time.Millisecond)) // as if the machine had been busy
		synctest.Wait()                                            // for the timers, which send
		close(reported)
		var late []time.Duration
		for d := range reported {
			late = append(late, d)
		}
		if want := []time.Duration{0, 0, 0, 700 * time.Millisecond}; !slices.Equal(late, want) {
			t.Errorf("reported %v, want %v", late, want)
		}
	})
}
