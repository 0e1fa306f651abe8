// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// taskHandler is a Handler of the extension io.modelcontextprotocol/tasks only: what a
// client of 2025-11-25 receives is made by the server.
type taskHandler struct {
	mu     sync.Mutex
	task   string // the members of the only task after its times
	after  string // what it becomes when it is cancelled; "" is nothing
	direct string // the result that a call returns at once; "" is the task
	seen   []string
	native func(req *mcp.Request) (*mcp.Result, error) // serves tasks/result, unless nil
}

const handlerTimes = `"createdAt":"2026-07-28T10:00:00Z","lastUpdatedAt":"2026-07-28T10:00:00Z","ttlMs":60000,"pollIntervalMs":500`

func (h *taskHandler) Serve(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, req.Method)
	if id, ok := req.Params.Text(mcp.FieldTaskID); ok && id != "t" {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "no task %s", id[:4])
	}
	switch req.Method {
	case "server/discover":
		return result(`{"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
	case "tools/call":
		if h.direct != "" {
			return result(h.direct)
		}
		return result(`{"resultType":"task","taskId":"t",` + handlerTimes + `,` + h.task + `}`)
	case "tasks/get":
		return result(`{"taskId":"t",` + handlerTimes + `,` + h.task + `}`)
	case "tasks/cancel":
		if h.after != "" {
			h.task = h.after
		}
		return result(`{}`)
	case "tasks/result":
		if h.native != nil {
			return h.native(req)
		}
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no method %q", req.Method)
}

func (h *taskHandler) setTask(task string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.task = task
}

func (h *taskHandler) count(method string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, m := range h.seen {
		if m == method {
			n++
		}
	}
	return n
}

// W4: tasks/cancel is answered with the new state of the task, and refused if the task has
// already ended; a task that does not end is returned in its current state.
//
// W4- 2025-11-25 basic/utilities/tasks: "Receivers MUST reject cancellation requests for
// tasks already in a terminal status (`completed`, `failed`, or `cancelled`) with error
// code `-32602` (Invalid params)."
func TestTaskCancelled(t *testing.T) {
	const shown = `{"jsonrpc":"2.0","id":1,"result":{"taskId":"t","createdAt":"2026-07-28T10:00:00Z","lastUpdatedAt":"2026-07-28T10:00:00Z","ttl":60000,"pollInterval":500,"status":%q}}`
	for _, tt := range []struct{ name, before, after, want string }{
		{"at once", `"status":"working"`, `"status":"cancelled"`, fmt.Sprintf(shown, "cancelled")},
		{"never", `"status":"working"`, "", fmt.Sprintf(shown, "working")},
		{"too late", `"status":"working"`, `"status":"completed","result":{}`, wireError("1", "-32602", "the task cannot be cancelled: it is completed")},
		{"over", `"status":"failed","error":{"code":-1,"message":"x"}`, "", wireError("1", "-32602", "the task cannot be cancelled: it is failed")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &taskHandler{task: tt.before, after: tt.after}
			bubble(t, h, server.Config{}, func(s *site) {
				equal(t, "answer", s.post(raw("1", "tasks/cancel", `{"taskId":"t"}`), s.session()).body, tt.want)
				if over := strings.Contains(tt.name, "over"); over && h.count("tasks/cancel") > 0 {
					t.Error("tasks/cancel reached the Handler after the task had ended")
				}
			})
		})
	}
}

// tasks/result returns the result of the call (W4), marked with its task, and blocks until
// there is one.
func TestTaskResult(t *testing.T) {
	const related = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}`
	for _, tt := range []struct{ name, end, want string }{
		{"result", `"status":"completed","result":{"content":[],"n":1.0}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"n":1.0,` + related + `}}`},
		{"error", `"status":"failed","error":{"code":-1,"message":"x","data":{"n":1.0},"own":1}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"x","data":{"n":1.0},"own":1}}`},
		{"cancelled", `"status":"cancelled"`, wireError("1", "-32603", "the task was cancelled")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &taskHandler{task: `"status":"working"`}
			bubble(t, h, server.Config{}, func(s *site) {
				waiting := s.async(s.request(s.ctx(), "POST", raw("1", "tasks/result", `{"taskId":"t"}`), s.session()))
				s.advance(3 * time.Second)
				h.setTask(tt.end)
				got := <-waiting
				equal(t, "result", got.body, tt.want)
			})
		})
	}
}

