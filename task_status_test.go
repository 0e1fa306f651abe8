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

// taskClient is a client that runs a task c1 for each request.
type taskClient struct{ recorder }

func (r *taskClient) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return func() (*mcp.Result, error) { return r.ask(ctx, req) }, nil
}

func (*taskClient) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func (r *taskClient) ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	r.note(req.Method, req.Params.Bytes())
	if isAboutTask(req.Method) {
		return mcp.NewResult(fmt.Appendf(nil, `{"n":1.0,`+mark+`}`, "c1"))
	}
	return mcp.NewResult(fmt.Appendf(nil, `{"task":{"taskId":"c1","n":1.0},`+mark+`}`, "c1"))
}

// A task that the client runs has the client's id on both sides: it is not a task of
// the backend.
func TestTaskOfClientIsNotRenamed(t *testing.T) {
	withTaskServer(t, func(t *testing.T, g *Gateway, b *taskServer) {
		caller, got := &taskClient{}, []string(nil)
		asks := []string{
			`sampling/createMessage {"messages":[],"task":{}}`,
			`tasks/get {"taskId":"c1"}`,
			fmt.Sprintf(`tasks/result {"taskId":"c1",`+mark+`}`, "c1"),
		}
		b.serve = func(ctx context.Context, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
			for _, line := range asks {
				method, params, _ := strings.Cut(line, " ")
				question, err := mcp.NewRequest(method, []byte(params))
				if err != nil {
					return nil, err
				}
				answer, err := mcp.Ask(ctx, c, question)
				if err != nil {
					return nil, err
				}
				got = append(got, string(answer.Bytes()))
			}
			return mcp.NewResult([]byte(`{"content":[]}`))
		}
		if _, err := g.Serve(t.Context(), ask(t, nil, "tools/call", `{"name":"a__x"}`), caller); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(caller.all, asks) {
			t.Errorf("the client reads %q, want %q", caller.all, asks)
		}
		own := fmt.Sprintf(mark, "c1")
		if want := []string{`{"task":{"taskId":"c1","n":1.0},` + own + `}`, `{"n":1.0,` + own + `}`, `{"n":1.0,` + own + `}`}; !slices.Equal(got, want) {
			t.Errorf("the backend reads %q, want %q", got, want)
		}
	})
}

// The states of a client's tasks reach a backend one after the other; of those queued
// for a slow one the newest are kept, and the client waits for none of them.
func TestTaskStatesOfClient(t *testing.T) {
	withTaskServer(t, func(t *testing.T, g *Gateway, b *taskServer) {
		scope := mcp.NewScope("s", &recorder{})
		defer scope.End()
		var got []string
		b.serve = func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			id, _ := req.Params.Text(mcp.FieldTaskID)
			got = append(got, id) // one at a time
			time.Sleep(time.Second)
			return mcp.NewResult([]byte("{}"))
		}
		var want []string
		const most = maxQueuedStatuses + 10
		began := time.Now()
		for n := range most {
			if _, err := g.Serve(t.Context(), ask(t, scope, taskStatus, fmt.Sprintf(`{"taskId":"c%d"}`, n)), noCaller{}); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				synctest.Wait() // the backend has that one
			}
			if n == 0 || n >= most-maxQueuedStatuses {
				want = append(want, fmt.Sprintf("c%d", n))
			}
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the client has waited %v", waited)
		}
		time.Sleep(2 * most * time.Second)
		synctest.Wait()
		if !slices.Equal(got, want) {
			t.Errorf("received %q, want %q", got, want)
		}
		if _, err := g.Serve(t.Context(), ask(t, scope, taskStatus, `{"taskId":"later"}`), noCaller{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if last := got[len(got)-1]; last != "later" {
			t.Errorf("received %s last", last)
		}
	})
}
