// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/bubble"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// station is a legacy server with a listening stream that the test controls.
type station struct {
	*faultyserver.HTTP
	listen chan string // data of events for the listening stream
	open   chan struct{}
}

func newStation() *station {
	s := &station{HTTP: &faultyserver.HTTP{Sessions: true, On: map[string]func(*faultyserver.Exchange){}}, listen: make(chan string), open: make(chan struct{}, 100)}
	s.On["GET"] = func(x *faultyserver.Exchange) {
		if x.R.Header.Get("Last-Event-ID") != "" {
			x.Status(http.StatusMethodNotAllowed, "", "")
			return
		}
		s.serveListen(x)
	}
	return s
}

func (s *station) serveListen(x *faultyserver.Exchange) {
	x.Begin()
	s.open <- struct{}{}
	for {
		select {
		case data := <-s.listen:
			x.Event("", data)
		case <-x.R.Context().Done():
			return
		}
	}
}

func response(id mcp.ID, result string) string {
	return string(jsonrpc.AppendResult(nil, id, []byte(result)))
}

// The response to a call arrives on the listening stream, while the call's own stream
// is being resumed.
func TestM001ResponseOnAnotherStream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		resumed, left := make(chan struct{}), make(chan struct{})
		var id mcp.ID
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			id = x.Msg.ID
			x.Begin()
			x.Raw("retry: 10\nid: p1\ndata:\n\n")
		}
		get := s.On["GET"]
		s.On["GET"] = func(x *faultyserver.Exchange) {
			if x.R.Header.Get("Last-Event-ID") != "p1" {
				get(x)
				return
			}
			x.Begin()
			close(resumed)
			x.Hold()
			close(left)
		}
		c := dialHTTP(t, s, client.Config{})
		call := launch(t, c, echo(t), &recorder{})
		<-resumed
		s.listen <- response(id, `{"content":["here"]}`)
		call.wantResult(t, `{"content":["here"]}`)
		<-left
		time.Sleep(time.Minute)
		if n := s.Count(http.MethodGet); n != 2 {
			t.Errorf("%d GETs, want the listening stream and one resumption", n)
		}
	})
}

// The response arrives before the headers of the POST. What the POST brings later is
// dropped.
func TestM002ResponseBeforeTheHeaders(t *testing.T) {
	for counted, late := range []func(*faultyserver.Exchange){
		func(x *faultyserver.Exchange) { x.W.WriteHeader(http.StatusAccepted) },
		func(x *faultyserver.Exchange) { x.Response(`{"content":["second"]}`) },
	} {
		inBubble(t, func(t *testing.T) {
			s := newStation()
			got, gate := make(chan mcp.ID, 1), make(chan struct{})
			s.On["tools/call"] = func(x *faultyserver.Exchange) {
				got <- x.Msg.ID
				<-gate
				late(x)
			}
			c := dialHTTP(t, s, client.Config{})
			call := launch(t, c, echo(t), &recorder{})
			<-s.open
			s.listen <- response(<-got, `{"content":["first"]}`)
			call.wantResult(t, `{"content":["first"]}`)
			close(gate)
			res, err := within(t, c, request(t, "tools/list", "{}"), &recorder{})
			if res != nil || !errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) {
				t.Errorf("the session does not work any more: %v, %v", res, err)
			}
			synctest.Wait()
			if got := c.Stats(); got.Late+got.Unknown > uint64(counted) || got.Serving != 0 {
				t.Errorf("%+v; want at most %d late messages", got, counted)
			}
		})
	}
}

// Two streams bring the same response at the same moment.
func TestM003TwoStreamsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		got, gate := make(chan mcp.ID, 1), make(chan struct{})
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Begin()
			got <- x.Msg.ID
			<-gate
			x.Response(`{"content":[]}`)
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		for range 300 {
			call := launch(t, c, in(scope, echo(t)), &recorder{})
			id := <-got
			both := make(chan struct{})
			go func() { // ends when the stream has taken the message
				defer close(both)
				s.listen <- response(id, `{"content":[]}`)
			}()
			gate <- struct{}{}
			<-both
			call.wantResult(t, `{"content":[]}`)
		}
	})
}

// Bodies that never end do not outlive their calls (M005, M006).
func TestM006BodiesEndWithTheirCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		got, left := make(chan mcp.ID, 1), make(chan struct{}, 50)
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Begin()
			got <- x.Msg.ID
			x.Hold()
			left <- struct{}{}
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		var before int
		for i := range 50 {
			call := launch(t, c, in(scope, echo(t)), &recorder{})
			if i == 0 {
				<-s.open
			}
			s.listen <- response(<-got, `{"content":[]}`)
			call.wantResult(t, `{"content":[]}`)
			<-left
			synctest.Wait()
			if i == 0 {
				before = bubble.Goroutines(t)
			}
		}
		if after := bubble.Goroutines(t); after > before+2 {
			t.Errorf("%d goroutines after 50 calls, %d after one", after, before)
		}
	})
}

