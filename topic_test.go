// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"fmt"
	"slices"
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
		mine, foreign, gone := g.names.outside("a", "t1", "ann"), g.names.outside("a", "t1", "bob"), g.names.outside("z", "t1", "ann")
		refused := g.names.outside("a", "t2", "ann")
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
		g.view.Load().units[0].tasks = namesOf(t, "n") // by which the task would have another name
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
		name := g.names.outside("a", "t1", "ann")
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
