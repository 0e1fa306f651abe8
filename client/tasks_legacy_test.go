// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

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
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

const (
	legacyTaskOffer = `{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`
	takesTasks      = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	taskTimes       = `"createdAt":"2025-11-25T10:00:00Z","lastUpdatedAt":"2025-11-25T10:00:00Z","ttl":60000,"pollInterval":500`
	modernTimes     = `"createdAt":"2025-11-25T10:00:00Z","lastUpdatedAt":"2025-11-25T10:00:00Z","ttlMs":60000,"pollIntervalMs":500`
)

// taskServer is a server of 2025-11-25 with tools that run as tasks. Its messages are
// those of that revision.
type taskServer struct {
	*faultyserver.HTTP

	mu     sync.Mutex
	status string // of the one task
	result chan string
}

func newTaskServer() *taskServer {
	s := &taskServer{HTTP: &faultyserver.HTTP{Sessions: true, Capabilities: legacyTaskOffer}, status: "working", result: make(chan string, 4)}
	s.On = map[string]func(*faultyserver.Exchange){
		"tools/list": func(x *faultyserver.Exchange) {
			x.Result(`{"tools":[{"name":"may","execution":{"taskSupport":"optional"}},{"name":"must","execution":{"taskSupport":"required"}},{"name":"never"}]}`)
		},
		"tools/call": func(x *faultyserver.Exchange) {
			name, _ := x.Msg.Params.Text(mcp.FieldName)
			switch {
			case x.Msg.Params.Has(mcp.FieldTask) && name != "at once":
				x.Result(`{"task":{"taskId":"t1","status":"working",` + taskTimes + `}}`)
			case name == "must":
				x.Error(-32601, "must be called as a task")
			default:
				x.Result(`{"content":[]}`)
			}
		},
		"tasks/get": func(x *faultyserver.Exchange) {
			if id, _ := x.Msg.Params.Text(mcp.FieldTaskID); id != "t1" {
				x.Error(-32602, "Failed to retrieve task: Task not found")
				return
			}
			x.Result(`{"taskId":"t1","status":"` + s.state() + `",` + taskTimes + `}`)
		},
		"tasks/result": func(x *faultyserver.Exchange) {
			select {
			case answer := <-s.result:
				x.Status(200, "application/json", strings.Replace(answer, `"id":0`, `"id":`+x.Msg.ID.String(), 1))
			case <-x.R.Context().Done():
			}
		},
		"tasks/cancel": func(x *faultyserver.Exchange) {
			s.become("cancelled")
			x.Result(`{"taskId":"t1","status":"cancelled",` + taskTimes + `}`)
		},
	}
	return s
}

