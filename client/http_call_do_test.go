// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/bubble"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// tripper is a function that is a RoundTripper.
type tripper func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// served serves a request under a name that isServed finds in the stack.
//
//go:noinline
func served(t *testing.T, c *client.Client, caller mcp.Caller) (*mcp.Result, error) {
	return within(t, c, request(t, "tools/call", `{"name":"x","_meta":{"progressToken":"p"}}`), caller)
}

func isServed() bool { return strings.Contains(string(debug.Stack()), "client_test.served(") }

// stackRecorder is a caller that checks on which stack Notify is called.
type stackRecorder struct {
	recorder
	elsewhere int
}

// Notify records whether it runs on the stack of served.
func (n *stackRecorder) Notify(ctx context.Context, note *mcp.Notification) error {
	if !isServed() {
		n.elsewhere++
	}
	return n.recorder.Notify(ctx, note)
}

// The caller's goroutine sends a call, reads the response and delivers its messages. No
// other goroutine is started.
func TestCallRunsOnTheCallersGoroutine(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for name, answer := range map[string]func(x *faultyserver.Exchange){
			"document": func(x *faultyserver.Exchange) { x.Result(`{"content":[]}`) },
			"stream": func(x *faultyserver.Exchange) {
				x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`,
					x.Msg.Params.Raw(mcp.MetaProgressToken)))
				x.Response(`{"content":[]}`)
			},
		} {
			t.Run(fmt.Sprint(name, modern), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := &faultyserver.HTTP{Modern: modern, On: map[string]func(*faultyserver.Exchange){"tools/call": answer}}
					own, calls := 0, 0
					c := dialHTTPThrough(t, s, client.Config{}, func(rt http.RoundTripper) http.RoundTripper {
						return tripper(func(r *http.Request) (*http.Response, error) {
							if r.ContentLength > 0 && isServed() {
								own++
							}
							return rt.RoundTrip(r)
						})
					})
					caller := &stackRecorder{}
					for range 3 {
						calls++
						res, err := served(t, c, caller)
						wantResult(t, res, err, `{"content":[]}`)
					}
					if own != calls {
						t.Errorf("%d of %d calls were sent by who waits for them", own, calls)
					}
					if name == "stream" && len(caller.notifications()) != calls || caller.elsewhere > 0 {
						t.Errorf("told %q, %d times by another goroutine", caller.notifications(), caller.elsewhere)
					}
				})
			})
		}
	}
}

// A terminal that arrives another way while the call's own stream is silent, before its
// headers or after them, ends the call at once and cancels that stream.
func TestTerminalOnAnotherStreamEndsTheCall(t *testing.T) {
	for name, end := range map[string]struct {
		by   func(s *station, c *client.Client, scope *mcp.Scope, run *running, id mcp.ID)
		want string // "" for a result
	}{
		"the listening stream": {func(s *station, _ *client.Client, _ *mcp.Scope, _ *running, id mcp.ID) {
			s.listen <- response(id, `{"content":[]}`)
		}, ""},
		"the end of the session": {func(_ *station, _ *client.Client, scope *mcp.Scope, _ *running, _ mcp.ID) { scope.End() }, "shutting down"},
		"the end of the client": {func(_ *station, c *client.Client, _ *mcp.Scope, _ *running, _ mcp.ID) {
			_ = c.Close() // closed again by the test, which reports errors
		}, "shutting down"},
		"the caller": {func(_ *station, _ *client.Client, _ *mcp.Scope, run *running, _ mcp.ID) { run.cancel() }, "the request was cancelled"},
	} {
		for _, begun := range []bool{false, true} {
			t.Run(fmt.Sprint(name, begun), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := newStation()
					got, left := make(chan mcp.ID, 1), make(chan struct{})
					s.On["tools/call"] = func(x *faultyserver.Exchange) {
						if begun {
							x.Begin()
						}
						got <- x.Msg.ID
						x.Hold()
						close(left)
					}
					c := dialHTTP(t, s, client.Config{})
					scope := mcp.NewScope("s", nil)
					defer scope.End()
					run := launch(t, c, in(scope, echo(t)), &recorder{})
					<-s.open
					id := <-got
					synctest.Wait()
					end.by(s, c, scope, run, id)
					synctest.Wait()
					if !isDone(run) {
						t.Fatal("the caller waits for a stream that does not bring the terminal")
					}
					<-left
					if end.want == "" {
						run.wantResult(t, `{"content":[]}`)
						return
					}
					if run.err == nil || !strings.Contains(run.err.Error(), end.want) {
						t.Errorf("error %v, want one that says %q", run.err, end.want)
					}
				})
			})
		}
	}
}

// A response on the stream of another call ends the call at once, too.
func TestTerminalOnTheStreamOfAnotherCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		ids, gate := make(chan mcp.ID, 2), make(chan struct{})
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.Begin()
			ids <- x.Msg.ID
			if name, _ := x.Msg.Params.Text(mcp.FieldName); name == "silent" {
				x.Hold()
				return
			}
			<-gate
			x.Event("", response(<-ids, `{"content":[]}`))
			x.Hold()
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		silent := launch(t, c, in(scope, tool(t, "silent")), &recorder{})
		synctest.Wait()
		other := launch(t, c, in(scope, tool(t, "other")), &recorder{})
		synctest.Wait()
		close(gate)
		silent.wantResult(t, `{"content":[]}`)
		synctest.Wait()
		if isDone(other) {
			t.Error("the call that brought another's answer has ended")
		}
	})
}

// Messages that arrive for a call on the listening stream while its own stream is
// silent are delivered at once, in order, and by one goroutine at a time. All are
// delivered before the terminal, even if the caller is slow.
func TestMessagesOnAnotherStreamWhileTheCallsIsSilent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		gate := make(chan struct{})
		var token string
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			token = string(x.Msg.Params.Raw(mcp.MetaProgressToken))
			x.Begin()
			<-gate
			x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":4}}`, token))
			x.Response(`{"content":[]}`)
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		caller := &recorder{block: make(chan struct{})}
		run := launch(t, c, in(scope, request(t, "tools/call", `{"name":"x","_meta":{"progressToken":"p"}}`)), caller)
		<-s.open
		synctest.Wait()
		say := func(n int) {
			s.listen <- fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, n)
			synctest.Wait()
		}
		say(1)
		caller.block <- struct{}{}
		synctest.Wait()
		wantStrings(t, "told while the stream is silent", caller.notifications(), []string{`progress {"progressToken":"p","progress":1}`})
		say(2)
		say(3)
		close(gate)
		synctest.Wait()
		if isDone(run) {
			t.Error("the terminal has overtaken what came before it")
		}
		close(caller.block)
		run.wantResult(t, `{"content":[]}`)
		want := []string{}
		for n := range 4 {
			want = append(want, fmt.Sprintf(`progress {"progressToken":"p","progress":%d}`, n+1))
		}
		wantStrings(t, "told", caller.notifications(), want)
	})
}

