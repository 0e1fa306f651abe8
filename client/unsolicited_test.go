// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// never does not answer until its context ends.
func never(ctx context.Context, _ *mcp.Request) (*mcp.Result, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A server on a pipe sends roots/list after the handshake, and then answers the call
// that caused the handshake. The request did not belong to the call and does not end
// with it. A request that must not be repeated does.
func TestServerRequestOutlivesItsCall(t *testing.T) {
	const ended = `{"jsonrpc":"2.0","id":"q","error":{"code":-32603,"message":"the request that this one belongs to has ended"}}`
	tests := []struct {
		method, want string
		later        []string // requests in the session after the call is over
	}{
		{"roots/list", `{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}`, []string{"roots/list"}},
		{"elicitation/create", ended, nil},
		{"sampling/createMessage", ended, nil},
	}
	for _, tt := range tests {
		t.Run(tt.method, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				answers := make(chan string, 1)
				asked := make(chan struct{})
				s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){
					"tools/call": func(x *faultyserver.Line) {
						x.Send(`{"jsonrpc":"2.0","id":"q","method":"` + tt.method + `","params":{}}`)
						<-asked
						x.Polite()
					},
					"response": func(x *faultyserver.Line) { answers <- string(x.Msg.Raw) },
				}}
				c, _ := dialLines(t, s, client.Config{})
				later := &recorder{answer: respondWith(`{"roots":[]}`)}
				scope := mcp.NewScope("s", later)
				defer scope.End()
				caller := &recorder{answer: func(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
					close(asked)
					return never(ctx, req)
				}}
				res, err := within(t, c, in(scope, echo(t)), caller)
				wantResult(t, res, err, `{"content":[]}`)
				if got := <-answers; got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
				wantStrings(t, "asked during the call", caller.asked(), []string{tt.method})
				wantStrings(t, "asked after the call", later.asked(), tt.later)
			})
		})
	}
}

// A server sends roots/list in a session that belongs to no client, and the list call
// that caused the handshake ends before the answer. Many servers treat an error as a
// failure.
func TestRootsRequestOutlivesTheList(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		answers := make(chan string, 1)
		asked := make(chan struct{})
		s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){
			"tools/list": func(x *faultyserver.Line) {
				x.Send(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
				<-asked
				x.Result(`{"tools":[]}`)
			},
			"response": func(x *faultyserver.Line) { answers <- string(x.Msg.Raw) },
		}}
		c, _ := dialLines(t, s, client.Config{})
		caller := &recorder{answer: func(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
			close(asked)
			return never(ctx, req)
		}}
		scope := mcp.NewScope("lists", nil)
		defer scope.End()
		if _, err := within(t, c, in(scope, request(t, "tools/list", "{}")), caller); err != nil {
			t.Fatal(err)
		}
		const want = `{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}`
		if got := <-answers; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// A server cancels its request after the call is over.
func TestServerRequestIsCancelledAfterItsCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		asked, again, ended := make(chan struct{}), make(chan *faultyserver.Line, 1), make(chan struct{})
		s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){
			"tools/call": func(x *faultyserver.Line) {
				x.Send(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
				<-asked
				x.Polite()
				again <- x
			},
		}}
		c, _ := dialLines(t, s, client.Config{})
		later := make(chan struct{})
		scope := mcp.NewScope("s", &recorder{answer: func(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
			close(later)
			defer close(ended)
			return never(ctx, req)
		}})
		defer scope.End()
		caller := &recorder{answer: func(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
			close(asked)
			return never(ctx, req)
		}}
		res, err := within(t, c, in(scope, echo(t)), caller)
		wantResult(t, res, err, `{"content":[]}`)
		<-later
		(<-again).Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`)
		<-ended
	})
}

// A request that was queued behind a slow caller when its call was given up is answered
// all the same.
func TestServerRequestOfAnAbandonedCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		answers := make(chan string, 1)
		sent := make(chan struct{})
		s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){
			"tools/call": func(x *faultyserver.Line) {
				x.Send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
				x.Send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`)
				// Its answer shows that everything sent before has been read.
				x.Send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
			},
			"response": func(x *faultyserver.Line) {
				if x.Msg.ID.String() == `"p"` {
					close(sent)
					return
				}
				answers <- string(x.Msg.Raw)
			},
		}}
		c, _ := dialLines(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		caller := &recorder{block: make(chan struct{})}
		call := launch(t, c, in(scope, echo(t)), caller)
		<-sent
		call.cancel()
		<-call.done
		const want = `{"jsonrpc":"2.0","id":"q","error":{"code":-32603,"message":"the request that this one belongs to has ended"}}`
		if got := <-answers; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		wantStrings(t, "asked", caller.asked(), nil)
	})
}

