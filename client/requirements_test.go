// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// A new pipe gets the subscriptions that are still wanted. If none is, no new pipe is
// opened.
//
// U8- 2026-07-28 basic/patterns/subscriptions: "the server holds no subscription state
// across reconnections"
func TestCancelledListenIsNotSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		lines := make(chan *faultyserver.Line, 10)
		s := &faultyserver.Lines{Modern: true, On: map[string]func(*faultyserver.Line){}}
		s.On["subscriptions/listen"] = func(x *faultyserver.Line) {
			x.Send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + x.Msg.ID.String() +
				`},"notifications":` + string(x.Msg.Params.Raw(mcp.FieldNotifications)) + `}}`)
			lines <- x
		}
		c, opened := dialLines(t, s, client.Config{})
		one, two := launch(t, c, listen(t), &recorder{}), launch(t, c, watching(t, "x:1"), &recorder{})
		latest := func() (x *faultyserver.Line) {
			time.Sleep(10 * time.Minute) // an unused process is kept for a while
			synctest.Wait()
			for {
				select {
				case x = <-lines:
				default:
					return x
				}
			}
		}
		x := latest()
		one.cancel()
		<-one.done
		if later := latest(); later != nil {
			x = later
		}
		x.Close()
		x = latest()
		if x == nil || !strings.Contains(string(x.Msg.Params.Bytes()), "x:1") || strings.Contains(string(x.Msg.Params.Bytes()), "toolsListChanged") {
			t.Fatalf("on the second pipe %+v is subscribed to; want x:1 alone", x)
		}
		two.cancel()
		<-two.done
		if later := latest(); later != nil {
			x = later
		}
		x.Close()
		if x := latest(); x != nil || opened() != 2 {
			t.Errorf("nobody wants anything: %v is subscribed to, on %d pipes", x, opened())
		}
	})
}

// The state and the answers of a request are sent with its own retry only. The retry
// has another id, and without a state it sends none.
//
// Q4- 2026-07-28 basic/patterns/mrtr: "If the `InputRequiredResult` does not contain a
// `requestState` field, the client MUST NOT include one in the retry."
//
// Q4+ 2026-07-28 basic/patterns/mrtr: "The JSON-RPC `id` MUST be different between the
// initial request and the retry, as they are independent requests."
func TestStateStaysWithItsRequest(t *testing.T) {
	for _, state := range []string{"", `,"requestState":"s\u0031"`} {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
				if string(x.Msg.Params.Raw(mcp.FieldName)) == `"plain"` || x.Msg.Params.Has(mcp.FieldInputResponses) {
					x.Polite()
					return
				}
				x.Result(`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}` + state + `}`)
			}}}
			c := dialHTTP(t, s, client.Config{})
			asked, answer := make(chan struct{}), make(chan struct{})
			call := launch(t, c, request(t, "tools/call", `{"name":"asks"}`), &recorder{answer: func(context.Context, *mcp.Request) (*mcp.Result, error) {
				close(asked)
				<-answer
				return mcp.NewResult([]byte(`{"roots":[]}`))
			}})
			<-asked
			res, err := within(t, c, request(t, "tools/call", `{"name":"plain"}`), &recorder{})
			wantResult(t, res, err, `{"content":[]}`)
			close(answer)
			call.wantResult(t, `{"content":[]}`)
			var calls []faultyserver.Seen
			for _, seen := range s.Seen() {
				if seen.Method == "tools/call" {
					calls = append(calls, seen)
				}
			}
			first, other, retry := calls[0], calls[1], calls[2]
			if strings.Contains(other.Body, "requestState") || strings.Contains(other.Body, "inputResponses") {
				t.Errorf("the other request: %s", other.Body)
			}
			if first.ID == retry.ID || !strings.Contains(retry.Body, `"inputResponses":{"a":{"roots":[]}}`) {
				t.Errorf("the retry of %s: %s %s", first.ID, retry.ID, retry.Body)
			}
			if strings.Contains(retry.Body, "requestState") != (state != "") || !strings.Contains(retry.Body, state) {
				t.Errorf("the retry: %s; want the state %q", retry.Body, state)
			}
		})
	}
}

// The state and the answers of one round are sent in the next round only.
//
// Q4- 2026-07-28 basic/patterns/mrtr: "If the `InputRequiredResult` does not contain a
// `requestState` field, the client MUST NOT include one in the retry."
func TestStateIsForOneRound(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const asks = `"inputRequests":{"%s":{"method":"roots/list"}}`
		rounds := []string{
			`{"resultType":"input_required",` + fmt.Sprintf(asks, "a") + `,"requestState":"one"}`,
			`{"resultType":"input_required",` + fmt.Sprintf(asks, "b") + `}`,
			`{"resultType":"input_required","requestState":"two"}`,
			`{"content":[]}`,
		}
		var params []string
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
			params = append(params, string(x.Msg.Params.Raw(mcp.FieldRequestState))+string(x.Msg.Params.Raw(mcp.FieldInputResponses)))
			x.Result(rounds[len(params)-1])
		}}}
		res, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{answer: says(`{"roots":[]}`)})
		wantResult(t, res, err, `{"content":[]}`)
		if want := []string{"", `"one"{"a":{"roots":[]}}`, `{"b":{"roots":[]}}`, `"two"`}; !slices.Equal(params, want) {
			t.Errorf("the rounds brought %q, want %q", params, want)
		}
	})
}

