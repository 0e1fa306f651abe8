// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// tell says something on a listen.
func tell(ctx context.Context, c mcp.Caller, method, params string) error {
	n, err := mcp.NewNotification(method, []byte(params))
	if err != nil {
		return err
	}
	return c.Notify(ctx, n)
}

// follow listens for tasks until the test ends it.
func follow(t *testing.T, g *Gateway, ids string) (*heard, func()) {
	t.Helper()
	ear := &heard{}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = g.Serve(ctx, ask(t, nil, "subscriptions/listen", `{"notifications":{"taskIds":[`+ids+`]}}`), ear)
	}()
	synctest.Wait()
	return ear, func() { cancel(); <-over }
}

// A listen for tasks reaches the backend by its own names of those that are the
// caller's. What it says of them, and of nothing else, comes back by the names that the
// caller has given, those of an older key included.
func TestTaskListenIsNamed(t *testing.T) {
	withTalker(t, func(t *testing.T, g *Gateway, b *talker) {
		mine, foreign, gone := g.taskIDs.encode("a", "t1", "ann"), g.taskIDs.encode("a", "t1", "bob"), g.taskIDs.encode("z", "t1", "ann")
		refused := g.taskIDs.encode("a", "t2", "ann")
		asked := ""
		b.listen = func(ctx context.Context, req *mcp.Request, c mcp.Caller) error {
			asked = string(req.Params.Bytes())
			if err := tell(ctx, c, "notifications/subscriptions/acknowledged", `{"notifications":{"taskIds":["t1"]}}`); err != nil {
				return err
			}
			if err := tell(ctx, c, "notifications/tasks", `{"taskId":"another","status":"working"}`); err != nil {
				return err
			}
			return tell(ctx, c, "notifications/tasks", `{"taskId":"t1","status":"working","n":1.0}`)
		}
		g.view.Load().backends[0].taskIDs = namesOf(t, "n") // by which the task would have another name
		ear, stop := follow(t, g, fmt.Sprintf("%q,%q,%q,%q,%q,%q", foreign, mine, gone, "made up", refused, mine))
		defer stop()
		if asked != `{"notifications":{"taskIds":["t1","t2"]}}` {
			t.Errorf("the backend is asked for %s", asked)
		}
		want := []string{
			`notifications/subscriptions/acknowledged {"notifications":{"taskIds":["` + mine + `"]}}`,
			`notifications/tasks {"taskId":"` + mine + `","status":"working","n":1.0}`,
		}
		if !slices.Equal(ear.all, want) {
			t.Errorf("told %q, want %q", ear.all, want)
		}
	})
}

// A backend that agrees when nobody waits for that any more is asked for the state of
// each task: what happened meanwhile was not told.
func TestTaskListenAgreedLate(t *testing.T) {
	withTalker(t, func(t *testing.T, g *Gateway, b *talker) {
		name := g.taskIDs.encode("a", "t1", "ann")
		b.listen = func(ctx context.Context, _ *mcp.Request, c mcp.Caller) error {
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
			return tell(ctx, c, "notifications/subscriptions/acknowledged", `{"notifications":{"taskIds":["t1"]}}`)
		}
		b.say = func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			return mcp.NewResult(fmt.Appendf(nil, `{"resultType":"complete","taskId":"t1","status":"completed","by":%q}`, req.Method))
		}
		ear, stop := follow(t, g, fmt.Sprintf("%q", name))
		defer stop()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		want := []string{
			`notifications/subscriptions/acknowledged {"notifications":{"taskIds":["` + name + `"]}}`,
			`notifications/tasks {"taskId":"` + name + `","status":"completed","by":"tasks/get"}`,
		}
		if !slices.Equal(ear.all, want) {
			t.Errorf("told %q, want %q", ear.all, want)
		}
	})
}