// A Handler in front of a backend of that revision serves tasks/result itself. A timeout of
// its wait does not end the task; an error of the call does.
func TestTaskResultOfItsOwn(t *testing.T) {
	late := &mcp.Fault{Code: mcp.CodeDeadline, Outcome: mcp.Unknown, Message: "idle"}
	h := &taskHandler{task: `"status":"working"`}
	n := 0
	h.native = func(*mcp.Request) (*mcp.Result, error) {
		if n++; n < 3 {
			return nil, late
		}
		return result(`{"content":[]}`)
	}
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		got := s.post(raw("1", "tasks/result", `{"taskId":"t"}`), sess).body
		equal(t, "result", got, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}}`)
		if h.count("tasks/get") != 2 {
			t.Errorf("the task was looked at %d times, want once for each wait that was too long", h.count("tasks/get"))
		}
		// The call has ended with the error of a Handler without the method.
		h.native = nil
		h.setTask(`"status":"failed"`)
		got = s.post(raw("2", "tasks/result", `{"taskId":"t"}`), sess).body
		equal(t, "own error", got, wireError("2", "-32601", `no method "tasks/result"`))
	})
}

// A result that a call returns at once although a task was requested becomes a task of the
// session itself, which keeps the last few.
func TestTaskKept(t *testing.T) {
	h := &taskHandler{direct: `{"content":[],"isError":true}`}
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		var first string
		for i := range 65 {
			body := s.post(raw("1", "tools/call", `{"name":"x","task":{}}`), sess).body
			if i == 0 {
				first = taskIDIn(body)
			}
			if !strings.Contains(body, `"status":"working"`) {
				t.Fatalf("created: %s", body)
			}
		}
		last := taskIDIn(s.post(raw("1", "tools/call", `{"name":"x","task":{}}`), sess).body)
		if got := s.post(raw("2", "tasks/get", `{"taskId":"`+last+`"}`), sess).body; !strings.Contains(got, `"status":"failed"`) || !strings.Contains(got, `"ttl":600000`) {
			t.Errorf("the last: %s", got)
		}
		equal(t, "the first of too many", s.post(raw("2", "tasks/get", `{"taskId":"`+first+`"}`), sess).body, wireError("2", "-32602", "unknown task"))
		equal(t, "in another session", s.post(raw("2", "tasks/result", `{"taskId":"`+last+`"}`), s.session()).body, wireError("2", "-32602", "no task "+last[:4]))
	})
}

func taskIDIn(body string) string {
	_, rest, _ := strings.Cut(body, `"taskId":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

// W3: a client that did not declare the extension gets no task, and cannot ask about any; a
// client that did receives the Handler's results byte for byte.
//
// W3- seps 2663-tasks-extension: "A server MUST NOT return `CreateTaskResult` to a client
// that did not include the extension capability on its request, regardless of prior
// declarations."
//
// W3+ seps 2663-tasks-extension: "A client that has negotiated this extension MUST be
// prepared to handle either `CallToolResult` or `CreateTaskResult` in response to any
// supported request it issues."
func TestModernTasks(t *testing.T) {
	h := &taskHandler{task: `"status":"working"`}
	bubble(t, h, server.Config{}, func(s *site) {
		const needs = `"data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
		for method, params := range map[string]string{
			"tools/call": `{"name":"t"`, "tasks/get": `{"taskId":"t"`, "tasks/update": `{"taskId":"t","inputResponses":{}`, "tasks/cancel": `{"taskId":"t"`,
			"subscriptions/listen": `{"notifications":{"taskIds":["t"]}`,
		} {
			got := s.post(modernWith(params, `{}`, method), modernHeaders(method, "t"))
			if got.status != 400 || !strings.Contains(got.body, `"code":-32021`) || !strings.Contains(got.body, needs) {
				t.Errorf("%s undeclared: %d %s", method, got.status, got.body)
			}
		}
		const declared = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
		got := s.post(modernWith(`{"name":"t"`, declared, "tools/call"), modernHeaders("tools/call", "t")).body
		equal(t, "task", got, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"t",`+handlerTimes+`,"status":"working"}}`)
		got = s.post(modernWith(`{"taskId":"t"`, declared, "tasks/get"), modernHeaders("tasks/get", "t")).body
		equal(t, "state", got, `{"jsonrpc":"2.0","id":1,"result":{"taskId":"t",`+handlerTimes+`,"status":"working","resultType":"complete"}}`)
		// H4
		mismatch := s.post(modernWith(`{"taskId":"t"`, declared, "tasks/get"), modernHeaders("tasks/get", "other"))
		if mismatch.status != 400 || !strings.Contains(mismatch.body, "-32020") {
			t.Errorf("another name in the header: %d %s", mismatch.status, mismatch.body)
		}
		for _, method := range []string{"tasks/result", "tasks/list"} {
			if got := s.post(modernWith(`{"taskId":"t"`, declared, method), modernHeaders(method, "")); got.status != 404 {
				t.Errorf("%s: %d %s", method, got.status, got.body)
			}
		}
	})
}

// modernWith returns a request of a client with the given capabilities; params lacks its
// closing brace.
func modernWith(params, capabilities, method string) string {
	return raw("1", method, params+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+capabilities+`}}`)
}

const taskRunner = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"c","version":"1"}}}`

// stateLog is a Handler that records the states of clients' tasks. Each notification waits
// until it is released.
type stateLog struct {
	mu    sync.Mutex
	begun []string
	wait  chan struct{}
}

func (l *stateLog) Serve(ctx context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
	if req.Method != "notifications/tasks/status" {
		return result(`{"capabilities":{}}`)
	}
	id, _ := req.Params.Text(mcp.FieldTaskID)
	l.mu.Lock()
	l.begun = append(l.begun, id)
	l.mu.Unlock()
	select {
	case <-l.wait:
	case <-ctx.Done():
	}
	return nil, nil //nolint:nilnil // a notification has no terminal
}

func (l *stateLog) seen() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.begun, " ")
}

func taskState(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t%d","status":"working"}}`, n)
}

