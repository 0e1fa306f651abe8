// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// An error response to the gateway's own request fails what waits for it: if a server
// on a pipe refuses the handshake, the call ends (M029).
func TestM029RefusedHandshakeOnAPipe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){
			"server/discover": func(x *faultyserver.Line) { x.Error(-32600, "not initialized") },
			"initialize":      func(x *faultyserver.Line) { x.Error(-32602, "unsupported protocol version") },
		}}
		c, _ := dialLines(t, s, client.Config{})
		began := time.Now()
		_, err := within(t, c, request(t, "tools/list", ""), &recorder{})
		if err == nil || !strings.Contains(err.Error(), "unsupported protocol version") {
			t.Errorf("error %v, want the server's word", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("after %v", took)
		}
	})
}

// Ids are opaque tokens: the response to a server's request has the id unmodified,
// whatever its type (M017, I4).
func TestM017IdsOfQuestionsAreTokens(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ids := []string{`9007199254740993`, `"1"`, `1`, `-0`, `"a\u0062"`, `""`}
		var call *faultyserver.Line
		var answers []string
		s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){
			"tools/call": func(x *faultyserver.Line) {
				call = x
				for _, id := range ids {
					x.Send(`{"jsonrpc":"2.0","id":` + id + `,"method":"roots/list"}`)
				}
			},
			"response": func(x *faultyserver.Line) {
				if answers = append(answers, string(x.Msg.Raw)); len(answers) == len(ids) {
					call.Polite()
				}
			},
		}}
		c, _ := dialLines(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		if _, err := within(t, c, in(scope, echo(t)), &recorder{answer: respondWith(`{"roots":[]}`)}); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, id := range ids {
			want = append(want, `{"jsonrpc":"2.0","id":`+id+`,"result":{"roots":[]}}`)
		}
		slices.Sort(answers) // each request has its own goroutine
		slices.Sort(want)
		wantStrings(t, "answers", answers, want)
	})
}

// A server that requests roots right after its handshake gets an empty list in a
// session of the gateway itself, and an error in one of a client that cannot be asked
// at that time.
func TestRootsOutsideOfRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		scope *mcp.Scope
		want  string
	}{
		"our own":    {mcp.NewScope("lists", nil), `{"jsonrpc":"2.0","id":"r","result":{"roots":[]}}`},
		"a client's": {nil, `{"jsonrpc":"2.0","id":"r","error":{"code":-32601,"message":"\"roots/list\": no client to ask: no request is in progress"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				answer := make(chan string, 1)
				s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){
					"notifications/initialized": func(x *faultyserver.Line) { x.Send(`{"jsonrpc":"2.0","id":"r","method":"roots/list"}`) },
					"tools/list":                func(x *faultyserver.Line) { x.Result(`{"tools":[]}`) },
					"response":                  func(x *faultyserver.Line) { answer <- string(x.Msg.Raw) },
				}}
				c, _ := dialLines(t, s, client.Config{})
				if tt.scope != nil {
					defer tt.scope.End()
				}
				if _, err := within(t, c, in(tt.scope, request(t, "server/discover", "")), &recorder{}); err != nil {
					t.Fatal(err)
				}
				if got := <-answer; got != tt.want {
					t.Errorf("answered %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// Server and gateway may both write at the same time over pipes without buffers, with
// slow callers, and do not deadlock (M149, M150, I30).
func TestM149FullPipes(t *testing.T) {
	for _, modern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.Lines{Modern: modern}
			s.On = map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) {
				token := x.Msg.Params.Raw(mcp.MetaProgressToken)
				for i := range 50 { // before it reads on
					x.Send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, i))
					x.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d-%s","method":"ping"}`, i, x.Msg.ID))
				}
				x.Polite()
			}}
			var wg sync.WaitGroup
			c := client.NewPipe(func(context.Context) (io.ReadWriteCloser, error) {
				a, b := net.Pipe()           // each write waits for its read
				wg.Go(func() { s.Serve(b) }) // ends when the client closes its end; waited for below
				return a, nil
			}, client.Config{Name: "b"})
			scope := mcp.NewScope("s", nil)
			var calls []*running
			caller := &recorder{block: make(chan struct{})}
			for range 20 {
				calls = append(calls, launch(t, c, in(scope, request(t, "tools/call", `{"name":"x","_meta":{"progressToken":1}}`)), caller))
			}
			time.Sleep(time.Second)
			close(caller.block)
			for _, call := range calls {
				call.wantResult(t, `{"content":[]}`)
			}
			scope.End()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			wg.Wait()
		})
	}
}

