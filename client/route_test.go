// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// A message of a modern server on a pipe that names no call goes to the only call or is
// dropped, and never goes to a wrong one (I8, M186).
//
// C3- 2026-07-28 basic/patterns/cancellation: "Servers MUST NOT send
// `notifications/cancelled` for any other purpose."
func TestUnsolicitedMessagesOnAModernPipe(t *testing.T) {
	for _, tt := range []struct {
		name, message string
		want          []string
	}{
		{"progress of another token", `{"method":"notifications/progress","params":{"progressToken":"tok","progress":1}}`, nil},
		{"progress without a token", `{"method":"notifications/progress","params":{"progress":1}}`, nil},
		{"a subscription that is not there", `{"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":77}}}`, nil},
		{"a subscription that is none", `{"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":{}}}}`, nil},
		{"the end of a call that is no listen", `{"method":"notifications/cancelled","params":{"requestId":2}}`, nil},
		{"a method of its own", `{"method":"notifications/vendor/state","params":{"n":1}}`, []string{`vendor/state {"n":1}`}},
		{"a log message that was not asked for", `{"method":"notifications/message","params":{"level":"info","data":1}}`, nil},
		{"a log message of no known level", `{"method":"notifications/message","params":{"level":"loud","data":1}}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &faultyserver.Lines{Modern: true, On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) {
					x.Send(`{"jsonrpc":"2.0",` + tt.message[1:])
					x.Polite()
				}}}
				c, _ := dialLines(t, s, client.Config{})
				caller := &recorder{}
				res, err := within(t, c, request(t, "tools/call", `{"name":"x","_meta":{"progressToken":"tok"}}`), caller)
				wantResult(t, res, err, `{"content":[]}`)
				wantStrings(t, "heard", caller.notifications(), tt.want)
			})
		})
	}
}

// If a server ends a subscription by a notification, the listen is sent again, and
// everything counts as changed (2026-07-28, basic/patterns/cancellation).
func TestServerEndsASubscription(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		listens := 0
		s := &faultyserver.Lines{Modern: true, Capabilities: announces, On: map[string]func(*faultyserver.Line){"subscriptions/listen": func(x *faultyserver.Line) {
			x.Send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, x.Msg.ID))
			if listens++; listens == 1 {
				x.Send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, x.Msg.ID))
			}
		}}}
		c, _ := dialLines(t, s, client.Config{})
		ear := &recorder{}
		launch(t, c, listen(t), ear)
		time.Sleep(time.Minute)
		got := ear.notifications()
		if n := s.Count("subscriptions/listen"); n != 2 || len(got) != 3 || got[1] != "tools/list_changed" || got[2] != "resources/list_changed" {
			t.Errorf("%d listens; heard %q, want an acknowledgement and the changes", n, got)
		}
	})
}

// After a gap in a listen's stream each resource that the server acknowledged counts as
// updated, and no other (I33, DESIGN: after every reconnect comes an invalidation).
func TestResourcesCountAsUpdatedAfterAGap(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		listens := 0
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"subscriptions/listen": func(x *faultyserver.Exchange) {
			x.Event("", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["file:///a","x:\"b\""]}}}`)
			if listens++; listens == 2 {
				x.Hold()
			}
		}}}
		ear := &recorder{}
		launch(t, dialHTTP(t, s, client.Config{}), request(t, "subscriptions/listen",
			`{"notifications":{"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["file:///a","file:///no","x:\"b\""]}}`), ear)
		time.Sleep(time.Minute)
		wantStrings(t, "heard", ear.notifications(), []string{
			`subscriptions/acknowledged {"notifications":{"resourceSubscriptions":["file:///a","x:\"b\""]}}`, "prompts/list_changed", "resources/list_changed",
			`resources/updated {"uri":"file:///a"}`, `resources/updated {"uri":"x:\"b\""}`,
		})
	})
}

// An invalid filter is refused before anything is sent.
func TestListenWithoutAFilter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		c := dialHTTP(t, s, client.Config{})
		_, err := within(t, c, request(t, "subscriptions/listen", `{"notifications":7}`), &recorder{})
		wantError(t, err, mcp.CodeInvalidParams)
		if len(s.Seen()) != 0 {
			t.Errorf("%d requests were sent", len(s.Seen()))
		}
	})
}