func (s *taskServer) state() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *taskServer) become(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// end answers the next tasks/result.
func (s *taskServer) end(status, answer string) {
	s.become(status)
	s.result <- `{"jsonrpc":"2.0","id":0,` + answer + `}`
}

const taskDone = `"result":{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`

// modernTask returns a request of a modern client, with the extension.
func modernTask(t *testing.T, method, params string) *mcp.Request {
	t.Helper()
	req := request(t, method, params)
	req.Client.Version, req.Client.Capabilities = mcp.V20260728, []byte(takesTasks)
	req.TakesInputRequired = true
	req.Principal = "ann"
	return req
}

// listed returns a client that has read the list of tools.
func listed(t *testing.T, s *taskServer) *client.Client {
	t.Helper()
	c := dialHTTP(t, s, client.Config{})
	if _, err := within(t, c, modernTask(t, "tools/list", ""), &recorder{}); err != nil {
		t.Fatal(err)
	}
	return c
}

// A tool that may run as a task is called as one for clients that support tasks, and
// for no others.
func TestTaskCall(t *testing.T) {
	created := `{"resultType":"task","taskId":"t1","status":"working",` + modernTimes + `}`
	for _, tt := range []struct{ name, tool, caps, sent, want string }{
		{"optional", "may", takesTasks, `{"name":"may","task":{}}`, created},
		{"required", "must", takesTasks, `{"name":"must","task":{}}`, created},
		{"no task", "never", takesTasks, `{"name":"never"}`, `{"content":[]}`},
		{"not taken", "may", `{}`, `{"name":"may"}`, `{"content":[]}`},
		{"at once", "at once", takesTasks, `{"name":"at once"}`, `{"content":[]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newTaskServer()
				c := listed(t, s)
				req := modernTask(t, "tools/call", `{"name":"`+tt.tool+`"}`)
				req.Client.Capabilities = []byte(tt.caps)
				res, err := within(t, c, req, &recorder{})
				wantResult(t, res, err, tt.want)
				if body := last(s.HTTP, "tools/call").Body; !strings.Contains(body, `"params":`+tt.sent) {
					t.Errorf("sent %s, want the params %s", body, tt.sent)
				}
			})
		})
	}
}

// A server that refuses a call because it requires a task has done nothing. The client
// reads its list and makes the call again as a task, once.
func TestTaskCallUnlisted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newTaskServer()
		c := dialHTTP(t, s, client.Config{})
		res, err := within(t, c, modernTask(t, "tools/call", `{"name":"must"}`), &recorder{})
		wantResult(t, res, err, `{"resultType":"task","taskId":"t1","status":"working",`+modernTimes+`}`)
		if n := s.Count("tools/call"); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
	})
}

// A modern client that has not declared task support gets an error to that effect, and
// the server does nothing: if its list is known, it does not receive the call.
func TestTaskUndeclared(t *testing.T) {
	for name, heard := range map[string]int{"listed": 0, "not listed": 1} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newTaskServer()
				c := dialHTTP(t, s, client.Config{})
				if heard == 0 {
					c = listed(t, s)
				}
				req := modernTask(t, "tools/call", `{"name":"must"}`)
				req.Client.Capabilities = []byte(`{"elicitation":{}}`)
				_, err := within(t, c, req, &recorder{})
				var said *mcp.Error
				if !errors.As(err, &said) || said.Code != mcp.CodeMissingCapability ||
					string(said.Data) != `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}` {
					t.Errorf("got %v", err)
				}
				if n := s.Count("tools/call"); n != heard {
					t.Errorf("the server has heard of %d calls, want %d", n, heard)
				}
			})
		})
	}
}

// A client of 2025-11-25 requests its tasks itself; its params.task is sent unmodified.
func TestTaskCallOfLegacyClient(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newTaskServer()
		c := listed(t, s)
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		call := func(tool, task string) (*mcp.Result, error) {
			req := in(scope, modernTask(t, "tools/call", `{"name":"`+tool+`"`+task+`}`))
			req.Client.Version, req.TakesInputRequired = mcp.V20251125, false
			if task == "" {
				req.Client.Capabilities = nil
			}
			return within(t, c, req, &recorder{})
		}
		res, err := call("never", `,"task":{"ttl":5.0e3}`)
		wantResult(t, res, err, `{"resultType":"task","taskId":"t1","status":"working",`+modernTimes+`}`)
		if body := last(s.HTTP, "tools/call").Body; !strings.Contains(body, `"task":{"ttl":5.0e3}`) {
			t.Errorf("sent %s", body)
		}
		_, err = call("must", "")
		wantError(t, err, mcp.CodeMethodNotFound)
	})
}

// The state of a task in the form of the extension: the state of an ended task contains
// its result or error.
func TestTaskGet(t *testing.T) {
	for _, tt := range []struct{ name, status, answer, want string }{
		{"working", "working", "", `{"taskId":"t1","status":"working",` + modernTimes + `}`},
		{"cancelled", "cancelled", "", `{"taskId":"t1","status":"cancelled",` + modernTimes + `}`},
		{"completed", "completed", taskDone, `{"taskId":"t1","status":"completed",` + modernTimes + `,"result":{"content":[]}}`},
		{
			"a tool that failed", "failed", `"result":{"content":[],"isError":true,"_meta":{"x":1.0,"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`,
			`{"taskId":"t1","status":"completed",` + modernTimes + `,"result":{"content":[],"isError":true,"_meta":{"x":1.0}}}`,
		},
		{
			"failed", "failed", `"error":{"code":-32050,"message":"no","data":{"n":1.0}}`,
			`{"taskId":"t1","status":"failed",` + modernTimes + `,"error":{"code":-32050,"message":"no","data":{"n":1.0}}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newTaskServer()
				s.become(tt.status)
				if tt.answer != "" {
					s.end(tt.status, tt.answer)
				}
				c := dialHTTP(t, s, client.Config{})
				res, err := within(t, c, modernTask(t, "tasks/get", `{"taskId":"t1"}`), &recorder{})
				wantResult(t, res, err, tt.want)
			})
		})
	}
}

// A task that the server does not know is an error.
func TestTaskUnknown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := dialHTTP(t, newTaskServer(), client.Config{})
		for _, method := range []string{"tasks/get", "tasks/update"} {
			_, err := within(t, c, modernTask(t, method, `{"taskId":"other","inputResponses":{}}`), &recorder{})
			wantError(t, err, mcp.CodeInvalidParams)
		}
	})
}

// taskWithInputs returns a server with a task that sends input requests while tasks/result is
// pending.
func taskWithInputs(asks ...string) *taskServer {
	s := newTaskServer()
	s.become("input_required")
	s.On["tasks/result"] = func(x *faultyserver.Exchange) {
		for _, ask := range asks {
			x.Event("", ask)
		}
		select {
		case <-s.result:
			x.Response(`{"content":[]}`)
		case <-x.R.Context().Done():
		}
	}
	return s
}

func taskInputRequest(id, message string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"elicitation/create","params":{"message":%q,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}}`, id, message)
}

// The input requests of a task are kept for a client that polls: each has one key while
// it is pending, until its answer, and is sent to the client once. Malformed answers
// are refused, and answers to unknown keys are ignored (W5).
//
// W5+ seps 2663-tasks-extension: "Each request key in `inputRequests` MUST be unique over
// the lifetime of a single task."
//
// W5- seps 2663-tasks-extension: "A server SHOULD ignore any `inputResponses` responses
// mapped to a key that is not currently outstanding for the task"
func TestTaskInputRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := taskWithInputs(taskInputRequest("q1", "one?"), taskInputRequest("q2", "two?"))
		c := dialHTTP(t, s, client.Config{})
		get := func() string {
			res, err := within(t, c, modernTask(t, "tasks/get", `{"taskId":"t1"}`), &recorder{})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return string(res.Bytes())
		}
		update := func(answers string) error {
			_, err := within(t, c, modernTask(t, "tasks/update", `{"taskId":"t1","inputResponses":{`+answers+`}}`), &recorder{})
			synctest.Wait()
			return err
		}
		get()
		first := get()
		keys := inputKeys(t, first)
		if len(keys) == 2 && !strings.Contains(first, `"`+keys[0]+`":{"method":"elicitation/create","params":{"message":"one?"`) {
			slices.Reverse(keys) // they arrive concurrently, in no order
		}
		if len(keys) != 2 || strings.Contains(first, "related-task") || !strings.Contains(first, `"status":"input_required"`) {
			t.Fatalf("waiting: %s", first)
		}
		if again := get(); again != first {
			t.Errorf("the second look is %s, the first was %s", again, first)
		}
		if err := update(`"` + keys[0] + `":"no object"`); !errors.Is(err, &mcp.Error{Code: mcp.CodeInvalidParams}) {
			t.Errorf("an answer that is none: %v", err)
		}
		if err := update(`"made-up":{},"` + keys[0] + `":{"action":"accept"}`); err != nil {
			t.Error(err)
		}
		if left := inputKeys(t, get()); !slices.Equal(left, keys[1:]) {
			t.Errorf("after one answer %q are open, want %q", left, keys[1:])
		}
		if err := update(`"` + keys[0] + `":{"action":"decline"},"` + keys[1] + `":{"action":"cancel"}`); err != nil {
			t.Error(err)
		}
		answered := answers(s.HTTP)
		if want := []string{`{"jsonrpc":"2.0","id":"q1","result":{"action":"accept"}}`, `{"jsonrpc":"2.0","id":"q2","result":{"action":"cancel"}}`}; !slices.Equal(answered, want) {
			t.Errorf("answers %q, want %q", answered, want)
		}
		if n := s.Count("tasks/result"); n != 1 {
			t.Errorf("%d tasks/result were sent, want 1", n)
		}
		s.become("working")
		if now := get(); !strings.Contains(now, `"status":"working"`) {
			t.Errorf("answered: %s", now)
		}
	})
}

