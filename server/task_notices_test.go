// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

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