// A stream that breaks after its call has its response from elsewhere is not resumed,
// and causes no error.
func TestM007NoResumptionAfterTheAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		got, gate := make(chan mcp.ID, 1), make(chan struct{})
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Event("e1", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
			got <- x.Msg.ID
			<-gate
		}
		c := dialHTTP(t, s, client.Config{})
		call := launch(t, c, echo(t), &recorder{})
		<-s.open
		s.listen <- response(<-got, `{"content":[]}`)
		call.wantResult(t, `{"content":[]}`)
		close(gate)
		time.Sleep(time.Minute)
		if n := s.Count(http.MethodGet); n != 1 {
			t.Errorf("%d GETs, want the listening stream alone", n)
		}
	})
}

// A response on the listening stream counts although the POST's stream is open, and
// although the POST was answered with 202 (M008).
func TestM008ResponseOnTheListeningStream(t *testing.T) {
	for name, post := range map[string]func(x *faultyserver.Exchange){
		"open stream": func(x *faultyserver.Exchange) { x.Begin() },
		"202":         func(x *faultyserver.Exchange) { x.W.WriteHeader(http.StatusAccepted) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStation()
				got := make(chan mcp.ID, 1)
				s.On["tools/call"] = func(x *faultyserver.Exchange) {
					post(x)
					got <- x.Msg.ID
					if name == "open stream" {
						x.Hold()
					}
				}
				c := dialHTTP(t, s, client.Config{})
				call := launch(t, c, echo(t), &recorder{})
				<-s.open
				id := <-got
				synctest.Wait()
				s.listen <- response(id, `{"content":[]}`)
				call.wantResult(t, `{"content":[]}`)
			})
		})
	}
}

// A request that a server without a listening stream answers with 202 cannot get a
// response, and ends.
func TestI3AcceptedAndNoStreamToAnswerOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{On: map[string]func(*faultyserver.Exchange){
			"tools/call": func(x *faultyserver.Exchange) { x.W.WriteHeader(http.StatusAccepted) },
		}}
		_, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
		wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "no stream to answer it on")
	})
}

// The server's request has the id of the client's call; each gets its own response.
func TestM009IdsOfTheTwoDirections(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		answered := make(chan string, 1)
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"sampling/createMessage","params":{}}`, x.Msg.ID))
			<-answered
			x.Response(`{"content":["done"]}`)
		}
		s.On[""] = func(x *faultyserver.Exchange) {
			answered <- string(x.Msg.Raw)
			x.Polite()
		}
		caller := &recorder{answer: respondWith(`{"role":"assistant"}`)}
		res, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), caller)
		wantResult(t, res, err, `{"content":["done"]}`)
		wantStrings(t, "asks", caller.asked(), []string{"sampling/createMessage"})
	})
}

// A stream that ends without a response and cannot be resumed ends the call at once.
func TestM019StreamEndsWithoutResponse(t *testing.T) {
	tests := []struct {
		name string
		call func(x *faultyserver.Exchange)
	}{
		{"empty stream", func(x *faultyserver.Exchange) { x.Begin() }},
		{"after a notification", func(x *faultyserver.Exchange) {
			x.Event("", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		}},
		{"empty JSON body", func(x *faultyserver.Exchange) { x.Status(200, "application/json", "") }},
		{"incomplete last event", func(x *faultyserver.Exchange) {
			x.Begin()
			x.Raw("data: " + response(x.Msg.ID, "{}") + "\n")
		}},
		{"another call's response", func(x *faultyserver.Exchange) { x.Event("", `{"jsonrpc":"2.0","id":777,"result":{}}`) }},
		{"the id as a string", func(x *faultyserver.Exchange) {
			x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s","result":{}}`, x.Msg.ID))
		}},
	}
	for _, tt := range tests {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/modern=%v", tt.name, modern), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := &faultyserver.HTTP{Modern: modern, On: map[string]func(*faultyserver.Exchange){"tools/call": tt.call}}
					began := time.Now()
					_, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
					wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "ended without a response")
					if took := time.Since(began); took > time.Second || s.Count("tools/call") != 1 {
						t.Errorf("took %v and %d calls", took, s.Count("tools/call"))
					}
				})
			})
		}
	}
}

// A JSON-RPC error is a response like any other: nothing is resumed after it.
func TestM020ErrorIsFinal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Event("e1", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no","data":1e2}}`, x.Msg.ID))
		}
		c := dialHTTP(t, s, client.Config{})
		_, err := within(t, c, echo(t), &recorder{})
		wantError(t, err, -32602)
		if e, ok := errors.AsType[*mcp.Error](err); !ok || string(e.Raw) != `{"code":-32602,"message":"no","data":1e2}` {
			t.Errorf("raw error %s", e.Raw)
		}
		time.Sleep(time.Minute)
		if n := s.Count(http.MethodGet); n != 1 {
			t.Errorf("%d GETs, want the listening stream alone", n)
		}
	})
}

