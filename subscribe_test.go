// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// listenFunc is a backend with one resource that calls the function for each listen.
type listenFunc func(ctx context.Context, caller mcp.Caller) (*mcp.Result, error)

func (w listenFunc) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	switch {
	case req.Method == "server/discover":
		return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"resources":{"subscribe":true}}}`))
	case req.Method == "resources/list":
		return mcp.NewResult([]byte(`{"resources":[{"name":"x","uri":"x:1"}]}`))
	case req.Method == "subscriptions/listen" && strings.Contains(string(req.Params.Bytes()), "x:1"):
		return w(ctx, caller)
	case req.Method == "subscriptions/listen":
		<-ctx.Done()
		return nil, ctx.Err()
	default:
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s", req.Method)
	}
}

// A backend that refuses, by an error or by ending the listen, is not waited for. If it
// fails or does not answer, nothing is known: its resources count as agreed, because
// the listen is retried, and the client is notified when it succeeds.
//
// U4+ 2026-07-28 basic/patterns/subscriptions: "The `notifications` field in the
// acknowledgment reflects the subset the server agreed to honor."
//
// U4- 2026-07-28 basic/patterns/subscriptions: "Notification types the server does not
// support are omitted."
func TestListenAgreesToWhatIsNotRefused(t *testing.T) {
	const agreed, refused = `{"notifications":{"resourceSubscriptions":["x:1"]}}`, `{"notifications":{}}`
	for name, tt := range map[string]struct {
		answer listenFunc
		want   string
		within time.Duration
	}{
		"refused in words": {func(context.Context, mcp.Caller) (*mcp.Result, error) {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "no")
		}, refused, 0},
		"refused by leaving": {func(context.Context, mcp.Caller) (*mcp.Result, error) {
			return mcp.NewResult([]byte("{}"))
		}, refused, 0},
		"agreed to nothing": {func(ctx context.Context, c mcp.Caller) (*mcp.Result, error) {
			err := notify(ctx, c, "notifications/subscriptions/acknowledged", `{"notifications":{}}`)
			<-ctx.Done()
			return nil, err
		}, refused, 0},
		"failed": {func(context.Context, mcp.Caller) (*mcp.Result, error) {
			return nil, errors.New("the connection is gone")
		}, agreed, 0},
		"silent": {func(ctx context.Context, _ mcp.Caller) (*mcp.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, agreed, ackTimeout},
		"silent for long, and then agreed to nothing": {func(ctx context.Context, c mcp.Caller) (*mcp.Result, error) {
			backoff.Sleep(ctx, time.Minute)
			err := notify(ctx, c, "notifications/subscriptions/acknowledged", `{"notifications":{}}`)
			<-ctx.Done()
			return nil, err
		}, agreed, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller, end := watch(t, tt.answer)
				defer end()
				time.Sleep(tt.within)
				synctest.Wait()
				if want := []string{"notifications/subscriptions/acknowledged " + tt.want}; !slices.Equal(caller.all, want) {
					t.Errorf("after %s received %q, want %q", tt.within, caller.all, want)
				}
			})
		})
	}
}

// A listen that fails after it was agreed is retried. Changes until the retry succeeds
// count as one update each time.
func TestFailedListenIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := 0
		caller, end := watch(t, func(ctx context.Context, c mcp.Caller) (*mcp.Result, error) {
			if failed++; failed < 3 {
				return nil, errors.New("the connection is gone")
			}
			err := notify(ctx, c, "notifications/subscriptions/acknowledged", `{"notifications":{"resourceSubscriptions":["x:1"]}}`)
			<-ctx.Done()
			return nil, err
		})
		defer end()
		time.Sleep(maxRelistenDelay)
		synctest.Wait()
		want := []string{
			`notifications/subscriptions/acknowledged {"notifications":{"resourceSubscriptions":["x:1"]}}`,
			`notifications/resources/updated {"uri":"x:1"}`,
		}
		if !slices.Equal(caller.all, want) {
			t.Errorf("received %q, want %q", caller.all, want)
		}
	})
}

// A refused listen is not retried: the client knows that it receives nothing.
func TestRefusedListenIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		_, end := watch(t, func(context.Context, mcp.Caller) (*mcp.Result, error) {
			asked++
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "no")
		})
		defer end()
		time.Sleep(10 * maxRelistenDelay)
		synctest.Wait()
		if asked != 1 {
			t.Errorf("asked %d times, want once", asked)
		}
	})
}

// watch listens for the resource of a backend until the test ends it.
func watch(t *testing.T, b listenFunc) (*recorder, func()) {
	t.Helper()
	g, err := New(config.Config{}, Options{InProcess: []InProcess{{Name: "a", Handler: b}}})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // its list is known
	caller := &recorder{}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { // ends with ctx; the returned function waits for it
		defer close(over)
		_, _ = g.Serve(ctx, ask(t, nil, "subscriptions/listen", `{"notifications":{"resourceSubscriptions":["x:1"]}}`), caller)
	}()
	synctest.Wait()
	return caller, func() {
		cancel()
		<-over
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}
