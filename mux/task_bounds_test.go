// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// The number of tasks is bounded, including ended ones until their TTL ends.
func TestTasksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := job(t, TaskOptional, Always(Say("done")))
		begin(t, m)
		for i := range maxTasks - 1 { // without functions, which is less work
			now := time.Now()
			if err := m.tasks.add(&backgroundCall{id: fmt.Sprint(i), created: now, ttl: DefaultTaskTTL}, now); err != nil {
				t.Fatal(err)
			}
			m.tasks.running.Done()
		}
		_, err := serve(t, m, tasking(t, "tools/call", `{"name":"x"}`))
		if f, ok := errors.AsType[*mcp.Fault](err); !ok || f.Code != mcp.CodeLimit || f.Outcome != mcp.NotDispatched {
			t.Errorf("one too many: %v", err)
		}
		equal(t, "a call that is no task", answer(t, m, "tools/call", `{"name":"x"}`), `{"content":[{"type":"text","text":"done"}]}`)
		time.Sleep(DefaultTaskTTL)
		begin(t, m)
		if n := len(m.tasks.all) + len(m.tasks.order); n != 2 {
			t.Errorf("%d are kept, want the last one, twice", n)
		}
	})
}

// The open questions of a task are bounded, and an answer makes room for another.
func TestQuestionsOfATaskAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := job(t, TaskOptional, func(ctx context.Context, call *Call) (*Result, error) {
			var all []Question
			for i := range maxOpen + 1 {
				all = append(all, Elicit(fmt.Sprint(i), "?", nameForm))
			}
			_, err := call.Input(ctx, all...)
			tooMany, ok := errors.AsType[*mcp.Fault](err)
			if !ok {
				return nil, err
			}
			_, err = call.Input(ctx, all[:maxOpen]...)
			return Say("%d", tooMany.Code), err
		})
		_, about := begin(t, m)
		synctest.Wait()
		asked := look(t, m, about, "input_required").InputRequests
		if len(asked) != maxOpen {
			t.Errorf("%d questions are open, want %d", len(asked), maxOpen)
		}
		var answers []string
		for key := range asked {
			answers = append(answers, `"`+key+`":`+ada)
		}
		params := strings.TrimSuffix(about, "}") + `,"inputResponses":{` + strings.Join(answers, ",") + `}}`
		if _, err := serve(t, m, tasking(t, "tasks/update", params)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := look(t, m, about, "completed"); !strings.Contains(string(s.Result), fmt.Sprint(mcp.CodeLimit)) {
			t.Errorf("the task ended with %s", s.Result)
		}
	})
}

// Background within a task continues the same task.
func TestBackgroundOfATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := job(t, TaskOptional, func(ctx context.Context, call *Call) (*Result, error) {
			return call.Background(ctx, after(time.Minute, Say("done"), nil))
		})
		_, about := begin(t, m)
		time.Sleep(time.Second)
		look(t, m, about, "working")
		time.Sleep(time.Minute)
		equal(t, "result", string(look(t, m, about, "completed").Result), `{"content":[{"type":"text","text":"done"}]}`)
		if n := len(m.tasks.all); n != 1 {
			t.Errorf("%d tasks, want one", n)
		}
	})
}

// The arguments and the context of a task are those of its call, and outlive it.
func TestTaskOutlivesItsCall(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		m := job(t, TaskOptional, func(ctx context.Context, call *Call) (*Result, error) {
			time.Sleep(time.Minute)
			return Say("%s of %v, %v", call.Arguments(), ctx.Value(key{}), ctx.Err()), nil
		})
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "Ada"))
		res, err := m.Serve(ctx, tasking(t, "tools/call", `{"name":"x","arguments":{"n":1}}`), &recorder{})
		if err != nil {
			t.Fatal(err)
		}
		cancel() // no client waits any more
		id, _ := res.Text(mcp.FieldTaskID)
		time.Sleep(2 * time.Minute)
		end := look(t, m, `{"taskId":"`+id+`"}`, "completed")
		if !strings.Contains(string(end.Result), `{\"n\":1} of Ada, \u003cnil\u003e`) && !strings.Contains(string(end.Result), `{\"n\":1} of Ada, <nil>`) {
			t.Errorf("the task ended with %s", end.Result)
		}
	})
}

// Errors that a client receives without their text are logged, and others are not.
func TestTaskFailuresAreLogged(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.New("secret"), `msg="task failed"`}, {fmt.Errorf("x: %w", errors.New("secret")), `error="x: secret"`},
		{mcp.Errorf(-7, "m"), ``}, {&mcp.Fault{Code: mcp.CodeLimit, Message: "f"}, ``}, {Errorf("no"), ``}, {nil, ``},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			m := job(t, TaskOptional, Always[*Result](nil))
			if tt.err != nil {
				m = job(t, TaskOptional, func(context.Context, *Call) (*Result, error) { return nil, tt.err })
			}
			m.Logger = slog.New(slog.NewTextHandler(&log, nil))
			s, _ := begin(t, m)
			synctest.Wait()
			if got := log.String(); !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") || (got != "" && !strings.Contains(got, "task="+s.TaskID)) {
				t.Errorf("%v: the log says %q, want %q", tt.err, got, tt.want)
			}
		})
	}
}
