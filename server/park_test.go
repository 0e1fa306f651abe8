// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// everything declares all capabilities to be asked.
const everything = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`

// askableCall returns a tools/call of a client that can be asked.
func askableCall(id, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{` + params +
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + everything + `}}}`
}

// round is the answer to one attempt of a client.
type round struct {
	Result struct {
		ResultType    string
		InputRequests map[string]struct {
			Method string
			Params json.RawMessage
		}
		RequestState string
		Text         string // of the tools of these tests
	}
	Error *struct {
		Code    int64
		Message string
	}
}

func readRound(t *testing.T, body string) round {
	t.Helper()
	var r round
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Errorf("%s: %v", body, err)
	}
	return r
}

// keys returns the keys of the questions, sorted.
func (r *round) keys() string {
	var all []string
	for i := range 100 {
		if _, ok := r.Result.InputRequests[fmt.Sprintf("q%d", i)]; ok {
			all = append(all, fmt.Sprintf("q%d", i))
		}
	}
	return strings.Join(all, " ")
}

// tool calls the tool "t" with additional parameters.
func (s *site) tool(more string, hs ...headers) round {
	s.t.Helper()
	return readRound(s.t, s.do(s.toolRequest(s.ctx(), more, hs...)).body)
}

func (s *site) toolRequest(ctx context.Context, more string, hs ...headers) *http.Request {
	s.t.Helper()
	return s.request(ctx, http.MethodPost, askableCall("1", `"name":"t"`+more), append([]headers{modernHeaders("tools/call", "t")}, hs...)...)
}

// retryParams returns the parameters that a retry adds to the request.
func retryParams(r round, responses string) string {
	return `,"requestState":"` + r.Result.RequestState + `","inputResponses":{` + responses + `}`
}

const roots = `{"roots":[]}`

// askRoots asks the client for its roots.
func askRoots(ctx context.Context, c mcp.Caller) error {
	_, err := mcp.Ask(ctx, c, &mcp.Request{Method: "roots/list"})
	return err
}

// parkTool is a tool "t" that counts its runs, and records how each ends.
type parkTool struct {
	runs atomic.Int32

	mu    sync.Mutex
	ended []error
}

func (d *parkTool) handler(f func(ctx context.Context, c mcp.Caller) (string, error)) mcp.Handler {
	return tools(map[string]mcp.HandlerFunc{"t": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		d.runs.Add(1)
		text, err := f(ctx, c)
		d.note(err)
		if err != nil {
			return nil, err
		}
		return result(fmt.Sprintf(`{"text":%q}`, text))
	}})
}

func (d *parkTool) note(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = append(d.ended, err)
}

// endings returns how the runs have ended, in order, once every goroutine is blocked.
func (d *parkTool) endings() []error {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended
}

// wantEnds checks the errors that the runs have ended with.
func (d *parkTool) wantEnds(t *testing.T, want ...string) {
	t.Helper()
	got := d.endings()
	if len(got) != len(want) {
		t.Errorf("the runs ended with %v, want %q", got, want)
		return
	}
	for i, err := range got {
		if want[i] == "" && err != nil || want[i] != "" && (err == nil || !strings.Contains(err.Error(), want[i])) {
			t.Errorf("run %d ended with %v, want %q", i, err, want[i])
		}
	}
}

// askOnce is a tool that asks once.
func (d *parkTool) askOnce() mcp.Handler {
	return d.handler(func(ctx context.Context, c mcp.Caller) (string, error) { return "done", askRoots(ctx, c) })
}

func (s *site) wantParked(want int) {
	s.t.Helper()
	if got := s.server.Stats().Parked; got != want {
		s.t.Errorf("%d requests are parked, want %d", got, want)
	}
}

// U1+ 2026-07-28 basic/patterns/mrtr: "Servers MUST send server-to-client requests
// (such as `roots/list`, `sampling/createMessage`, or `elicitation/create`) using the
// MRTR pattern."
//
// Q1+ 2026-07-28 basic/patterns/mrtr: "servers MUST protect its integrity (e.g. HMAC
// or AEAD)"
func TestParkedCallIsResumed(t *testing.T) {
	d := new(parkTool)
	bubble(t, d.askOnce(), server.Config{}, func(s *site) {
		first := s.tool("")
		if first.Result.ResultType != "input_required" || first.keys() != "q1" || first.Result.InputRequests["q1"].Method != "roots/list" {
			t.Errorf("asked %+v", first)
		}
		s.wantParked(1)
		if got := s.tool(retryParams(first, `"q1":`+roots)); got.Result.Text != "done" {
			t.Errorf("the retry: %+v", got)
		}
		s.wantParked(0)
		if got := d.runs.Load(); got != 1 {
			t.Errorf("the tool ran %d times", got)
		}
	})
}

