// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
