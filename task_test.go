// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/callertest"
)

func taskIDsWith(t testing.TB, keys ...string) *taskIDs {
	t.Helper()
	cfg := &config.Config{}
	for _, key := range keys {
		cfg.State.Keys = append(cfg.State.Keys, config.NewSecret(strings.Repeat(key, 32)))
	}
	n, err := newTaskIDs(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// W2, W7: an id leads to its backend in every process with the key, is the same each
// time, and is valid for its principal only.
//
// W7+ own: "The id of a task that we issue represents one user, one backend and the id that
// the backend has issued, and nothing else."
//
// W2- seps 2663-tasks-extension: "Servers MUST generate them with sufficient entropy that
// a third party cannot enumerate or guess them."
func TestTaskIDs(t *testing.T) {
	here, there := taskIDsWith(t, "k"), taskIDsWith(t, "k")
	for _, own := range []string{"t1", "", "a\x00b", `"`, strings.Repeat("x", maxTaskID)} {
		name := here.encode("back\x00end", own, "ann")
		if again := there.encode("back\x00end", own, "ann"); again != name {
			t.Errorf("%q is %s and %s", own, name, again)
		}
		backend, got, ok := there.decode(name, "ann")
		if !ok || backend != "back\x00end" || got != own {
			t.Errorf("%q came back as %q of %q, %v", own, got, backend, ok)
		}
	}
	name := here.encode("a", "bc", "ann")
	if other := here.encode("ab", "c", "ann"); other == name {
		t.Error("two tasks of two backends have one name")
	}
	rotated := taskIDsWith(t, "n", "k")
	if _, own, ok := rotated.decode(name, "ann"); !ok || own != "bc" {
		t.Error("a name does not outlive a new key")
	}
	for what, try := range map[string]func() (string, string, bool){
		"bob":             func() (string, string, bool) { return here.decode(name, "bob") },
		"nobody":          func() (string, string, bool) { return here.decode(name, "") },
		"another process": func() (string, string, bool) { return taskIDsWith(t).decode(name, "ann") },
		"another purpose": func() (string, string, bool) {
			return here.decode(here.box.Seal("state", []byte("\x01abc"), "ann"), "ann")
		},
		"a piece of it": func() (string, string, bool) { return here.decode(name[:len(name)-4], "ann") },
	} {
		if backend, own, ok := try(); ok {
			t.Errorf("%s gets task %q of %q", what, own, backend)
		}
	}
}

// Whatever is sent as a task id, only ids issued to the caller decode, and decoding
// does no harm.
func FuzzTaskIDs(f *testing.F) {
	n := taskIDsWith(f, "k")
	f.Add(n.encode("a", "t", "ann"), "a", "t")
	f.Add("", "", "")
	f.Add("AAAA", "\x00", "\xff")
	f.Add(n.box.SealStable(taskPurpose, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, "ann"), "a", "b")
	f.Fuzz(func(t *testing.T, name, backend, own string) {
		if b, o, ok := n.decode(name, "ann"); ok && n.encode(b, o, "ann") != name {
			t.Errorf("%q opens as %q of %q, which have another name", name, o, b)
		}
		if _, _, ok := n.decode(name, "bob"); ok {
			t.Errorf("%q opens for bob", name)
		}
		if b, o, ok := n.decode(n.encode(backend, own, "ann"), "ann"); !ok || b != backend || o != own {
			t.Errorf("%q of %q came back as %q of %q, %v", own, backend, o, b, ok)
		}
	})
}

// taskServer is a backend with tasks that the test controls.
type taskServer struct {
	mu     sync.Mutex
	scopes []*mcp.Scope
	serve  func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error)
	listen func(ctx context.Context, req *mcp.Request, caller mcp.Caller) error // for tasks, until ctx ends
}

func (b *taskServer) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	switch req.Method {
	case "server/discover":
		return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`))
	case "tools/list":
		return mcp.NewResult([]byte(`{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`))
	case "subscriptions/listen":
		if b.listen != nil && strings.Contains(string(req.Params.Bytes()), "taskIds") {
			if err := b.listen(ctx, req, caller); err != nil {
				return nil, err
			}
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	b.mu.Lock()
	b.scopes = append(b.scopes, req.Scope)
	b.mu.Unlock()
	return b.serve(ctx, req, caller)
}

// callRecorder is a Caller that records what it receives.
type callRecorder struct {
	mu  sync.Mutex
	all []string
}

func (h *callRecorder) Notify(_ context.Context, n *mcp.Notification) error {
	h.note(n.Method, n.Params.Bytes())
	return nil
}

func (h *callRecorder) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return func() (*mcp.Result, error) { return h.ask(ctx, req) }, nil
}

func (*callRecorder) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func (h *callRecorder) ask(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
	h.note(req.Method, req.Params.Bytes())
	return mcp.NewResult(append([]byte(`{"_meta":`), append(req.Params.Raw(mcp.FieldMeta), '}')...))
}

func (h *callRecorder) note(method string, params []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, method+" "+string(params))
}

const mark = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}`

// withTaskServer runs f with a gateway in front of a taskServer.
func withTaskServer(t *testing.T, f func(t *testing.T, g *Gateway, b *taskServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &taskServer{}
		g, err := New(config.Config{State: config.State{Keys: []config.Secret{config.NewSecret(strings.Repeat("k", 32))}}},
			Options{InProcess: []InProcess{{Name: "a", Handler: b}}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		synctest.Wait()
		f(t, g, b)
	})
}

func ask(t *testing.T, scope *mcp.Scope, method, params string) *mcp.Request {
	t.Helper()
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	req.Scope, req.Principal = scope, "ann"
	return req
}

// In all messages of the backend the client reads its own task ids, and in all messages
// of the client the backend reads its own.
func TestTaskIDsAreTranslatedEverywhere(t *testing.T) {
	withTaskServer(t, func(t *testing.T, g *Gateway, b *taskServer) {
		name := g.taskIDs.encode("a", "t1", "ann")
		unrelated, caller := &callRecorder{}, &callRecorder{}
		scope := mcp.NewScope("s", unrelated)
		defer scope.End()
		var got []string
		b.serve = func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
			got = append(got, string(req.Params.Bytes()))
			status, err := mcp.NewNotification("notifications/tasks/status", []byte(`{"taskId":"t1","status":"working"}`))
			question, qerr := mcp.NewRequest("elicitation/create", fmt.Appendf(nil, `{"message":"?",`+mark+`}`, "t1"))
			if err = errors.Join(err, qerr, c.Notify(ctx, status), req.Scope.Unrelated().Notify(ctx, status)); err != nil {
				return nil, err
			}
			for _, who := range []mcp.Caller{c, req.Scope.Unrelated()} {
				answer, err := mcp.Ask(ctx, who, question)
				if err != nil {
					return nil, err
				}
				got = append(got, string(answer.Bytes()))
			}
			return mcp.NewResult(fmt.Appendf(nil, `{"taskId":"t1","n":1.0,`+mark+`}`, "t1"))
		}
		res, err := g.Serve(t.Context(), ask(t, scope, "tasks/get", fmt.Sprintf(`{"taskId":%q,`+mark+`}`, name, name)), caller)
		if err != nil {
			t.Fatal(err)
		}
		own, outside := fmt.Sprintf(mark, "t1"), fmt.Sprintf(mark, name)
		if want := `{"taskId":"` + name + `","n":1.0,` + outside + `}`; string(res.Bytes()) != want {
			t.Errorf("result %s, want %s", res.Bytes(), want)
		}
		if want := []string{`{"taskId":"t1",` + own + `}`, `{` + own + `}`, `{` + own + `}`}; !slices.Equal(got, want) {
			t.Errorf("the backend reads %q, want %q", got, want)
		}
		want := []string{`notifications/tasks/status {"taskId":"` + name + `","status":"working"}`, `elicitation/create {"message":"?",` + outside + `}`}
		if !slices.Equal(caller.all, want) || !slices.Equal(unrelated.all, want) {
			t.Errorf("the client reads %q and %q, want %q", caller.all, unrelated.all, want)
		}
	})
}

// Other members that look like a task id are unmodified, and a related task that is not
// the caller's does not reach the backend.
//
// W7- own: "The id of a task that we issue represents one user, one backend and the id that
// the backend has issued, and nothing else."
func TestOnlyTaskIDsAreTranslated(t *testing.T) {
	withTaskServer(t, func(t *testing.T, g *Gateway, b *taskServer) {
		var got string
		b.serve = func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			got = string(req.Params.Bytes())
			return mcp.NewResult([]byte(`{"content":[],"taskId":"mine"}`))
		}
		foreign := g.taskIDs.encode("a", "t1", "bob")
		res, err := g.Serve(t.Context(), ask(t, nil, "tools/call", fmt.Sprintf(`{"name":"a__x",`+mark+`}`, foreign)), noCaller{})
		if err != nil || string(res.Bytes()) != `{"content":[],"taskId":"mine"}` {
			t.Errorf("result %v, %v", res, err)
		}
		if got != `{"name":"x","_meta":{}}` {
			t.Errorf("the backend reads %s", got)
		}
	})
}

// A backend identifies its clients by their scopes: each request of a client has the
// same one, which ends with the client's.
func TestTaskScope(t *testing.T) {
	withTaskServer(t, func(t *testing.T, g *Gateway, b *taskServer) {
		b.serve = func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
			return mcp.NewResult([]byte("{}"))
		}
		scope := mcp.NewScope("s", &callRecorder{})
		yields := 0
		scope.OnYield(func() bool { yields++; return false })
		for range 2 {
			if _, err := g.Serve(t.Context(), ask(t, scope, "tools/call", `{"name":"a__x"}`), noCaller{}); err != nil {
				t.Fatal(err)
			}
		}
		if b.scopes[0] != b.scopes[1] || b.scopes[0].Key() != "s" {
			t.Error("the backend gets another scope with each request")
		}
		if b.scopes[0].Yield() || yields != 1 {
			t.Errorf("the owner was asked to yield %d times, want once", yields)
		}
		ended := false
		b.scopes[0].OnEnd(func() { ended = true })
		scope.End()
		if !ended {
			t.Error("the scope of the backend does not end with the client's")
		}
	})
}

// An id that is too long would break the headers that carry it.
func TestTaskIDTooLong(t *testing.T) {
	withTaskServer(t, func(t *testing.T, g *Gateway, b *taskServer) {
		b.serve = func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
			return mcp.NewResult([]byte(`{"resultType":"task","status":"working","taskId":"` + strings.Repeat("x", maxTaskID+1) + `"}`))
		}
		_, err := g.Serve(t.Context(), ask(t, nil, "tools/call", `{"name":"a__x"}`), noCaller{})
		if f, ok := errors.AsType[*mcp.Fault](err); !ok || f.Code != mcp.CodeBackendFailed {
			t.Errorf("error %v", err)
		}
	})
}

// M111, W1: the tasks recorded for tasks/list belong to their owner, and are bounded.
func TestTaskRegistry(t *testing.T) {
	var b taskRegistry
	now := time.Now()
	for i := range maxListedTasks + 10 {
		b.record("ann", listedTask{profile: "", name: fmt.Sprint(i)}, now)
	}
	b.record("bob", listedTask{profile: "", name: "bob's"}, now)
	var got []string
	for after, more := uint64(0), true; more; {
		var page []listedTask
		page, more = b.page("ann", "", after, now)
		if len(page) > listPageSize {
			t.Fatalf("a page of %d", len(page))
		}
		for _, one := range page {
			got, after = append(got, one.name), one.serial
		}
	}
	if len(got) != maxListedTasks || got[0] != "10" || got[maxListedTasks-1] != fmt.Sprint(maxListedTasks+9) {
		t.Errorf("%d tasks from %s on, want %d from 10 on", len(got), got[0], maxListedTasks)
	}
	if page, _ := b.page("eve", "", 0, now); page != nil {
		t.Errorf("eve has %v", page)
	}
	if page, _ := b.page("bob", "", 0, now.Add(listedTTL)); len(page) != 0 {
		t.Errorf("after a day: %v", page)
	}
	if page, _ := b.page("bob", "", 0, now.Add(listedTTL)); len(b.byOwner["bob"]) != 0 {
		t.Errorf("what is over is kept: %v", page)
	}
}

// Each anonymous client has its own list, which ends with its session.
func TestTaskRegistryOfSessions(t *testing.T) {
	withTaskServer(t, func(t *testing.T, g *Gateway, b *taskServer) {
		b.serve = func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			return mcp.NewResult([]byte(`{"resultType":"task","taskId":"t1","status":"working","ttlMs":null}`))
		}
		one, two := mcp.NewScope("1", &callRecorder{}), mcp.NewScope("2", &callRecorder{})
		defer two.End()
		begin := ask(t, one, "tools/call", `{"name":"a__x"}`)
		begin.Principal = ""
		if _, err := g.Serve(t.Context(), begin, noCaller{}); err != nil {
			t.Fatal(err)
		}
		list := func(scope *mcp.Scope) string {
			req := ask(t, scope, "tasks/list", `{}`)
			req.Principal = ""
			res, err := g.Serve(t.Context(), req, noCaller{})
			if err != nil {
				t.Fatal(err)
			}
			return string(res.Bytes())
		}
		if got := list(one); strings.Count(got, "taskId") != 1 {
			t.Errorf("its own: %s", got)
		}
		if got := list(two); got != `{"tasks":[]}` {
			t.Errorf("another's: %s", got)
		}
		one.End()
		if len(g.taskRegistry.byOwner) != 0 {
			t.Errorf("%d sessions are remembered after their end", len(g.taskRegistry.byOwner))
		}
	})
}

