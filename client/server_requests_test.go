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
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// callbackCaller is a caller that runs a function at each Notify and Ask.
type callbackCaller struct{ do func() }

func (h callbackCaller) Notify(context.Context, *mcp.Notification) error {
	h.do()
	return nil
}

func (h callbackCaller) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	return func() (*mcp.Result, error) { return h.ask(ctx, req) }, nil
}

func (callbackCaller) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func (h callbackCaller) ask(context.Context, *mcp.Request) (*mcp.Result, error) {
	h.do()
	return mcp.NewResult([]byte("{}"))
}

const (
	theAsk = `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`
	theLog = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`
)

// A Caller may close the client that calls it, in any of its methods (I29).
func TestI29CloseFromWithin(t *testing.T) {
	for what, msg := range map[string]string{"asked": theAsk, "told": theLog} {
		t.Run("lines/"+what, func(t *testing.T) {
			closeFromWithin(t, false, func(t *testing.T) *client.Client {
				c, _ := dialLines(t, &faultyserver.Lines{On: map[string]func(*faultyserver.Line){
					"tools/call": func(x *faultyserver.Line) { x.Send(msg) },
				}}, client.Config{})
				return c
			})
		})
		t.Run("http/"+what, func(t *testing.T) {
			closeFromWithin(t, false, func(t *testing.T) *client.Client {
				s := newStation()
				s.On["tools/call"] = func(x *faultyserver.Exchange) {
					x.Event("", msg)
					x.Hold()
				}
				return dialHTTP(t, s, client.Config{})
			})
		})
		t.Run("unrelated/"+what, func(t *testing.T) {
			closeFromWithin(t, true, func(t *testing.T) *client.Client {
				s := newStation()
				s.On["GET"] = func(x *faultyserver.Exchange) {
					x.Event("", msg)
					x.Hold()
				}
				s.On["tools/call"] = func(x *faultyserver.Exchange) { x.Hold() }
				return dialHTTP(t, s, client.Config{})
			})
		})
	}
	t.Run("modern", func(t *testing.T) {
		closeFromWithin(t, false, func(t *testing.T) *client.Client {
			return dialHTTP(t, &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
				x.Event("", theLog)
				x.Response(`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list","params":{}}}}`)
			}}}, client.Config{})
		})
	})
}

// closeFromWithin makes a call with a Caller, or an unrelated Caller of its scope, that
// closes the client.
func closeFromWithin(t *testing.T, unrelated bool, dial func(t *testing.T) *client.Client) {
	t.Helper()
	inBubble(t, func(t *testing.T) {
		c := dial(t)
		closed := make(chan struct{})
		closer := callbackCaller{do: sync.OnceFunc(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			close(closed)
		})}
		related, other := mcp.Caller(closer), mcp.Caller(nil)
		if unrelated {
			related, other = &recorder{}, closer
		}
		scope := mcp.NewScope("s", other)
		defer scope.End()
		call := launch(t, c, in(scope, echo(t)), related)
		<-closed
		<-call.done
		if call.err == nil {
			t.Error("the call outlived its client")
		}
	})
}

// A Caller that panics in Ask costs its own answer only (I29).
func TestI29PanicOfACaller(t *testing.T) {
	boom := callbackCaller{do: func() { panic("boom") }}
	inBubble(t, func(t *testing.T) {
		var call *faultyserver.Line
		s := &faultyserver.Lines{}
		s.On = map[string]func(*faultyserver.Line){
			"tools/call": func(x *faultyserver.Line) {
				call = x
				x.Send(theAsk)
			},
			"response": func(x *faultyserver.Line) {
				if !strings.Contains(string(x.Msg.Raw), "could not be asked") {
					t.Errorf("answer %s", x.Msg.Raw)
				}
				call.Polite()
			},
		}
		c, _ := dialLines(t, s, client.Config{})
		res, err := within(t, c, echo(t), boom)
		wantResult(t, res, err, `{"content":[]}`)
	})
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
			x.Result(`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list","params":{}}}}`)
		}}}
		_, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), boom)
		wantError(t, err, mcp.CodeInternalError)
	})
}

