// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// logger returns a legacy server with logging. A call waits for the gate of its name.
func logger(gates map[string]chan struct{}) *station {
	s := newStation()
	s.Capabilities = `{"tools":{},"logging":{}}`
	s.On["logging/setLevel"] = func(x *faultyserver.Exchange) { x.Result(`{}`) }
	s.On["tools/call"] = func(x *faultyserver.Exchange) {
		name, _ := x.Msg.Params.Text(mcp.FieldName)
		if gate := gates[name]; gate != nil {
			<-gate
		}
		x.Result(`{"content":[]}`)
	}
	return s
}

// levelsAndCalls returns the levels that the server received, and the calls, in order.
func levelsAndCalls(s *faultyserver.HTTP) []string {
	var all []string
	for _, r := range s.Seen() {
		switch r.Method {
		case "logging/setLevel":
			_, rest, _ := strings.Cut(r.Body, `"level":"`)
			level, _, _ := strings.Cut(rest, `"`)
			all = append(all, level)
		case "tools/call":
			all = append(all, "call")
		}
	}
	return all
}

func calling(t *testing.T, name string, level mcp.LogLevel) *mcp.Request {
	t.Helper()
	req := request(t, "tools/call", `{"name":"`+name+`"}`)
	req.LogLevel = level
	return req
}

// A pooled session is set to the level of each borrower before its call. A borrower
// without a level leaves it unchanged; the server edge drops the messages.
func TestPooledSessionHasTheBorrowersLevel(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := logger(nil)
		c := dialHTTP(t, s, client.Config{})
		for _, level := range []mcp.LogLevel{mcp.LogDebug, mcp.LogNone, mcp.LogDebug, mcp.LogError, mcp.LogUnset, mcp.LogInfo} {
			if _, err := within(t, c, calling(t, "x", level), &recorder{}); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.Count("initialize"); n != 1 {
			t.Errorf("%d sessions, want one that is lent again", n)
		}
		wantStrings(t, "seen", levelsAndCalls(s.HTTP), []string{"debug", "call", "call", "call", "error", "call", "call", "info", "call"})
	})
}

// In a session of several clients the level is the least severe that a call in progress
// asks for, and logging/setLevel of one client does not affect the others.
func TestSharedSessionHasTheLeastSevereLevel(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gates := map[string]chan struct{}{"long": make(chan struct{})}
		s := logger(gates)
		c := dialHTTP(t, s, client.Config{Share: true})
		long := launch(t, c, calling(t, "long", mcp.LogDebug), &recorder{})
		synctest.Wait()
		if _, err := within(t, c, calling(t, "x", mcp.LogError), &recorder{}); err != nil {
			t.Fatal(err)
		}
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		if _, err := within(t, c, in(scope, request(t, "logging/setLevel", `{"level":"alert"}`)), &recorder{}); err != nil {
			t.Fatal(err)
		}
		close(gates["long"])
		long.wantResult(t, `{"content":[]}`)
		if _, err := within(t, c, calling(t, "x", mcp.LogError), &recorder{}); err != nil {
			t.Fatal(err)
		}
		wantStrings(t, "seen", levelsAndCalls(s.HTTP), []string{"debug", "call", "call", "error", "call"})
	})
}

// A call waits while another request sets the level, of the same client or of another
// one in the session: the call's first log message must have the right level.
func TestCallWaitsForItsLevel(t *testing.T) {
	for _, share := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s := logger(nil)
			hold := make(chan struct{})
			s.On["logging/setLevel"] = func(x *faultyserver.Exchange) {
				<-hold
				x.Result(`{}`)
			}
			c := dialHTTP(t, s, client.Config{Share: share})
			scope := mcp.NewScope("s", nil)
			defer scope.End()
			if _, err := within(t, c, in(scope, calling(t, "x", mcp.LogNone)), &recorder{}); err != nil {
				t.Fatal(err)
			}
			first := in(scope, calling(t, "x", mcp.LogDebug))
			if !share {
				first = in(scope, request(t, "logging/setLevel", `{"level":"debug"}`))
			}
			one := launch(t, c, first, &recorder{})
			synctest.Wait()
			two := launch(t, c, in(scope, calling(t, "x", mcp.LogDebug)), &recorder{})
			synctest.Wait()
			wantStrings(t, "seen", levelsAndCalls(s.HTTP), []string{"call", "debug"})
			close(hold)
			<-one.done
			two.wantResult(t, `{"content":[]}`)
			if got := levelsAndCalls(s.HTTP)[2:]; len(got) == 0 || got[0] != "call" {
				t.Errorf("then seen %q, want calls", got)
			}
		})
	}
}

// If the server does not answer logging/setLevel, a call waits for the write deadline
// and is made then.
func TestSetLevelWithoutAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := logger(nil)
		s.On["logging/setLevel"] = func(x *faultyserver.Exchange) { x.Hold() }
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		var runs []*running
		for range 3 {
			runs = append(runs, launch(t, c, in(scope, calling(t, "x", mcp.LogDebug)), &recorder{}))
			synctest.Wait()
		}
		for _, r := range runs {
			r.wantResult(t, `{"content":[]}`)
		}
		wantStrings(t, "seen", levelsAndCalls(s.HTTP), []string{"debug", "call", "call", "call"})
	})
}

// The request that started logging/setLevel may give up, and another request may want
// another level by then. That level is set all the same, before the call that wants it.
func TestSetLevelAfterItsFirstCallerGaveUp(t *testing.T) {
	for _, share := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s := logger(nil)
			hold := make(chan struct{})
			s.On["logging/setLevel"] = func(x *faultyserver.Exchange) {
				<-hold
				x.Result(`{}`)
			}
			c := dialHTTP(t, s, client.Config{Share: share})
			scope := mcp.NewScope("s", nil)
			defer scope.End()
			one := launch(t, c, in(scope, calling(t, "x", mcp.LogError)), &recorder{})
			synctest.Wait()
			two := launch(t, c, in(scope, calling(t, "x", mcp.LogDebug)), &recorder{})
			synctest.Wait()
			one.cancel()
			synctest.Wait()
			if !isDone(one) {
				t.Error("who gave its call up waits for the server to take the level")
			}
			close(hold)
			two.wantResult(t, `{"content":[]}`)
			wantStrings(t, "seen", levelsAndCalls(s.HTTP), []string{"error", "debug", "call"})
		})
	}
}

// A level that the server has refused is sent again when the client asks for it again, and
// the client receives the answer. Calls that want it do not wait for another attempt.
func TestRefusedLevelIsSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := logger(nil)
		refuses := true
		s.On["logging/setLevel"] = func(x *faultyserver.Exchange) {
			if refuses {
				x.Error(-32603, "not now")
				return
			}
			x.Result(`{}`)
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		call := func() {
			launch(t, c, in(scope, calling(t, "x", mcp.LogDebug)), &recorder{}).wantResult(t, `{"content":[]}`)
		}
		set := func() error {
			_, err := within(t, c, in(scope, request(t, "logging/setLevel", `{"level":"debug"}`)), &recorder{})
			return err
		}
		call()
		call()
		for range 2 {
			if err := set(); err == nil || !strings.Contains(err.Error(), "not now") {
				t.Errorf("got %v, want the server's error", err)
			}
		}
		refuses = false
		if err := set(); err != nil {
			t.Error(err)
		}
		call()
		wantStrings(t, "seen", levelsAndCalls(s.HTTP), []string{"debug", "call", "call", "debug", "debug", "debug", "call"})
	})
}