// "If ... requestState influences authorization, resource access, or business logic,
// servers MUST protect its integrity ... and MUST reject state that fails verification"
// (basic/patterns/mrtr). Every invalid state has the same answer, and runs nothing.
//
// Q1- 2026-07-28 basic/patterns/mrtr: "MUST reject state that fails verification."
//
// Q2- 2026-07-28 basic/patterns/mrtr: "a short expiry (TTL), rejecting state presented
// after it lapses;"
func TestStateIsRefused(t *testing.T) {
	const nothing = `{"code":-32602,"message":"requestState is unknown, used or expired, or it belongs to another request"}`
	flip := func(state string, i int) string {
		c := byte('A')
		if state[i] == c {
			c = 'B'
		}
		return state[:i] + string(c) + state[i+1:]
	}
	tests := []struct {
		name  string
		who   string
		retry func(state string) string // follows the name of the tool
		wait  time.Duration
		event server.EventKind
	}{
		{"another principal", "bob", func(st string) string { return `,"requestState":"` + st + `"` }, 0, server.ForeignState},
		{"other arguments", "ann", func(st string) string { return `,"arguments":{},"requestState":"` + st + `"` }, 0, server.UnknownState},
		{"tampered", "ann", func(st string) string { return `,"requestState":"` + st + `-TAMPERED"` }, 0, server.UnknownState},
		{"one bit", "ann", func(st string) string { return `,"requestState":"` + flip(st, 20) + `"` }, 0, server.UnknownState},
		{"cut", "ann", func(st string) string { return `,"requestState":"` + st[:len(st)-1] + `"` }, 0, server.UnknownState},
		{"its kind alone", "ann", func(st string) string { return `,"requestState":"` + st[:5] + `"` }, 0, server.UnknownState},
		{"another kind", "ann", func(st string) string { return `,"requestState":"sbs1.` + st[5:] + `"` }, 0, server.UnknownState},
		{"large", "ann", func(st string) string { return `,"requestState":"` + st[:5] + strings.Repeat("A", 1<<20) + `"` }, 0, server.UnknownState},
		{"empty", "ann", func(string) string { return `,"requestState":""` }, 0, server.UnknownState},
		{"no text", "ann", func(string) string { return `,"requestState":7` }, 0, server.UnknownState},
		{"a backend's", "ann", func(string) string { return `,"requestState":"mine"` }, 0, server.UnknownState},
		{"late", "ann", func(st string) string { return `,"requestState":"` + st + `"` }, 10 * time.Minute, server.UnknownState},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := new(parkTool)
			var events []server.EventKind
			cfg := server.Config{
				Authenticate: identified(func(r *http.Request) (string, error) { return r.Header.Get("Who"), nil }),
				Observe:      func(_ context.Context, e server.Event) { events = append(events, e.Kind) },
			}
			bubble(t, d.askOnce(), cfg, func(s *site) {
				ann := headers{"Who": "ann"}
				first := s.tool("", ann)
				s.advance(tt.wait)
				got := s.do(s.toolRequest(s.ctx(), tt.retry(first.Result.RequestState), headers{"Who": tt.who}))
				if got.status != 200 {
					t.Errorf("status %d", got.status)
				}
				equal(t, "answer", got.body, `{"jsonrpc":"2.0","id":1,"error":`+nothing+`}`)
				if len(events) != 1 || events[0] != tt.event {
					t.Errorf("events %v, want %s", events, tt.event)
				}
				if d.runs.Load() != 1 {
					t.Errorf("the tool ran %d times", d.runs.Load())
				}
				if tt.wait == 0 {
					if last := s.tool(retryParams(first, `"q1":`+roots), ann); last.Result.Text != "done" {
						t.Errorf("its owner afterwards: %+v", last)
					}
				}
			})
		})
	}
}