// Status notifications of a client about its tasks reach the Handler one after the other,
// in the order of their arrival, even if the Handler fails; and another session does not
// wait for them.
func TestTaskStatesInOrder(t *testing.T) {
	l := &stateLog{}
	const caps = `{"sampling":{},"tasks":{"requests":{"sampling":{"createMessage":{}}}}}`
	bubble(t, l, server.Config{}, func(s *site) {
		l.wait = make(chan struct{})
		h, other := s.handshake(fmt.Sprintf(taskRunner, "2025-11-25", caps)), s.handshake(fmt.Sprintf(taskRunner, "2025-11-25", caps))
		for n := range 5 {
			s.post(taskState(n), h)
		}
		equal(t, "handed on", l.seen(), "t0")
		s.post(taskState(7), other)
		equal(t, "handed on", l.seen(), "t0 t7")
		for range 6 {
			l.wait <- struct{}{}
			synctest.Wait()
		}
		equal(t, "handed on", l.seen(), "t0 t7 t1 t2 t3 t4")
	})
}

// Status notifications of a client that declared no tasks are dropped. A revision that does
// not define tasks makes no difference.
func TestTaskStatesOfClientWithoutTasks(t *testing.T) {
	for _, tt := range []struct{ version, caps, want string }{
		{"2025-11-25", `{"sampling":{},"tasks":{"list":{}}}`, ""},
		{"2025-06-18", `{"sampling":{}}`, ""},
		{"2025-06-18", `{"sampling":{},"tasks":{"requests":{"sampling":{"createMessage":{}}}}}`, "t1"},
	} {
		l := &stateLog{}
		bubble(t, l, server.Config{}, func(s *site) {
			s.post(taskState(1), s.handshake(fmt.Sprintf(taskRunner, tt.version, tt.caps)))
			equal(t, tt.version+" "+tt.caps, l.seen(), tt.want)
		})
	}
}

// announcer is a Handler that answers calls with tasks t1, t2 and so on, and sends their
// states.
type announcer struct {
	refuses bool
	notify  chan *mcp.Notification
	calls   atomic.Int64
	open    chan string // the filter of a listen, "" for its end
}