// An input request that is sent after another one was answered, or after an absence of
// the client that ended the tasks/result, has a key of its own (W5).
//
// W5+ seps 2663-tasks-extension: "Each request key in `inputRequests` MUST be unique over
// the lifetime of a single task."
func TestTaskKeysAreNeverReused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, asks := taskWithInputs(), make(chan string)
		s.On["tasks/result"] = func(x *faultyserver.Exchange) {
			for {
				select {
				case ask := <-asks:
					x.Event("", ask)
				case <-x.R.Context().Done():
					return
				}
			}
		}
		c := dialHTTP(t, s, client.Config{})
		serve := func(method, more string) string {
			res, err := within(t, c, modernTask(t, method, `{"taskId":"t1"`+more+`}`), &recorder{})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return string(res.Bytes())
		}
		seen := make(map[string]bool)
		for i := range 4 {
			serve("tasks/get", "") // sends a tasks/result if none is pending
			asks <- taskInputRequest(fmt.Sprint("q", i), "?")
			synctest.Wait()
			keys := inputKeys(t, serve("tasks/get", ""))
			if len(keys) != 1 || seen[keys[0]] {
				t.Fatalf("question %d has the keys %q; those before had %v", i, keys, seen)
			}
			seen[keys[0]] = true
			if i%2 == 0 {
				serve("tasks/update", `,"inputResponses":{"`+keys[0]+`":{"action":"decline"}}`)
				continue
			}
			time.Sleep(time.Hour)
		}
		if n := s.Count("tasks/result"); n != 2 {
			t.Errorf("%d tasks/result were sent, want 2", n)
		}
	})
}

