// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

const inputWanted = `{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list","params":{}}},"requestState":"s"}`

// secondRounds requests input in its first round and leaves the others to f.
func secondRounds(f func(n int, x *faultyserver.Exchange)) *faultyserver.HTTP {
	n := 0
	return &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
		if !x.Msg.Params.Has(mcp.FieldRequestState) {
			x.Result(inputWanted)
			return
		}
		n++
		f(n, x)
	}}}
}

// A later round that the server refused unprocessed is resent unmodified: the client is
// not asked again, and the request is not started over (DELIVERY 5.4).
func TestLaterRoundIsSentAgain(t *testing.T) {
	busy := func(x *faultyserver.Exchange) { x.Status(429, "", "") }
	for _, failures := range []int{1, 2, 3} {
		inBubble(t, func(t *testing.T) {
			s := secondRounds(func(n int, x *faultyserver.Exchange) {
				if n <= failures {
					busy(x)
					return
				}
				x.Polite()
			})
			c := dialHTTP(t, s, client.Config{})
			caller := &recorder{answer: respondWith(`{"roots":[]}`)}
			res, err := within(t, c, echo(t), caller)
			if failures <= 2 {
				wantResult(t, res, err, `{"content":[]}`)
			} else {
				wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "HTTP status 429")
			}
			if sent := s.Count("tools/call"); sent != 1+min(failures+1, 3) || len(caller.asked()) != 1 {
				t.Errorf("%d failures: sent %d times, asked %d times", failures, sent, len(caller.asked()))
			}
			if got := c.Stats().Retries; got != uint64(min(failures, 2)) {
				t.Errorf("%d failures: %d retries counted", failures, got)
			}
		})
	}
}

// refusing refuses connections while left is positive.
type refusing struct {
	http.RoundTripper

	left *int
}

func (r refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	if *r.left > 0 {
		*r.left--
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	return r.RoundTripper.RoundTrip(req)
}

// A round without a connection was not sent and is resent, unless the request is
// cancelled.
func TestLaterRoundWithoutAConnection(t *testing.T) {
	for _, giveUp := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s := secondRounds(func(_ int, x *faultyserver.Exchange) { x.Polite() })
			left := 0
			c := dialHTTPThrough(t, s, client.Config{}, func(rt http.RoundTripper) http.RoundTripper { return refusing{rt, &left} })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			caller := &recorder{answer: func(context.Context, *mcp.Request) (*mcp.Result, error) {
				left = 1 // from now on, once
				if giveUp {
					time.AfterFunc(time.Millisecond, cancel) // during the wait for the next attempt
				}
				return mcp.NewResult([]byte(`{"roots":[]}`))
			}}
			res, err := c.Serve(ctx, echo(t), caller)
			if giveUp {
				wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "connection refused")
			} else {
				wantResult(t, res, err, `{"content":[]}`)
			}
			want := 2
			if giveUp {
				want = 1
			}
			if got := s.Count("tools/call"); got != want {
				t.Errorf("%d rounds arrived, want %d", got, want)
			}
		})
	}
}

// A server that is itself a gateway may report that it did not forward a later round.
// The first round of the request was forwarded, so the client must not learn that it
// can be resent.
func TestLaterRoundNotForwardedByAGateway(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		data   string
		want   string
	}{
		"in an answer":  {200, `{"source":"gateway","outcome":"not_dispatched"}`, "the request may have been executed"},
		"in a refusal":  {503, `{"source":"gateway","outcome":"not_dispatched"}`, "the request may have been executed"},
		"it was":        {200, `{"source":"gateway","outcome":"unknown"}`, "as it said"},
		"other data":    {200, `["not_dispatched"]`, "as it said"},
		"other members": {200, `{"dispatched":false}`, "as it said"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := secondRounds(func(_ int, x *faultyserver.Exchange) {
					e := &mcp.Error{Code: 1004, Message: "as it said", Data: []byte(tt.data)}
					x.Status(tt.status, "application/json", string(jsonrpc.AppendError(nil, x.Msg.ID, e)))
				})
				_, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{answer: respondWith(`{"roots":[]}`)})
				if err == nil || !strings.Contains(mcp.ToWire(err).Message, tt.want) {
					t.Errorf("error %v, want one with %q", err, tt.want)
				}
			})
		})
	}
}

