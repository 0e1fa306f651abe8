// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/callertest"
)

// taskServer is a Handler with one task. It answers each tasks/get with the next of its
// states, the last one again and again, and records the requests with their times.
type taskServer struct {
	states  []any   // texts of results, errors, or nil for neither
	updates []error // the errors of the first tasks/update
	begin   time.Time
	polls   []string
	updated []string
}

func (s *taskServer) Serve(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
	at := time.Since(s.begin).String()
	if req.Method == "tasks/update" {
		s.updated = append(s.updated, at+" "+string(req.Params.Bytes()))
		if len(s.updates) > 0 {
			err := s.updates[0]
			s.updates = s.updates[1:]
			return new(mcp.Result), err
		}
		return new(mcp.Result), nil
	}
	if got := req.Method + " " + string(req.Params.Bytes()); got != `tasks/get {"taskId":"t"}` {
		return nil, fmt.Errorf("unexpected request %s", got)
	}
	s.polls = append(s.polls, at)
	state := s.states[0]
	if len(s.states) > 1 {
		s.states = s.states[1:]
	}
	switch state := state.(type) {
	case string:
		return mcp.NewResult([]byte(`{"taskId":"t",` + state + `}`))
	case error:
		return nil, state
	default:
		return nil, nil //nolint:nilnil // what a faulty Handler returns
	}
}

// await awaits the task of s, and returns the result or the text of the error.
func await(ctx context.Context, t *testing.T, s *taskServer, c mcp.Caller) (got string, err error) {
	t.Helper()
	s.begin = time.Now()
	res, err := task.Await(ctx, s, &mcp.Request{}, "t", c)
	if err != nil {
		return err.Error(), err
	}
	return string(res.Bytes()), nil
}

const (
	working   = `"status":"working"`
	completed = `"status":"completed","result":{"n":1.0}`
)

// A task is polled at its own interval until it has ended. Failures on the way to its
// server may pass, unless there are three in a row.
func TestAwait(t *testing.T) {
	lost, refused := &mcp.Fault{Message: "the connection is lost"}, mcp.Errorf(-32602, "no such task")
	for _, tt := range []struct {
		name   string
		states []any
		want   string
		left   bool // the error leaves the task running
		polls  string
	}{
		{"completed", []any{completed}, `{"n":1.0}`, false, "0s"},
		{"working, then completed", []any{working, working, completed}, `{"n":1.0}`, false, "0s 1s 2s"},
		{"an interval", []any{working + `,"pollIntervalMs":2500`, completed}, `{"n":1.0}`, false, "0s 2.5s"},
		{"a short interval", []any{working + `,"pollIntervalMs":1`, completed}, `{"n":1.0}`, false, "0s 50ms"},
		{"an unknown state", []any{`"status":"own"`, completed}, `{"n":1.0}`, false, "0s 1s"},
		{"failed", []any{`"status":"failed","error":{"code":-1,"message":"no"}`}, "no (code -1)", false, "0s"},
		{"cancelled", []any{`"status":"cancelled"`}, "the task was cancelled (code -32603)", false, "0s"},
		{"no result", []any{`"status":"completed","result":1`}, "not a JSON object at byte 0; send {...}", false, "0s"},
		{"no task", []any{`"own":1`}, "task: status is missing", true, "0s"},
		{"neither result nor error", []any{nil}, "tasks/get returned no result (code -32603)", true, "0s"},
		{"an error of the server", []any{working, refused}, "no such task (code -32602)", true, "0s 1s"},
		{"two failures", []any{lost, lost, completed}, `{"n":1.0}`, false, "0s 1s 2s"},
		{"three failures", []any{lost, lost, lost}, "the connection is lost", true, "0s 1s 2s"},
		{"failures that pass", []any{lost, lost, working, lost, lost, completed}, `{"n":1.0}`, false, "0s 1s 2s 3s 4s 5s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, r := &taskServer{states: tt.states}, new(callertest.Recorder)
				var successes int
				for _, state := range tt.states {
					if _, ok := state.(string); ok {
						successes++
					}
				}
				got, err := await(t.Context(), t, s, r)
				if got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
				if _, left := errors.AsType[*task.LeftError](err); left != tt.left {
					t.Errorf("the task is left: %v, want %v", left, tt.left)
				}
				if polls := strings.Join(s.polls, " "); polls != tt.polls {
					t.Errorf("polls at %s, want %s", polls, tt.polls)
				}
				if used := r.Used(); len(used) != successes || slices.ContainsFunc(used, func(u string) bool { return u != "Pulse" }) {
					t.Errorf("the caller saw %q, want %d pulses", used, successes)
				}
			})
		})
	}
}

func TestInterval(t *testing.T) {
	for suggested, want := range map[time.Duration]time.Duration{
		0: time.Second, 1: 50 * time.Millisecond, 49 * time.Millisecond: 50 * time.Millisecond, 51 * time.Millisecond: 51 * time.Millisecond,
		59 * time.Second: 59 * time.Second, 61 * time.Second: time.Minute,
	} {
		if got := task.Interval(suggested); got != want {
			t.Errorf("Interval(%v) = %v, want %v", suggested, got, want)
		}
	}
}