// inputKeys returns the keys of a task's input requests, in order.
func inputKeys(t *testing.T, task string) []string {
	t.Helper()
	var keys []string
	for name, value := range jsonscan.Members([]byte(task)) {
		if name != "inputRequests" {
			continue
		}
		for key := range jsonscan.Members(value) {
			keys = append(keys, key)
		}
	}
	return keys
}

// answers returns the answers to the server's own requests.
func answers(s *faultyserver.HTTP) []string {
	var all []string
	for _, r := range s.Seen() {
		if r.Verb == "POST" && r.Method == "" {
			all = append(all, r.Body)
		}
	}
	slices.Sort(all)
	return all
}

// The tasks/result of a client that does not return ends. If the client returns later,
// the input requests are sent anew, under other keys.
func TestOpenTaskResultExpires(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := taskWithInputs(taskInputRequest("q", "?"))
		c := dialHTTP(t, s, client.Config{})
		get := func() []string {
			res, err := within(t, c, modernTask(t, "tasks/get", `{"taskId":"t1"}`), &recorder{})
			if err != nil {
				t.Fatal(err)
			}
			return inputKeys(t, string(res.Bytes()))
		}
		first := get()
		time.Sleep(9 * time.Minute)
		if again := get(); !slices.Equal(again, first) {
			t.Errorf("after 9 minutes: %q, before %q", again, first)
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if n := s.Count("notifications/cancelled"); n != 1 {
			t.Errorf("the wait was cancelled %d times, want once", n)
		}
		if later := get(); len(later) != 1 || slices.Equal(later, first) {
			t.Errorf("the next question has the key %q, the first had %q", later, first)
		}
	})
}

// A server must not send a client requests that it did not declare, and gets an error
// at once.
func TestTaskInputUndeclared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := taskWithInputs(`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{}}`)
		c := dialHTTP(t, s, client.Config{})
		res, err := within(t, c, modernTask(t, "tasks/get", `{"taskId":"t1"}`), &recorder{})
		wantResult(t, res, err, `{"taskId":"t1","status":"working",`+modernTimes+`}`)
		if got := answers(s.HTTP); len(got) != 1 || !strings.Contains(got[0], `"code":-32601`) {
			t.Errorf("answers %q", got)
		}
	})
}

