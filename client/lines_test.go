// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// A response that arrives before the write of its request has returned is delivered
// (M026), in both eras, with unknown members and number texts unmodified.
func TestM026ImmediateAnswer(t *testing.T) {
	for _, modern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.Lines{Modern: modern, On: map[string]func(*faultyserver.Line){
				"tools/call": func(x *faultyserver.Line) { x.Result(`{"content":[],"n":1.00,"x":{"y":null}}`) },
			}}
			c, _ := dialLines(t, s, client.Config{})
			for range 100 {
				res, err := within(t, c, echo(t), &recorder{})
				wantResult(t, res, err, `{"content":[],"n":1.00,"x":{"y":null}}`)
			}
		})
	}
}

// Two clients with the same ids and progress tokens share a modern process. Each
// receives its own messages (M014, M186).
//
// U2- 2026-07-28 basic/transports/streamable-http: "These notifications MUST relate to
// the originating client request."
//
// D6+ 2026-07-28 basic/index: "clients may interleave unrelated requests on the same
// transport"
//
// C8+ 2026-07-28 basic/patterns/progress: "Progress tokens can be chosen by the client
// using any means, but MUST be unique across all active requests."
func TestM186SharedModernPipe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		lines := make(chan *faultyserver.Line, 2)
		s := &faultyserver.Lines{Modern: true, On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) { lines <- x }}}
		c, opened := dialLines(t, s, client.Config{})
		var calls [2]*running
		var callers [2]*recorder
		var at [2]*faultyserver.Line
		for i := range 2 {
			callers[i] = &recorder{}
			req := request(t, "tools/call", `{"name":"x","_meta":{"progressToken":1}}`)
			req.LogLevel = mcp.LogInfo
			calls[i] = launch(t, c, req, callers[i])
			at[i] = <-lines
		}
		for _, i := range []int{1, 0} {
			token := at[i].Msg.Params.Raw(mcp.MetaProgressToken)
			at[i].Send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, i))
			at[i].Send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"whose?"}}`)
			at[i].Send(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
			at[i].Result(fmt.Sprintf(`{"content":[%d]}`, i))
			calls[i].wantResult(t, fmt.Sprintf(`{"content":[%d]}`, i))
		}
		wantStrings(t, "the second one's", callers[1].notifications(), []string{`progress {"progressToken":1,"progress":1}`})
		// The first call was the only one when the second message arrived.
		wantStrings(t, "the first one's", callers[0].notifications(), []string{
			`progress {"progressToken":1,"progress":0}`, `message {"level":"info","data":"whose?"}`,
		})
		if opened() != 1 || len(callers[0].asked())+len(callers[1].asked()) != 0 {
			t.Errorf("%d pipes; asked %q %q", opened(), callers[0].asked(), callers[1].asked())
		}
	})
}

// Each legacy session has a pipe of its own, which ends with its scope.
func TestLegacySessionsOverLines(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){}}
		s.On["tools/call"] = func(x *faultyserver.Line) {
			x.Send(`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`)
			x.Send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
			s.On["response"] = func(y *faultyserver.Line) { x.Result(`{"content":[` + string(y.Msg.Result.Bytes()) + `]}`) }
		}
		c, opened := dialLines(t, s, client.Config{})
		for i := range 2 {
			scope := mcp.NewScope(fmt.Sprint(i), nil)
			caller := &recorder{answer: respondWith(`{"role":"assistant"}`)}
			for range 2 {
				res, err := within(t, c, in(scope, echo(t)), caller)
				wantResult(t, res, err, `{"content":[{"role":"assistant"}]}`)
			}
			if got := caller.notifications(); len(got) != 2 {
				t.Errorf("notifications %q", got)
			}
			scope.End()
		}
		if opened() != 2 {
			t.Errorf("%d pipes for 2 scopes", opened())
		}
	})
}

// Cancelling one of two calls on a pipe sends the notification and does not affect the
// other (M129, requirement C2).
//
// C2+ 2026-07-28 basic/transports/stdio: "To cancel an in-flight request, the client
// MUST send a `notifications/cancelled` notification referencing the request's ID."
//
// C6+ 2026-07-28 basic/patterns/cancellation: "The client SHOULD ignore any response
// to the cancelled request that arrives afterward"
func TestM129CancelOnAPipe(t *testing.T) {
	for _, modern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			lines := make(chan *faultyserver.Line, 2)
			notice := make(chan string, 1)
			s := &faultyserver.Lines{Modern: modern, On: map[string]func(*faultyserver.Line){
				"tools/call":              func(x *faultyserver.Line) { lines <- x },
				"notifications/cancelled": func(x *faultyserver.Line) { notice <- string(x.Msg.Params.Raw(mcp.FieldRequestID)) },
			}}
			c, _ := dialLines(t, s, client.Config{})
			scope := mcp.NewScope("s", nil)
			defer scope.End()
			one := launch(t, c, in(scope, echo(t)), &recorder{})
			first := <-lines
			two := launch(t, c, in(scope, echo(t)), &recorder{})
			second := <-lines
			one.cancel()
			<-one.done
			if got := <-notice; got != first.Msg.ID.String() {
				t.Errorf("notice for %s, want %s", got, first.Msg.ID)
			}
			first.Result(`{"late":true}`)
			second.Result(`{"content":[]}`)
			two.wantResult(t, `{"content":[]}`)
			if st := c.Stats(); st.Late != 1 {
				t.Errorf("%d late responses counted, want 1", st.Late)
			}
		})
	}
}

// The server exits with requests in progress: each fails at once, and the next request
// starts it again (M159, M201).
func TestM201ReaderEnds(t *testing.T) {
	for _, modern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			lines := make(chan *faultyserver.Line, 3)
			s := &faultyserver.Lines{Modern: modern, On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) {
				if string(x.Msg.Params.Raw(mcp.FieldName)) == `"quick"` {
					x.Polite()
					return
				}
				lines <- x
			}}}
			c, opened := dialLines(t, s, client.Config{})
			scope := mcp.NewScope("s", nil)
			defer scope.End()
			var calls []*running
			var last *faultyserver.Line
			for range 3 {
				calls = append(calls, launch(t, c, in(scope, echo(t)), &recorder{}))
				last = <-lines
			}
			began := time.Now()
			last.Close()
			for _, call := range calls {
				<-call.done
				wantFault(t, call.err, mcp.CodeBackendFailed, mcp.Unknown, "closed the connection")
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("failed after %v", took)
			}
			res, err := within(t, c, in(scope, request(t, "tools/call", `{"name":"quick"}`)), &recorder{})
			wantResult(t, res, err, `{"content":[]}`)
			if opened() != 2 {
				t.Errorf("opened %d pipes, want 2", opened())
			}
		})
	}
}

// Invalid lines are skipped, lines that are too long end the pipe with the reason, and
// CRLF and a last line without a newline are accepted (M200, faults 50 and 62).
//
// D1- 2026-07-28 basic/transports/stdio: "The server MUST NOT write anything to its
// `stdout` that is not a valid MCP message."
func TestM200Lines(t *testing.T) {
	tests := []struct {
		name   string
		answer func(x *faultyserver.Line)
		text   string // of the fault; "" is success
	}{
		{"a banner first", func(x *faultyserver.Line) { x.Raw("Server running!\n\n{\"log\":1}\n[]\n"); x.Polite() }, ""},
		{"CRLF", func(x *faultyserver.Line) { x.Raw(response(x.Msg.ID, `{"content":[]}`) + "\r\n") }, ""},
		{"several in one write", func(x *faultyserver.Line) {
			note := `{"jsonrpc":"2.0","method":"notifications/x","params":{}}` + "\n"
			x.Raw(note + response(x.Msg.ID, `{"content":[]}`) + "\n" + note)
		}, ""},
		{"separators that are none", func(x *faultyserver.Line) {
			x.Raw("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":{\"a\":\"\u2028\u2029\u0085\"}}\n")
			x.Polite()
		}, ""},
		{"in pieces", func(x *faultyserver.Line) {
			for _, b := range []byte(response(x.Msg.ID, `{"content":[]}`) + "\n") {
				x.Raw(string(b))
			}
		}, ""},
		{"no newline at the end", func(x *faultyserver.Line) {
			x.Raw(response(x.Msg.ID, `{"content":[]}`))
			x.Close()
		}, ""},
		{"a batch", func(x *faultyserver.Line) { x.Send("[" + response(x.Msg.ID, `{"content":[]}`) + "]") }, ""},
		{"99 bad lines", func(x *faultyserver.Line) { x.Raw(strings.Repeat("bad\n", 99)); x.Polite() }, ""},
		{"100 bad lines", func(x *faultyserver.Line) { x.Raw(strings.Repeat("bad\n", 100)); x.Polite() }, "100 lines to its output that are not messages"},
		{"a long line", func(x *faultyserver.Line) { x.Send(`{"x":"` + strings.Repeat("x", 1<<16) + `"}`); x.Polite() }, "more than 65536 bytes"},
		{"a bad response", func(x *faultyserver.Line) { x.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s}`, x.Msg.ID)) }, "breaks the protocol"},
	}
	for _, tt := range tests {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/modern=%v", tt.name, modern), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := &faultyserver.Lines{Modern: modern, On: map[string]func(*faultyserver.Line){"tools/call": tt.answer}}
					c, _ := dialLines(t, s, client.Config{MaxMessage: 1 << 16})
					res, err := within(t, c, echo(t), &recorder{})
					if tt.text == "" {
						wantResult(t, res, err, `{"content":[]}`)
						return
					}
					f, ok := errors.AsType[*mcp.Fault](err)
					if !ok || !strings.Contains(f.Message, tt.text) || f.Outcome != mcp.Unknown {
						t.Errorf("error %v, want one about %q", err, tt.text)
					}
				})
			})
		}
	}
}