// The client may write its retry differently, if it means the same.
//
// Q2+ 2026-07-28 basic/patterns/mrtr: "an identifier for the originating request, e.g.
// the method name and a digest of its salient parameters, rejecting state presented on
// a request that does not match."
func TestRetryWithDifferentSpelling(t *testing.T) {
	tests := []struct {
		name, first, retry string
		want               bool
	}{
		{"other order", `,"arguments":{"a":1,"b":[true,null]}`, `,"arguments":{ "b" : [true, null], "a":1}`, true},
		{"escapes", `,"arguments":{"a":"é/"}`, `,"arguments":{"a":"\u00e9\/"}`, true},
		{"other number text", `,"arguments":{"a":9007199254740992}`, `,"arguments":{"a":9007199254740993}`, false},
		{"order of a list", `,"arguments":{"a":[1,2]}`, `,"arguments":{"a":[2,1]}`, false},
		{"one more", `,"arguments":{"a":1}`, `,"arguments":{"a":1,"b":2}`, false},
		{"a name twice", `,"arguments":{"a":1,"a":2}`, `,"arguments":{"a":1,"a":2}`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, new(parkTool).askOnce(), server.Config{}, func(s *site) {
				first := s.tool(tt.first)
				got := s.tool(tt.retry + retryParams(first, `"q1":`+roots))
				if (got.Result.Text == "done") != tt.want {
					t.Errorf("the retry: %+v, want it taken: %t", got, tt.want)
				}
			})
		})
	}
}

// A client that does not return causes no message; only the Handler's context ends.
//
// Q6+ 2026-07-28 basic/patterns/mrtr: "Servers MUST NOT assume that clients will
// fulfill the `inputRequests` or retry the original request."
func TestParkedCallExpires(t *testing.T) {
	d := new(parkTool)
	bubble(t, d.askOnce(), server.Config{Limits: server.Limits{InputWait: time.Minute}}, func(s *site) {
		s.tool("")
		s.advance(30 * time.Second)
		s.tool("")
		s.advance(30*time.Second + time.Millisecond)
		s.wantParked(1)
		d.wantEnds(t, "did not retry")
		s.advance(30 * time.Second)
		s.wantParked(0)
		d.wantEnds(t, "did not retry", "did not retry")
	})
}

// Questions that are asked together are sent together, and each gets its own answer.
//
// Q5+ 2026-07-28 basic/patterns/mrtr: "`inputRequests` keys are server assigned
// identifiers and MUST be unique within the scope of the request."
func TestQuestionsAreSentTogether(t *testing.T) {
	h := new(parkTool).handler(func(ctx context.Context, c mcp.Caller) (string, error) {
		texts := make([]string, 3)
		done := make(chan int)
		for i := range texts {
			go func() { // ends with the answer; waited for below
				res, err := mcp.Ask(ctx, c, elicit(fmt.Sprint(i)))
				if err == nil {
					texts[i] = string(res.Bytes())
				}
				done <- i
			}()
			time.Sleep(time.Millisecond)
		}
		for range texts {
			<-done
		}
		return strings.Join(texts, " "), nil
	})
	bubble(t, h, server.Config{}, func(s *site) {
		first := s.tool("")
		if first.keys() != "q1 q2 q3" {
			t.Errorf("asked %+v", first)
		}
		one := s.tool(retryParams(first, `"q2":{"action":"decline"},"other":7`))
		if one.keys() != "q1 q3" || one.Result.RequestState == first.Result.RequestState {
			t.Errorf("asked again %+v", one)
		}
		last := s.tool(retryParams(one, `"q1":{"action":"accept","content":{"a":1.0}},"q2":{"action":"accept"},"q3":{"action":"cancel"}`))
		equal(t, "answers", last.Result.Text, `{"action":"accept","content":{"a":1.0}} {"action":"decline"} {"action":"cancel"}`)
	})
}

func elicit(message string) *mcp.Request {
	req, err := mcp.NewRequest("elicitation/create", fmt.Appendf(nil, `{"message":%q,"requestedSchema":{"type":"object","properties":{}}}`, message))
	if err != nil {
		panic(err) // a mistake of the test
	}
	return req
}

