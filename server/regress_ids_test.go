// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// The tests of the regress_*_test.go files replay published defects of other servers and
// gateways, by their numbers in the project's collection of them. Each comment states the
// required behaviour. This file: which answer belongs to which request.

// M017: the id is returned byte for byte, and 1 is not "1"; an invalid id is not returned,
// and no other in its place.
//
// J2- 2025-11-25 basic/index: "Requests **MUST** include a string or integer ID."
//
// J5+ 2026-07-28 basic/index: "Result responses **MUST** include the same ID as the
// request they correspond to."
func TestM017IDsAreTokens(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"echo": fixedResult(`{}`)})
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		for _, id := range []string{"9007199254740993", "0", "-1", `""`, `"1"`, `"\u0061"`, "123456789012345678901234567890"} {
			got := s.post(raw(id, "tools/call", `{"name":"echo"}`), sess)
			equal(t, "legacy", got.body, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`)
			got = s.post(modern(id, "tools/call", `"name":"echo"`), modernHeaders("tools/call", "echo"))
			equal(t, "modern", got.body, `{"jsonrpc":"2.0","id":`+id+`,"result":{"resultType":"complete"}}`)
		}
		for _, id := range []string{"1.5", "null", "true", "{}", "1e3"} {
			for era, got := range map[string]reply{
				"legacy": s.post(raw(id, "tools/call", `{"name":"echo"}`), sess),
				"modern": s.post(modern(id, "tools/call", `"name":"echo"`), modernHeaders("tools/call", "echo")),
			} {
				if got.status != 400 || !strings.HasPrefix(got.body, `{"jsonrpc":"2.0","error":{"code":-32600,`) {
					t.Errorf("%s, id %s: %d %s; want 400 and -32600, without an id", era, id, got.status, got.body)
				}
			}
		}
	})
}

// M011: the second request with an id in flight is refused on its own response.
//
// J3- 2025-11-25 basic/index: "The request ID **MUST NOT** have been previously used
// by the requestor within the same session."
func TestM011DuplicateID(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		sess := s.session()
		first := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess))
		<-g.entered
		second := s.post(raw("1", "tools/call", `{"name":"echo"}`), sess)
		equal(t, "second", second.body, wireError("1", "-32600", "a request with id 1 is in flight"))
		close(g.release)
		equal(t, "first", (<-first).body, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	})
}

// The server does not reuse an id either, in all questions of a session, whether or not a
// question is answered.
//
// J3+ 2025-11-25 basic/index: "The request ID **MUST NOT** have been previously used
// by the requestor within the same session."
func TestQuestionIDsAreUnique(t *testing.T) {
	pipesGated(t, server.Config{}, func(c *console, _ *gate) {
		c.handshake()
		asked := map[mcp.ID]bool{}
		for i := range 9 {
			c.send(raw(strconv.Itoa(i), "tools/call", `{"name":"ask"}`))
			q, err := mcp.Parse([]byte(c.next()), mcp.Limits{})
			if err != nil || q.Method != "roots/list" {
				t.Fatalf("call %d: the question is %s %v, %v", i, q.Method, q.ID, err)
			}
			if asked[q.ID] {
				t.Errorf("question %d has the id %s, which one before it had", i, q.ID)
			}
			asked[q.ID] = true
			if i%3 == 0 { // left unanswered
				c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + strconv.Itoa(i) + `}}`)
				continue
			}
			c.send(string(jsonrpc.AppendResult(nil, q.ID, []byte(`{"roots":[]}`))))
			c.next()
		}
	})
}

// M017, I4: "1" and 1 are in flight at the same time, and each has its own answer.
//
// J5- 2025-11-25 basic/index: "Result responses **MUST** include the same ID as the
// request they correspond to."
func TestM017StringAndNumberAtOnce(t *testing.T) {
	withToolGates(t, []string{"A", "B"}, func(s *site, c *toolGates) {
		sess := s.sessionOf(headers{"Authorization": "ann"})
		call := func(id, name string) <-chan reply {
			defer func() { <-c.entered }()
			return s.async(s.request(s.ctx(), http.MethodPost, raw(id, "tools/call", `{"name":"`+name+`"}`), sess, headers{"Authorization": "ann"}))
		}
		number, text := call("1", "A"), call(`"1"`, "B")
		close(c.release["B"])
		equal(t, "text", (<-text).body, `{"jsonrpc":"2.0","id":"1","result":{"tool":"B","principal":"ann","context":""}}`)
		close(c.release["A"])
		equal(t, "number", (<-number).body, `{"jsonrpc":"2.0","id":1,"result":{"tool":"A","principal":"ann","context":""}}`)
	})
}

// M009: a question with the same id as the request that it belongs to does not end that
// request.
func TestM009AskWithTheIDOfItsRequest(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"ask": ask("roots/list", "{}")})
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		st := s.open(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"ask"}`), sess)
		equal(t, "ask", st.next(), `{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`)
		s.post(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`, sess)
		equal(t, "result", st.next(), `{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
		st.end()
	})
}