// closingCaller is a caller that closes the client when it is notified.
type closingCaller struct {
	recorder
	c    *client.Client
	once sync.Once
}

// Notify closes the client.
func (c *closingCaller) Notify(ctx context.Context, n *mcp.Notification) error {
	c.once.Do(func() { _ = c.c.Close() }) // closed again by the test, which reports errors
	return c.recorder.Notify(ctx, n)
}

// A caller may close the client in Notify, and Close does not wait for a slow caller.
func TestCloseInsideNotify(t *testing.T) {
	for _, modern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.HTTP{Modern: modern, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
				x.Event("", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
				x.Hold()
			}}}
			caller := &closingCaller{}
			caller.c = dialHTTP(t, s, client.Config{})
			req := echo(t)
			req.LogLevel = mcp.LogUnset
			_, err := within(t, caller.c, req, caller)
			wantFault(t, err, mcp.CodeShuttingDown, mcp.Unknown, "shutting down")
		})
	}
}

// A stream that continues after the response delays no caller. It is read briefly, so
// that if the server ends it soon, the next call uses the same connection.
func TestStreamThatContinuesAfterTheResponse(t *testing.T) {
	for _, modern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			gate := make(chan struct{})
			s := &faultyserver.HTTP{Modern: modern, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
				x.Response(`{"content":[]}`)
				<-gate
			}}}
			made := 0
			trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
				if !info.Reused {
					made++
				}
			}}
			c := dialHTTPThrough(t, s, client.Config{}, func(rt http.RoundTripper) http.RoundTripper {
				return tripper(func(r *http.Request) (*http.Response, error) {
					return rt.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
				})
			})
			_, err := within(t, c, request(t, "prompts/list", ""), &recorder{})
			wantError(t, err, mcp.CodeMethodNotFound)
			synctest.Wait()
			before := made
			ctx, cancel := context.WithCancel(t.Context())
			res, err := c.Serve(ctx, echo(t), &recorder{})
			wantResult(t, res, err, `{"content":[]}`)
			cancel() // as a context ends when its request is answered
			synctest.Wait()
			close(gate)
			synctest.Wait()
			res, err = within(t, c, echo(t), &recorder{})
			wantResult(t, res, err, `{"content":[]}`)
			if made != before {
				t.Errorf("%d connections were made for two calls beside that of the request before, want none", made-before)
			}
		})
	}
}

// A transport of the configuration sees the values of the context of a modern call. A
// context that ends ends its POST, and so does Close.
func TestContextOfAModernPOST(t *testing.T) {
	type key struct{}
	for _, closes := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) { x.Hold() }}}
			var post context.Context
			c := dialHTTPThrough(t, s, client.Config{}, func(rt http.RoundTripper) http.RoundTripper {
				return tripper(func(r *http.Request) (*http.Response, error) {
					if r.Context().Value(key{}) != nil {
						post = r.Context()
					}
					return rt.RoundTrip(r)
				})
			})
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "of the call"))
			defer cancel()
			done := make(chan error)
			go func() {
				_, err := c.Serve(ctx, echo(t), &recorder{})
				done <- err
			}()
			synctest.Wait()
			if post == nil || post.Err() != nil {
				t.Fatalf("the context of the POST is %v, want an open one with the values of the call's", post)
			}
			want := int64(mcp.CodeBackendFailed)
			if closes {
				want = mcp.CodeShuttingDown
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			} else {
				cancel()
			}
			wantFault(t, <-done, want, mcp.Unknown, "")
			if post.Err() == nil {
				t.Error("the context of the POST has not ended")
			}
		})
	}
}

// Many calls leave no goroutine behind, however their streams end.
func TestCallsLeaveNoGoroutine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
			x.Response(`{"content":[]}`)
			x.Hold() // never ends its stream
		}}}
		c := dialHTTP(t, s, client.Config{})
		before := 0
		for i := range 20 {
			res, err := within(t, c, echo(t), &recorder{})
			wantResult(t, res, err, `{"content":[]}`)
			time.Sleep(time.Second)
			if i == 0 {
				before = bubble.Goroutines(t)
			}
		}
		if after := bubble.Goroutines(t); after > before {
			t.Errorf("%d goroutines after 20 calls, %d after one", after, before)
		}
	})
}