// "Protocol errors (malformed JSON, invalid schema ...) SHOULD return a JSON-RPC error
// response": a malformed answer is refused, and the state stays valid.
func TestAnswersAreChecked(t *testing.T) {
	tests := []struct {
		name, method, answer string
		want                 bool
	}{
		{"roots", "roots/list", `{"roots":[{"uri":"file:///a","name":"a"}]}`, true},
		{"no roots", "roots/list", `{"roots":[]}`, true},
		{"roots without a list", "roots/list", `{}`, false},
		{"roots of text", "roots/list", `{"roots":["file:///a"]}`, false},
		{"a root without URI", "roots/list", `{"roots":[{"name":"a"}]}`, false},
		{"no object", "roots/list", `"roots"`, false},
		{"null", "roots/list", `null`, false},
		{"case", "roots/list", `{"Roots":[]}`, false},
		{"twice", "roots/list", `{"roots":[],"roots":[]}`, false},
		{"an answer to another", "roots/list", `{"action":"accept"}`, false},
		{"accept", "elicitation/create", `{"action":"accept","content":{"a":[]}}`, true},
		{"cancel", "elicitation/create", `{"action":"cancel"}`, true},
		{"no action", "elicitation/create", `{"content":{}}`, false},
		{"another action", "elicitation/create", `{"action":"maybe"}`, false},
		{"content of text", "elicitation/create", `{"action":"accept","content":"a"}`, false},
		{"message", "sampling/createMessage", `{"role":"assistant","model":"m","content":{"type":"text","text":"a"}}`, true},
		{"messages", "sampling/createMessage", `{"role":"assistant","model":"m","content":[]}`, true},
		{"no model", "sampling/createMessage", `{"role":"assistant","content":{}}`, false},
		{"no role", "sampling/createMessage", `{"model":"m","content":{}}`, false},
		{"no content", "sampling/createMessage", `{"role":"assistant","model":"m"}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := new(parkTool).handler(func(ctx context.Context, c mcp.Caller) (string, error) {
				res, err := mcp.Ask(ctx, c, &mcp.Request{Method: tt.method})
				if err != nil {
					return "", err
				}
				return string(res.Bytes()), nil
			})
			bubble(t, h, server.Config{}, func(s *site) {
				first := s.tool("")
				got := s.tool(retryParams(first, `"q1":`+tt.answer))
				if tt.want {
					equal(t, "the answer", got.Result.Text, tt.answer)
					return
				}
				if got.Error == nil || got.Error.Code != -32602 || !strings.Contains(got.Error.Message, "inputResponses") {
					t.Errorf("answered %+v, want an error that names inputResponses", got)
				}
				s.wantParked(1)
			})
		})
	}
}

func TestInputResponsesAreAnObject(t *testing.T) {
	bubble(t, new(parkTool).askOnce(), server.Config{}, func(s *site) {
		first := s.tool("")
		for _, responses := range []string{`[]`, `null`, `"q1"`} {
			got := s.tool(`,"requestState":"` + first.Result.RequestState + `","inputResponses":` + responses)
			if got.Error == nil || got.Error.Code != -32602 {
				t.Errorf("%s: %+v", responses, got)
			}
		}
		s.wantParked(1)
	})
}

// Of two retries at once, one resumes the call, and the call runs once.
//
// Q3+ 2026-07-28 basic/patterns/mrtr: "Servers for which a given `requestState` must
// be consumed at most once (e.g., one-time redemptions) MUST enforce that invariant
// server-side."
func TestOneRetryWins(t *testing.T) {
	d := new(parkTool)
	bubble(t, d.askOnce(), server.Config{}, func(s *site) {
		first := s.tool("")
		var replies []<-chan reply
		for range 8 {
			replies = append(replies, s.async(s.toolRequest(s.ctx(), retryParams(first, `"q1":`+roots))))
		}
		won := 0
		for _, r := range replies {
			if got := readRound(t, (<-r).body); got.Result.Text == "done" {
				won++
			} else if got.Error == nil || got.Error.Code != -32602 {
				t.Errorf("a retry got %+v", got)
			}
		}
		if won != 1 || d.runs.Load() != 1 {
			t.Errorf("%d retries won, and the tool ran %d times", won, d.runs.Load())
		}
	})
}

// A call that ends while its client is away keeps its result for the retry, under the
// retry's id.
func TestResultWaitsForRetry(t *testing.T) {
	h := new(parkTool).handler(func(ctx context.Context, c mcp.Caller) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := askRoots(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
			return "", err
		}
		return "without", nil
	})
	bubble(t, h, server.Config{}, func(s *site) {
		first := s.tool("")
		s.advance(time.Minute)
		s.wantParked(1)
		got := s.do(s.request(s.ctx(), http.MethodPost, askableCall(`"two"`, `"name":"t"`+retryParams(first, `"q1":`+roots)), modernHeaders("tools/call", "t")))
		equal(t, "the retry", got.body, `{"jsonrpc":"2.0","id":"two","result":{"text":"without","resultType":"complete"}}`)
		s.wantParked(0)
	})
	// But not for ever.
	bubble(t, h, server.Config{}, func(s *site) {
		s.tool("")
		s.advance(10*time.Minute + time.Second)
		s.wantParked(0)
	})
}

// The retry is now the request: cancelling it cancels the call. Closing the response with
// the question has cancelled nothing.
func TestCancelRetry(t *testing.T) {
	d := new(parkTool)
	h := d.handler(func(ctx context.Context, c mcp.Caller) (string, error) {
		if err := askRoots(ctx, c); err != nil {
			return "", err
		}
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	bubble(t, h, server.Config{}, func(s *site) {
		first := s.tool("")
		s.tr.CloseIdleConnections()
		s.advance(time.Minute)
		ctx, cancel := context.WithCancel(s.ctx())
		st := s.toolRequest(ctx, retryParams(first, `"q1":`+roots))
		failed := make(chan error, 1)
		go func() { // ends with cancel
			res, err := s.client.Do(st)
			if err == nil {
				res.Body.Close()
			}
			failed <- err
		}()
		s.advance(time.Second)
		d.wantEnds(t)
		cancel()
		<-failed
		d.wantEnds(t, "closed the connection")
	})
}

// Progress has the token of the open request, and is dropped while none is open.
func TestProgressFollowsTheRequest(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"t": func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		report := func(n int) {
			_ = c.Notify(ctx, note(t, "notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, req.Params.Raw(mcp.MetaProgressToken), n)))
		}
		report(1)
		go func() { // ends soon; the answer takes longer
			time.Sleep(time.Second)
			report(2)
		}()
		if err := askRoots(ctx, c); err != nil {
			return nil, err
		}
		report(3)
		_ = c.Notify(ctx, note(t, "notifications/progress", `{"progressToken":"else","progress":4}`))
		_ = c.Notify(ctx, note(t, "notifications/elicitation/complete", `{"elicitationId":"e"}`))
		return result(`{}`)
	}})
	token := func(body, token string) string {
		return strings.Replace(body, `"_meta":{`, `"_meta":{"progressToken":`+token+`,`, 1)
	}
	bubble(t, h, server.Config{}, func(s *site) {
		first := s.post(token(askableCall("1", `"name":"t"`), `"one"`), modernHeaders("tools/call", "t")).events(t)
		if len(first) != 2 || !strings.Contains(first[0], `{"progressToken":"one","progress":1}`) {
			t.Errorf("the first: %q", first)
		}
		s.advance(2 * time.Second)
		retry := askableCall("2", `"name":"t"`+retryParams(readRound(t, first[1]), `"q1":`+roots))
		got := s.post(token(retry, "2"), modernHeaders("tools/call", "t")).events(t)
		if len(got) != 2 || !strings.Contains(got[0], `{"progressToken":2,"progress":3}`) {
			t.Errorf("the retry: %q", got)
		}
	})
	bubble(t, h, server.Config{}, func(s *site) {
		first := s.post(token(askableCall("1", `"name":"t"`), `"one"`), modernHeaders("tools/call", "t")).events(t)
		s.advance(2 * time.Second)
		got := s.post(askableCall("2", `"name":"t"`+retryParams(readRound(t, first[1]), `"q1":`+roots)), modernHeaders("tools/call", "t"))
		if ct := got.header.Get("Content-Type"); ct != "application/json" {
			t.Errorf("a retry that wants no progress: %s %s", ct, got.body)
		}
	})
}

// The errors of exceeded bounds name the key, for the Handler that asked; the request
// continues.
//
// Q6- 2026-07-28 basic/patterns/mrtr: "Servers MUST NOT assume that clients will
// fulfill the `inputRequests` or retry the original request."
func TestParkingBounds(t *testing.T) {
	tests := []struct {
		name   string
		limits server.Limits
		want   string
	}{
		{"parked", server.Limits{Parked: 1}, "limits.parked"},
		{"rounds", server.Limits{Rounds: 1}, "limits.rounds"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := new(parkTool).handler(func(ctx context.Context, c mcp.Caller) (string, error) {
				var err error
				for err == nil {
					err = askRoots(ctx, c)
				}
				return fmt.Sprint(err), nil
			})
			bubble(t, h, server.Config{Limits: tt.limits}, func(s *site) {
				first := s.tool("")
				got := s.tool("")
				if tt.name == "rounds" {
					got = s.tool(retryParams(first, `"q1":`+roots))
				}
				if !strings.Contains(got.Result.Text, tt.want) {
					t.Errorf("%+v, want an error that names %s", got, tt.want)
				}
			})
		})
	}
}

// A parked request does not count as in flight.
func TestParkedCallIsNotInFlight(t *testing.T) {
	bubble(t, new(parkTool).askOnce(), server.Config{Limits: server.Limits{InFlightPerPrincipal: 1}}, func(s *site) {
		first, second := s.tool(""), s.tool("")
		for _, r := range []round{first, second} {
			if got := s.tool(retryParams(r, `"q1":`+roots)); got.Result.Text != "done" {
				t.Errorf("%+v", got)
			}
		}
		if got := s.tool(retryParams(first, `"q1":`+roots)); got.Error == nil {
			t.Errorf("again: %+v", got)
		}
		if got := s.tool(""); got.Result.ResultType != "input_required" {
			t.Errorf("then: %+v", got)
		}
	})
}

// Shutdown does not wait for clients that cannot return.
func TestShutdownEndsParkedRequests(t *testing.T) {
	d := new(parkTool)
	bubble(t, d.askOnce(), server.Config{}, func(s *site) {
		first := s.tool("")
		began := time.Now()
		if err := s.server.Shutdown(s.ctx()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		d.wantEnds(t, "shutting down")
		got := s.do(s.toolRequest(s.ctx(), retryParams(first, `"q1":`+roots)))
		if got.status != 503 || !strings.Contains(got.body, `"code":1004,"message":"the gateway is shutting down`) || !strings.Contains(got.body, `"outcome":"unknown"`) {
			t.Errorf("a retry gets %d %s", got.status, got.body)
		}
	})
}

// another is a client on another pipe of the same server.
func (c *console) another() *console {
	client, srv := memnet.Pipe(memnet.DefaultBuffer)
	o := &console{t: c.t, server: c.server, conn: client, lines: bufio.NewScanner(client), done: make(chan error, 1)}
	go func() { // ends with the pipe
		err := c.server.ServeStdio(c.t.Context(), srv, srv)
		_ = srv.CloseWrite()
		o.done <- err
	}()
	return o
}

// Parking works on a pipe as over HTTP. A state belongs to its pipe, and the end of the
// pipe ends what is parked on it.
func TestParkingOnAPipe(t *testing.T) {
	d := new(parkTool)
	pipes(t, d.askOnce(), server.Config{}, func(c *console) {
		c.send(askableCall("1", `"name":"t"`))
		retry := `"name":"t"` + retryParams(readRound(t, c.next()), `"q1":`+roots)
		refused := func(where, line string) {
			t.Helper()
			if got := readRound(t, line); got.Error == nil || got.Error.Code != -32602 {
				t.Errorf("%s: %s", where, line)
			}
		}
		o := c.another()
		o.send(askableCall("1", retry))
		refused("on another pipe", o.next())
		o.closeInput()

		c.send(askableCall("2", retry))
		if line := c.next(); readRound(t, line).Result.Text != "done" {
			t.Errorf("the retry: %s", line)
		}
		c.send(askableCall("3", retry))
		refused("once more", c.next())

		c.send(askableCall("4", `"name":"t"`))
		c.next()
		began := time.Now()
		c.closeInput()
		c.wantEnd()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the end of the pipe took %v", took)
		}
		d.wantEnds(t, "", "closed the pipe")
		if got := c.server.Stats().Parked; got != 0 {
			t.Errorf("%d are parked at the end", got)
		}
	})
}
