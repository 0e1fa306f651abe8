// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// If the server has forgotten the session, there is one more handshake. The call that
// was refused is made again if the server cannot have looked at it: a status means
// that, an error response does not (M093, fault 72).
//
// S6+ 2025-11-25 basic/transports: "When a client receives HTTP 404 in response to a
// request containing an `MCP-Session-Id`, it **MUST** start a new session by sending a
// new `InitializeRequest` without a session ID attached."
func TestM093ForgottenSession(t *testing.T) {
	tests := map[string]struct {
		forgotten func(x *faultyserver.Exchange)
		code      int64 // of the call's error; 0 if it is made again
	}{
		"404": {func(x *faultyserver.Exchange) {
			x.Status(404, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"Session not found"}}`, x.Msg.ID))
		}, 0},
		"404 without a message": {func(x *faultyserver.Exchange) { x.Status(404, "text/plain", "") }, 0},
		"400 with words": {func(x *faultyserver.Exchange) {
			x.Status(400, "text/plain", "Bad Request: No valid session ID provided")
		}, 0},
		"200 with an error": {func(x *faultyserver.Exchange) { x.Error(-32000, "Session not found") }, -32000},
		"-32015":            {func(x *faultyserver.Exchange) { x.Error(-32015, "unknown session") }, -32015},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStation()
				s.Capabilities = announces
				old := func(x *faultyserver.Exchange) {
					if x.R.Header.Get("Mcp-Session-Id") == faultyserver.SessionID {
						tt.forgotten(x)
						return
					}
					x.Polite()
				}
				s.On["tools/call"], s.On["ping"] = old, old
				c := dialHTTP(t, s, client.Config{})
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				ear := &recorder{}
				launch(t, c, in(scope, listen(t)), ear)
				<-s.open
				synctest.Wait() // the listen is acknowledged, so that there is something to miss
				res, err := within(t, c, in(scope, echo(t)), &recorder{})
				if tt.code != 0 {
					wantError(t, err, tt.code)
					synctest.Wait() // the server is asked whether it knows the session, besides the calls
					res, err = within(t, c, in(scope, echo(t)), &recorder{})
				}
				wantResult(t, res, err, `{"content":[]}`)
				if n := s.Count("initialize"); n != 2 || s.Count("tools/call") != 2 {
					t.Errorf("%d handshakes and %d calls, want 2 and 2", n, s.Count("tools/call"))
				}
				time.Sleep(time.Second)
				// The listen continues in the new session, and what was missed counts
				// as changed.
				if got := ear.notifications(); len(got) < 3 || got[len(got)-2] != "tools/list_changed" {
					t.Errorf("no invalidation: %q", got)
				}
			})
		})
	}
}

// A listen that is opened in the moment in which its session is lost is acknowledged
// with the next session, in whatever order the two happen (I12).
func TestListenWhileTheSessionIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.Capabilities = announces
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			if x.R.Header.Get("Mcp-Session-Id") == faultyserver.SessionID {
				x.Status(404, "", "")
				return
			}
			x.Polite()
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		ear := &recorder{}
		launch(t, c, in(scope, listen(t)), ear)
		<-s.open // and perhaps not acknowledged yet
		res, err := within(t, c, in(scope, echo(t)), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		time.Sleep(time.Minute)
		synctest.Wait()
		s.listen <- listChanged
		synctest.Wait()
		got := ear.notifications()
		if len(got) < 2 || !strings.HasPrefix(got[0], "subscriptions/acknowledged") || strings.Contains(got[0], "{}") || got[len(got)-1] != "tools/list_changed" {
			t.Errorf("heard %q, want a promise and then the change of the next session", got)
		}
	})
}

// A tool with errors about sessions of its own is not executed again, and does not end
// the session (I24).
func TestToolWithSessionsOfItsOwn(t *testing.T) {
	tests := map[string]func(x *faultyserver.Exchange){
		"an error":  func(x *faultyserver.Exchange) { x.Error(-32000, "browser session expired") },
		"an event":  func(x *faultyserver.Exchange) { x.Event("", theLog); x.Event("", sessionError(x)) },
		"a refusal": func(x *faultyserver.Exchange) { x.Status(400, "application/json", sessionError(x)) },
		"resumed": func(x *faultyserver.Exchange) {
			x.Event("1", "")
			x.Abort()
		},
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStation()
				arrived, gate := make(chan struct{}), make(chan struct{})
				s.On["prompts/get"] = func(x *faultyserver.Exchange) {
					close(arrived)
					<-gate
					x.Result("{}")
				}
				var call mcp.ID
				s.On["tools/call"] = func(x *faultyserver.Exchange) {
					call = x.Msg.ID
					answer(x)
				}
				get := s.On["GET"]
				s.On["GET"] = func(x *faultyserver.Exchange) {
					if x.R.Header.Get("Last-Event-Id") != "1" {
						get(x)
						return
					}
					x.Msg.ID = call
					x.Event("2", sessionError(x))
				}
				c := dialHTTP(t, s, client.Config{})
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				other := launch(t, c, in(scope, request(t, "prompts/get", `{"name":"x"}`)), &recorder{})
				<-arrived
				_, err := within(t, c, in(scope, echo(t)), &recorder{})
				wantError(t, err, -32000)
				close(gate)
				other.wantResult(t, "{}")
				if s.Count("tools/call") != 1 || s.Count("initialize") != 1 {
					t.Errorf("%d executions, %d handshakes", s.Count("tools/call"), s.Count("initialize"))
				}
			})
		})
	}
}

func sessionError(x *faultyserver.Exchange) string {
	return string(jsonrpc.AppendError(nil, x.Msg.ID, mcp.Errorf(-32000, "browser session expired")))
}

// Calls in progress in a session that another call found forgotten may have run, and
// are not made again (I24, DELIVERY 5.4).
func TestForgottenSessionDuringACall(t *testing.T) {
	for _, began := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			arrived := make(chan struct{}, 9)
			s := newStation()
			s.On["tools/call"] = func(x *faultyserver.Exchange) {
				arrived <- struct{}{}
				if began {
					x.Event("", theLog)
				}
				x.Hold()
			}
			s.On["prompts/get"] = func(x *faultyserver.Exchange) {
				if x.R.Header.Get("Mcp-Session-Id") == faultyserver.SessionID {
					x.Status(404, "", "")
					return
				}
				x.Result("{}")
			}
			c := dialHTTP(t, s, client.Config{})
			scope := mcp.NewScope("s", nil)
			defer scope.End()
			call := launch(t, c, in(scope, echo(t)), &recorder{})
			<-arrived
			res, err := within(t, c, in(scope, request(t, "prompts/get", `{"name":"x"}`)), &recorder{})
			wantResult(t, res, err, "{}")
			<-call.done
			wantFault(t, call.err, mcp.CodeBackendFailed, mcp.Unknown, "it has ended the session")
			if n := s.Count("tools/call"); n != 1 {
				t.Errorf("executed %d times", n)
			}
		})
	}
}

// Concurrent calls in a forgotten session each receive their own refusal, and all are
// made again. A call that the server does not answer is lost soon, and is not (M093,
// I39, DELIVERY 5.4).
func TestM093ForgottenSessionOfManyCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const many = 10
		s := newStation()
		var arrived sync.WaitGroup
		arrived.Add(many + 1)
		var order atomic.Int64
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			if x.R.Header.Get("Mcp-Session-Id") != faultyserver.SessionID {
				x.Polite()
				return
			}
			arrived.Done()
			if name, _ := x.Msg.Params.Text(mcp.FieldName); name == "silent" {
				x.Hold()
				return
			}
			arrived.Wait()
			time.Sleep(time.Duration(order.Add(1)) * 50 * time.Millisecond)
			x.Status(404, "", "")
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		silent := launch(t, c, in(scope, request(t, "tools/call", `{"name":"silent"}`)), &recorder{})
		calls := make([]*running, many)
		for i := range calls {
			calls[i] = launch(t, c, in(scope, echo(t)), &recorder{})
		}
		for _, call := range calls {
			call.wantResult(t, `{"content":[]}`)
		}
		began := time.Now()
		<-silent.done
		wantFault(t, silent.err, mcp.CodeBackendFailed, mcp.Unknown, "it has ended the session")
		if d := time.Since(began); d > time.Second {
			t.Errorf("who is answered nothing waits %v longer, want at most a second", d)
		}
		if n := s.Count("initialize"); n != 2 || s.Count("tools/call") != 2*many+1 {
			t.Errorf("%d handshakes and %d calls, want 2 and %d", n, s.Count("tools/call"), 2*many+1)
		}
	})
}

// If a server forgets every session, there is one more handshake per call and no loop.
func TestM093ServerThatForgetsAlways(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Status(404, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`)
		}
		_, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
		wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "ended the session")
		if s.Count("initialize") != 2 || s.Count("tools/call") != 2 {
			t.Errorf("%d handshakes for %d attempts", s.Count("initialize"), s.Count("tools/call"))
		}
	})
}