// taskClient is a client that runs a task c1 for each request.
type taskClient struct{ callRecorder }

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
		scope := mcp.NewScope("s", &callRecorder{})
		defer scope.End()
		var got []string
		b.serve = func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			id, _ := req.Params.Text(mcp.FieldTaskID)
			got = append(got, id) // one at a time
			time.Sleep(time.Second)
			return mcp.NewResult([]byte("{}"))
		}
		var want []string
		const most = maxQueued + 10
		began := time.Now()
		for n := range most {
			if _, err := g.Serve(t.Context(), ask(t, scope, taskStatus, fmt.Sprintf(`{"taskId":"c%d"}`, n)), noCaller{}); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				synctest.Wait() // the backend has that one
			}
			if n == 0 || n >= most-maxQueued {
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

// No wrapper of a Caller loses what the Caller can do.
func TestWrappersPassEverything(t *testing.T) {
	callertest.CheckPackage(t, map[string]callertest.Wrapper{
		"taskIDCaller": {Wrap: func(c mcp.Caller) mcp.Caller {
			b := &activeBackend{client: new(client.Client)} // forwards results unchanged
			return &taskIDCaller{Caller: c, CallerExtension: c.Extension(), backend: b}
		}},
		"wholeCaller": {
			Wrap:    func(c mcp.Caller) mcp.Caller { return readWhole(c, nil) },
			Without: []string{"Receive"}, // results are filtered, cut and judged as a whole
		},
	})
}

// Owners of whom every task has expired, and sessions that have ended while their tasks were listed, are forgotten.
func TestTaskRegistryForgetsOwners(t *testing.T) {
	var r taskRegistry
	now := time.Now()
	for i := range 100 {
		r.record(fmt.Sprint(i), listedTask{name: "t"}, now)
	}
	r.record("later", listedTask{name: "t"}, now.Add(listedTTL))
	if n := len(r.byOwner); n != 1 {
		t.Errorf("after a day %d owners are remembered", n)
	}
	r.forget("later")
	if r.remove("later", 101); len(r.byOwner) != 0 {
		t.Errorf("%v are remembered after their end", r.byOwner)
	}
}
