// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// The listens of a session for a resource and a task end with the credentials of its latest request, and
// begin again with those of the next one (requirement N14).
func TestExpiryOfSubscriptions(t *testing.T) {
	type event struct {
		of   string
		id   *mcp.Identity
		ends bool
	}
	var creds credentials
	var events chan event
	notify := func(ctx context.Context, c mcp.Caller, method, params string) {
		n, err := mcp.NewNotification(method, []byte(params))
		if err != nil || c.Notify(ctx, n) != nil {
			t.Errorf("%s is not sent: %v", method, err)
		}
	}
	follow := func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		of, agreed := "lists", `{}`
		for _, kind := range []string{`"resourceSubscriptions":["doc:///a"]`, `"taskIds":["job"]`} {
			if strings.Contains(string(req.Params.Bytes()), kind) {
				of, agreed = kind, `{`+kind+`}`
			}
		}
		notify(ctx, c, "notifications/subscriptions/acknowledged", `{"notifications":`+agreed+`}`)
		if of != "lists" {
			events <- event{of, req.Identity, false}
			defer func() { events <- event{of, req.Identity, true} }()
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		switch req.Method {
		case "subscriptions/listen":
			return follow(ctx, req, c)
		case "tools/call":
			return result(`{"resultType":"task","taskId":"job","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null}`)
		case "server/discover":
			return result(`{"supportedVersions":["2026-07-28"],"capabilities":{"resources":{"subscribe":true},"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
		}
		return result(`{}`)
	})
	bubble(t, h, server.Config{Authenticate: creds.authenticate}, func(s *site) {
		events = make(chan event, 10)
		begin := time.Now()
		want := func(what string, cred headers, ends bool, at time.Duration) {
			t.Helper()
			seen := make(map[string]bool)
			for range 2 {
				e := <-events
				seen[e.of] = true
				if e.id != creds.known[cred["Authorization"]] || e.ends != ends || time.Since(begin).Truncate(time.Minute) != at {
					t.Errorf("%s: %+v after %v, want that of %s after %v", what, e, time.Since(begin), cred, at)
				}
			}
			if len(seen) != 2 {
				t.Errorf("%s: %v", what, seen)
			}
		}
		ask := func(params string, hs ...headers) {
			t.Helper()
			method := "resources/subscribe"
			if strings.Contains(params, "name") {
				method = "tools/call"
			}
			if got := s.post(raw("1", method, params), hs...); got.status != 200 || strings.Contains(got.body, `"error"`) {
				t.Fatalf("%s: %d %s", method, got.status, got.body)
			}
		}
		first := creds.add("t1", "ann", time.Minute)
		session := s.sessionOf(first)
		s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, session, first)
		ask(`{"uri":"doc:///a"}`, session, first)
		ask(`{"name":"x","task":{}}`, session, first)
		want("at first", first, false, 0)
		want("expired", first, true, time.Minute)
		s.advance(4 * time.Minute)
		if len(events) > 0 {
			t.Errorf("without credentials: %+v", <-events)
		}
		second := creds.add("t2", "ann", 10*time.Minute) // until 15m
		st := s.open(s.ctx(), http.MethodGet, "", session, second)
		want("again", second, false, 5*time.Minute)
		if m := st.next(); !strings.Contains(m, `"notifications/resources/updated"`) {
			t.Errorf("what was missed is not notified: %s", m)
		}
		third := creds.add("t3", "ann", 20*time.Minute) // until 25m
		ask(`{"uri":"doc:///a"}`, session, third)
		st.end()
		want("later credentials", second, true, 25*time.Minute)
		never := creds.add("t4", "ann", 0)
		ask(`{"uri":"doc:///a"}`, session, never)
		want("credentials that do not end", never, false, 25*time.Minute)
		s.advance(20 * time.Minute)
		if len(events) > 0 {
			t.Errorf("ended: %+v", <-events)
		}
		s.do(s.request(s.ctx(), http.MethodDelete, "", session, never))
		want("with the session", never, true, 45*time.Minute)
	})
}
