// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

type function = func(ctx context.Context, call *Call) (*Result, error)

// job is a Mux with one tool, x, that does all its work in the background.
func job(t *testing.T, support TaskSupport, f function) *Mux {
	t.Helper()
	m := New(Tool{Name: "x", Task: support, Call: func(ctx context.Context, call *Call) (*Result, error) { return call.Background(ctx, f) }})
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// tasking is a request of a client that supports tasks.
func tasking(t *testing.T, method, params string) *mcp.Request {
	t.Helper()
	req := request(t, method, params)
	req.Client = &mcp.Peer{Version: mcp.LatestModern, Capabilities: []byte(takesTasks)}
	return req
}

// state is a task as its client sees it.
type state struct {
	ResultType    string
	TaskID        string
	Status        string
	CreatedAt     time.Time
	LastUpdatedAt time.Time
	TTLMs         int64 `json:"ttlMs"`
	PollMs        int64 `json:"pollIntervalMs"`
	Result, Error json.RawMessage
	InputRequests map[string]struct{ Method string }
}

func stateOf(t *testing.T, m *Mux, method, params string) state {
	t.Helper()
	got, err := serve(t, m, tasking(t, method, params))
	if err != nil {
		t.Fatalf("%s %s: %v", method, params, err)
	}
	var s state
	if err := json.Unmarshal([]byte(got), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// begin calls x as a task, and returns its params.
func begin(t *testing.T, m *Mux) (s state, about string) {
	t.Helper()
	s = stateOf(t, m, "tools/call", `{"name":"x"}`)
	if s.ResultType != "task" || s.TaskID == "" || s.Status != "working" || s.Result != nil {
		t.Fatalf("no task: %+v", s)
	}
	return s, `{"taskId":"` + s.TaskID + `"}`
}

func look(t *testing.T, m *Mux, about, status string) state {
	t.Helper()
	s := stateOf(t, m, "tasks/get", about)
	if s.Status != status {
		t.Errorf("the task is %s, want %s", s.Status, status)
	}
	return s
}

func after(d time.Duration, res *Result, err error) function {
	return func(ctx context.Context, _ *Call) (*Result, error) {
		select {
		case <-time.After(d):
			return res, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// A task ends with the result that the call would have had.
func TestTaskEnds(t *testing.T) {
	for _, tt := range []struct {
		name, status, result, wrong string
		res                         *Result
		err                         error
	}{
		{name: "result", status: "completed", res: Say("done"), result: `{"content":[{"type":"text","text":"done"}]}`},
		{name: "complaint", status: "completed", err: Errorf("no"), result: `{"content":[{"type":"text","text":"no"}],"isError":true}`},
		{name: "error of the protocol", status: "failed", err: &mcp.Error{Code: -7, Message: "m", Data: []byte(`[1.0]`)}, wrong: `{"code":-7,"message":"m","data":[1.0]}`},
		{name: "unexpected error", status: "failed", err: errors.New("secret"), wrong: `{"code":-32603,"message":"internal error"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := job(t, TaskOptional, after(time.Minute, tt.res, tt.err))
				begun, about := begin(t, m)
				time.Sleep(time.Minute - time.Second)
				if s := look(t, m, about, "working"); s.Result != nil || s.Error != nil || s.InputRequests != nil || s.ResultType != "" {
					t.Errorf("a task at work is %+v", s)
				}
				time.Sleep(2 * time.Second)
				s := look(t, m, about, tt.status)
				if string(s.Result) != tt.result || string(s.Error) != tt.wrong {
					t.Errorf("got %s and %s, want %s and %s", s.Result, s.Error, tt.result, tt.wrong)
				}
				if s.TTLMs != DefaultTaskTTL.Milliseconds() || s.PollMs <= 0 || !s.CreatedAt.Equal(begun.CreatedAt) || s.LastUpdatedAt.Sub(s.CreatedAt) != time.Minute {
					t.Errorf("the times are %+v", s)
				}
			})
		})
	}
}

// A client without tasks gets the result of the call, or an error if the tool requires
// tasks.
func TestCallsWithoutTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := after(time.Minute, Say("done"), nil)
		const want = `{"content":[{"type":"text","text":"done"}]}`
		equal(t, "optional", answer(t, job(t, TaskOptional, done), "tools/call", `{"name":"x"}`), want)
		got, err := serve(t, job(t, TaskNever, done), tasking(t, "tools/call", `{"name":"x"}`))
		if err != nil || got != want {
			t.Errorf("a tool that runs no tasks: %s, %v", got, err)
		}
		_, err = serve(t, job(t, TaskRequired, done), request(t, "tools/call", `{"name":"x"}`))
		e, ok := errors.AsType[*mcp.Error](err)
		if !ok || e.Code != mcp.CodeMissingCapability || string(e.Data) != `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}` {
			t.Errorf("a tool that runs as a task alone: %v", err)
		}
	})
}

// The questions of a task are in its state until each is answered.
func TestTaskAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := job(t, TaskOptional, func(ctx context.Context, call *Call) (*Result, error) {
			_, lost := call.Ask(ctx, Roots("k"))
			both, err := call.Input(ctx, Elicit("a", "A?", nameForm), Elicit("b", "B?", nameForm))
			if err != nil || lost == nil {
				return nil, err
			}
			last, err := call.Ask(ctx, Elicit("c", "C?", nameForm))
			return Say("%s %s %s, %v", name(both["a"]), name(both["b"]), name(last), lost), err
		})
		_, about := begin(t, m)
		id := strings.TrimSuffix(about, "}")
		update := func(responses string) {
			t.Helper()
			got, err := serve(t, m, tasking(t, "tasks/update", id+`,"inputResponses":`+responses+`}`))
			if err != nil || got != `{}` {
				t.Errorf("%s: %s, %v", responses, got, err)
			}
			synctest.Wait()
		}
		open := func(status string, want ...string) {
			t.Helper()
			var keys []string
			for key, q := range look(t, m, about, status).InputRequests {
				keys = append(keys, key+" "+q.Method)
			}
			slices.Sort(keys)
			heard(t, keys, want...)
		}
		synctest.Wait()
		open("input_required", "q1 elicitation/create", "q2 elicitation/create")
		refused(t, m, tasking(t, "tasks/update", id+`,"inputResponses":{"q1":`+ada+`,"q2":{}}}`), mcp.CodeInvalidParams, "q2 is not a valid answer to elicitation/create")
		refused(t, m, tasking(t, "tasks/update", id+`,"inputResponses":null}`), mcp.CodeInvalidParams, "must be an object")
		update(`{"q9":{"ignored":true}}`)
		open("input_required", "q1 elicitation/create", "q2 elicitation/create")
		update(`{"q2":` + strings.Replace(ada, "Ada", "Bob", 1) + `}`)
		open("input_required", "q1 elicitation/create")
		update(`{"q2":` + ada + `,"q1":` + ada + `}`)
		open("input_required", "q3 elicitation/create")
		update(`{"q3":{"action":"decline"}}`)
		s := look(t, m, about, "completed")
		if want := `"text":"Ada Bob (decline), the client did not declare what roots/list needs`; !strings.Contains(string(s.Result), want) {
			t.Errorf("got %s, want %s", s.Result, want)
		}
		update(`{"q3":` + ada + `}`)
	})
}

// Questions asked before there is a task are asked in the call.
func TestTaskAfterInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Tool{Name: "x", Task: TaskRequired, Call: func(ctx context.Context, call *Call) (*Result, error) {
			a, err := call.Input(ctx, Elicit("who", "Who?", nameForm))
			if err != nil {
				return nil, err
			}
			return call.Background(ctx, after(time.Second, Say("Hello, %s.", name(a["who"])), nil))
		}})
		t.Cleanup(func() { _ = m.Close() })
		got, err := serve(t, m, tasking(t, "tools/call", `{"name":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		r := roundOf(t, got)
		s := stateOf(t, m, "tools/call", `{"name":"x","inputResponses":{"who":`+ada+`},"requestState":"`+r.RequestState+`"}`)
		time.Sleep(2 * time.Second)
		end := look(t, m, `{"taskId":"`+s.TaskID+`"}`, "completed")
		equal(t, "end", string(end.Result), `{"content":[{"type":"text","text":"Hello, Ada."}]}`)
	})
}

// A cancelled task has that status at once, and its function's context ends; an ended
// task does not change.
func TestTaskCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan error, 1)
		m := job(t, TaskOptional, func(ctx context.Context, call *Call) (*Result, error) {
			_, err := call.Ask(ctx, Elicit("k", "?", nameForm))
			told <- err
			return Say("too late"), nil
		})
		_, about := begin(t, m)
		synctest.Wait()
		for range 2 {
			if got, err := serve(t, m, tasking(t, "tasks/cancel", about)); err != nil || got != `{}` {
				t.Errorf("cancel: %s, %v", got, err)
			}
			if s := look(t, m, about, "cancelled"); s.InputRequests != nil || s.Result != nil || s.Error != nil {
				t.Errorf("a cancelled task is %+v", s)
			}
		}
		if err := <-told; !errors.Is(err, context.Canceled) {
			t.Errorf("the function was told %v", err)
		}
		synctest.Wait()
		look(t, m, about, "cancelled")
	})
}

// A task belongs to its principal, until its TTL ends, and is unknown to all others.
func TestTasksOfOtherPrincipals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := job(t, TaskOptional, after(2*time.Hour, nil, nil))
		m.TaskTTL = time.Minute
		_, about := begin(t, m)
		for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
			foreign := tasking(t, method, about)
			foreign.Principal = "eve"
			refused(t, m, foreign, mcp.CodeInvalidParams, "unknown task")
			refused(t, m, tasking(t, method, `{"taskId":"made-up"}`), mcp.CodeInvalidParams, "unknown task")
			refused(t, m, tasking(t, method, `{}`), mcp.CodeInvalidParams, "unknown task")
		}
		time.Sleep(time.Minute - time.Millisecond)
		look(t, m, about, "working")
		time.Sleep(time.Millisecond)
		refused(t, m, tasking(t, "tasks/get", about), mcp.CodeInvalidParams, "unknown task")
		m.tasks.running.Wait() // its context has ended
		begin(t, m)
		if n := len(m.tasks.all); n != 1 {
			t.Errorf("%d tasks are kept, want the last", n)
		}
	})
}

// A client that listens for a task is notified of each state, as tasks/get returns it.
func TestTaskNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := job(t, TaskOptional, func(ctx context.Context, call *Call) (*Result, error) {
			if err := errors.Join(call.Progress(ctx, 1, 2, ""), call.Log(ctx, mcp.LogError, "", "x")); err != nil {
				return nil, err
			}
			time.Sleep(time.Second)
			_, err := call.Ask(ctx, Elicit("k", "?", nameForm))
			time.Sleep(time.Second)
			return Say("done"), err
		})
		s, about := begin(t, m)
		a := listening(t, m, `{"taskIds":["`+s.TaskID+`","made-up"]}`)
		heard(t, a.notifications(), acknowledged+`{"taskIds":["`+s.TaskID+`"]}}`)
		told := func(status string) {
			t.Helper()
			synctest.Wait()
			want, err := serve(t, m, tasking(t, "tasks/get", about))
			if err != nil || !strings.Contains(want, status) {
				t.Fatalf("the task is %s, %v", want, err)
			}
			heard(t, a.notifications(), "tasks "+want)
		}
		time.Sleep(2 * time.Second)
		told("input_required")
		if _, err := serve(t, m, tasking(t, "tasks/update", strings.TrimSuffix(about, "}")+`,"inputResponses":{"q1":`+ada+`}}`)); err != nil {
			t.Fatal(err)
		}
		told("working")
		time.Sleep(time.Second)
		told("completed")
	})
}

// A panic affects only its own task, and is logged.
func TestTaskPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := job(t, TaskOptional, func(context.Context, *Call) (*Result, error) { panic("secret") })
		m.Logger = slog.New(slog.NewTextHandler(&log, nil))
		_, about := begin(t, m)
		synctest.Wait()
		s := look(t, m, about, "failed")
		equal(t, "error", string(s.Error), `{"code":-32603,"message":"internal error"}`)
		if !strings.Contains(log.String(), "panic=secret") {
			t.Errorf("the log says %s", log.String())
		}
	})
}

// Close cancels the running tasks and waits for them; no more can start.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		m := job(t, TaskOptional, func(ctx context.Context, _ *Call) (*Result, error) {
			<-ctx.Done()
			time.Sleep(time.Second) // cleans up
			ended = true
			return nil, ctx.Err()
		})
		_, about := begin(t, m)
		if err := m.Close(); err != nil || !ended {
			t.Errorf("Close returned %v before the task had ended", err)
		}
		refused(t, m, tasking(t, "tasks/get", about), mcp.CodeInvalidParams, "unknown task")
		_, err := serve(t, m, tasking(t, "tools/call", `{"name":"x"}`))
		if f, ok := errors.AsType[*mcp.Fault](err); !ok || f.Code != mcp.CodeShuttingDown || f.Outcome != mcp.NotDispatched {
			t.Errorf("a task was begun after the end: %v", err)
		}
	})
}
