// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The result of a task is cut in notifications, too: in those of a listen, and in those that belong to a request about
// the task.
func TestNotifiedResultIsCut(t *testing.T) {
	withTaskServer(t, func(t *testing.T, g *Gateway, b *taskServer) {
		v := *g.view.Load()
		cfg := v.cfg.Effective()
		cfg.Results.Max = 4 << 10
		v.cfg, v.cuts = cfg, true
		g.useResults(cfg)
		g.view.Store(&v)

		name := g.taskIDs.encode("a", "t1", "ann")
		done := `{"taskId":"t1","status":"completed","result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 9000) + `"}]}}`
		b.listen = func(ctx context.Context, _ *mcp.Request, c mcp.Caller) error {
			if err := notify(ctx, c, "notifications/subscriptions/acknowledged", `{"notifications":{"taskIds":["t1"]}}`); err != nil {
				return err
			}
			return notify(ctx, c, "notifications/tasks", done)
		}
		b.serve = func(ctx context.Context, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
			if err := notify(ctx, c, "notifications/tasks", done); err != nil {
				return nil, err
			}
			return mcp.NewResult([]byte(`{"taskId":"t1","status":"working"}`))
		}
		listened, stop := follow(t, g, fmt.Sprintf("%q", name))
		defer stop()
		req, err := mcp.NewRequest("tasks/get", fmt.Appendf(nil, `{"taskId":%q}`, name))
		if err != nil {
			t.Fatal(err)
		}
		req.Principal = "ann"
		asked := new(callRecorder)
		if _, err := g.Serve(t.Context(), req, asked); err != nil {
			t.Fatal(err)
		}
		for of, all := range map[string][]string{"listen": listened.all, "request": asked.all} {
			last := all[len(all)-1]
			if len(last) > 5<<10 || !strings.Contains(last, "call read_result with id") && !strings.Contains(last, "read the link") || !strings.Contains(last, `"status":"completed"`) {
				t.Errorf("%s: %d bytes: %.300s", of, len(last), last)
			}
		}
		if s := g.results.status(); s.Kept != 1 || s.Cut != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// A server with another limit of its results goes on.
func TestLimitOfResultsRestartsNothing(t *testing.T) {
	t.Parallel()
	b := &activeBackend{client: new(client.Client), srv: config.Backend{Name: "a"}}
	next := b.srv
	next.Results = &config.ServerResults{Max: 8 << 10}
	if got := b.withConfig(&next, &b.limits); got == nil || got.srv.Results != next.Results {
		t.Errorf("got %+v", got)
	}
}

// The tool that has started a task counts only while it is one of the backend of the task: another server
// may have a tool with that name.
func TestCutOfATaskOfAnotherBackend(t *testing.T) {
	withTaskServer(t, func(t *testing.T, g *Gateway, _ *taskServer) {
		v := *g.view.Load()
		v.cfg, v.cuts = v.cfg.Effective(), true
		v.cfg.Results.Max = 4 << 10
		g.view.Store(&v)
		g.taskRegistry.record("ann", listedTask{name: "t", tool: "x"}, time.Now())
		req := &mcp.Request{Method: "tasks/result", Principal: "ann"}
		other := &activeBackend{Backend: backend.New(backend.Config{Name: "b"})}
		for b, want := range map[*activeBackend]string{v.backends[0]: "a__x", other: ""} {
			if c := g.taskCut(req, b, "t"); c == nil || c.origin.tool != want || c.origin.server != b.Name() {
				t.Errorf("a task of %s: %+v, want the tool %q", b.Name(), c, want)
			}
		}
	})
}