// After a new handshake nothing of the old session is sent: no cursor, no id, no
// version (M074, M091).
//
// S8+ 2025-11-25 basic/transports: "clients using the Streamable HTTP transport
// **MUST** include it in the `MCP-Session-Id` header on all of their subsequent HTTP
// requests."
//
// S8- 2025-11-25 basic/transports: "it **MUST** start a new session by sending a new
// `InitializeRequest` without a session ID attached."
func TestM074M091NothingOfTheOldSession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		version := "2025-06-18"
		s.On["initialize"] = func(x *faultyserver.Exchange) {
			if id := x.R.Header.Get("Mcp-Session-Id"); id != "" {
				t.Errorf("initialize carries the session id %q", id)
			}
			if v := x.R.Header.Get("Mcp-Protocol-Version"); v != "" {
				t.Errorf("initialize carries the version %q", v)
			}
			x.W.Header().Set("Mcp-Session-Id", "for-"+version)
			x.Result(`{"protocolVersion":"` + version + `","capabilities":{},"serverInfo":{}}`)
			version = "2025-03-26"
		}
		s.On["GET"] = func(x *faultyserver.Exchange) {
			if id := x.R.Header.Get("Last-Event-ID"); id != "" {
				t.Errorf("GET with the cursor %q of the old session", id)
			}
			x.Event("old-7", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
			s.open <- struct{}{}
			x.Hold()
		}
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			id, v := x.R.Header.Get("Mcp-Session-Id"), x.R.Header.Get("Mcp-Protocol-Version")
			if id != "for-"+v {
				t.Errorf("session %q with version %q", id, v)
			}
			if v == "2025-06-18" {
				x.Status(404, "", "")
				return
			}
			x.Polite()
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		res, err := within(t, c, in(scope, echo(t)), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		<-s.open
		synctest.Wait()
	})
}