// A request that the server sends before it has the listening stream is lost, so the
// first call waits for that stream; but not for long, because the stream is optional.
func TestFirstCallWaitsForTheListeningStream(t *testing.T) {
	tests := []struct {
		name string
		get  func(s *station, x *faultyserver.Exchange)
		want time.Duration
	}{
		{"slow", func(s *station, x *faultyserver.Exchange) { <-time.After(200 * time.Millisecond); s.serveListen(x) }, 200 * time.Millisecond},
		{"refused", func(_ *station, x *faultyserver.Exchange) { x.Status(http.StatusMethodNotAllowed, "", "") }, 0},
		{"no stream", func(_ *station, x *faultyserver.Exchange) { x.Status(http.StatusOK, "text/html", "") }, 0},
		{"broken", func(_ *station, x *faultyserver.Exchange) { x.Abort() }, 500 * time.Millisecond},
		{"silent", func(_ *station, x *faultyserver.Exchange) { x.Hold() }, 500 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStation()
				s.On["GET"] = func(x *faultyserver.Exchange) { tt.get(s, x) }
				c := dialHTTP(t, s, client.Config{})
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				for _, want := range []time.Duration{tt.want, 0} {
					began := time.Now()
					res, err := within(t, c, in(scope, echo(t)), &recorder{})
					wantResult(t, res, err, `{"content":[]}`)
					if took := time.Since(began); took != want {
						t.Errorf("the call took %v, want %v", took, want)
					}
				}
			})
		})
	}
}

// On a connection that clients share, what a server sends about an abandoned call
// reaches no other client's call (I22, M186).
func TestI22NothingOfAnAbandonedCallCrosses(t *testing.T) {
	for name, modern := range map[string]bool{"modern": true, "shared": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				lines := make(chan *faultyserver.Line, 1)
				s := &faultyserver.Lines{Modern: modern, On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) { lines <- x }}}
				c, _ := dialLines(t, s, client.Config{Share: !modern})
				// begin makes a call of another client, and lets the server send.
				begin := func(text string) (*recorder, *running, *faultyserver.Line) {
					rec := &recorder{answer: respondWith("{}")}
					req := echo(t)
					req.LogLevel = mcp.LogUnset
					call := launch(t, c, req, rec)
					line := <-lines
					line.Send(text)
					if !modern {
						line.Send(theAsk)
					}
					synctest.Wait()
					return rec, call, line
				}
				rec, a, _ := begin(theLog)
				wantStrings(t, "the only call is told", rec.notifications(), []string{`message {"level":"info","data":1}`})
				a.cancel()
				<-a.done
				rec, b, line := begin(theLog)
				line.Polite()
				b.wantResult(t, `{"content":[]}`)
				if got := append(rec.notifications(), rec.asked()...); len(got) != 0 {
					t.Errorf("another client got %q", got)
				}
				time.Sleep(time.Minute)
				rec, b, line = begin(theLog)
				line.Polite()
				b.wantResult(t, `{"content":[]}`)
				if len(rec.notifications()) != 1 {
					t.Errorf("nothing is told any more: %q", rec.notifications())
				}
			})
		})
	}
}

// In a session of one client, the only call receives messages that name none, even
// after another call was abandoned: there is no other receiver, and a client without a
// listening stream would get nothing.
func TestLogsAfterAnAbandonedCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		lines := make(chan *faultyserver.Line, 1)
		s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) { lines <- x }}}
		c, _ := dialLines(t, s, client.Config{})
		unrelated := &recorder{}
		scope := mcp.NewScope("s", unrelated)
		defer scope.End()
		a := launch(t, c, in(scope, echo(t)), &recorder{})
		<-lines
		a.cancel()
		<-a.done
		for _, pause := range []time.Duration{0, time.Second, time.Hour} {
			time.Sleep(pause)
			rec := &recorder{}
			b := launch(t, c, in(scope, echo(t)), rec)
			line := <-lines
			line.Send(theLog)
			line.Polite()
			b.wantResult(t, `{"content":[]}`)
			wantStrings(t, "the call is told", rec.notifications(), []string{`message {"level":"info","data":1}`})
		}
		synctest.Wait()
		wantStrings(t, "outside of calls", unrelated.notifications(), nil)
	})
}

// If no call is in progress, late messages of an abandoned call go to the unrelated
// Caller.
func TestLateLogOfAnAbandonedCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		lines := make(chan *faultyserver.Line, 1)
		s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) { lines <- x }}}
		c, _ := dialLines(t, s, client.Config{})
		unrelated := &recorder{}
		scope := mcp.NewScope("s", unrelated)
		defer scope.End()
		a := launch(t, c, in(scope, echo(t)), &recorder{})
		late := <-lines
		a.cancel()
		<-a.done
		late.Send(theLog)
		synctest.Wait()
		wantStrings(t, "outside of calls", unrelated.notifications(), []string{`message {"level":"info","data":1}`})
	})
}

// A forged answer for the next call is dropped: the server's knowledge of one id
// reveals nothing about the next (I5).
func TestForgedAnswersAreDropped(t *testing.T) {
	for _, modern := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			var before atomic.Int64
			s := &faultyserver.HTTP{Modern: modern, Sessions: !modern, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
				own, err := strconv.ParseInt(x.Msg.ID.String(), 10, 64)
				if err != nil || own <= 0 || own >= 1<<31 {
					t.Errorf("id %s, want a number that fits into 31 bits", x.Msg.ID)
				}
				guess := before.Swap(own) + 1
				x.Status(http.StatusOK, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":["forged"]}}`, guess))
			}}}
			c := dialHTTP(t, s, client.Config{})
			for i := range 20 {
				res, err := within(t, c, echo(t), &recorder{})
				if err == nil {
					t.Fatalf("modern=%v, call %d: %s", modern, i, res.Bytes())
				}
			}
		})
	}
}
