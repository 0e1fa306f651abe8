// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// A task that has ended keeps its session open no longer than its last answer may be fetched
// again, whatever the time to live of the task: one that was awaited for a client without
// task support, and one that was cancelled.
func TestEndedTaskReleasesItsSession(t *testing.T) {
	forLong := strings.Replace(taskTimes, `"ttl":60000`, `"ttl":null`, 1)
	plain := modernTask(t, "tools/call", `{"name":"must"}`)
	plain.Client.Version, plain.Client.Capabilities, plain.TakesInputRequired = mcp.V20250618, nil, false
	for _, tt := range []struct {
		name  string
		call  *mcp.Request
		after string // sent by the client then
		ended bool
	}{
		{"awaited", plain, "", true},
		{"cancelled", modernTask(t, "tools/call", `{"name":"must"}`), "tasks/cancel", true},
		{"cancelled by the server", modernTask(t, "tools/call", `{"name":"must"}`), "tasks/get", true},
		{"running", modernTask(t, "tools/call", `{"name":"must"}`), "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newTaskServer()
				s.On["tools/call"] = func(x *faultyserver.Exchange) {
					x.Result(`{"task":{"taskId":"t1","status":"working",` + forLong + `}}`)
				}
				s.On["tasks/get"] = func(x *faultyserver.Exchange) {
					x.Result(`{"taskId":"t1","status":"` + s.state() + `",` + forLong + `}`)
				}
				s.result <- `{"jsonrpc":"2.0","id":0,` + taskDone + `}`
				c := listed(t, s)
				if _, err := within(t, c, tt.call, &recorder{}); err != nil {
					t.Fatal(err)
				}
				if tt.after == "tasks/get" {
					s.become("cancelled")
				}
				if tt.after != "" {
					if _, err := within(t, c, modernTask(t, tt.after, `{"taskId":"t1"}`), &recorder{}); err != nil {
						t.Fatal(err)
					}
				}
				open := s.Count("initialize")
				time.Sleep(3 * time.Minute)
				if left := open - s.Count("DELETE"); (left == 0) != tt.ended {
					t.Errorf("%d of %d sessions are open after three minutes", left, open)
				}
			})
		})
	}
}

// A call that has begun a task is not made again, whatever becomes of the requests about
// the task: its tool would run twice. The task, which no client waits for, is cancelled.
func TestAwaitedTaskIsBegunOnce(t *testing.T) {
	status := func(code int) func(*faultyserver.Exchange) {
		return func(x *faultyserver.Exchange) { x.Status(code, "", "") }
	}
	for _, tt := range []struct {
		name   string
		then   func(*faultyserver.Exchange)
		isGone bool // no connection is made after the call
		cancel int  // how many tasks/cancel a legacy server receives
	}{
		{"the session is forgotten", status(http.StatusNotFound), false, 0},
		{"the server is busy", status(http.StatusServiceUnavailable), false, 1},
		{"the connection breaks", (*faultyserver.Exchange).Abort, false, 1},
		{"the server is gone", nil, true, 0},
		{"the server is a gateway that did not forward it", func(x *faultyserver.Exchange) {
			x.Status(http.StatusOK, "application/json", string(jsonrpc.AppendError(nil, x.Msg.ID, &mcp.Error{Code: 1004, Message: "no", Data: []byte(`{"outcome":"not_dispatched"}`)})))
		}, false, 0},
	} {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, modern %t", tt.name, modern), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s, next, req := newTaskServer().HTTP, "tasks/result", modernTask(t, "tools/call", `{"name":"must"}`)
					req.Client.Version, req.Client.Capabilities, req.TakesInputRequired = mcp.V20250618, nil, false
					if modern {
						s, next, req = newModernTaskServer().HTTP, "tasks/get", legacyCall(t)
					}
					if tt.then != nil {
						s.On[next] = tt.then
					}
					var gone atomic.Bool
					begun := 0
					answer := s.On["tools/call"]
					s.On["tools/call"] = func(x *faultyserver.Exchange) {
						if x.Msg.Params.Has(mcp.FieldTask) || strings.Contains(string(x.Msg.Params.Bytes()), "io.modelcontextprotocol/tasks") {
							begun++
							gone.Store(tt.isGone)
						}
						answer(x)
					}
					c := dialHTTPThrough(t, s, client.Config{}, func(rt http.RoundTripper) http.RoundTripper {
						return tripper(func(r *http.Request) (*http.Response, error) {
							if gone.Load() {
								return nil, syscall.ECONNREFUSED
							}
							return rt.RoundTrip(r)
						})
					})
					if !modern {
						if _, err := within(t, c, request(t, "tools/list", ""), &recorder{}); err != nil {
							t.Fatal(err)
						}
					}
					_, err := within(t, c, req, &recorder{})
					if f, ok := errors.AsType[*mcp.Fault](err); !ok || f.Outcome != mcp.Unknown {
						t.Errorf("got %v, want a Fault of an unknown outcome", err)
					}
					if begun != 1 {
						t.Errorf("%d tasks were begun, want one", begun)
					}
					synctest.Wait()
					if n := s.Count("tasks/cancel"); !modern && n != tt.cancel {
						t.Errorf("%d tasks were cancelled, want %d", n, tt.cancel)
					}
				})
			})
		}
	}
}
