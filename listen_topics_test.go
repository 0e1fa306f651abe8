// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/internal/listen"
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
func watch(t *testing.T, b listenFunc) (*callRecorder, func()) {
	t.Helper()
	g, err := New(config.Config{}, Options{InProcess: []InProcess{{Name: "a", Handler: b}}})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // its list is known
	caller := &callRecorder{}
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

// notify sends a notification on a listen.
func notify(ctx context.Context, c mcp.Caller, method, params string) error {
	n, err := mcp.NewNotification(method, []byte(params))
	if err != nil {
		return err
	}
	return c.Notify(ctx, n)
}

// follow listens for tasks until the test ends it.
func follow(t *testing.T, g *Gateway, ids string) (*callRecorder, func()) {
	t.Helper()
	caller := &callRecorder{}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = g.Serve(ctx, ask(t, nil, "subscriptions/listen", `{"notifications":{"taskIds":[`+ids+`]}}`), caller)
	}()
	synctest.Wait()
	return caller, func() { cancel(); <-over }
}

// A listen for tasks reaches the backend with its own ids of the caller's tasks. Its
// notifications for them, and for nothing else, return with the ids that the caller
// sent, including those of an older key.
func TestTaskListenTranslatesIDs(t *testing.T) {
	withTaskServer(t, func(t *testing.T, g *Gateway, b *taskServer) {
		mine, foreign, gone := g.taskIDs.encode("a", "t1", "ann"), g.taskIDs.encode("a", "t1", "bob"), g.taskIDs.encode("z", "t1", "ann")
		refused := g.taskIDs.encode("a", "t2", "ann")
		asked := ""
		b.listen = func(ctx context.Context, req *mcp.Request, c mcp.Caller) error {
			asked = string(req.Params.Bytes())
			if err := notify(ctx, c, "notifications/subscriptions/acknowledged", `{"notifications":{"taskIds":["t1"]}}`); err != nil {
				return err
			}
			if err := notify(ctx, c, "notifications/tasks", `{"taskId":"another","status":"working"}`); err != nil {
				return err
			}
			return notify(ctx, c, "notifications/tasks", `{"taskId":"t1","status":"working","n":1.0}`)
		}
		g.view.Load().backends[0].taskIDs = taskIDsWith(t, "n") // with another key, the task would have another id
		caller, stop := follow(t, g, fmt.Sprintf("%q,%q,%q,%q,%q,%q", foreign, mine, gone, "made up", refused, mine))
		defer stop()
		if asked != `{"notifications":{"taskIds":["t1","t2"]}}` {
			t.Errorf("the backend is asked for %s", asked)
		}
		want := []string{
			`notifications/subscriptions/acknowledged {"notifications":{"taskIds":["` + mine + `"]}}`,
			`notifications/tasks {"taskId":"` + mine + `","status":"working","n":1.0}`,
		}
		if !slices.Equal(caller.all, want) {
			t.Errorf("received %q, want %q", caller.all, want)
		}
	})
}

// If a backend acknowledges late, the gateway fetches the state of each task, because
// changes meanwhile were not notified.
func TestTaskListenAgreedLate(t *testing.T) {
	withTaskServer(t, func(t *testing.T, g *Gateway, b *taskServer) {
		name := g.taskIDs.encode("a", "t1", "ann")
		b.listen = func(ctx context.Context, _ *mcp.Request, c mcp.Caller) error {
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
			return notify(ctx, c, "notifications/subscriptions/acknowledged", `{"notifications":{"taskIds":["t1"]}}`)
		}
		b.serve = func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			return mcp.NewResult(fmt.Appendf(nil, `{"resultType":"complete","taskId":"t1","status":"completed","by":%q}`, req.Method))
		}
		caller, stop := follow(t, g, fmt.Sprintf("%q", name))
		defer stop()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		want := []string{
			`notifications/subscriptions/acknowledged {"notifications":{"taskIds":["` + name + `"]}}`,
			`notifications/tasks {"taskId":"` + name + `","status":"completed","by":"tasks/get"}`,
		}
		if !slices.Equal(caller.all, want) {
			t.Errorf("received %q, want %q", caller.all, want)
		}
	})
}

// One task that is requested by two ids, one of them of an older key, is requested once
// at the backend, and notified by each id.
func TestTaskListenByTwoIDs(t *testing.T) {
	withTaskServer(t, func(t *testing.T, g *Gateway, b *taskServer) {
		g.taskIDs = taskIDsWith(t, "n", "o")
		first, second := g.taskIDs.encode("a", "t1", "ann"), taskIDsWith(t, "o").encode("a", "t1", "ann")
		asked := ""
		b.listen = func(ctx context.Context, req *mcp.Request, c mcp.Caller) error {
			asked = string(req.Params.Bytes())
			if err := notify(ctx, c, "notifications/subscriptions/acknowledged", `{"notifications":{"taskIds":["t1"]}}`); err != nil {
				return err
			}
			return notify(ctx, c, "notifications/tasks", `{"taskId":"t1","status":"working","n":1.0}`)
		}
		caller, stop := follow(t, g, fmt.Sprintf("%q,%q", first, second))
		defer stop()
		if asked != `{"notifications":{"taskIds":["t1"]}}` {
			t.Errorf("the backend is asked for %s", asked)
		}
		want := []string{
			`notifications/subscriptions/acknowledged {"notifications":{"taskIds":["` + first + `","` + second + `"]}}`,
			`notifications/tasks {"taskId":"` + first + `","status":"working","n":1.0}`,
			`notifications/tasks {"taskId":"` + second + `","status":"working","n":1.0}`,
		}
		if !slices.Equal(caller.all, want) {
			t.Errorf("received %q, want %q", caller.all, want)
		}
	})
}