// A request with an id that is in use is refused at once, and the request that has the
// id continues (I5).
func TestServerRequestWithAnIDInUse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		var (
			call    *faultyserver.Line
			answers []string
		)
		s := &faultyserver.Lines{}
		s.On = map[string]func(*faultyserver.Line){
			"tools/call": func(x *faultyserver.Line) {
				call = x
				for i := range 2 {
					x.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"n":%d}}`, i))
				}
			},
			"response": func(x *faultyserver.Line) {
				if answers = append(answers, string(x.Msg.Raw)); len(answers) == 1 {
					close(gate)
					return
				}
				call.Polite()
			},
		}
		c, _ := dialLines(t, s, client.Config{})
		rec := &recorder{answer: func(_ context.Context, req *mcp.Request) (*mcp.Result, error) {
			<-gate
			return mcp.NewResult(req.Params.Bytes())
		}}
		res, err := within(t, c, echo(t), rec)
		wantResult(t, res, err, `{"content":[]}`)
		wantStrings(t, "answers", answers, []string{
			`{"jsonrpc":"2.0","id":"q","error":{"code":-32600,"message":"a request with this id is already waiting for an answer"}}`,
			`{"jsonrpc":"2.0","id":"q","result":{"n":0}}`,
		})
	})
}

// The server's requests are forwarded in order, but do not wait for each other's
// answers.
func TestServerRequestsAreInOrder(t *testing.T) {
	for range 20 { // goroutines that race do so in any order
		inBubble(t, func(t *testing.T) {
			var call *faultyserver.Line
			answers := 0
			s := &faultyserver.Lines{}
			s.On = map[string]func(*faultyserver.Line){
				"tools/call": func(x *faultyserver.Line) {
					call = x
					for i := range 5 {
						x.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"message":"%d"}}`, i, i+1))
					}
				},
				"response": func(*faultyserver.Line) {
					if answers++; answers == 5 {
						call.Polite()
					}
				},
			}
			c, _ := dialLines(t, s, client.Config{})
			caller := &starter{recorder: new(recorder), all: make(chan struct{})}
			caller.answer = func(context.Context, *mcp.Request) (*mcp.Result, error) {
				<-caller.all
				return mcp.NewResult([]byte(`{"action":"decline"}`))
			}
			res, err := within(t, c, echo(t), caller)
			wantResult(t, res, err, `{"content":[]}`)
			wantStrings(t, "asked", caller.asked(), []string{"1", "2", "3", "4", "5"})
		})
	}
}