// A request without a scope borrows a session that was opened for its principal and its
// capabilities, and no other (I22, M108).
func TestI22PoolIsKeyedByPrincipal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		byUser := map[string]map[string]bool{}
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			user := string(x.Msg.Params.Raw(mcp.FieldArguments))
			if byUser[user] == nil {
				byUser[user] = map[string]bool{}
			}
			byUser[user][x.R.Header.Get("Mcp-Session-Id")] = true
			x.Polite()
		}
		c := dialHTTP(t, s, client.Config{})
		for range 3 {
			for _, user := range []string{"ann", "bob"} {
				req := request(t, "tools/call", `{"name":"x","arguments":{"user":"`+user+`"}}`)
				req.Principal = user
				if _, err := within(t, c, req, &recorder{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for user, sessions := range byUser {
			if len(sessions) != 1 {
				t.Errorf("%s used the sessions %v, want one", user, sessions)
			}
		}
		if s.Count("initialize") != 2 {
			t.Errorf("%d handshakes, want 2", s.Count("initialize"))
		}
		time.Sleep(2 * time.Minute)
		if n := s.Count(http.MethodDelete); n != 2 {
			t.Errorf("%d idle sessions were ended, want 2", n)
		}
	})
}

// A session is lent to one request at a time, and not lent again after a request in it
// was abandoned.
func TestPoolLendsExclusively(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		gate, arrived := make(chan struct{}), make(chan string, 10)
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			arrived <- x.R.Header.Get("Mcp-Session-Id")
			<-gate
			x.Polite()
		}
		c := dialHTTP(t, s, client.Config{MaxSessions: 2})
		one, two := launch(t, c, echo(t), &recorder{}), launch(t, c, echo(t), &recorder{})
		if a, b := <-arrived, <-arrived; a == b {
			t.Errorf("both use session %q", a)
		}
		_, err := within(t, c, echo(t), &recorder{})
		wantFault(t, err, mcp.CodeLimit, mcp.NotDispatched, "limits.backendSessions")
		one.cancel()
		<-one.done
		synctest.Wait()
		if n := s.Count(http.MethodDelete); n != 1 {
			t.Errorf("%d sessions ended, want the abandoned one", n)
		}
		close(gate)
		two.wantResult(t, `{"content":[]}`)
	})
}

