// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// kinds are the members of a filter, with the notification of each.
var kinds = []struct{ filter, method, params string }{
	{`"toolsListChanged":true`, "notifications/tools/list_changed", `{}`},
	{`"promptsListChanged":true`, "notifications/prompts/list_changed", `{}`},
	{`"resourcesListChanged":true`, "notifications/resources/list_changed", `{}`},
	{`"resourceSubscriptions":["x:y"]`, "notifications/resources/updated", `{"uri":"x:y"}`},
	{`"taskIds":["t"]`, "notifications/tasks", `{"taskId":"t"}`},
}

// notifyAll is a Handler that sends every notification to every listen, and then ends it.
func notifyAll(t *testing.T) mcp.Handler {
	return mcp.HandlerFunc(func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		notes := []*mcp.Notification{note(t, "notifications/subscriptions/acknowledged", `{"notifications":{}}`)}
		for _, k := range kinds {
			notes = append(notes, note(t, k.method, k.params))
		}
		for _, n := range append(notes, note(t, "notifications/x/end", `{}`)) {
			if err := c.Notify(ctx, n); err != nil {
				return nil, err
			}
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
}

// Each client receives only the kinds that it asked for, in every combination, whatever the
// Handler sends.
//
// U4+ 2026-07-28 basic/patterns/subscriptions: "a `notifications` filter specifying
// which event types it wants to receive."
//
// U4- 2026-07-28 basic/patterns/subscriptions: "The server MUST NOT send notification
// types the client has not explicitly requested."
func TestListenFilter(t *testing.T) {
	bubble(t, notifyAll(t), server.Config{}, func(s *site) {
		for mask := range 1 << len(kinds) {
			var filter, want []string
			for i, k := range kinds {
				if mask&(1<<i) != 0 {
					filter, want = append(filter, k.filter), append(want, k.method)
				}
			}
			s.wantNotifications(strings.Join(filter, ","), want)
		}
		for _, none := range []string{
			`"toolsListChanged":false`, `"toolsListChanged":null`, `"resourceSubscriptions":[]`, `"taskIds":[]`, `"resourceSubscriptions":null`,
			`"toolslistchanged":true`, `"toolsListChanged":"true"`, `"x":true`,
		} {
			s.wantNotifications(none, nil)
		}
	})
}

// wantNotifications checks what a listen with the filter receives.
func (s *site) wantNotifications(filter string, want []string) {
	s.t.Helper()
	body := raw("1", "subscriptions/listen", `{"notifications":{`+filter+`},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`)
	st := s.open(s.ctx(), http.MethodPost, body, modernHeaders("subscriptions/listen", ""))
	defer st.close()
	var got []string
	for {
		e := st.next()
		_, method, _ := strings.Cut(e, `"method":"`)
		method, _, _ = strings.Cut(method, `"`)
		if method == "notifications/x/end" {
			break
		}
		got = append(got, method)
	}
	if want = append([]string{"notifications/subscriptions/acknowledged"}, want...); !slices.Equal(got, want) {
		s.t.Errorf("{%s}: received %q, want %q", filter, got, want)
	}
}

// The subscription id is the id of the client's own request, also if the notifications come
// from a server with ids of its own.
//
// U5- 2026-07-28 basic/patterns/subscriptions: "The value is the JSON-RPC ID of the
// `subscriptions/listen` request."
func TestSubscriptionIDIsTheClients(t *testing.T) {
	h := mcp.HandlerFunc(func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		for _, n := range []*mcp.Notification{
			note(t, "notifications/subscriptions/acknowledged", `{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":77}}`),
			note(t, toolsChanged, `{"_meta":{"a/b":1,"io.modelcontextprotocol/subscriptionId":"theirs"}}`),
		} {
			if err := c.Notify(ctx, n); err != nil {
				return nil, err
			}
		}
		<-ctx.Done()
		return result(`{"_meta":{"io.modelcontextprotocol/subscriptionId":null}}`)
	})
	const (
		key   = `"io.modelcontextprotocol/subscriptionId":`
		first = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{` + key
		then  = `{"jsonrpc":"2.0","method":"` + toolsChanged + `","params":{"_meta":{"a/b":1,` + key
	)
	ids := []string{`1`, `"1"`, `-7`, `9007199254740993`, `"\u00e9"`, `""`}
	bubble(t, h, server.Config{}, func(s *site) {
		var streams []*stream
		for _, id := range ids { // all at the same time
			body := modern(id, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
			streams = append(streams, s.open(s.ctx(), http.MethodPost, body, modernHeaders("subscriptions/listen", "")))
		}
		for i, st := range streams {
			equal(t, "acknowledgement", st.next(), first+ids[i]+`}}}`)
			equal(t, "change", st.next(), then+ids[i]+`}}}`)
		}
		go func() { _ = s.server.Shutdown(s.ctx()) }() // ends with the listens
		for i, st := range streams {
			equal(t, "result", st.next(), `{"jsonrpc":"2.0","id":`+ids[i]+`,"result":{"resultType":"complete","_meta":{`+key+ids[i]+`}}}`)
			st.end()
		}
	})
}

// The messages of a request are sent on its own stream while a listen is open.
//
// U6+ 2026-07-28 server/utilities/logging: "`notifications/message` is request-scoped:
// the server MUST NOT deliver it on a `subscriptions/listen` stream or on any stream
// other than the one carrying the response to the request that set the log level."
func TestRequestMessagesNotOnListens(t *testing.T) {
	talk := func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		for _, n := range []*mcp.Notification{note(t, "notifications/progress", `{"progressToken":7,"progress":1}`), note(t, "notifications/message", `{"level":"info","data":1}`)} {
			if err := c.Notify(ctx, n); err != nil {
				return nil, err
			}
		}
		return result(`{}`)
	}
	withChanges(t, map[string]mcp.HandlerFunc{"talk": talk}, func(s *site, h *changing) {
		listen := s.open(s.ctx(), http.MethodPost, modern("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), modernHeaders("subscriptions/listen", ""))
		defer listen.close()
		<-h.acked
		listen.next()
		for range 3 {
			body := raw("2", "tools/call", `{"name":"talk","_meta":{`+meta+`,"progressToken":7,"io.modelcontextprotocol/logLevel":"info"}}`)
			if got := s.post(body, modernHeaders("tools/call", "talk")).events(t); len(got) != 3 {
				t.Errorf("on the call's stream: %q; want progress, a log message and the result", got)
			}
		}
		h.changed <- toolsChanged // the next message of the listen
		equal(t, "on the listen", listen.next(),
			`{"jsonrpc":"2.0","method":"`+toolsChanged+`","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`)
	})
}

// A listen that its client has ended is over: on a pipe there is neither a result nor a
// notification of its end, and the other listen goes on.
//
// U7- 2026-07-28 basic/patterns/subscriptions: "When the server ends a subscription on
// its own initiative (for example, during shutdown), it SHOULD respond to the original
// `subscriptions/listen` request with a completion result before closing the stream."
func TestListenEndedByClient(t *testing.T) {
	h := &changing{Handler: tools(nil)}
	pipes(t, h, server.Config{}, func(c *console) {
		h.changed, h.acked = make(chan string), make(chan struct{}, 4)
		for i := range 2 {
			c.send(modern(fmt.Sprint(i), "subscriptions/listen", `"notifications":{"toolsListChanged":true}`))
			<-h.acked
			c.next()
		}
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`)
		synctest.Wait()
		h.changed <- toolsChanged
		c.expect(`{"jsonrpc":"2.0","method":"` + toolsChanged + `","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, raw(`"p"`, "no/such", ""))
		if got := c.next(); !strings.Contains(got, `"id":"p"`) {
			t.Errorf("after the end of the listens: %s", got)
		}
	})
}