// A server may reuse an id as soon as it has the answer, before it has acknowledged
// that.
func TestServerRequestWithAnAnsweredID(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const question = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`
		taken := make(chan struct{})
		answers := make(chan string, 2)
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Event("", question)
			first := <-answers
			x.Event("", question)
			second := <-answers
			close(taken)
			x.Response(`{"content":[` + first + `,` + second + `]}`)
		}
		s.On[""] = func(x *faultyserver.Exchange) { // our answers
			answers <- string(x.Msg.Result.Bytes())
			<-taken
			x.Polite()
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		res, err := within(t, c, in(scope, echo(t)), &recorder{answer: respondWith(`{"n":1}`)})
		wantResult(t, res, err, `{"content":[{"n":1},{"n":1}]}`)
	})
}

// tooSlow is the answer of a server that has not waited for the rest of a message.
const tooSlow = `{"jsonrpc":"2.0","error":{"code":-32600,"message":"the body came too slowly"}}`

// A lost answer is sent again, because the server waits for it, and the client for the
// server.
func TestLostAnswerIsSentAgain(t *testing.T) {
	lost := map[string]struct {
		first func(x *faultyserver.Exchange)
		tries int
	}{
		"broken":  {func(x *faultyserver.Exchange) { x.Abort() }, 2},
		"silent":  {func(x *faultyserver.Exchange) { x.Hold() }, 2},
		"busy":    {func(x *faultyserver.Exchange) { x.Status(http.StatusServiceUnavailable, "", "") }, 2},
		"late":    {func(x *faultyserver.Exchange) { x.Status(http.StatusRequestTimeout, "", "") }, 2},
		"cut off": {func(x *faultyserver.Exchange) { x.Status(http.StatusRequestTimeout, "application/json", tooSlow) }, 2},
		"refused": {func(x *faultyserver.Exchange) { x.Status(http.StatusBadRequest, "", "") }, 1},
	}
	for name, tt := range lost {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				answered := make(chan struct{})
				tries := 0
				s := newStation()
				s.On["tools/call"] = func(x *faultyserver.Exchange) {
					x.Event("", theAsk)
					select {
					case <-answered:
					case <-time.After(time.Minute):
					}
					x.Response(`{}`)
				}
				s.On[""] = func(x *faultyserver.Exchange) { // our answers
					if tries++; tries == 1 {
						tt.first(x)
						return
					}
					x.Polite()
					close(answered)
				}
				c := dialHTTP(t, s, client.Config{})
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				res, err := within(t, c, in(scope, echo(t)), &recorder{answer: respondWith(`{}`)})
				wantResult(t, res, err, `{}`)
				if tries != tt.tries {
					t.Errorf("the answer was sent %d times, want %d", tries, tt.tries)
				}
			})
		})
	}
}

// The limit is on concurrent requests: a session may have any number of them one after
// another.
func TestManyServerRequestsOfOneSession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const most = 100
		asked := 0
		var call *faultyserver.Line
		ask := func() {
			asked++
			call.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{}}`, asked))
		}
		s := &faultyserver.Lines{}
		s.On = map[string]func(*faultyserver.Line){
			"tools/call": func(x *faultyserver.Line) {
				call = x
				ask()
			},
			"response": func(x *faultyserver.Line) {
				switch {
				case x.Msg.Kind != mcp.KindResult:
					t.Errorf("ask %d: %s", asked, x.Msg.Raw)
					call.Polite()
				case asked == most:
					call.Polite()
				default:
					ask()
				}
			},
		}
		c, _ := dialLines(t, s, client.Config{})
		res, err := within(t, c, echo(t), &recorder{answer: respondWith(`{}`)})
		wantResult(t, res, err, `{"content":[]}`)
	})
}

// A server that sends requests without end and accepts no answers costs a few
// connections and never its own calls (fault 70, I21).
func TestFloodOfServerRequests(t *testing.T) {
	for _, msg := range []string{`"method":"sampling/createMessage","params":{}`, `"method":"ping"`} {
		inBubble(t, func(t *testing.T) {
			var open, most atomic.Int32
			flood := make(chan struct{})
			s := newStation()
			s.On["GET"] = func(x *faultyserver.Exchange) {
				x.Begin()
				<-flood
				for i := range 3000 {
					x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, i, msg))
				}
				x.Hold()
			}
			s.On[""] = func(x *faultyserver.Exchange) { // our answers
				most.Store(max(most.Load(), open.Add(1)))
				defer open.Add(-1)
				x.Hold()
			}
			c := dialHTTP(t, s, client.Config{})
			scope := mcp.NewScope("s", nil)
			defer scope.End()
			if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
				t.Fatal(err)
			}
			close(flood)
			synctest.Wait()
			res, err := within(t, c, in(scope, echo(t)), &recorder{})
			wantResult(t, res, err, `{"content":[]}`)
			if n := most.Load(); n == 0 || n > 8 {
				t.Errorf("%d answers at once", n)
			}
		})
	}
}

// Each of many concurrent requests is answered, once.
func TestEveryServerRequestIsAnswered(t *testing.T) {
	const asks = 200
	inBubble(t, func(t *testing.T) {
		var call *faultyserver.Line
		seen := make(map[string]int)
		s := &faultyserver.Lines{}
		s.On = map[string]func(*faultyserver.Line){
			"tools/call": func(x *faultyserver.Line) {
				call = x
				for i := range asks {
					x.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, i))
				}
			},
			"response": func(x *faultyserver.Line) {
				if seen[x.Msg.ID.String()]++; len(seen) == asks {
					call.Polite()
				}
			},
		}
		c, _ := dialLines(t, s, client.Config{})
		res, err := within(t, c, echo(t), &recorder{answer: respondWith(`{"roots":[]}`)})
		wantResult(t, res, err, `{"content":[]}`)
		for id, n := range seen {
			if n != 1 {
				t.Errorf("the ask %s has %d answers", id, n)
			}
		}
	})
}
