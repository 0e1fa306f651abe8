// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// The log level of a request is set in the session once, before its call.
func TestLogLevelFollowsTheRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.Capabilities = `{"logging":{},"tools":{}}`
		s.On["logging/setLevel"] = func(x *faultyserver.Exchange) { x.Result("{}") }
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		call := func(level mcp.LogLevel) {
			req := in(scope, echo(t))
			req.LogLevel = level
			if _, err := within(t, c, req, &recorder{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, level := range []mcp.LogLevel{mcp.LogUnset, mcp.LogNone, mcp.LogDebug, mcp.LogDebug, mcp.LogError, mcp.LogUnset} {
			call(level)
		}
		if _, err := within(t, c, in(scope, request(t, "logging/setLevel", `{"level":"alert"}`)), &recorder{}); err != nil {
			t.Fatal(err)
		}
		_, err := within(t, c, in(scope, request(t, "logging/setLevel", `{"level":"loud"}`)), &recorder{})
		wantError(t, err, mcp.CodeInvalidParams)
		var got []string
		for _, r := range s.Seen() {
			if r.Method == "logging/setLevel" || r.Method == "tools/call" {
				got = append(got, strings.Trim(r.Body[strings.Index(r.Body, "params"):], "}"))
			}
		}
		const callText = `params":{"name":"echo","arguments":{`
		wantStrings(t, "messages", got, []string{
			callText, callText, `params":{"level":"debug"`, callText, callText, `params":{"level":"error"`, callText, callText, `params":{"level":"alert"`,
		})
	})
}

// Notifications of a client go to the open session of its scope only.
func TestClientNotifications(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		changed := func() {
			res, err := within(t, c, in(scope, request(t, "notifications/roots/list_changed", "")), &recorder{})
			if res != nil || err != nil {
				t.Errorf("notification ended with %v, %v", res, err)
			}
		}
		changed()
		if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
			t.Fatal(err)
		}
		changed()
		synctest.Wait()
		if n := s.Count("notifications/roots/list_changed"); n != 1 {
			t.Errorf("%d notifications arrived, want the one after the session was opened", n)
		}
		scope.End()
		_, err := within(t, c, in(scope, echo(t)), &recorder{})
		wantFault(t, err, mcp.CodeSessionEnded, mcp.NotDispatched, "session has ended")
	})
}

// A server that is slow to read the notifications of clients receives the last of them.
// The others cost nothing (I21).
func TestFloodOfClientNotifications(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		var open, most atomic.Int32
		slow := func(x *faultyserver.Exchange) {
			most.Store(max(most.Load(), open.Add(1)))
			defer open.Add(-1)
			<-gate
			x.Result("{}")
		}
		s := newStation()
		s.Capabilities = `{"logging":{},"tools":{}}`
		s.On["logging/setLevel"], s.On["notifications/roots/list_changed"] = slow, slow
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
			t.Fatal(err)
		}
		levels := []string{"debug", "error"}
		for i := range 500 {
			launch(t, c, in(scope, request(t, "logging/setLevel", `{"level":"`+levels[i%2]+`"}`)), &recorder{})
			launch(t, c, in(scope, request(t, "notifications/roots/list_changed", "")), &recorder{})
			synctest.Wait()
		}
		if n := most.Load(); n > 8 {
			t.Errorf("%d messages at once", n)
		}
		close(gate)
		synctest.Wait()
		if got := last(s.HTTP, "logging/setLevel").Body; s.Count("logging/setLevel") != 2 || !strings.Contains(got, "error") {
			t.Errorf("%d levels, the last is %s", s.Count("logging/setLevel"), got)
		}
	})
}

// A client's notification before the first request is sent nowhere and waits for
// nothing.
func TestEarlyNotifications(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{On: map[string]func(*faultyserver.Exchange){"server/discover": func(x *faultyserver.Exchange) { x.Hold() }}}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		began := time.Now()
		for _, req := range []*mcp.Request{
			request(t, "logging/setLevel", `{"level":"debug"}`), request(t, "notifications/roots/list_changed", ""),
		} {
			if _, err := within(t, c, in(scope, req), &recorder{}); err != nil {
				t.Error(err)
			}
		}
		if time.Since(began) != 0 || len(s.Seen()) != 0 {
			t.Errorf("%d messages in %v", len(s.Seen()), time.Since(began))
		}
	})
}

// A log message on a shared pipe goes to the only client that can have requested it: by
// its level, or because all open calls are its own.
func TestLogMessagesOnASharedPipe(t *testing.T) {
	type asking struct {
		scope *mcp.Scope
		level mcp.LogLevel
	}
	ann, bob := mcp.NewScope("ann", nil), mcp.NewScope("bob", nil)
	tests := map[string]struct {
		calls [2]asking
		want  [2]int // messages
	}{
		"two clients, one level":        {[2]asking{{ann, mcp.LogInfo}, {bob, mcp.LogInfo}}, [2]int{0, 0}},
		"two clients, one wants less":   {[2]asking{{ann, mcp.LogError}, {bob, mcp.LogInfo}}, [2]int{0, 1}},
		"two clients, one wants none":   {[2]asking{{ann, mcp.LogInfo}, {bob, mcp.LogNone}}, [2]int{1, 0}},
		"two clients who left it open":  {[2]asking{{ann, mcp.LogUnset}, {bob, mcp.LogUnset}}, [2]int{0, 0}},
		"one client with two calls":     {[2]asking{{ann, mcp.LogInfo}, {ann, mcp.LogDebug}}, [2]int{1, 0}},
		"who has no session is unknown": {[2]asking{{nil, mcp.LogInfo}, {nil, mcp.LogInfo}}, [2]int{0, 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				lines := make(chan *faultyserver.Line, 2)
				s := &faultyserver.Lines{Modern: true, On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) { lines <- x }}}
				c, _ := dialLines(t, s, client.Config{})
				var callers [2]recorder
				var calls [2]*running
				var at [2]*faultyserver.Line
				for i, a := range tt.calls {
					req := in(a.scope, echo(t))
					req.LogLevel = a.level
					calls[i] = launch(t, c, req, &callers[i])
					at[i] = <-lines
				}
				at[0].Send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"whose?"}}`)
				for i := range calls {
					at[i].Polite()
					calls[i].wantResult(t, `{"content":[]}`)
				}
				if got := [2]int{len(callers[0].notifications()), len(callers[1].notifications())}; got != tt.want {
					t.Errorf("messages %v, want %v", got, tt.want)
				}
			})
		})
	}
}