// With Share all requests use one session.
func TestSharedSession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		c := dialHTTP(t, s, client.Config{Share: true})
		for i := range 5 {
			req := echo(t)
			req.Principal = fmt.Sprint(i)
			scope := mcp.NewScope(fmt.Sprint(i), nil)
			if _, err := within(t, c, in(scope, req), &recorder{}); err != nil {
				t.Fatal(err)
			}
			scope.End()
		}
		if n := s.Count("initialize"); n != 1 {
			t.Errorf("%d handshakes, want 1", n)
		}
	})
}

// The session outlives the request that opened it, and the server's requests go to the
// caller of the later request (M110, M152).
func TestM110SessionIsNotBoundToItsFirstRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		answered := make(chan string)
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Event("", `{"jsonrpc":"2.0","id":"a","method":"elicitation/create","params":{}}`)
			x.Response(`{"content":["` + <-answered + `"]}`)
		}
		s.On[""] = func(x *faultyserver.Exchange) {
			x.Polite()
			answered <- string(x.Msg.Result.Raw(mcp.FieldContent))
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		for _, name := range []string{"1", "2"} {
			ctx, cancel := context.WithCancel(t.Context())
			caller := &recorder{answer: respondWith(`{"content":` + name + `}`)}
			res, err := c.Serve(ctx, in(scope, echo(t)), caller)
			cancel()
			wantResult(t, res, err, `{"content":["`+name+`"]}`)
		}
	})
}

// A request of the server without a caller to ask is refused at once. A ping is
// answered.
func TestI37ServerRequestsWithoutACaller(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		answers := make(chan string, 2)
		s.On[""] = func(x *faultyserver.Exchange) {
			answers <- string(x.Msg.Raw)
			x.Polite()
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
			t.Fatal(err)
		}
		<-s.open
		s.listen <- `{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{}}`
		if got := <-answers; !strings.Contains(got, `"id":"q"`) || !strings.Contains(got, "-32601") {
			t.Errorf("answer %s", got)
		}
		s.listen <- `{"jsonrpc":"2.0","id":"p","method":"ping"}`
		if got := <-answers; got != `{"jsonrpc":"2.0","id":"p","result":{}}` {
			t.Errorf("answer %s", got)
		}
	})
}