// A server that does not read its input is ended after the write deadline, and does not
// block a caller that has cancelled (M115).
//
// D7- own: "Each message to a process is written whole before the next one begins."
func TestServerThatDoesNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		stuck := make(chan struct{})
		s := &faultyserver.Lines{Modern: true, On: map[string]func(*faultyserver.Line){"tools/call": func(*faultyserver.Line) { <-stuck }}}
		c, _ := dialLines(t, s, client.Config{})
		big := request(t, "tools/call", `{"name":"`+strings.Repeat("x", 3<<20)+`"}`)
		one, two := launch(t, c, big, &recorder{}), launch(t, c, big, &recorder{})
		synctest.Wait()
		began := time.Now()
		one.cancel()
		<-one.done
		if took := time.Since(began); took != 0 {
			t.Errorf("the cancelled call took %v more", took)
		}
		<-two.done
		wantFault(t, two.err, mcp.CodeBackendFailed, mcp.Unknown, "did not read its input for 10s")
		close(stuck)
		synctest.Wait()
		if n := s.Count("tools/call"); n != 1 || s.Count("notifications/cancelled") != 0 {
			t.Errorf("it read %d calls, want the first; what follows a message that was cut off is none", n)
		}
	})
}

// A server that cannot be reached only fails its own requests.
func TestUnreachablePipe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := client.NewPipe(func(context.Context) (io.ReadWriteCloser, error) { return nil, io.ErrUnexpectedEOF }, client.Config{Name: "b"})
		_, err := within(t, c, echo(t), &recorder{})
		wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, "could not be reached")
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A flood of messages for a slow caller on a shared pipe is limited. It keeps the
// latest progress and never blocks the reader (I30, DELIVERY 5.2).
//
// C9- 2026-07-28 basic/patterns/progress: "Both parties SHOULD implement rate limiting
// to prevent flooding"
func TestI30FloodOnAPipe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.Lines{Modern: true, On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) {
			token := x.Msg.Params.Raw(mcp.MetaProgressToken)
			if token == nil {
				x.Polite()
				return
			}
			for i := range 5000 {
				x.Send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, i))
			}
			x.Result(`{"content":["slow"]}`)
		}}}
		c, _ := dialLines(t, s, client.Config{})
		caller := &recorder{block: make(chan struct{})}
		slow := launch(t, c, request(t, "tools/call", `{"name":"x","_meta":{"progressToken":"p"}}`), caller)
		synctest.Wait()
		res, err := within(t, c, echo(t), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		close(caller.block)
		slow.wantResult(t, `{"content":["slow"]}`)
		got := caller.notifications()
		if len(got) > 300 || got[len(got)-1] != `progress {"progressToken":"p","progress":4999}` {
			t.Errorf("%d notifications, the last is %s", len(got), got[len(got)-1])
		}
	})
}

// A server that sends requests although its revision has none is refused at once, and
// its call continues (fault 70, I37, U1).
//
// U1- 2026-07-28 basic/patterns/mrtr: "The previous pattern of server-initiated
// requests is no longer supported."
func TestModernPipeThatAsks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var call *faultyserver.Line
		var answer string
		s := &faultyserver.Lines{Modern: true}
		s.On = map[string]func(*faultyserver.Line){
			"tools/call": func(x *faultyserver.Line) {
				call = x
				x.Send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`)
			},
			"response": func(x *faultyserver.Line) {
				answer = string(x.Msg.Raw)
				call.Polite()
			},
		}
		c, _ := dialLines(t, s, client.Config{})
		rec := &recorder{}
		res, err := within(t, c, echo(t), rec)
		wantResult(t, res, err, `{"content":[]}`)
		const want = `{"jsonrpc":"2.0","id":"q","error":{"code":-32601,"message":"\"elicitation/create\": a server makes no requests in 2026-07-28"}}`
		if answer != want || len(rec.asked()) != 0 {
			t.Errorf("answer %s\nwant   %s\nasked %q, want nothing", answer, want, rec.asked())
		}
	})
}
