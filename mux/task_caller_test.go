// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Progress and log messages of a task are dropped: they go neither to the call that
// began it, which has ended, nor to clients that listen for its state.
func TestTaskDropsNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := job(t, TaskOptional, func(ctx context.Context, call *Call) (*Result, error) {
			time.Sleep(time.Second)
			err := errors.Join(call.Progress(ctx, 1, 2, "half"), call.Log(ctx, mcp.LogError, "", "x"))
			time.Sleep(time.Minute)
			return Say("done"), err
		})
		req, caller := tasking(t, "tools/call", `{"name":"x","_meta":{"progressToken":"p"}}`), &recorder{}
		req.LogLevel = mcp.LogDebug
		res, err := m.Serve(t.Context(), req, caller)
		if err != nil {
			t.Fatal(err)
		}
		id, _ := res.Text(mcp.FieldTaskID)
		a := listening(t, m, `{"taskIds":["`+id+`"]}`)
		a.notifications() // the acknowledgement
		time.Sleep(10 * time.Second)
		heard(t, append(a.notifications(), caller.notifications()...))
		time.Sleep(time.Minute)
		look(t, m, `{"taskId":"`+id+`"}`, "completed")
	})
}

// Messages without a method of Call are sent with its Caller, in a task too; after the
// task's end Ask fails.
func TestCallerOfATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := make(chan *Call, 1)
		m := job(t, TaskOptional, func(ctx context.Context, call *Call) (*Result, error) {
			kept <- call
			req, err := Elicit("k", "?", nameForm).request()
			if err != nil {
				return nil, err
			}
			res, err := mcp.Ask(ctx, call.Caller, req)
			if err != nil {
				return nil, err
			}
			return Say("%s", name(Answer(res.Bytes()))), nil
		})
		_, about := begin(t, m)
		synctest.Wait()
		look(t, m, about, "input_required")
		if _, err := serve(t, m, tasking(t, "tasks/update", strings.TrimSuffix(about, "}")+`,"inputResponses":{"q1":`+ada+`}}`)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		equal(t, "result", string(look(t, m, about, "completed").Result), `{"content":[{"type":"text","text":"Ada"}]}`)
		call := <-kept
		if a, err := call.Ask(t.Context(), Elicit("k", "?", nameForm)); !errors.Is(err, mcp.ErrRequestEnded) {
			t.Errorf("asked after the end: %s, %v", a, err)
		}
		if _, err := mcp.Ask(t.Context(), call.Caller, request(t, "tools/list", ``)); !errors.Is(err, &mcp.Error{Code: mcp.CodeInternalError}) {
			t.Errorf("asked for what no client can be asked for: %v", err)
		}
	})
}

// A question of a task that its function cancels is no longer open.
func TestCancelledQuestionOfATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := job(t, TaskOptional, func(ctx context.Context, call *Call) (*Result, error) {
			soon, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := call.Input(soon, Elicit("a", "?", nameForm), Elicit("b", "?", nameForm))
			time.Sleep(time.Minute)
			return Say("%v", err), nil
		})
		_, about := begin(t, m)
		time.Sleep(time.Second)
		if n := len(look(t, m, about, "input_required").InputRequests); n != 2 {
			t.Errorf("%d questions are open, want 2", n)
		}
		time.Sleep(time.Minute)
		if s := look(t, m, about, "working"); s.InputRequests != nil {
			t.Errorf("open are %v, which no goroutine waits for", s.InputRequests)
		}
		time.Sleep(time.Minute)
		equal(t, "result", string(look(t, m, about, "completed").Result), `{"content":[{"type":"text","text":"context deadline exceeded"}]}`)
	})
}

// failingClient is a client that accepts a few notifications and then fails.
type failingClient struct {
	recorder
	accepts int
}

var errClientGone = errors.New("the client is gone")

func (d *failingClient) Notify(ctx context.Context, n *mcp.Notification) error {
	if d.accepts--; d.accepts < 0 {
		return errClientGone
	}
	return d.recorder.Notify(ctx, n)
}

// A listen ends when a notification fails, whichever it is.
func TestListenersThatFail(t *testing.T) {
	for accepts := range 5 {
		synctest.Test(t, func(t *testing.T) {
			m := job(t, TaskOptional, after(time.Hour, nil, nil))
			m.MustAdd(note("x:y"))
			s, about := begin(t, m)
			d, over := &failingClient{accepts: accepts}, make(chan error, 1)
			req := request(t, "subscriptions/listen",
				`{"notifications":{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["x:y"],"taskIds":["`+s.TaskID+`"]}}`)
			go func() { // ends when the client fails
				_, err := m.Serve(t.Context(), req, d)
				over <- err
			}()
			for _, change := range []func() error{
				func() error { return m.Add(hello("b")) },
				func() error { return m.Add(note("x:z")) },
				func() error { return m.Updated("x:y") },
				func() error { _, err := serve(t, m, tasking(t, "tasks/cancel", about)); return err },
			} {
				synctest.Wait()
				if err := change(); err != nil {
					t.Error(err)
				}
			}
			if err := <-over; !errors.Is(err, errClientGone) || len(d.notifications()) != accepts {
				t.Errorf("after %d messages: %v", accepts, err)
			}
			if n := listeners(m); n != 0 {
				t.Errorf("%d still listen", n)
			}
		})
	}
}