// Await ends with its context, and the error is the cause.
func TestAwaitEnds(t *testing.T) {
	over := errors.New("the time is over")
	lost := &mcp.Fault{Message: "the connection is lost"}
	for name, state := range map[string]any{"between polls": working, "between failures": lost} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 1500*time.Millisecond, over)
				defer cancel()
				s := &taskServer{states: []any{state}}
				_, err := await(ctx, t, s, new(callertest.Recorder))
				if _, left := errors.AsType[*task.LeftError](err); !left || !errors.Is(err, over) {
					t.Errorf("error %v, want %v", err, over)
				}
				if time.Since(s.begin) != 1500*time.Millisecond || len(s.polls) != 2 || s.updated != nil {
					t.Errorf("it took %v and polls at %v", time.Since(s.begin), s.polls)
				}
			})
		})
	}
	// A failure after the end does not wait for another poll.
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := &taskServer{states: []any{lost}}
		if got, err := await(ctx, t, s, new(callertest.Recorder)); !errors.Is(err, lost) || len(s.polls) != 1 {
			t.Errorf("got %s and %d polls, want the failure of the first", got, len(s.polls))
		}
	})
}

// The requests about a task have the sender of the call, and nothing else of it.
func TestAwaitSender(t *testing.T) {
	like := &mcp.Request{
		Method: "tools/call", Client: &mcp.Peer{}, Principal: "ann", Scope: new(mcp.Scope), LogLevel: mcp.LogError,
		Identity: &mcp.Identity{Principal: "ann"}, Profile: "coding",
		TakesInputRequired: true, ParamHeaders: map[string][]string{"Mcp-Param-A": {"1"}},
	}
	h := mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		if req.Client != like.Client || req.Principal != "ann" || req.Scope != like.Scope || req.LogLevel != mcp.LogError ||
			req.Identity != like.Identity || req.Profile != like.Profile {
			t.Errorf("the sender of the request is %+v", req)
		}
		if req.TakesInputRequired || req.ParamHeaders != nil {
			t.Errorf("the request has more than the sender: %+v", req)
		}
		return mcp.NewResult([]byte(`{"taskId":"t",` + completed + `}`))
	})
	if _, err := task.Await(t.Context(), h, like, "t", new(callertest.Recorder)); err != nil {
		t.Error(err)
	}
}

// asking is the state of a task with the given questions, by key.
func asking(questions string) string {
	return `"status":"input_required","pollIntervalMs":500,"inputRequests":{` + questions + `}`
}

// Each question is sent once, all of them in their order, and the answers together. An
// answer that the server still asks for is sent again, after an interval.
func TestAwaitInputs(t *testing.T) {
	const (
		b      = `"b":{"method":"elicitation/create","params":{"n":2.0}}`
		a      = `"a":{"method":"sampling/createMessage","params":{"n":1.0}}`
		answer = `{"taskId":"t","inputResponses":{"a":{"n":1.0},"b":{"n":2.0}}}`
	)
	lost := &mcp.Fault{Message: "the connection is lost"}
	for _, tt := range []struct {
		name    string
		states  []any
		failure error // of the first tasks/update
		asked   string
		updated []string
		polls   string
	}{
		{"two", []any{asking(b + "," + a), completed}, nil, "elicitation/create sampling/createMessage", []string{"0s " + answer}, "0s 0s"},
		{"none", []any{asking(""), completed}, nil, "", nil, "0s 500ms"},
		{"still asked for at once", []any{asking(b + "," + a), asking(b + "," + a), completed}, nil, "elicitation/create sampling/createMessage", []string{"0s " + answer}, "0s 0s 500ms"},
		{
			"still asked for later", []any{asking(b + "," + a), asking(b + "," + a), asking(b), completed}, nil, "elicitation/create sampling/createMessage",
			[]string{"0s " + answer, `500ms {"taskId":"t","inputResponses":{"b":{"n":2.0}}}`}, "0s 0s 500ms 1s",
		},
		{
			"one after the other", []any{asking(b), asking(b + "," + a), completed}, nil, "elicitation/create sampling/createMessage",
			[]string{`0s {"taskId":"t","inputResponses":{"b":{"n":2.0}}}`, `0s {"taskId":"t","inputResponses":{"a":{"n":1.0}}}`}, "0s 0s 0s",
		},
		{
			"the answers are lost", []any{asking(b), working, asking(b), completed}, lost, "elicitation/create",
			[]string{`0s {"taskId":"t","inputResponses":{"b":{"n":2.0}}}`, `1s {"taskId":"t","inputResponses":{"b":{"n":2.0}}}`}, "0s 0s 1s 1.5s",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, r := &taskServer{states: tt.states, updates: []error{tt.failure}}, new(callertest.Recorder)
				if got, _ := await(t.Context(), t, s, r); got != `{"n":1.0}` {
					t.Errorf("got %s", got)
				}
				var asked []string
				for _, used := range r.Used() {
					if method, ok := strings.CutPrefix(used, "Start "); ok {
						asked = append(asked, method)
					}
				}
				if got := strings.Join(asked, " "); got != tt.asked {
					t.Errorf("the caller was asked for %s, want %s", got, tt.asked)
				}
				if !slices.Equal(s.updated, tt.updated) {
					t.Errorf("answers %q, want %q", s.updated, tt.updated)
				}
				if polls := strings.Join(s.polls, " "); polls != tt.polls {
					t.Errorf("polls at %s, want %s", polls, tt.polls)
				}
			})
		})
	}
}