// M031: a second initialize changes nothing.
//
// V8- 2025-11-25 basic/lifecycle: "The initialization phase MUST be the first
// interaction between client and server."
func TestM031SecondInitialize(t *testing.T) {
	var seen mcp.Peer
	h := tools(map[string]mcp.HandlerFunc{"tools/list": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		seen = *req.Client
		return result(`{}`)
	}})
	second := strings.Replace(opening("2025-03-26"), `"name":"`, `"name":"another `, 1)
	unchanged := func() {
		t.Helper()
		equal(t, "version", string(seen.Version), "2025-11-25")
		equal(t, "client", string(seen.Info), `{"name":"test","version":"1"}`)
		equal(t, "capabilities", string(seen.Capabilities), `{"roots":{},"sampling":{},"elicitation":{}}`)
	}
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		if got := s.post(second, sess); got.status != 400 || got.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("status %d, session %q; want 400 and none", got.status, got.header.Get("Mcp-Session-Id"))
		}
		s.post(raw("1", "tools/list", ""), sess)
		unchanged()
	})
	seen = mcp.Peer{}
	pipes(t, h, server.Config{}, func(c *console) {
		c.handshake()
		c.send(second)
		if got := c.next(); !strings.Contains(got, `"error"`) {
			t.Errorf("on a pipe: %s; want an error", got)
		}
		c.send(raw("1", "tools/list", ""))
		c.next()
		unchanged()
	})
}

// toolGates is a Handler with tools that each wait for their own release, so that a test
// chooses the order of their answers. The result names the tool and its caller.
type toolGates struct {
	entered chan string
	release map[string]chan struct{}
}

func newToolGates(names ...string) *toolGates {
	c := &toolGates{entered: make(chan string, len(names)), release: make(map[string]chan struct{})}
	for _, name := range names {
		c.release[name] = make(chan struct{})
	}
	return c
}