// A cancelled call returns at once, whatever the server does with the notification, and
// other calls continue (M115, M126, M129, I24).
func TestM115CancelDoesNotWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		gate, arrived := make(chan struct{}), make(chan string, 2)
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			arrived <- x.Msg.ID.String()
			<-gate
			x.Polite()
		}
		notice := make(chan string, 1)
		s.On["notifications/cancelled"] = func(x *faultyserver.Exchange) {
			notice <- string(x.Msg.Params.Raw(mcp.FieldRequestID))
			x.Hold() // never accepts it
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		one := launch(t, c, in(scope, echo(t)), &recorder{})
		id := <-arrived
		two := launch(t, c, in(scope, echo(t)), &recorder{})
		<-arrived
		began := time.Now()
		one.cancel()
		<-one.done
		if took := time.Since(began); took != 0 {
			t.Errorf("the cancelled call took %v more", took)
		}
		wantFault(t, one.err, mcp.CodeBackendFailed, mcp.Unknown, "cancelled")
		if got := <-notice; got != id {
			t.Errorf("the notice names %s, want %s", got, id)
		}
		close(gate)
		two.wantResult(t, `{"content":[]}`)
	})
}

// A handshake is never cancelled on the wire (M117, requirement C4).
//
// C4- 2025-11-25 basic/utilities/cancellation: "The `initialize` request MUST NOT be
// cancelled by clients"
func TestM117HandshakeIsNotCancelled(t *testing.T) {
	for name, end := range map[string]func(c *client.Client, call *running){
		"its request is given up": func(_ *client.Client, call *running) { call.cancel() },
		"it takes too long":       func(*client.Client, *running) { time.Sleep(time.Hour) },
		"its client is closed":    func(c *client.Client, _ *running) { _ = c.Close() },
	} {
		t.Run("HTTP/"+name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, gate := newStation(), make(chan struct{})
				s.On["initialize"] = func(x *faultyserver.Exchange) {
					<-gate
					x.Initialize()
				}
				c := dialHTTP(t, s, client.Config{})
				call := launch(t, c, echo(t), &recorder{})
				synctest.Wait()
				end(c, call)
				<-call.done
				close(gate)
				synctest.Wait()
				if n := s.Count("notifications/cancelled"); n != 0 || s.Count("initialize") == 0 {
					t.Errorf("%d cancel notices for %d handshakes", n, s.Count("initialize"))
				}
			})
		})
		t.Run("pipe/"+name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){"initialize": func(*faultyserver.Line) {}}} // it continues to read
				c, _ := dialLines(t, s, client.Config{})
				call := launch(t, c, echo(t), &recorder{})
				synctest.Wait()
				end(c, call)
				<-call.done
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if n := s.Count("notifications/cancelled"); n != 0 || s.Count("initialize") == 0 {
					t.Errorf("%d cancel notices for %d handshakes", n, s.Count("initialize"))
				}
			})
		})
	}
}

// A failed call ends neither the other calls nor the session (M127, M128).
func TestM127OneFailedCall(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for _, status := range []int{500, 503, 400} {
			inBubble(t, func(t *testing.T) {
				gate, arrived := make(chan struct{}), make(chan struct{})
				s := &faultyserver.HTTP{Modern: modern, Sessions: true, On: map[string]func(*faultyserver.Exchange){
					"tools/call": func(x *faultyserver.Exchange) {
						close(arrived)
						<-gate
						x.Polite()
					},
					"prompts/get": func(x *faultyserver.Exchange) { x.Status(status, "text/plain", "no") },
				}}
				c := dialHTTP(t, s, client.Config{})
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				a := launch(t, c, in(scope, echo(t)), &recorder{})
				<-arrived
				if _, err := within(t, c, in(scope, request(t, "prompts/get", `{"name":"x"}`)), &recorder{}); err == nil {
					t.Error("the failing request succeeded")
				}
				close(gate)
				a.wantResult(t, `{"content":[]}`)
				if n := s.Count("initialize"); !modern && n != 1 {
					t.Errorf("%d handshakes, want 1", n)
				}
			})
		}
	}
}