// Tasks are per principal: another principal can neither see nor answer the input
// request.
func TestOpenTaskResultIsPerPrincipal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := taskWithInputs(taskInputRequest("q", "?"))
		c := dialHTTP(t, s, client.Config{})
		of := func(principal, method, params string) (*mcp.Result, error) {
			req := modernTask(t, method, params)
			req.Principal = principal
			return within(t, c, req, &recorder{})
		}
		res, err := of("ann", "tasks/get", `{"taskId":"t1"}`)
		if err != nil {
			t.Fatal(err)
		}
		key := inputKeys(t, string(res.Bytes()))[0]
		if _, err := of("bob", "tasks/update", `{"taskId":"t1","inputResponses":{"`+key+`":{"action":"accept"}}}`); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := answers(s.HTTP); len(got) != 0 {
			t.Errorf("bob has answered for ann: %q", got)
		}
	})
}

// A call made for the result alone waits for the task: input requests and progress
// reach it, polls pulse it, and cancelling it cancels the task.
func TestTaskAwaited(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newTaskServer()
		var token string
		polite := s.On["tools/call"]
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			token = string(x.Msg.Params.Raw(mcp.MetaProgressToken))
			polite(x)
		}
		s.On["tasks/result"] = func(x *faultyserver.Exchange) {
			x.Event("", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+token+`,"progress":1.0}}`)
			x.Event("", taskInputRequest("q", "?"))
			<-s.result
			x.Response(`{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`)
		}
		c := listed(t, s)
		req := modernTask(t, "tools/call", `{"name":"must","_meta":{"progressToken":"mine"}}`)
		req.Client.Version, req.Client.Capabilities, req.TakesInputRequired = mcp.V20250618, []byte(`{"elicitation":{}}`), false
		caller := &pulseRecorder{recorder: recorder{answer: respondWith(`{"action":"accept"}`)}}
		call := launch(t, c, req, caller)
		time.Sleep(10 * time.Second)
		s.result <- ""
		call.wantResult(t, `{"content":[]}`)
		wantStrings(t, "notifications", caller.notifications(), []string{`progress {"progressToken":"mine","progress":1.0}`})
		wantStrings(t, "asks", caller.asked(), []string{"elicitation/create"})
		if n := caller.pulses(); n < 5 {
			t.Errorf("%d signs of life in 10 s", n)
		}
	})
}

// pulseRecorder is a recorder that counts pulses.
type pulseRecorder struct {
	recorder
	mcp.NoExtension
	mu sync.Mutex
	n  int
}

func (p *pulseRecorder) Extension() mcp.CallerExtension { return p }

func (p *pulseRecorder) Pulse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
}

func (p *pulseRecorder) pulses() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// C4+ 2025-11-25 basic/utilities/cancellation: "the `tasks/cancel` request MUST be
// used instead of the `notifications/cancelled` notification."
func TestTaskAwaitedCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newTaskServer()
		c := listed(t, s)
		req := modernTask(t, "tools/call", `{"name":"must"}`)
		req.Client.Version, req.Client.Capabilities, req.TakesInputRequired = mcp.V20250618, nil, false
		call := launch(t, c, req, &recorder{})
		time.Sleep(time.Second)
		call.cancel()
		<-call.done
		synctest.Wait()
		if n := s.Count("tasks/cancel"); n != 1 || s.state() != "cancelled" {
			t.Errorf("%d tasks/cancel, and the task is %s", n, s.state())
		}
	})
}

