// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// identity N2, N14: a listen at a backend is for the identity of the latest request of its session,
// also when it begins again after a failure, and never for one that has been replaced.
func TestListenIsForTheLatestIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listens := make(chan *mcp.Identity, 10)
		broken := make(chan struct{})
		o := new(office)
		breaking := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
			if req.Method != "subscriptions/listen" || req.Scope == nil {
				return o.Serve(ctx, req, caller)
			}
			listens <- req.Identity
			select {
			case <-broken:
				return nil, &mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.NotDispatched, Message: "the stream has broken"}
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		g := gatewaytest.New(t, config.Config{}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "office", Handler: breaking}}})
		synctest.Wait()
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		request := func(id *mcp.Identity, method, params string) *mcp.Request {
			req := requestOf(t, id, method, params)
			req.Client.Version, req.Scope = mcp.V20251125, scope
			return req
		}
		first, second := person("ann", "staff"), person("ann", "staff boss")
		answerTo(t, g, request(first, "server/discover", `{}`))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { // ends with ctx; waited for below
			defer close(done)
			_, _ = g.Serve(ctx, request(first, "subscriptions/listen", `{"notifications":{"resourceSubscriptions":["doc:///open"]}}`), make(heard, 10))
		}()
		if id := <-listens; id != first {
			t.Errorf("the listen is for %+v", id)
		}
		answerTo(t, g, request(second, "prompts/list", `{}`)) // with the next token
		close(broken)
		time.Sleep(time.Minute)
		if id := <-listens; id != second {
			t.Errorf("the listen after a failure is for %+v", id)
		}
		cancel()
		<-done
	})
}

// A session is told of a task as long as its latest request may see the tool (identity attack 16).
func TestTaskOfASessionAfterItsClaimsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, states := new(office), make(chan string)
		tasks := func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
			if req.Method != "subscriptions/listen" || !strings.Contains(string(req.Params.Bytes()), "taskIds") {
				return o.Serve(ctx, req, caller)
			}
			send := func(method, params string) {
				n, err := mcp.NewNotification(method, []byte(params))
				if err != nil || caller.Notify(ctx, n) != nil && ctx.Err() == nil {
					t.Errorf("%s is not sent: %v", method, err)
				}
			}
			send("notifications/subscriptions/acknowledged", `{"notifications":{"taskIds":["t1"]}}`)
			for {
				select {
				case status := <-states:
					send("notifications/tasks", fmt.Sprintf(`{"taskId":"t1","status":%q}`, status))
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
		}
		g := gatewaytest.New(t, config.Config{Policy: officeRules()}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "office", Handler: mcp.HandlerFunc(tasks)}}})
		synctest.Wait()
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		inSession := func(groups, method, params string) *mcp.Request {
			req := requestOf(t, person("ann", groups), method, params)
			req.Scope = scope
			return req
		}
		var begun struct {
			TaskID string `json:"taskId"`
		}
		got := answerTo(t, g, inSession("staff boss", "tools/call", `{"name":"office__secret","task":{"ttl":60000}}`))
		if err := json.Unmarshal([]byte(got), &begun); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		told := make(heard, 10)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { // ends with ctx; waited for below
			defer close(done)
			_, _ = g.Serve(ctx, inSession("staff boss", "subscriptions/listen", `{"notifications":{"taskIds":["`+begun.TaskID+`"]}}`), told)
		}()
		<-told // the acknowledgement
		states <- "working"
		synctest.Wait()
		if len(told) != 1 || !strings.Contains(<-told, `"working"`) {
			t.Errorf("told of %d states", len(told))
		}
		answerTo(t, g, inSession("staff", "tools/list", `{}`))
		synctest.Wait()
		select {
		case states <- "completed":
			synctest.Wait()
		default: // nothing listens for it
		}
		if len(told) != 0 {
			t.Errorf("told of a task of a tool that is hidden now: %s", <-told)
		}
		cancel()
		<-done
	})
}