// A message for which a modern server has no method is not sent: the log level is part
// of each request, and roots are not announced (M128).
func TestM128MethodsThatTheRevisionLacks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.Lines{Modern: true}
		c, _ := dialLines(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
			t.Fatal(err)
		}
		if res, err := within(t, c, in(scope, request(t, "logging/setLevel", `{"level":"debug"}`)), &recorder{}); err != nil || string(res.Bytes()) != "{}" {
			t.Errorf("setLevel: %v, %v", res, err)
		}
		if _, err := within(t, c, in(scope, request(t, "notifications/roots/list_changed", "")), &recorder{}); err != nil {
			t.Errorf("roots: %v", err)
		}
		for _, r := range s.Seen() {
			if r.Method != "server/discover" && r.Method != "tools/call" {
				t.Errorf("sent %s", r.Body)
			}
		}
	})
}

// Close does not wait for a listen that never ends (M123), nor for the reader of a
// silent pipe (M135).
func TestM123CloseEndsListens(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, modern := range []bool{false, true} {
			s := &faultyserver.Lines{Modern: modern, Capabilities: announces, On: map[string]func(*faultyserver.Line){
				"subscriptions/listen": func(x *faultyserver.Line) {
					x.Send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, x.Msg.ID))
				},
			}}
			c, _ := dialLines(t, s, client.Config{})
			ear := &recorder{}
			parked := launch(t, c, listen(t), ear)
			synctest.Wait()
			if len(ear.notifications()) != 1 {
				t.Fatalf("modern %v: heard %q, want an acknowledgement", modern, ear.notifications())
			}
			began := time.Now()
			if err := c.Close(); err != nil || time.Since(began) > 2*time.Second {
				t.Errorf("modern %v: Close: %v after %v", modern, err, time.Since(began))
			}
			<-parked.done
			if f, ok := parked.err.(*mcp.Fault); !ok || f.Code != mcp.CodeShuttingDown { //nolint:errorlint // only what is a Fault itself
				t.Errorf("modern %v: the listen ended with %v", modern, parked.err)
			}
		}
	})
}

// A child that neither writes nor reads does not block Close (M135, M137).
//
// D3+ 2026-07-28 basic/transports/stdio: "Closing the input stream to the child
// process (the server)."
func TestM135CloseWithAnIdleChild(t *testing.T) {
	c := startChild(t, "legacy", client.Config{})
	scope := newTenant("s")
	res, err := within(t, c, in(scope.Scope, tool(t, "pid")), &recorder{})
	pid := pidIn(t, res, err)
	began := time.Now()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if isRunning(pid) || time.Since(began) > 2*time.Second {
		t.Errorf("running %v after %v", isRunning(pid), time.Since(began))
	}
}

// Clients that come, call and leave again and again leave no session behind, whether
// they end the session or the server dies (M095).
func TestM095SessionsThatComeAndGo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) {
			if strings.Contains(string(x.Msg.Params.Raw(mcp.FieldName)), "die") {
				x.Close()
				return
			}
			x.Polite()
		}}}
		c, opened := dialLines(t, s, client.Config{MaxProcesses: 2})
		for i := range 300 {
			scope := newTenant(fmt.Sprint(i))
			name := "live"
			if i%3 == 0 {
				name = "die"
			}
			_, err := within(t, c, in(scope.Scope, tool(t, name)), &recorder{})
			if (err == nil) != (name == "live") {
				t.Fatalf("session %d: %v", i, err)
			}
			if i%2 == 0 {
				scope.End() // the others are made to yield
			}
		}
		if n := opened(); n != 300 {
			t.Errorf("%d pipes for 300 sessions", n)
		}
	})
}
