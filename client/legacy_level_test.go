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

// logger returns a legacy server that takes levels, whose calls wait for the test,
// each by its name.
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

// levelsAndCalls returns what the server was told of levels, and the calls.
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

// A session that is lent has the level of each borrower before its call; one that
// wants no messages leaves it as it is, and gets none from the edge that serves it.
func TestLentSessionHasTheBorrowersLevel(t *testing.T) {
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

// Where one session serves several clients, its level is the least severe that a
// call under way asks for, and no client's logging/setLevel is another's.
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

// A call waits for the level that somebody else is telling the server, be it for the
// same client or for another one of the session: what it logs is to be of that level
// from its first message on.
func TestCallDoesNotOvertakeItsLevel(t *testing.T) {
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

// A server that does not take a level keeps a call waiting for the write deadline and
// no longer, and it is made then.
func TestLevelThatIsNeverTaken(t *testing.T) {
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

// Who has begun to tell the server a level may go before that is done, and somebody
// else may want another one by then. That one is told all the same, before the call
// that wants it.
func TestLevelWhoseFirstTellerHasGone(t *testing.T) {
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
