// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

const runsTasks = `{"sampling":{},"tasks":{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}}}}}`

// taskRunner is a client of 2025-11-25 that runs tasks. It has a session of its own
// with a line server, and one call in progress.
type taskRunner struct {
	t     *testing.T
	c     *client.Client
	lines *faultyserver.Lines
	scope *mcp.Scope
	held  *faultyserver.Line // the call, at the server
	call  *running
	near  *recorder // the caller of the call
	far   *recorder // the caller of what belongs to no call
	heard int       // lines that the test has looked at
}

// withRunner runs f. near answers requests of the call, far all others.
func withRunner(t *testing.T, peer *mcp.Peer, near, far func(context.Context, *mcp.Request) (*mcp.Result, error), f func(r *taskRunner)) {
	t.Helper()
	inBubble(t, func(t *testing.T) {
		r := &taskRunner{t: t, near: &recorder{answer: near}, far: &recorder{answer: far}}
		r.lines = &faultyserver.Lines{On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) { r.held = x }}}
		r.c, _ = dialLines(t, r.lines, client.Config{Version: mcp.V20251125})
		r.scope = mcp.NewScope("s", r.far)
		defer r.scope.End()
		req := in(r.scope, echo(t))
		req.Client = peer
		r.call = launch(t, r.c, req, r.near)
		r.news()
		f(r)
	})
}

func runner(capabilities string) *mcp.Peer {
	return &mcp.Peer{Version: mcp.V20251125, Info: []byte(`{"name":"test","version":"1"}`), Capabilities: []byte(capabilities)}
}

// news returns what the server has received since the last call of news, once all
// goroutines are blocked.
func (r *taskRunner) news() string {
	synctest.Wait()
	all := r.lines.Seen()
	var out []string
	for _, s := range all[r.heard:] {
		out = append(out, strings.Replace(s.Body, `{"jsonrpc":"2.0",`, "{", 1))
	}
	r.heard = len(all)
	return strings.Join(out, "\n")
}

