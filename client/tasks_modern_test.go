// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// modernTaskServer is a server of the extension, with the messages of its
// specification. Its only tool always runs as a task.
type modernTaskServer struct {
	*faultyserver.HTTP

	mu   sync.Mutex
	gets []string // answers to tasks/get, the last one repeatedly
}

func newModernTaskServer(gets ...string) *modernTaskServer {
	s := &modernTaskServer{HTTP: &faultyserver.HTTP{Modern: true}, gets: gets}
	s.On = map[string]func(*faultyserver.Exchange){
		"tools/call": func(x *faultyserver.Exchange) {
			if !strings.Contains(string(x.Msg.Params.Raw(mcp.MetaClientCapabilities)), "io.modelcontextprotocol/tasks") {
				x.Status(400, "application/json", string(jsonrpc.AppendError(nil, x.Msg.ID, &mcp.Error{
					Code: mcp.CodeMissingCapability, Message: "only as a task",
					Data: []byte(`{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`),
				})))
				return
			}
			x.Result(`{"resultType":"task","taskId":"t1","status":"working",` + modernTimes + `}`)
		},
		"tasks/get": func(x *faultyserver.Exchange) {
			x.Result(`{"resultType":"complete","taskId":"t1",` + modernTimes + `,` + s.next() + `}`)
		},
		"tasks/update": func(x *faultyserver.Exchange) { x.Result(`{"resultType":"complete"}`) },
		"tasks/cancel": func(x *faultyserver.Exchange) { x.Result(`{"resultType":"complete"}`) },
	}
	return s
}

func (s *modernTaskServer) next() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.gets[0]
	if len(s.gets) > 1 {
		s.gets = s.gets[1:]
	}
	return now
}

// legacyCall returns a call of a client without task support.
func legacyCall(t *testing.T) *mcp.Request {
	t.Helper()
	req := request(t, "tools/call", `{"name":"x","task":{"ttl":1}}`)
	req.Client.Version, req.Client.Capabilities = mcp.V20251125, []byte(`{"elicitation":{}}`)
	return req
}

// The answer to a call of a modern client is passed on unmodified, and so is the error
// that the server requires the extension, which such a client can declare.
func TestModernTaskRelayed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newModernTaskServer(`"status":"working"`)
		c := dialHTTP(t, s, client.Config{})
		res, err := within(t, c, modernTask(t, "tools/call", `{"name":"x"}`), &recorder{})
		wantResult(t, res, err, `{"resultType":"task","taskId":"t1","status":"working",`+modernTimes+`}`)
		res, err = within(t, c, modernTask(t, "tasks/get", `{"taskId":"t1"}`), &recorder{})
		wantResult(t, res, err, `{"resultType":"complete","taskId":"t1",`+modernTimes+`,"status":"working"}`)
		// H4
		if got := last(s.HTTP, "tasks/get").Header.Get("Mcp-Name"); got != "t1" {
			t.Errorf("Mcp-Name is %q", got)
		}
		undeclared := modernTask(t, "tools/call", `{"name":"x"}`)
		undeclared.Client.Capabilities = []byte(`{}`)
		_, err = within(t, c, undeclared, &recorder{})
		wantError(t, err, mcp.CodeMissingCapability)
		for _, method := range []string{"tasks/result", "tasks/list"} {
			_, err = within(t, c, modernTask(t, method, `{"taskId":"t1"}`), &recorder{})
			wantError(t, err, mcp.CodeMethodNotFound)
			if n := s.Count(method); n != 0 {
				t.Errorf("%s was sent, which the revision does not have", method)
			}
		}
	})
}