// A reset connection ends the call, or resumes it if an event id was received.
func TestM021ConnectionReset(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Begin()
			x.Abort()
		}
		_, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
		wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "broke")
		if n := s.Count("tools/call"); n != 1 {
			t.Errorf("the call was made %d times", n)
		}
	})
	inBubble(t, func(t *testing.T) {
		s := newStation()
		ids := make(chan mcp.ID, 1)
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			ids <- x.Msg.ID
			x.Event("e1", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
			x.Abort()
		}
		get := s.On["GET"]
		s.On["GET"] = func(x *faultyserver.Exchange) {
			if x.R.Header.Get("Last-Event-ID") != "e1" {
				get(x)
				return
			}
			x.Event("e2", response(<-ids, `{"content":["resumed"]}`))
		}
		res, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
		wantResult(t, res, err, `{"content":["resumed"]}`)
	})
}

// A silent stream is limited by the call's own deadline.
func TestM023SilentStream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Begin()
			x.Hold()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := dialHTTP(t, s, client.Config{}).Serve(ctx, echo(t), &recorder{})
		wantFault(t, err, mcp.CodeDeadline, mcp.Unknown, "no answer in time")
		synctest.Wait()
		if n := s.Count("notifications/cancelled"); n != 1 {
			t.Errorf("%d cancel notices, want 1", n)
		}
	})
}

// A context that has ended before the call takes precedence over any response.
func TestM027AlreadyCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Modern: true}
		c := dialHTTP(t, s, client.Config{})
		if _, err := c.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.Serve(ctx, echo(t), &recorder{})
		wantFault(t, err, mcp.CodeBackendFailed, mcp.NotDispatched, "cancelled")
		if !errors.Is(err, context.Canceled) || s.Count("tools/call") != 0 {
			t.Errorf("error %v after %d calls", err, s.Count("tools/call"))
		}
	})
}

// Notifications are delivered before the response, in order. The first event is not
// taken for the response.
func TestM032NotificationsThenResponse(t *testing.T) {
	for _, modern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.HTTP{Modern: modern, On: map[string]func(*faultyserver.Exchange){}}
			s.On["tools/call"] = func(x *faultyserver.Exchange) {
				x.Event("", "")
				x.Raw(": a comment\n\nevent: ping\ndata: {}\n\n")
				token := string(x.Msg.Params.Raw(mcp.MetaProgressToken))
				for i := range 3 {
					x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, i))
				}
				x.Event("", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1.0}}`)
				x.Response(`{"content":[1.50]}`)
			}
			caller := &recorder{}
			req := request(t, "tools/call", `{"name":"x","_meta":{"progressToken":"mine"}}`)
			res, err := within(t, dialHTTP(t, s, client.Config{}), req, caller)
			wantResult(t, res, err, `{"content":[1.50]}`)
			wantStrings(t, "notifications", caller.notifications(), []string{
				`progress {"progressToken":"mine","progress":0}`, `progress {"progressToken":"mine","progress":1}`,
				`progress {"progressToken":"mine","progress":2}`, `message {"level":"info","data":1.0}`,
			})
			if body := s.Seen()[len(s.Seen())-1].Body; strings.Contains(body, "mine") {
				t.Errorf("the client's own progress token went out: %s", body)
			}
		})
	}
}

// A JSON body that is written only after a request on the listening stream was answered
// blocks nothing.
func TestM150ResponseDependsOnAServerRequest(t *testing.T) {
	// Without a scope the session is lent to this one call, and the server's request
	// belongs to it. With a scope the request goes to the scope's own address.
	for _, scoped := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s := newStation()
			answered := make(chan struct{})
			s.On["tools/call"] = func(x *faultyserver.Exchange) {
				s.listen <- `{"jsonrpc":"2.0","id":"ask-1","method":"elicitation/create","params":{"message":"?"}}`
				<-answered
				x.Result(`{"content":["after"]}`)
			}
			s.On[""] = func(x *faultyserver.Exchange) {
				x.Polite()
				close(answered)
			}
			caller := &recorder{answer: respondWith(`{"action":"decline"}`)}
			c := dialHTTP(t, s, client.Config{})
			req := echo(t)
			unrelated := &recorder{answer: respondWith(`{"action":"cancel"}`)}
			scope := mcp.NewScope("s", unrelated)
			defer scope.End()
			addressee := caller
			if scoped {
				req, addressee = in(scope, req), unrelated
			}
			res, err := within(t, c, req, caller)
			wantResult(t, res, err, `{"content":["after"]}`)
			wantStrings(t, "asks", addressee.asked(), []string{"elicitation/create"})
		})
	}
}