// A legacy server refuses to cancel an ended task, while the extension acknowledges it:
// "A server is not obligated to actually stop the work; it is only obligated to
// acknowledge the request" (tasks, "Task Cancellation"). An unknown task, and any
// request of a legacy client, is refused as before.
func TestTaskCancelAfterItsEnd(t *testing.T) {
	for _, tt := range []struct {
		name, status, id string
		version          mcp.Version
		acknowledged     bool
	}{
		{"completed", "completed", "t1", mcp.V20260728, true},
		{"failed", "failed", "t1", mcp.V20260728, true},
		{"cancelled", "cancelled", "t1", mcp.V20260728, true},
		{"still running", "working", "t1", mcp.V20260728, false},
		{"unknown", "completed", "t2", mcp.V20260728, false},
		{"of a legacy client", "completed", "t1", mcp.V20251125, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newTaskServer()
				s.On["tasks/cancel"] = func(x *faultyserver.Exchange) { x.Error(-32602, "it cannot be cancelled") }
				c := listed(t, s)
				s.become(tt.status)
				req := modernTask(t, "tasks/cancel", `{"taskId":"`+tt.id+`"}`)
				req.Client.Version = tt.version
				res, err := within(t, c, req, &recorder{})
				if (err == nil) != tt.acknowledged || err != nil && !strings.Contains(err.Error(), "it cannot be cancelled") {
					t.Errorf("got %v, %v", res, err)
				}
				if err == nil && string(res.Bytes()) != `{}` {
					t.Errorf("got %s, want an empty result", res.Bytes())
				}
			})
		})
	}
}

// A session in which a task runs stays open and serves the requests about it, however
// long it is idle. After the task's time it is closed.
func TestTaskKeepsItsSession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newTaskServer()
		c := listed(t, s)
		if _, err := within(t, c, modernTask(t, "tools/call", `{"name":"may"}`), &recorder{}); err != nil {
			t.Fatal(err)
		}
		at := last(s.HTTP, "tools/call").Header.Get("Mcp-Session-Id")
		// Another client of the same principal, with a session of its own.
		other := modernTask(t, "tools/call", `{"name":"never"}`)
		other.Client.Info = []byte(`{"name":"other","version":"1"}`)
		if _, err := within(t, c, other, &recorder{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		about := modernTask(t, "tasks/get", `{"taskId":"t1"}`)
		about.Client.Info = other.Client.Info
		if _, err := within(t, c, about, &recorder{}); err != nil {
			t.Fatal(err)
		}
		if got := last(s.HTTP, "tasks/get").Header.Get("Mcp-Session-Id"); got != at {
			t.Errorf("the task was begun in session %q and asked for in %q", at, got)
		}
		time.Sleep(40 * time.Second) // the pool's idle time is over, and not the task's
		if n := s.Count("DELETE"); n != 1 {
			t.Errorf("%d sessions were ended, want that of the other client alone", n)
		}
		time.Sleep(10 * time.Minute)
		if n := s.Count("DELETE"); n != 2 {
			t.Errorf("%d sessions were ended, want both", n)
		}
	})
}

// A message of the task may arrive on another stream than that of the tasks/result: the
// related task identifies the call (2025-11-25, basic/utilities/tasks, "Input Required
// Status").
func TestTaskInputOnAPipe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		x := make(chan *faultyserver.Line, 1)
		s := &faultyserver.Lines{Capabilities: legacyTaskOffer, On: map[string]func(*faultyserver.Line){
			"tasks/result": func(l *faultyserver.Line) {
				l.Send(taskInputRequest("q", "?"))
				x <- l
			},
			"tools/call": func(*faultyserver.Line) {}, // never answered: another call is in progress
		}}
		c, _ := dialLines(t, s, client.Config{Version: mcp.V20251125})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		busy := in(scope, modernTask(t, "tools/call", `{"name":"never"}`))
		busy.Client.Version = mcp.V20251125
		launch(t, c, busy, &recorder{})
		synctest.Wait()
		wait := in(scope, modernTask(t, "tasks/result", `{"taskId":"t1"}`))
		wait.Client.Version = mcp.V20251125
		caller := &recorder{answer: respondWith(`{"action":"accept"}`)}
		waiting := launch(t, c, wait, caller)
		synctest.Wait()
		wantStrings(t, "asks", caller.asked(), []string{"elicitation/create"})
		(<-x).Result(`{"content":[]}`)
		waiting.wantResult(t, `{"content":[]}`)
	})
}

// A tasks/result ends with the client, whatever it waits for.
func TestOpenTaskResultEndsWithTheClient(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := taskWithInputs(taskInputRequest("q", "?"))
		c := dialHTTP(t, s, client.Config{})
		if _, err := within(t, c, modernTask(t, "tasks/get", `{"taskId":"t1"}`), &recorder{}); err != nil {
			t.Fatal(err)
		}
		if err := c.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}