func (c *toolGates) tool(ctx context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
	name, _ := req.Params.Text(mcp.FieldName)
	c.entered <- name
	select {
	case <-c.release[name]:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	caller, _ := ctx.Value(requestKey{}).(string)
	return result(`{"tool":"` + name + `","principal":"` + req.Principal + `","context":"` + caller + `"}`)
}

// requestKey is the key of a test's value in the context of an HTTP request.
type requestKey struct{}

// withToolGates runs f in a bubble with tool gates and authenticated callers.
func withToolGates(t *testing.T, names []string, f func(*site, *toolGates)) {
	t.Helper()
	var c *toolGates
	m := map[string]mcp.HandlerFunc{}
	for _, name := range names {
		m[name] = func(ctx context.Context, req *mcp.Request, k mcp.Caller) (*mcp.Result, error) {
			return c.tool(ctx, req, k)
		}
	}
	bubbleWith(t, tools(m), server.Config{Authenticate: identified(byHeader)}, withRequestContext, func(s *site) {
		c = newToolGates(names...)
		f(s, c)
	})
}

// M012: requests of two clients with the same id each get their own answer, in any order;
// J4.
//
// J4+ 2026-07-28 basic/index: "The request ID **MUST NOT** match the ID of any other
// request the sender has issued and not yet received a response for."
func TestM012SameIDFromTwoClients(t *testing.T) {
	withToolGates(t, []string{"A", "B"}, func(s *site, c *toolGates) {
		call := func(name string) <-chan reply {
			defer func() { <-c.entered }()
			return s.async(s.request(s.ctx(), http.MethodPost, modern("1", "tools/call", `"name":"`+name+`"`), modernHeaders("tools/call", name)))
		}
		a, b := call("A"), call("B")
		close(c.release["B"])
		equal(t, "B", (<-b).body, `{"jsonrpc":"2.0","id":1,"result":{"tool":"B","principal":"","context":"","resultType":"complete"}}`)
		close(c.release["A"])
		equal(t, "A", (<-a).body, `{"jsonrpc":"2.0","id":1,"result":{"tool":"A","principal":"","context":"","resultType":"complete"}}`)
	})
}

// M013, I31: a Handler sees the context and the principal of its own HTTP request, although
// another with the same id came in between.
func TestM013EachHandlerSeesItsOwnRequest(t *testing.T) {
	withToolGates(t, []string{"A", "B"}, func(s *site, c *toolGates) {
		call := func(name string) <-chan reply {
			auth := headers{"Authorization": "owner of " + name, "X-Request": "request of " + name}
			sess := s.sessionOf(auth)
			defer func() { <-c.entered }()
			return s.async(s.request(s.ctx(), http.MethodPost, raw("7", "tools/call", `{"name":"`+name+`"}`), sess, auth))
		}
		a, b := call("A"), call("B")
		close(c.release["A"])
		close(c.release["B"])
		for name, got := range map[string]<-chan reply{"A": a, "B": b} {
			equal(t, name, (<-got).body, `{"jsonrpc":"2.0","id":7,"result":{"tool":"`+name+`","principal":"owner of `+name+`","context":"request of `+name+`"}}`)
		}
	})
}

// M015: two requests of one session ask at the same time. Their questions have different
// ids, and the answers are matched in any order.
func TestM015TwoAsksAtOnce(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"ask": ask("roots/list", "{}")})
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		open := func(id string) (*stream, string) {
			st := s.open(s.ctx(), http.MethodPost, raw(id, "tools/call", `{"name":"ask"}`), sess)
			_, after, _ := strings.Cut(st.next(), `"id":`)
			asked, _, _ := strings.Cut(after, ",")
			return st, asked
		}
		one, first := open("1")
		two, second := open("2")
		if first == second {
			t.Fatalf("both questions have the id %s", first)
		}
		answer := func(id, name string) {
			s.post(`{"jsonrpc":"2.0","id":`+id+`,"result":{"roots":[],"from":"`+name+`"}}`, sess)
		}
		answer(second, "second")
		equal(t, "two", two.next(), `{"jsonrpc":"2.0","id":2,"result":{"roots":[],"from":"second"}}`)
		two.end()
		answer(first, "first")
		equal(t, "one", one.next(), `{"jsonrpc":"2.0","id":1,"result":{"roots":[],"from":"first"}}`)
		one.end()
	})
}