// Messages for the session are handled as such even on a call's stream: a change
// reaches the listens, a ping is answered, and the call receives neither (I8).
func TestSessionMessagesOnTheStreamOfACall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.Capabilities = announces
		pongs := make(chan string, 1)
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Event("", listChanged)
			x.Event("", `{"jsonrpc":"2.0","id":"p","method":"ping"}`)
			x.Event("", `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}`)
			x.Event("", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`)
			x.Response(`{"content":[` + <-pongs + `]}`)
		}
		s.On[""] = func(x *faultyserver.Exchange) {
			pongs <- string(x.Msg.Raw)
			x.Polite()
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		ear, caller := &recorder{}, &recorder{}
		launch(t, c, in(scope, listen(t)), ear)
		<-s.open
		synctest.Wait() // a change before the acknowledgement is not for the listen
		res, err := within(t, c, in(scope, echo(t)), caller)
		wantResult(t, res, err, `{"content":[{"jsonrpc":"2.0","id":"p","result":{}}]}`)
		synctest.Wait()
		if got := ear.notifications(); len(got) != 2 || got[1] != "tools/list_changed" {
			t.Errorf("who listens heard %q", got)
		}
		wantStrings(t, "the call heard", caller.notifications(), nil)
	})
}

// During the handshake no caller can be asked. The server gets an error, and the
// handshake continues (I34).
func TestServerRequestDuringTheHandshake(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		refusals := make(chan string, 1)
		s := newStation()
		s.On["initialize"] = func(x *faultyserver.Exchange) {
			x.W.Header().Set("Mcp-Session-Id", "s")
			x.Event("", `{"jsonrpc":"2.0","id":"early","method":"roots/list"}`)
			x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, x.Msg.ID))
			if got := <-refusals; !strings.Contains(got, `"id":"early"`) || !strings.Contains(got, "-32601") {
				t.Errorf("answer %s", got)
			}
			x.Response(`{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{}}`)
		}
		s.On[""] = func(x *faultyserver.Exchange) {
			refusals <- string(x.Msg.Raw)
			x.Polite()
		}
		caller := &recorder{answer: respondWith(`{"roots":[]}`)}
		res, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), caller)
		wantResult(t, res, err, `{"content":[]}`)
		if len(caller.asked()) != 0 || len(caller.notifications()) != 0 {
			t.Errorf("asked %q, told %q", caller.asked(), caller.notifications())
		}
	})
}

// An error without an id, from a server that could not parse the request, ends the call
// of the stream. An invalid message is skipped. Answers to unknown calls are counted.
func TestAnswersWithoutAKnownID(t *testing.T) {
	for _, modern := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.HTTP{Modern: modern, On: map[string]func(*faultyserver.Exchange){
				"tools/call": func(x *faultyserver.Exchange) {
					x.Event("", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no JSON"}}`)
					x.Hold()
				},
				"prompts/get": func(x *faultyserver.Exchange) {
					x.Event("", `{"jsonrpc":"2.0"`)
					x.Event("", response(jsonrpc.NumberID(4711), `{"whose":"nobody's"}`))
					x.Response(`{"messages":[]}`)
				},
			}}
			c := dialHTTP(t, s, client.Config{})
			scope := mcp.NewScope("s", nil)
			defer scope.End()
			_, err := within(t, c, in(scope, echo(t)), &recorder{})
			wantError(t, err, mcp.CodeParseError)
			res, err := within(t, c, in(scope, request(t, "prompts/get", `{"name":"x"}`)), &recorder{})
			wantResult(t, res, err, `{"messages":[]}`)
			if st := c.Stats(); !modern && st.Unknown != 1 {
				t.Errorf("%d answers to nothing counted, want 1", st.Unknown)
			}
		})
	}
}

// If the server is too busy for the handshake, the handshake is repeated before the
// call, and the era stays undecided (DELIVERY 5.4).
func TestBusyHandshake(t *testing.T) {
	for _, failures := range []int{1, 9} {
		inBubble(t, func(t *testing.T) {
			s := newStation()
			n := 0
			s.On["initialize"] = func(x *faultyserver.Exchange) {
				if n++; n <= failures {
					x.Status(http.StatusTooManyRequests, "", "")
					return
				}
				x.Initialize()
			}
			c := dialHTTP(t, s, client.Config{})
			res, err := within(t, c, echo(t), &recorder{})
			if failures == 1 {
				wantResult(t, res, err, `{"content":[]}`)
			} else {
				wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "HTTP status 429")
			}
			if got := s.Count("server/discover"); got != 1 {
				t.Errorf("the era was asked for %d times, want once", got)
			}
		})
	}
}

// When the list of tools is read again for a call's headers, it may have many pages,
// and may fail: then the call ends with the server's error about its headers.
//
// H10- 2026-07-28 basic/transports/streamable-http: "the client SHOULD call tools/list
// to check for changes to the tool's inputSchema, then retry the original request with
// the appropriate headers."
func TestRefreshingHeaders(t *testing.T) {
	page := func(n, last int) string {
		next := fmt.Sprintf(`,"nextCursor":"%d"`, n+1)
		if n == last {
			next = `,"nextCursor":null`
		}
		return fmt.Sprintf(`{"tools":[{"name":"t%d","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"R"}}}}]%s}`, n, next)
	}
	for _, tt := range []struct {
		name  string
		list  func(n int, x *faultyserver.Exchange)
		works bool
		lists int
	}{
		{"on the last page", func(n int, x *faultyserver.Exchange) { x.Result(page(n, 3)) }, true, 4},
		{"beyond the pages that are read", func(n int, x *faultyserver.Exchange) { x.Result(page(n+10, 99)) }, true, 20},
		{"no list", func(_ int, x *faultyserver.Exchange) { x.Error(-32603, "no") }, false, 1},
		{"an odd list", func(_ int, x *faultyserver.Exchange) { x.Result(`{"tools":{}}`) }, false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				lists := 0
				s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){
					"tools/list": func(x *faultyserver.Exchange) { tt.list(lists, x); lists++ },
					"tools/call": func(x *faultyserver.Exchange) {
						if x.R.Header.Get("Mcp-Param-R") != "eu" {
							x.Status(400, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"Header mismatch"}}`, x.Msg.ID))
							return
						}
						x.Polite()
					},
				}}
				name := "t3"
				if tt.lists == 20 {
					name = "t12"
				}
				res, err := within(t, dialHTTP(t, s, client.Config{}), request(t, "tools/call", `{"name":"`+name+`","arguments":{"r":"eu"}}`), &recorder{})
				if tt.works {
					wantResult(t, res, err, `{"content":[]}`)
				} else {
					wantError(t, err, mcp.CodeHeaderMismatch)
				}
				if lists != tt.lists {
					t.Errorf("%d pages were read, want %d", lists, tt.lists)
				}
			})
		})
	}
}