// A server that answers with input_required without any input, or with invalid input
// requests, breaks the protocol: the request ends, and the client is not asked.
//
// Q5- 2026-07-28 basic/patterns/mrtr: "Servers MUST include at least one of
// `inputRequests` or `requestState` in every `InputRequiredResult` response."
func TestInvalidInputRequired(t *testing.T) {
	many := `{"resultType":"input_required","inputRequests":{` + strings.TrimSuffix(strings.Repeat(`"%":{"method":"roots/list"},`, 17), ",") + `}}`
	for i := range 17 {
		many = strings.Replace(many, "%", string(rune('a'+i)), 1)
	}
	for _, tt := range []struct {
		result, text string
		code         int64
	}{
		{`{"resultType":"input_required"}`, "without inputRequests and requestState", mcp.CodeBackendFailed},
		{`{"resultType":"input_required","inputRequests":[1]}`, "breaks the protocol", mcp.CodeBackendFailed},
		{`{"resultType":"input_required","inputRequests":{"a":7}}`, "breaks the protocol", mcp.CodeBackendFailed},
		{many, "17 input requests at once", mcp.CodeLimit},
	} {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) { x.Result(tt.result) }}}
			caller := &recorder{answer: respondWith(`{"roots":[]}`)}
			_, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), caller)
			wantFault(t, err, tt.code, mcp.Unknown, tt.text)
			if n := len(caller.asked()); n != 0 {
				t.Errorf("%s: the client was asked %d times", tt.result, n)
			}
		})
	}
}

// If the client cancels while it is asked, its request ends at once.
func TestCancelledWhileAsked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := secondRounds(func(_ int, x *faultyserver.Exchange) { x.Polite() })
		caller := &recorder{answer: func(ctx context.Context, _ *mcp.Request) (*mcp.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		call := launch(t, dialHTTP(t, s, client.Config{}), echo(t), caller)
		synctest.Wait()
		call.cancel()
		<-call.done
		if call.err == nil || s.Count("tools/call") != 1 {
			t.Errorf("error %v after %d rounds, want one and an error", call.err, s.Count("tools/call"))
		}
	})
}

// starter is a caller that accepts input requests in order and responds later.
type starter struct {
	*recorder

	refuse int // which request fails to start, from 1
	panics int
	all    chan struct{} // closed when the fifth was started
}

func (s *starter) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	s.note(strings.Trim(string(req.Params.Bytes()), `{"mesag:}`))
	switch n := len(s.asked()); n {
	case 5:
		close(s.all)
		return func() (*mcp.Result, error) { return s.answer(ctx, req) }, nil
	case s.refuse:
		return nil, mcp.Errorf(-32021, "not declared")
	case s.panics:
		panic("odd")
	default:
		return func() (*mcp.Result, error) { return s.answer(ctx, req) }, nil
	}
}

// The input requests of one result are started in order, before any is answered. None
// is started after one that fails.
func TestInputRequestsAreInOrder(t *testing.T) {
	const questions = `{"resultType":"input_required","inputRequests":{` +
		`"z":{"method":"elicitation/create","params":{"message":"1"}},"b":{"method":"elicitation/create","params":{"message":"2"}},` +
		`"a":{"method":"elicitation/create","params":{"message":"3"}},"y":{"method":"elicitation/create","params":{"message":"4"}},` +
		`"c":{"method":"elicitation/create","params":{"message":"5"}}},"requestState":"s"}`
	for _, tt := range []struct {
		refuse, panics int
		want           string
	}{{0, 0, "1 2 3 4 5"}, {2, 0, "1 2"}, {0, 3, "1 2 3"}} {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
				if x.Msg.Params.Has(mcp.FieldRequestState) {
					x.Polite()
					return
				}
				x.Result(questions)
			}}}
			c := dialHTTP(t, s, client.Config{})
			caller := &starter{recorder: new(recorder), refuse: tt.refuse, panics: tt.panics, all: make(chan struct{})}
			caller.answer = func(ctx context.Context, _ *mcp.Request) (*mcp.Result, error) {
				select {
				case <-caller.all:
					return mcp.NewResult([]byte(`{"action":"decline"}`))
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
			_, err := c.Serve(t.Context(), echo(t), caller)
			if got := strings.Join(caller.asked(), " "); got != tt.want {
				t.Errorf("asked %s, want %s", got, tt.want)
			}
			if (err == nil) != (tt.refuse+tt.panics == 0) {
				t.Errorf("the call: %v", err)
			}
		})
	}
}