// One task that is asked for by two names, one of them of an older key, is asked for
// once, and told of by each.
func TestTaskListenByTwoNames(t *testing.T) {
	withTalker(t, func(t *testing.T, g *Gateway, b *talker) {
		g.taskIDs = namesOf(t, "n", "o")
		first, second := g.taskIDs.encode("a", "t1", "ann"), namesOf(t, "o").encode("a", "t1", "ann")
		asked := ""
		b.listen = func(ctx context.Context, req *mcp.Request, c mcp.Caller) error {
			asked = string(req.Params.Bytes())
			if err := tell(ctx, c, "notifications/subscriptions/acknowledged", `{"notifications":{"taskIds":["t1"]}}`); err != nil {
				return err
			}
			return tell(ctx, c, "notifications/tasks", `{"taskId":"t1","status":"working","n":1.0}`)
		}
		ear, stop := follow(t, g, fmt.Sprintf("%q,%q", first, second))
		defer stop()
		if asked != `{"notifications":{"taskIds":["t1"]}}` {
			t.Errorf("the backend is asked for %s", asked)
		}
		want := []string{
			`notifications/subscriptions/acknowledged {"notifications":{"taskIds":["` + first + `","` + second + `"]}}`,
			`notifications/tasks {"taskId":"` + first + `","status":"working","n":1.0}`,
			`notifications/tasks {"taskId":"` + second + `","status":"working","n":1.0}`,
		}
		if !slices.Equal(ear.all, want) {
			t.Errorf("told %q, want %q", ear.all, want)
		}
	})
}

// afterGap has a listen be agreed to again after a gap, by a backend that says what it
// is given and answers tasks/get as look does.
func afterGap(t *testing.T, look func(n int) (string, error), say func(tell func(params string))) (told []string, looks int) {
	t.Helper()
	withTalker(t, func(t *testing.T, g *Gateway, b *talker) {
		name, listens := g.taskIDs.encode("a", "t1", "ann"), 0
		b.listen = func(ctx context.Context, _ *mcp.Request, c mcp.Caller) error {
			if err := tell(ctx, c, "notifications/subscriptions/acknowledged", `{"notifications":{"taskIds":["t1"]}}`); err != nil {
				return err
			}
			if listens++; listens == 1 {
				return &mcp.Fault{Code: mcp.CodeBackendFailed, Message: "the stream broke"}
			}
			say(func(params string) {
				if err := tell(ctx, c, taskNotice, params); err != nil {
					t.Error(err)
				}
			})
			return nil
		}
		b.say = func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
			looks++ // one after the other
			state, err := look(looks)
			if err != nil {
				return nil, err
			}
			return mcp.NewResult([]byte(`{"resultType":"complete","taskId":"t1","status":"` + state + `"}`))
		}
		ear, stop := follow(t, g, fmt.Sprintf("%q", name))
		time.Sleep(time.Hour)
		synctest.Wait()
		stop()
		for _, line := range ear.all[1:] {
			told = append(told, strings.ReplaceAll(line, name, "NAME"))
		}
	})
	return told, looks
}

func sayNothing(func(string)) {}

// What a task was missed to become is told as soon as its backend can be asked.
func TestTaskMissedIsToldOnce(t *testing.T) {
	told, looks := afterGap(t, func(n int) (string, error) {
		if n < 5 {
			return "", &mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.NotDispatched, Message: "away"}
		}
		return "completed", nil
	}, sayNothing)
	want := []string{`notifications/tasks {"taskId":"NAME","status":"completed"}`}
	if !slices.Equal(told, want) || looks != 5 {
		t.Errorf("told %q after %d looks, want %q after 5", told, looks, want)
	}
}

// A task that is no more is not asked for again, nor one of a backend that has no
// such request any more.
func TestTaskMissedIsUnknown(t *testing.T) {
	for _, code := range []int64{mcp.CodeInvalidParams, mcp.CodeMethodNotFound} {
		told, looks := afterGap(t, func(int) (string, error) { return "", mcp.Errorf(code, "no") }, sayNothing)
		if len(told) != 0 || looks != 1 {
			t.Errorf("%d: told %q after %d looks, want nothing after one", code, told, looks)
		}
	}
}

// What the backend says by itself is not delayed by a look, and is not followed by
// what was there to see before it.
func TestTaskMissedIsToldByItself(t *testing.T) {
	told, looks := afterGap(t, func(int) (string, error) {
		time.Sleep(time.Minute)
		return "working", nil
	}, func(tell func(string)) {
		time.Sleep(time.Second)
		tell(`{"taskId":"t1","status":"completed"}`)
	})
	want := []string{`notifications/tasks {"taskId":"NAME","status":"completed"}`}
	if !slices.Equal(told, want) || looks != 1 {
		t.Errorf("told %q after %d looks, want %q after one", told, looks, want)
	}
}