func (a *announcer) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	switch req.Method {
	case "server/discover":
		return result(`{"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
	case "tools/call":
		return result(fmt.Sprintf(`{"resultType":"task","taskId":"t%d","status":"working",%s}`, a.calls.Add(1), handlerTimes))
	case "subscriptions/listen":
		filter := string(req.Params.Raw(mcp.FieldNotifications))
		if !strings.Contains(filter, "taskIds") {
			return listenUntilEnd(ctx, caller)
		}
		if a.refuses {
			filter = `{}`
		}
		n, err := mcp.NewNotification("notifications/subscriptions/acknowledged", []byte(`{"notifications":`+filter+`}`))
		if err != nil {
			return nil, err
		}
		a.open <- filter
		defer func() { a.open <- "" }()
		for err = caller.Notify(ctx, n); err == nil; {
			select {
			case n := <-a.notify:
				err = caller.Notify(ctx, n)
			case <-ctx.Done():
				return result(`{}`)
			}
		}
		return nil, err
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no method %q", req.Method)
}

// ready makes the channels, in the bubble of the test.
func (a *announcer) ready() {
	a.notify, a.open = make(chan *mcp.Notification), make(chan string, 200)
}

const beginTask = `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x","task":{}}}`

// States of a task that a session has begun are sent on the standalone stream of the
// session in the form of 2025-11-25, until the task has ended.
func TestTaskStatesAreSent(t *testing.T) {
	a := &announcer{}
	bubble(t, a, server.Config{}, func(s *site) {
		a.ready()
		h := s.session()
		st := s.open(s.ctx(), "GET", "", h)
		defer st.close()
		s.post(beginTask, h)
		equal(t, "listens for", <-a.open, `{"taskIds":["t1"]}`)
		a.notify <- note(t, "notifications/tasks", `{"taskId":"other","status":"working"}`)
		a.notify <- note(t, "notifications/tasks", `{"taskId":"t1","status":"input_required",`+handlerTimes+`,"inputRequests":{},"_meta":{"io.modelcontextprotocol/subscriptionId":7,"x":1.0}}`)
		const times = `"createdAt":"2026-07-28T10:00:00Z","lastUpdatedAt":"2026-07-28T10:00:00Z","ttl":60000,"pollInterval":500`
		equal(t, "told", st.next(), `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t1","status":"input_required",`+times+`,"_meta":{"x":1.0}}}`)
		a.notify <- note(t, "notifications/tasks", `{"taskId":"t1","status":"completed",`+handlerTimes+`,"result":{"isError":true}}`)
		equal(t, "told", st.next(), `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t1","status":"failed",`+times+`}}`)
		equal(t, "listens for", <-a.open, "")
	})
}

// The listen for a task ends if the Handler does not acknowledge it, and when its session
// ends.
func TestTaskStatesNotSent(t *testing.T) {
	for _, refuses := range []bool{true, false} {
		t.Run(fmt.Sprint(refuses), func(t *testing.T) {
			a := &announcer{}
			a.refuses = refuses
			bubble(t, a, server.Config{}, func(s *site) {
				a.ready()
				h := s.session()
				s.post(beginTask, h)
				<-a.open
				if !refuses {
					synctest.Wait()
					equal(t, "ends before the session", fmt.Sprint(len(a.open)), "0")
					s.do(s.request(s.ctx(), "DELETE", "", h))
				}
				equal(t, "listens for", <-a.open, "")
			})
		})
	}
}

// The number of listens for the tasks of a session is bounded; a new one replaces the
// oldest.
func TestTaskListensAreBounded(t *testing.T) {
	a := &announcer{}
	bubble(t, a, server.Config{}, func(s *site) {
		a.ready()
		h := s.session()
		for range 66 {
			s.post(beginTask, h)
		}
		synctest.Wait()
		begun, over := 0, 0
		for len(a.open) > 0 {
			if <-a.open == "" {
				over++
			} else {
				begun++
			}
		}
		equal(t, "begun and over", fmt.Sprint(begun, over), "66 2")
	})
}

// Task status notifications belong to 2025-11-25: clients of other revisions do not receive
// them, whatever a Handler sends in a call.
func TestTaskStatusIsOfOneRevision(t *testing.T) {
	for version, want := range map[string]int{"2025-11-25": 1, "2025-06-18": 0} {
		h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
			if req.Method == "tools/call" {
				if err := caller.Notify(ctx, note(t, "notifications/tasks/status", `{"taskId":"t"}`)); err != nil {
					return nil, err
				}
			}
			return result(`{"content":[]}`)
		})
		bubble(t, h, server.Config{}, func(s *site) {
			ss := s.handshake(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			r := s.post(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x"}}`, ss)
			if n := strings.Count(r.body, "tasks/status"); n != want {
				t.Errorf("%s receives %d notifications: %s", version, n, r.body)
			}
		})
	}
}