// If a server answers with a task to a client that does not support tasks, that breaks
// the protocol, and the client does not receive the task (W3).
//
// V11- 2026-07-28 basic/versioning: "the supporting party MUST either revert to core
// protocol behavior or reject the request with an appropriate error."
//
// W3- seps 2663-tasks-extension: "A server MUST NOT return `CreateTaskResult` to a client
// that did not include the extension capability on its request, regardless of prior
// declarations."
func TestModernTaskNotTaken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newModernTaskServer(`"status":"working"`)
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Result(`{"resultType":"task","taskId":"t1","status":"working",` + modernTimes + `}`)
		}
		c := dialHTTP(t, s, client.Config{})
		req := modernTask(t, "tools/call", `{"name":"x"}`)
		req.Client.Capabilities = []byte(`{}`)
		_, err := within(t, c, req, &recorder{})
		wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "answered with a task")
	})
}

// For a client without task support the call waits for the task: each input request is
// asked once, however often the server repeats it, and its answer is sent again if it
// was lost.
//
// V11+ 2026-07-28 basic/versioning: "the supporting party MUST either revert to core
// protocol behavior or reject the request with an appropriate error."
func TestModernTaskAwaited(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const asks = `"status":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"?"}}}`
		s := newModernTaskServer(`"status":"working"`, asks, asks, asks, `"status":"completed","result":{"content":[],"n":1.0}`)
		c := dialHTTP(t, s, client.Config{})
		caller := &pulseRecorder{recorder: recorder{answer: respondWith(`{"action":"accept"}`)}}
		res, err := within(t, c, legacyCall(t), caller)
		wantResult(t, res, err, `{"content":[],"n":1.0}`)
		wantStrings(t, "asks", caller.asked(), []string{"elicitation/create"})
		if n := s.Count("tasks/update"); n < 1 || n > 2 {
			t.Errorf("%d updates", n)
		}
		if body := last(s.HTTP, "tasks/update").Body; !strings.Contains(body, `"inputResponses":{"k":{"action":"accept"}}`) {
			t.Errorf("the answer is %s", body)
		}
		if caller.pulses() < 3 {
			t.Errorf("%d signs of life", caller.pulses())
		}
		if body := last(s.HTTP, "tools/call").Body; strings.Contains(body, `"ttl":1`) {
			t.Errorf("the server got the other era's wish for a task: %s", body)
		}
	})
}

func TestModernTaskAwaitedEnds(t *testing.T) {
	for _, tt := range []struct {
		name, get string
		code      int64
	}{
		{"failed", `"status":"failed","error":{"code":-32050,"message":"no"}`, -32050},
		{"cancelled", `"status":"cancelled"`, mcp.CodeInternalError},
		{"without a status", `"x":1`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := dialHTTP(t, newModernTaskServer(tt.get), client.Config{})
				_, err := within(t, c, legacyCall(t), &recorder{})
				if err == nil || tt.code != 0 && !errors.Is(err, &mcp.Error{Code: tt.code}) {
					t.Errorf("error %v, want one of code %d", err, tt.code)
				}
			})
		})
	}
}

// An unanswered input request ends the call, and cancels the task.
func TestModernTaskAwaitedUnanswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newModernTaskServer(`"status":"input_required","inputRequests":{"k":{"method":"roots/list"},"l":{"method":"roots/list"}}`)
		c := dialHTTP(t, s, client.Config{})
		_, err := within(t, c, legacyCall(t), &recorder{})
		wantError(t, err, mcp.CodeMethodNotFound)
		synctest.Wait()
		if n := s.Count("tasks/cancel"); n != 1 {
			t.Errorf("%d tasks/cancel, want 1", n)
		}
	})
}

// Cancelling the call cancels the task, because no other request knows it.
func TestModernTaskAwaitedCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newModernTaskServer(`"status":"working"`)
		c := dialHTTP(t, s, client.Config{})
		call := launch(t, c, legacyCall(t), &recorder{})
		time.Sleep(5 * time.Second)
		call.cancel()
		<-call.done
		synctest.Wait()
		if n := s.Count("tasks/cancel"); n != 1 {
			t.Errorf("%d tasks/cancel, want 1", n)
		}
		looks := s.Count("tasks/get")
		time.Sleep(time.Minute)
		if n := s.Count("tasks/get"); n != looks {
			t.Errorf("%d looks at a task that nobody waits for", n-looks)
		}
	})
}