// asker is a Caller that answers with a function.
type asker struct {
	*callertest.Recorder
	start func(ctx context.Context, method string) (func() (*mcp.Result, error), error)
}

func (a asker) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return a.start(ctx, req.Method)
}

// A question without an answer fails the Await, and the others end.
func TestAwaitInputFails(t *testing.T) {
	refused := mcp.Errorf(-32601, "no roots")
	const one, two = `"b":{"method":"roots/list"}`, `"a":{"method":"elicitation/create"},"b":{"method":"roots/list"},"c":{"method":"elicitation/create"}`
	many := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, `"`+strconv.Itoa(i)+`":{"method":"elicitation/create"}`)
		}
		return strings.Join(all, ",")
	}
	tests := []struct {
		name    string
		inputs  string
		start   error // of roots/list
		answer  error // of roots/list
		updates []error
		want    string
		started int
	}{
		{"it cannot be sent", one, refused, nil, nil, "no roots (code -32601)", 1},
		{"it is refused", one, nil, refused, nil, "no roots (code -32601)", 1},
		{"one of three cannot be sent", two, refused, nil, nil, "no roots (code -32601)", 2},
		{"one of three is refused", two, nil, refused, nil, "no roots (code -32601)", 3},
		{"it is none", `"b":{"method":"roots/list","params":1}`, nil, nil, nil, "not a JSON object at byte 0; send {...}", 0},
		{"the server refuses the answers", one, nil, nil, []error{mcp.Errorf(-32602, "too late")}, "too late (code -32602)", 1},
		{"no object", `"b":1`, nil, nil, nil, "the task's inputRequests are invalid (code -32603)", 0},
		{"too many", many(17), nil, nil, nil, "the task has 17 open input requests, which is too many (code -32603)", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started := 0
				c := asker{new(callertest.Recorder), func(ctx context.Context, method string) (func() (*mcp.Result, error), error) {
					started++
					switch {
					case method != "roots/list":
						return func() (*mcp.Result, error) { <-ctx.Done(); return nil, ctx.Err() }, nil
					case tt.start != nil:
						return nil, tt.start
					default:
						return func() (*mcp.Result, error) { return new(mcp.Result), tt.answer }, nil
					}
				}}
				s := &taskServer{states: []any{asking(tt.inputs)}, updates: tt.updates}
				got, err := await(t.Context(), t, s, c)
				if _, left := errors.AsType[*task.LeftError](err); got != tt.want || !left {
					t.Errorf("got %s, want %s", got, tt.want)
				}
				if started != tt.started {
					t.Errorf("%d questions were sent, want %d", started, tt.started)
				}
				if time.Since(s.begin) != 0 {
					t.Errorf("it took %v", time.Since(s.begin))
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := &taskServer{states: []any{asking(many(16)), completed}}
		if got, _ := await(t.Context(), t, s, new(callertest.Recorder)); got != `{"n":1.0}` {
			t.Errorf("with as many as allowed: %s", got)
		}
	})
}

// A task has no more open questions than are allowed at a time, also if it asks the others
// later and does not wait for the first ones any more.
func TestAwaitBoundsOpenInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var states []any
		for i := range 5 {
			var all []string
			for j := range 4 {
				all = append(all, fmt.Sprintf(`"%d-%d":{"method":"elicitation/create"}`, i, j))
			}
			states = append(states, asking(strings.Join(all, ",")))
		}
		var open atomic.Int32
		c := asker{new(callertest.Recorder), func(ctx context.Context, _ string) (func() (*mcp.Result, error), error) {
			open.Add(1)
			return func() (*mcp.Result, error) { <-ctx.Done(); return nil, ctx.Err() }, nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		got, _ := await(ctx, t, &taskServer{states: states}, c)
		if want := "the task has 20 open input requests, which is too many (code -32603)"; got != want || open.Load() != 16 {
			t.Errorf("got %s after %d questions, want %s after 16", got, open.Load(), want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var states []any
		for i := range 20 {
			states = append(states, asking(fmt.Sprintf(`"%d":{"method":"elicitation/create"}`, i)))
		}
		if got, _ := await(t.Context(), t, &taskServer{states: append(states, completed)}, new(callertest.Recorder)); got != `{"n":1.0}` {
			t.Errorf("one after the other: %s", got)
		}
	})
}