// A server may ask ten times, and gets an answer each time.
//
// Q9+ own: "The number of times that one request may ask for more input is limited."
func TestRoundsWithinTheirBound(t *testing.T) {
	for _, rounds := range []int{1, 2, 10} {
		inBubble(t, func(t *testing.T) {
			n := 0
			s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
				if n++; n > rounds {
					x.Polite()
					return
				}
				x.Result(fmt.Sprintf(`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"%d"}`, n))
			}}}
			caller := &recorder{answer: says(`{"roots":[]}`)}
			res, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), caller)
			wantResult(t, res, err, `{"content":[]}`)
			if got := len(caller.asked()); got != rounds {
				t.Errorf("asked %d times, want %d", got, rounds)
			}
		})
	}
}

// Results that the server allows to be cached are cached by the client, if at all, and
// not here: neither a result nor the outcome of answers is given to another request.
//
// Q7- 2026-07-28 server/utilities/caching: "MUST NOT be cached, as they depend on inputs
// that are not part of the cache key."
func TestRetriedResultsAreNotKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := 0
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"resources/read": func(x *faultyserver.Exchange) {
			if !x.Msg.Params.Has(mcp.FieldInputResponses) {
				x.Result(`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"s"}`)
				return
			}
			n++
			x.Result(fmt.Sprintf(`{"resultType":"complete","contents":[],"n":%d,"ttlMs":3600000,"cacheScope":"public"}`, n))
		}}}
		c := dialHTTP(t, s, client.Config{})
		for i := range 3 {
			caller := &recorder{answer: says(`{"roots":[]}`)}
			res, err := within(t, c, request(t, "resources/read", `{"uri":"x:y"}`), caller)
			wantResult(t, res, err, fmt.Sprintf(`{"resultType":"complete","contents":[],"n":%d,"ttlMs":3600000,"cacheScope":"public"}`, i+1))
			if len(caller.asked()) != 1 {
				t.Errorf("read %d asked %d times, want once", i, len(caller.asked()))
			}
		}
	})
}

// With twenty concurrent calls that exceed the buffer of the pipe, the server reads
// each message whole, and so does the client.
//
// D7+ own: "Each message to a process is written whole before the next one begins."
func TestMessagesOnAPipeAreWhole(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.Lines{Modern: true, On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) {
			x.Result(`{"content":[` + string(x.Msg.Params.Raw(mcp.FieldArguments)) + `]}`)
		}}}
		var serving sync.WaitGroup
		c := client.NewPipe(func(context.Context) (io.ReadWriteCloser, error) {
			ours, theirs := memnet.Pipe(4096)
			serving.Go(func() { s.Serve(theirs) }) // ends with the client; waited for below
			return ours, nil
		}, client.Config{Name: "b"})
		const size = 16 << 10
		var calls []*running
		for i := range 20 {
			arguments := fmt.Sprintf(`{"i":%d,"pad":"%s"}`, i, strings.Repeat(string(rune('a'+i)), size))
			calls = append(calls, launch(t, c, request(t, "tools/call", `{"name":"x","arguments":`+arguments+`}`), &recorder{}))
		}
		for i, call := range calls {
			call.wantResult(t, fmt.Sprintf(`{"content":[{"i":%d,"pad":"%s"}]}`, i, strings.Repeat(string(rune('a'+i)), size)))
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
}

// A message of 8 MiB is one line like any other.
//
// D1+ 2026-07-28 basic/transports/stdio: "Messages are delimited by newlines, and MUST
// NOT contain embedded newlines."
func TestLargeMessageOnAPipe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		large := `{"content":["` + strings.Repeat("x", 8<<20) + `"]}`
		asked := "{\"name\":\"x\",\n\"arguments\":{\r\n\"pad\":\"" + strings.Repeat("y", 1<<20) + "\"}}"
		s := &faultyserver.Lines{Modern: true, On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) { x.Result(large) }}}
		c, opened := dialLines(t, s, client.Config{})
		for range 2 {
			res, err := within(t, c, request(t, "tools/call", asked), &recorder{})
			wantResult(t, res, err, large)
		}
		for _, seen := range s.Seen() {
			if strings.ContainsAny(seen.Body, "\r\n") {
				t.Errorf("the server got %.200q", seen.Body)
			}
		}
		if n := s.Count("tools/call"); n != 2 || opened() != 1 {
			t.Errorf("the server got %d calls on %d pipes, want two on one", n, opened())
		}
	})
}