// Fields of the modern era are not sent to a legacy server, and everything else is sent
// unmodified (requirement J8).
func TestLegacyParamsAreUnmodified(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		c := dialHTTP(t, s, client.Config{})
		req := request(t, "tools/call", `{"name":"x", "arguments":{"n":1.0e0,"é":"\u00e9"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","vendor/x":[1, 2],"progressToken":7,"io.modelcontextprotocol/clientCapabilities":{}},"vendor":"y"}`)
		if _, err := within(t, c, req, &recorder{}); err == nil {
			body, id := last(s.HTTP, "tools/call").Body, last(s.HTTP, "tools/call").ID
			want := `"params":{"name":"x", "arguments":{"n":1.0e0,"é":"\u00e9"},"_meta":{"vendor/x":[1, 2],"progressToken":` + id + `},"vendor":"y"}`
			if !strings.Contains(body, want) {
				t.Errorf("sent %s\nwant %s", body, want)
			}
		} else {
			t.Fatal(err)
		}
	})
}

// A server that never answers initialize costs its own requests, and the error names
// the phase (fault 51).
func TestSilentHandshake(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["initialize"] = func(x *faultyserver.Exchange) { x.Hold() }
		c := dialHTTP(t, s, client.Config{})
		began := time.Now()
		_, err := within(t, c, echo(t), &recorder{})
		wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "did not answer initialize within 30s (limits.handshake)")
		if took := time.Since(began); took > time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

// A failed handshake leaves nothing that Close would wait for, and Close may be called
// during one (M025, M134).
func TestM025CloseAfterAFailedHandshake(t *testing.T) {
	for _, answer := range []func(x *faultyserver.Exchange){
		func(x *faultyserver.Exchange) { x.Status(401, "", "") },
		func(x *faultyserver.Exchange) { x.Status(500, "", "") },
		func(x *faultyserver.Exchange) { x.Result(`{"protocolVersion":"1999-01-01","capabilities":{}}`) },
		func(x *faultyserver.Exchange) { x.Result(`{"protocolVersion":"2026-07-28","capabilities":{}}`) },
	} {
		inBubble(t, func(t *testing.T) {
			s := newStation()
			s.On["initialize"] = answer
			c := dialHTTP(t, s, client.Config{})
			if _, err := within(t, c, echo(t), &recorder{}); err == nil {
				t.Error("no error")
			}
			began := time.Now()
			if err := c.Close(); err != nil || time.Since(began) > time.Second {
				t.Errorf("Close: %v after %v", err, time.Since(began))
			}
		})
	}
	inBubble(t, func(t *testing.T) {
		s := newStation()
		gate := make(chan struct{})
		s.On["initialize"] = func(x *faultyserver.Exchange) {
			<-gate
			x.Initialize()
		}
		c := dialHTTP(t, s, client.Config{})
		call := launch(t, c, echo(t), &recorder{})
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-call.done
		close(gate)
		if call.err == nil {
			t.Error("the call succeeded after Close")
		}
		_, err := c.Serve(t.Context(), echo(t), &recorder{})
		wantFault(t, err, mcp.CodeShuttingDown, mcp.NotDispatched, "shutting down")
	})
}

// Shutdown waits for calls in progress; Close cuts them.
func TestShutdownWaitsAndCloseCuts(t *testing.T) {
	for _, cut := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			gate, arrived := make(chan struct{}), make(chan struct{})
			s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
				close(arrived)
				<-gate
				x.Polite()
			}}}
			c := dialHTTP(t, s, client.Config{})
			call := launch(t, c, echo(t), &recorder{})
			<-arrived
			if cut {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				<-call.done
				wantFault(t, call.err, mcp.CodeShuttingDown, mcp.Unknown, "shutting down")
				close(gate)
				return
			}
			time.AfterFunc(time.Minute, func() { close(gate) })
			if err := c.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			call.wantResult(t, `{"content":[]}`)
		})
	}
}
