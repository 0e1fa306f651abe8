// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// withCredentials returns a Config with credentials for the server.
func withCredentials(log *slog.Logger) client.Config {
	return client.Config{Header: http.Header{"Authorization": {"Bearer swordfish-1"}, "X-Pin": {"31415926"}}, Logger: log}
}

// spelled are log messages of a server that has received credentials, and what is
// forwarded of them.
var spelled = []struct{ said, passed string }{
	{`{"level":"info","logger":"auth","data":"bad token swordfish-1"}`, `{"level":"info","logger":"auth","data":"bad token [redacted]"}`},
	{`{"level":"info","data":{"h":["Bearer \u0073wordfish-1",{"swordfish-1":1.0}],"n":31415926}}`, `{"level":"info","data":{"h":["[redacted]",{"[redacted]":1.0}],"n":"[redacted]"}}`},
	{`{ "level":"info", "data" : {"n":1.50,"x":"\u00e9"}, "more":[] }`, `{ "level":"info", "data" : {"n":1.50,"x":"\u00e9"}, "more":[] }`},
}

// Log messages of a server are forwarded without the client's credentials, in any
// spelling. Messages without credentials are forwarded unmodified. They arrive with a
// call or, from a legacy server, without one.
//
// X9+ 2026-07-28 server/utilities/logging: "Remove sensitive information"
//
// X9- 2026-07-28 server/utilities/logging: "Log messages **MUST NOT** contain: -
// Credentials or secrets"
func TestLogMessagesHaveNoCredentials(t *testing.T) {
	want := make([]string, len(spelled))
	for i, m := range spelled {
		want[i] = "message " + m.passed
	}
	say := func(x *faultyserver.Exchange) {
		for _, m := range spelled {
			x.Event("", `{"jsonrpc":"2.0","method":"notifications/message","params":`+m.said+`}`)
		}
	}
	for _, modern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s := newStation()
			s.Modern = modern
			s.On["tools/call"] = func(x *faultyserver.Exchange) {
				say(x)
				x.Event("", response(x.Msg.ID, `{"resultType":"complete","content":[]}`))
			}
			caller := &recorder{}
			req := echo(t)
			req.LogLevel = mcp.LogDebug
			if _, err := within(t, dialHTTP(t, s, withCredentials(nil)), req, caller); err != nil {
				t.Fatal(err)
			}
			wantStrings(t, "with a call", caller.notifications(), want)
		})
	}
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["GET"] = func(x *faultyserver.Exchange) {
			x.Begin()
			say(x)
			x.Hold()
		}
		ear := &recorder{}
		scope := mcp.NewScope("s", ear)
		c := dialHTTP(t, s, withCredentials(nil))
		launch(t, c, in(scope, request(t, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)), &recorder{})
		synctest.Wait()
		wantStrings(t, "with no call", ear.notifications(), want)
		scope.End()
	})
}

// The gateway's own log does not contain them either: not in an error, nor in an
// invalid response, nor where that is cut off.
//
// X9- 2026-07-28 server/utilities/logging: "Credentials or secrets"
func TestOurLogHasNoCredentials(t *testing.T) {
	for _, answer := range []func(x *faultyserver.Exchange){
		func(x *faultyserver.Exchange) {
			x.Status(500, "text/html", "swordfish-1 is not known, nor is Bearer swordfish-1")
		},
		func(x *faultyserver.Exchange) { x.Status(500, "text/html", strings.Repeat("x", 192)+" swordfish-1") },
		func(x *faultyserver.Exchange) { x.Status(500, "swordfish-1", "") },
	} {
		inBubble(t, func(t *testing.T) {
			var log strings.Builder
			s := newStation()
			s.On["tools/call"] = answer
			c := dialHTTP(t, s, withCredentials(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
			if _, err := within(t, c, echo(t), &recorder{}); err == nil {
				t.Error("the call works")
			}
			if text := log.String(); !strings.Contains(text, "status=500") || strings.Contains(text, "swordf") || !strings.Contains(text, "[redact") {
				t.Errorf("logged %s", text)
			}
		})
	}
}

// Nor do the members beside the parameters of a log message.
func TestMembersBesideLogMessagesHaveNoCredentials(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			for _, extra := range []string{`"a":"fine"`, `"a":["swordfish-1"]`, `"a":1,"swordfish-1":2`} {
				x.Event("", `{"jsonrpc":"2.0",`+extra+`,"method":"notifications/message","params":{"level":"info","data":1}}`)
			}
			x.Event("", response(x.Msg.ID, `{"content":[]}`))
		}
		caller := &besideRecorder{}
		req := echo(t)
		req.LogLevel = mcp.LogDebug
		if _, err := within(t, dialHTTP(t, s, withCredentials(nil)), req, caller); err != nil {
			t.Fatal(err)
		}
		wantStrings(t, "beside the parameters", caller.beside, []string{`"a":"fine"`, "", ""})
	})
}

// besideRecorder records the members beside the parameters of notifications.
type besideRecorder struct {
	recorder
	beside []string
}

func (e *besideRecorder) Notify(_ context.Context, n *mcp.Notification) error {
	e.beside = append(e.beside, string(n.Params.Beside()))
	return nil
}