// M018: a response with an id that resembles one of the server's changes nothing, whatever
// its type.
//
// J5- 2026-07-28 basic/index: "Error responses **MUST** include the same ID as the
// request they correspond to (except in error cases where the ID could not be read due
// a malformed request)."
func TestM018ForgedAnswers(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"ask": ask("roots/list", "{}")})
	bubble(t, h, server.Config{}, func(s *site) {
		sess, other := s.session(), s.session()
		st := s.open(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"ask"}`), sess)
		st.next()
		forged := []string{`"1"`, "01", "1.0", "-1", "0", "2", "18446744073709551617", `""`, `"1:1"`, `"` + strings.Repeat("1", 1000) + `"`}
		for _, id := range forged {
			got := s.post(`{"jsonrpc":"2.0","id":`+id+`,"result":{"forged":true}}`, sess)
			if got.status != 202 && got.status != 400 {
				t.Errorf("id %s: %d %s; want 202 or 400", id, got.status, got.body)
			}
		}
		s.post(`{"jsonrpc":"2.0","id":1,"result":{"forged":true}}`, other) // the right id in the wrong session
		s.post(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`, sess)
		equal(t, "answer", st.next(), `{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
		st.end()
	})
}

// M055, I8: a question goes to the client of its request, and to no other client with an
// open stream.
func TestM055AskReachesOneClient(t *testing.T) {
	m := map[string]mcp.HandlerFunc{"ask": ask("roots/list", "{}")}
	withChanges(t, m, func(s *site, h *changing) {
		a, b := s.session(), s.session()
		var gets []*stream
		for _, h := range []headers{a, b} {
			gets = append(gets, s.open(s.ctx(), http.MethodGet, "", h))
		}
		st := s.open(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"ask"}`), a)
		equal(t, "question", st.next(), `{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`)
		s.post(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`, b)
		if got := s.server.Stats().Strays; got != 1 {
			t.Errorf("strays = %d; want the answer of the other client to be one", got)
		}
		s.post(`{"jsonrpc":"2.0","id":1,"result":{"roots":["a"]}}`, a)
		equal(t, "result", st.next(), `{"jsonrpc":"2.0","id":1,"result":{"roots":["a"]}}`)
		st.end()
		for i, h := range []headers{a, b} {
			s.do(s.request(s.ctx(), http.MethodDelete, "", h))
			gets[i].end() // it had no message
		}
	})
}

// M186: two clients with the same progress token, each with its own request, receive their
// own progress and log messages.
func TestM186SameTokenFromTwoClients(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"report": func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		for i := range 5 {
			if err := c.Notify(ctx, note(t, "notifications/progress", fmt.Sprintf(`{"progressToken":1,"progress":%d,"message":"%s"}`, i, req.Principal))); err != nil {
				return nil, err
			}
			if err := c.Notify(ctx, note(t, "notifications/message", `{"level":"info","data":"`+req.Principal+`"}`)); err != nil {
				return nil, err
			}
			sleep(time.Second) // so that both run at the same time
		}
		return result(`{}`)
	}})
	bubble(t, h, server.Config{Authenticate: identified(byHeader)}, func(s *site) {
		var calls []<-chan reply
		names := []string{"ann", "bob"}
		for _, name := range names {
			auth := headers{"Authorization": name}
			calls = append(calls, s.async(s.request(s.ctx(), http.MethodPost, withToken("1", "report", "1"), s.sessionOf(auth), auth)))
		}
		for i, name := range names {
			events := (<-calls[i]).events(t)
			if len(events) != 11 {
				t.Errorf("%s has %d events, want 5 reports, 5 logs and the result", name, len(events))
			}
			for _, e := range events[:len(events)-1] {
				if !strings.Contains(e, `"`+name+`"`) {
					t.Errorf("%s got %s", name, e)
				}
			}
		}
	})
}

// M110: later requests do not use the context in which the session was opened: a question
// of the second request is sent on the second request's stream.
func TestM110SecondRequestAsks(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"echo": fixedResult(`{}`), "ask": ask("roots/list", "{}")})
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		s.post(raw("1", "tools/call", `{"name":"echo"}`), sess)
		st := s.open(s.ctx(), http.MethodPost, raw("2", "tools/call", `{"name":"ask"}`), sess)
		equal(t, "question", st.next(), `{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`)
		s.post(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`, sess)
		equal(t, "result", st.next(), `{"jsonrpc":"2.0","id":2,"result":{"roots":[]}}`)
		st.end()
	})
}