// slowRecorder is a callRecorder that takes a notification for each value of the gate.
type slowRecorder struct {
	callRecorder

	gate chan struct{}
}

func (h *slowRecorder) Notify(ctx context.Context, n *mcp.Notification) error {
	select {
	case <-h.gate:
		return h.callRecorder.Notify(ctx, n)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A slow client does not block its backend. It is sent the newest state of a task, and
// nothing before the acknowledgement.
func TestSlowTaskListen(t *testing.T) {
	withTaskServer(t, func(t *testing.T, g *Gateway, b *taskServer) {
		name := g.taskIDs.encode("a", "t1", "ann")
		b.listen = func(ctx context.Context, _ *mcp.Request, c mcp.Caller) error {
			if err := notify(ctx, c, listen.MethodAcknowledged, `{"notifications":{"taskIds":["t1"]}}`); err != nil {
				return err
			}
			for n := range 3 {
				if err := notify(ctx, c, listen.MethodTask, fmt.Sprintf(`{"taskId":"t1","status":"working","n":%d}`, n)); err != nil {
					return err
				}
			}
			return nil
		}
		caller := &slowRecorder{gate: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { // ends with ctx; waited for below
			defer close(ended)
			_, _ = g.Serve(ctx, ask(t, nil, "subscriptions/listen", fmt.Sprintf(`{"notifications":{"taskIds":[%q]}}`, name)), caller)
		}()
		for range 2 {
			synctest.Wait()
			caller.gate <- struct{}{}
		}
		synctest.Wait()
		select {
		case caller.gate <- struct{}{}:
			t.Error("a third notification is sent")
		default:
		}
		cancel()
		<-ended
		want := []string{
			`notifications/subscriptions/acknowledged {"notifications":{"taskIds":["` + name + `"]}}`,
			`notifications/tasks {"taskId":"` + name + `","status":"working","n":2}`,
		}
		if !slices.Equal(caller.all, want) {
			t.Errorf("received %q, want %q", caller.all, want)
		}
	})
}

// afterGap makes a backend acknowledge a listen again after a gap. The backend sends
// what send sends, and answers tasks/get with fetch.
func afterGap(t *testing.T, fetch func(n int) (string, error), send func(notify func(params string))) (received []string, fetches int) {
	t.Helper()
	withTaskServer(t, func(t *testing.T, g *Gateway, b *taskServer) {
		name, listens := g.taskIDs.encode("a", "t1", "ann"), 0
		b.listen = func(ctx context.Context, _ *mcp.Request, c mcp.Caller) error {
			if err := notify(ctx, c, "notifications/subscriptions/acknowledged", `{"notifications":{"taskIds":["t1"]}}`); err != nil {
				return err
			}
			if listens++; listens == 1 {
				return &mcp.Fault{Code: mcp.CodeBackendFailed, Message: "the stream broke"}
			}
			send(func(params string) {
				if err := notify(ctx, c, listen.MethodTask, params); err != nil {
					t.Error(err)
				}
			})
			return nil
		}
		b.serve = func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
			fetches++ // one after the other
			state, err := fetch(fetches)
			if err != nil {
				return nil, err
			}
			return mcp.NewResult([]byte(`{"resultType":"complete","taskId":"t1","status":"` + state + `"}`))
		}
		caller, stop := follow(t, g, fmt.Sprintf("%q", name))
		time.Sleep(time.Hour)
		synctest.Wait()
		stop()
		for _, line := range caller.all[1:] {
			received = append(received, strings.ReplaceAll(line, name, "NAME"))
		}
	})
	return received, fetches
}

func sendNothing(func(string)) {}

// A missed state of a task is sent as soon as its backend answers.
func TestPendingUpdateIsSentOnce(t *testing.T) {
	received, fetches := afterGap(t, func(n int) (string, error) {
		if n < 5 {
			return "", &mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.NotDispatched, Message: "away"}
		}
		return "completed", nil
	}, sendNothing)
	want := []string{`notifications/tasks {"taskId":"NAME","status":"completed"}`}
	if !slices.Equal(received, want) || fetches != 5 {
		t.Errorf("received %q after %d fetches, want %q after 5", received, fetches, want)
	}
}

// A task that no longer exists is not fetched again, nor is one of a backend without
// the method.
func TestPendingUpdateOfAnUnknownTask(t *testing.T) {
	for _, code := range []int64{mcp.CodeInvalidParams, mcp.CodeMethodNotFound} {
		received, fetches := afterGap(t, func(int) (string, error) { return "", mcp.Errorf(code, "no") }, sendNothing)
		if len(received) != 0 || fetches != 1 {
			t.Errorf("%d: received %q after %d fetches, want nothing after one", code, received, fetches)
		}
	}
}

// A state that the backend sends itself is not delayed by a fetch, and is not followed
// by an older state.
func TestPendingUpdateSentByTheBackend(t *testing.T) {
	received, fetches := afterGap(t, func(int) (string, error) {
		time.Sleep(time.Minute)
		return "working", nil
	}, func(notify func(string)) {
		time.Sleep(time.Second)
		notify(`{"taskId":"t1","status":"completed"}`)
	})
	want := []string{`notifications/tasks {"taskId":"NAME","status":"completed"}`}
	if !slices.Equal(received, want) || fetches != 1 {
		t.Errorf("received %q after %d fetches, want %q after one", received, fetches, want)
	}
}