// ask sends a request of the server and returns what the server has received then.
func (r *taskRunner) ask(id, method, params string) string {
	r.held.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`, id, method, params))
	return r.news()
}

// state sends a task state of the client.
func (r *taskRunner) state(params string) string {
	req := in(r.scope, request(r.t, "notifications/tasks/status", params))
	if _, err := r.c.Serve(r.t.Context(), req, r.near); err != nil {
		r.t.Error(err)
	}
	return r.news()
}

func (r *taskRunner) want(what, got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s: the server got\n%s\nwant\n%s", what, got, want)
	}
}

const wish = `{"messages":[],"maxTokens":1.0,"task":{"ttl":1}}`

// The server receives the client's task capabilities in that client's own session, as
// the client declared them. A request beyond them is refused, and a wish for a task
// that the client would not run is removed.
func TestClientTasksAreDeclared(t *testing.T) {
	older := runner(runsTasks)
	older.Version = mcp.V20250618
	for name, test := range map[string]struct {
		peer         *mcp.Peer
		told, wished bool
		get, list    string
	}{
		"all":     {runner(runsTasks), true, true, `"error":{"code":-32602,"message":"unknown task"}`, `"result":{"tasks":[]}`},
		"some":    {runner(`{"tasks":{"requests":{"sampling":{"createMessage":{}}}}}`), true, true, `"error":{"code":-32602,"message":"unknown task"}`, `"error":{"code":-32601,"message":"the client did not declare \"tasks/list\""}`},
		"another": {runner(`{"tasks":{"requests":{"elicitation":{"create":{}}}}}`), true, false, `"error":{"code":-32602,"message":"unknown task"}`, `"error":{"code":-32601,"message":"the client did not declare \"tasks/list\""}`},
		"older":   {older, true, true, `"error":{"code":-32602,"message":"unknown task"}`, `"result":{"tasks":[]}`},
		"modern":  {&mcp.Peer{Version: mcp.V20260728, Capabilities: []byte(runsTasks)}, false, false, `"error":{"code":-32601,"message":"the client did not declare \"tasks/get\""}`, `"error":{"code":-32601,"message":"the client did not declare \"tasks/list\""}`},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			near := func(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
				if req.Method == "tasks/list" {
					return mcp.NewResult([]byte(`{"tasks":[{"taskId":"other"}]}`))
				}
				asked = string(req.Params.Bytes())
				return mcp.NewResult([]byte(`{"role":"user"}`))
			}
			withRunner(t, test.peer, near, near, func(r *taskRunner) {
				if told := strings.Contains(r.lines.Seen()[0].Body, `"tasks"`); told != test.told {
					r.t.Errorf("told %v, want %v: %s", told, test.told, r.lines.Seen()[0].Body)
				}
				r.want("get", r.ask("g", "tasks/get", `{"taskId":"t"}`), `{"id":"g",`+test.get+`}`)
				r.want("list", r.ask("l", "tasks/list", `{}`), `{"id":"l",`+test.list+`}`)
				r.want("sampling", r.ask("q", "sampling/createMessage", wish), `{"id":"q","result":{"role":"user"}}`)
				if wished := strings.Contains(asked, `"task"`); wished != test.wished {
					r.t.Errorf("the client is asked %s", asked)
				}
			})
		})
	}
}

// A request about a task goes to the client's session after the call has ended, and so
// do later ones. States of tasks that the server has not begun are dropped.
func TestClientTaskOutlivesItsCall(t *testing.T) {
	near := func(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
		if req.Method == "sampling/createMessage" {
			return mcp.NewResult([]byte(`{"task":{"taskId":"t1","status":"working","n":1.0}}`))
		}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	far := func(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
		if req.Method == "tasks/list" {
			return mcp.NewResult([]byte(`{"tasks":[{"taskId":"t1","n":1.0},{"taskId":"t2"}],"nextCursor":"c"}`))
		}
		return mcp.NewResult([]byte(`{"by":"` + req.Method + `"}`))
	}
	withRunner(t, runner(runsTasks), near, far, func(r *taskRunner) {
		r.want("a state before the task", r.state(`{"taskId":"t1","status":"working"}`), "")
		r.want("sampling", r.ask("q", "sampling/createMessage", wish), `{"id":"q","result":{"task":{"taskId":"t1","status":"working","n":1.0}}}`)
		r.want("the wait in the call", r.ask("r", "tasks/result", `{"taskId":"t1"}`), "")
		wantStrings(r.t, "asked in the call", r.near.asked(), []string{"sampling/createMessage", "tasks/result"})
		r.held.Result(`{"content":[]}`)
		r.want("the wait after the call", r.news(), `{"id":"r","result":{"by":"tasks/result"}}`)
		r.call.wantResult(r.t, `{"content":[]}`)
		r.want("cancel", r.ask("c", "tasks/cancel", `{"taskId":"t1"}`), `{"id":"c","result":{"by":"tasks/cancel"}}`)
		r.want("list", r.ask("l", "tasks/list", `{}`), `{"id":"l","result":{"tasks":[{"taskId":"t1","n":1.0}],"nextCursor":"c"}}`)
		r.want("another's", r.ask("o", "tasks/get", `{"taskId":"t2"}`), `{"id":"o","error":{"code":-32602,"message":"unknown task"}}`)
		r.want("no id", r.ask("n", "tasks/get", `{}`), `{"id":"n","error":{"code":-32602,"message":"unknown task"}}`)
		r.want("a state", r.state(`{"taskId":"t1","status":"completed","n":1.0}`), `{"method":"notifications/tasks/status","params":{"taskId":"t1","status":"completed","n":1.0}}`)
		r.want("another's state", r.state(`{"taskId":"t2","status":"completed"}`), "")
		wantStrings(r.t, "asked outside", r.far.asked(), []string{"tasks/result", "tasks/cancel", "tasks/list"})
	})
}

// A state that arrives before the answer that names its task is sent after that, and
// the states of one task are sent in order.
func TestClientTaskStateBeforeTheTask(t *testing.T) {
	var answer chan string // of the bubble
	near := func(context.Context, *mcp.Request) (*mcp.Result, error) { return mcp.NewResult([]byte(<-answer)) }
	withRunner(t, runner(runsTasks), near, nil, func(r *taskRunner) {
		answer = make(chan string)
		r.want("sampling", r.ask("q", "sampling/createMessage", wish), "")
		r.want("early", r.state(`{"taskId":"t1","status":"input_required"}`)+r.state(`{"taskId":"t2","status":"working"}`)+r.state(`{"taskId":"t1","status":"completed"}`), "")
		answer <- `{"task":{"taskId":"t1","status":"working"}}`
		r.want("the answer", r.news(), `{"id":"q","result":{"task":{"taskId":"t1","status":"working"}}}`+"\n"+
			`{"method":"notifications/tasks/status","params":{"taskId":"t1","status":"input_required"}}`+"\n"+
			`{"method":"notifications/tasks/status","params":{"taskId":"t1","status":"completed"}}`)
		r.want("what was no task's", r.state(`{"taskId":"t2","status":"working"}`), "")
	})
}

// A wait for a task ends with the session of the client that runs it, with an answer.
// The next session does not know the task, even if it is the same client's.
func TestClientTaskEndsWithTheSession(t *testing.T) {
	task := func(context.Context, *mcp.Request) (*mcp.Result, error) {
		return mcp.NewResult([]byte(`{"task":{"taskId":"t1","status":"working"}}`))
	}
	wait := func(ctx context.Context, _ *mcp.Request) (*mcp.Result, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	withRunner(t, runner(runsTasks), task, wait, func(r *taskRunner) {
		r.ask("q", "sampling/createMessage", wish)
		r.held.Result(`{"content":[]}`)
		r.want("the wait", r.news()+r.ask("r", "tasks/result", `{"taskId":"t1"}`), "")
		r.scope.End()
		r.want("the end", r.news(), `{"id":"r","error":{"code":-32603,"message":"the request that this one belongs to has ended"}}`)
		other := &recorder{answer: task}
		scope := mcp.NewScope("other", other)
		defer scope.End()
		req := in(scope, echo(r.t))
		req.Client = runner(runsTasks)
		call := launch(r.t, r.c, req, other)
		r.news()
		r.want("another client's task", r.ask("o", "tasks/get", `{"taskId":"t1"}`), `{"id":"o","error":{"code":-32602,"message":"unknown task"}}`)
		r.held.Result(`{"content":[]}`)
		call.wantResult(r.t, `{"content":[]}`)
		wantStrings(r.t, "asked of the other", other.asked(), nil)
	})
}
