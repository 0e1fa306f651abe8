// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// The content and the form of responses.

// progressBurst is a tool that sends n progress notifications and then returns.
func progressBurst(t *testing.T, n int) mcp.HandlerFunc {
	return func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		token := string(req.Params.Raw(mcp.MetaProgressToken))
		for i := range n {
			if err := c.Notify(ctx, note(t, "notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, token, i))); err != nil {
				return nil, err
			}
		}
		return result(`{}`)
	}
}

func withToken(id, name, token string) string {
	return raw(id, "tools/call", `{"name":"`+name+`","_meta":{"progressToken":`+token+`}}`)
}

// M039, M053: the notifications before the result precede it in the response, and the
// result precedes the end of the body.
func TestM039NotificationsPrecedeTheResult(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"burst": progressBurst(t, 5)})
	for range 50 {
		bubble(t, h, server.Config{}, func(s *site) {
			events := s.post(withToken("1", "burst", "7"), s.session()).events(t)
			if len(events) != 6 || events[5] != `{"jsonrpc":"2.0","id":1,"result":{}}` {
				t.Fatalf("events: %q; want five notifications and the result", events)
			}
			for i, e := range events[:5] {
				equal(t, "event", e, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":%d}}`, i))
			}
		})
	}
}

// M030: an error after the stream has begun is an event of the stream.
func TestM030LateErrorIsAnEvent(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"late": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if err := c.Notify(ctx, note(t, "notifications/x", `{}`)); err != nil {
			return nil, err
		}
		return nil, mcp.Errorf(-32601, "too late for 404")
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		got := s.call("late")
		events := got.events(t)
		if got.status != 200 || len(events) != 2 {
			t.Fatalf("%d %q; want 200 and two events", got.status, events)
		}
		equal(t, "error", events[1], wireError("1", "-32601", "too late for 404"))
	})
}

// M033, M034, M035: a change never becomes part of the answer to a request, and the form of
// an answer does not depend on earlier ones. The first change happens while the session is
// opened, when there is no stream for it.
func TestM033M034M035ChangesStayOffOtherAnswers(t *testing.T) {
	var scope *mcp.Scope
	m := map[string]mcp.HandlerFunc{
		"burst": progressBurst(t, 2),
		"echo":  fixedResult(`{}`),
		"tools/list": func(_ ctxType, _ *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			return result(`{"tools":[]}`)
		},
		"server/discover": func(ctx ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			scope = req.Scope
			if err := scope.Unrelated().Notify(ctx, note(t, toolsChanged, `{}`)); err != nil {
				return nil, err
			}
			return result(discovered)
		},
	}
	h := &changing{Handler: mcp.HandlerFunc(func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if f, ok := m[req.Method]; ok {
			return f(ctx, req, c)
		}
		return tools(m).Serve(ctx, req, c)
	})}
	bubble(t, h, server.Config{}, func(s *site) {
		h.changed, h.acked = make(chan string), make(chan struct{}, 8)
		sess := s.session()
		oneObject := func(what string, got reply, want string) {
			t.Helper()
			equal(t, what, got.body, want)
			equal(t, what+", type", got.header.Get("Content-Type"), "application/json")
			equal(t, what+", length", got.header.Get("Content-Length"), fmt.Sprint(len(want)))
		}
		for range 5 {
			if err := scope.Unrelated().Notify(s.ctx(), note(t, toolsChanged, `{}`)); err != nil {
				t.Fatal(err)
			}
			oneObject("list", s.post(raw("2", "tools/list", ""), sess), `{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`)
			for range 3 {
				oneObject("ping", s.post(raw("3", "ping", ""), sess), `{"jsonrpc":"2.0","id":3,"result":{}}`)
			}
			if got := len(s.post(withToken("4", "burst", "1"), sess).events(t)); got != 3 {
				t.Errorf("%d events, want 2 notifications and the result", got)
			}
			oneObject("a call that says nothing", s.post(withToken("5", "echo", "1"), sess), `{"jsonrpc":"2.0","id":5,"result":{}}`)
		}
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		equal(t, "change", st.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`","params":{}}`)
		s.do(s.request(s.ctx(), http.MethodDelete, "", sess))
		st.end() // six changes were merged
	})
}

// M036: with a GET open and another request running, the messages of a request arrive on
// its own stream, all of them and in order.
func TestM036RelatedMessagesOnOneStream(t *testing.T) {
	g := make(chan *gate, 1)
	m := map[string]mcp.HandlerFunc{
		"burst": progressBurst(t, 80),
		"wait": func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
			gate := newGate()
			g <- gate
			return gate.serve(ctx, req, c)
		},
	}
	withChanges(t, m, func(s *site, _ *changing) {
		g = make(chan *gate, 1)
		sess := s.session()
		get := s.open(s.ctx(), http.MethodGet, "", sess)
		b := s.async(s.request(s.ctx(), http.MethodPost, withToken("2", "wait", "8"), sess))
		gate := <-g
		events := s.post(withToken("1", "burst", "7"), sess).events(t)
		if len(events) != 81 {
			t.Errorf("A has %d events, want 81", len(events))
		}
		for i, e := range events[:80] {
			if !strings.Contains(e, fmt.Sprintf(`"progress":%d}`, i)) {
				t.Fatalf("event %d is %s", i, e)
			}
		}
		close(gate.release)
		equal(t, "B", (<-b).body, `{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
		s.do(s.request(s.ctx(), http.MethodDelete, "", sess))
		get.end()
	})
}

// M038: a notification after the end of its request is refused to the Handler with an
// error, and sent nowhere.
func TestM038LateNotification(t *testing.T) {
	var late mcp.Caller
	h := tools(map[string]mcp.HandlerFunc{"leak": func(_ ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		late = c
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		for _, call := range []func() reply{
			func() reply { return s.call("leak") },
			func() reply { return s.post(raw("1", "tools/call", `{"name":"leak"}`), sess) },
		} {
			if got := call(); got.header.Get("Content-Type") != "application/json" {
				t.Fatalf("%d %s", got.status, got.body)
			}
			if err := late.Notify(s.ctx(), note(t, "notifications/x", `{}`)); !errors.Is(err, mcp.ErrRequestEnded) {
				t.Errorf("Notify = %v, want ErrRequestEnded", err)
			}
		}
		if _, err := mcp.Ask(s.ctx(), late, &mcp.Request{Method: "roots/list"}); !errors.Is(err, mcp.ErrRequestEnded) {
			t.Errorf("Ask = %v, want ErrRequestEnded", err)
		}
	})
}

// M048: the header is sent within the grace period, and a slow result at any time later.
func TestM048HeaderWithinGrace(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		sess := s.session()
		start := time.Now()
		st := s.open(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess)
		if d := time.Since(start); d != server.DefaultGrace {
			t.Errorf("the header came after %v, want %v", d, server.DefaultGrace)
		}
		s.advance(time.Hour)
		close(g.release)
		equal(t, "result", st.next(), `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		st.end()
	})
}

// M050: an accepted message without an answer gets 202 without a body.
//
// J13+ 2025-11-25 basic/transports: "If the server accepts the input, the server
// **MUST** return HTTP status code 202 Accepted with no body."
func TestM050AcceptedHasNoBody(t *testing.T) {
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		sess := s.session()
		for _, body := range []string{
			`{"jsonrpc":"2.0","id":1,"result":{}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}`,
			`{"jsonrpc":"2.0","method":"notifications/unknown"}`,
		} {
			got := s.post(body, sess)
			if got.status != 202 || got.body != "" || got.header.Get("Content-Type") != "" {
				t.Errorf("%s: %d %q %q; want 202 and nothing", body, got.status, got.body, got.header.Get("Content-Type"))
			}
		}
		// An object with only an id is no response (JSON-RPC 2.0, section 5).
		if got := s.post(`{"jsonrpc":"2.0","id":1}`, sess); got.status != 400 || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("neither result nor error: %d %q; want 400 and an error", got.status, got.body)
		}
	})
}

// M165: a Handler that panics, or returns nothing, fails that request only.
func TestM165BrokenHandler(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{
		"panic": func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) { panic("secret") },
		"nil":   func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) { return nil, nil },
		"error": func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) { return nil, errors.New("secret") },
		"echo":  fixedResult(`{}`),
	})
	bubble(t, h, server.Config{}, func(s *site) {
		for _, name := range []string{"panic", "nil", "error"} {
			got := s.call(name)
			if !strings.HasPrefix(got.body, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error (ref `) || strings.Contains(got.body, "secret") {
				t.Errorf("%s: %s; want an internal error with a reference and nothing else", name, got.body)
			}
			if got := s.call("echo"); got.status != 200 {
				t.Errorf("after %s: %d %s", name, got.status, got.body)
			}
		}
		if got := s.server.Stats().Panics; got != 1 {
			t.Errorf("panics = %d, want 1", got)
		}
	})
}

// M037: the response to an accepted notification is over: later messages of the session are
// not written to it.
func TestM037AcceptedResponseHasEnded(t *testing.T) {
	var scope *mcp.Scope
	received := make(chan struct{}, 1)
	h := tools(map[string]mcp.HandlerFunc{"notifications/roots/list_changed": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		scope = req.Scope
		received <- struct{}{}
		return nil, nil // as for every notification
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		received = make(chan struct{}, 1)
		sess := s.session()
		rec := httptest.NewRecorder()
		s.server.ServeHTTP(rec, s.request(s.ctx(), http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, sess))
		<-received
		if err := scope.Unrelated().Notify(s.ctx(), note(t, toolsChanged, `{}`)); err != nil {
			t.Fatal(err)
		}
		s.advance(time.Minute)
		if rec.Code != 202 || rec.Body.Len() != 0 {
			t.Errorf("%d %q; want 202 and nothing", rec.Code, rec.Body)
		}
	})
}

// M045: the client disconnects while the Handler has many notifications and then a result
// to send: the Handler gets the reason or no error, and nothing breaks.
func TestM045AnswerForDisconnectedClient(t *testing.T) {
	g := make(chan struct{})
	notified := make(chan error, 1)
	h := tools(map[string]mcp.HandlerFunc{"talk": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		<-g
		var err error
		for range 100 {
			if err = c.Notify(context.WithoutCancel(ctx), note(t, "notifications/x", `{}`)); err != nil {
				break
			}
		}
		notified <- err
		return result(`{}`)
	}})
	tests := map[string]func(*site) *http.Request{
		"modern": func(s *site) *http.Request {
			return s.request(s.ctx(), http.MethodPost, modern("1", "tools/call", `"name":"talk"`), modernHeaders("tools/call", "talk"))
		},
		"legacy": func(s *site) *http.Request {
			return s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"talk"}`), s.session())
		},
	}
	for name, build := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, h, server.Config{}, func(s *site) {
				g, notified = make(chan struct{}), make(chan error, 1)
				ctx, leave := context.WithCancel(s.ctx())
				gone := make(chan struct{})
				go func() { // ends with ctx
					defer close(gone)
					if res, err := s.client.Do(build(s).WithContext(ctx)); err == nil {
						res.Body.Close()
					}
				}()
				s.advance(0)
				leave()
				<-gone
				s.advance(0)
				close(g)
				if err := <-notified; err != nil && !errors.Is(err, mcp.ErrRequestEnded) {
					t.Errorf("Notify = %v; want ErrRequestEnded or nothing", err)
				}
				s.advance(0)
				if got := s.server.Stats(); got.InFlight != 0 || got.Panics != 0 {
					t.Errorf("%+v; want nothing in flight and no panic", got)
				}
			})
		})
	}
}

// M051, I43: each event is named message and has one line of data, ended by line feeds, for
// readers that implement no more of the grammar.
func TestM051EventsAreConservative(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"burst": progressBurst(t, 1)})
	bubble(t, h, server.Config{}, func(s *site) {
		got := s.post(withToken("1", "burst", "7"), s.session())
		first, _, _ := strings.Cut(got.body, "\n")
		id := strings.TrimSuffix(strings.TrimPrefix(first, "id: "), "0")
		equal(t, "body", strings.ReplaceAll(got.body, id, "x-"), "id: x-0\ndata:\n\n"+
			"event: message\nid: x-1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":7,\"progress\":0}}\n\n"+
			"event: message\nid: x-2\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
	})
}

// M141: two goroutines of one Handler log at the same time. Each line arrives whole, and in
// the order of its writer.
func TestM141TwoWriters(t *testing.T) {
	const lines = 300
	h := tools(map[string]mcp.HandlerFunc{"log": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		var both sync.WaitGroup
		for _, writer := range []string{"a", "b"} {
			both.Go(func() { // ends with its lines; Wait below waits for it
				for i := range lines {
					_ = c.Notify(ctx, note(t, "notifications/x", fmt.Sprintf(`{"who":"%s","line":%d,"pad":"%s"}`, writer, i, strings.Repeat(writer, 100+i))))
				}
			})
		}
		both.Wait()
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		events := s.post(raw("1", "tools/call", `{"name":"log"}`), s.session()).events(t)
		if len(events) != 2*lines+1 {
			t.Fatalf("%d events, want %d", len(events), 2*lines+1)
		}
		next := map[string]int{}
		for _, e := range events[:2*lines] {
			var m struct {
				Params struct {
					Who, Pad string
					Line     int
				}
			}
			if err := json.Unmarshal([]byte(e), &m); err != nil {
				t.Fatalf("%v in %s", err, e)
			}
			p := m.Params
			if p.Line != next[p.Who] || p.Pad != strings.Repeat(p.Who, 100+p.Line) {
				t.Fatalf("line %d of %s, want %d; pad %.20q", p.Line, p.Who, next[p.Who], p.Pad)
			}
			next[p.Who]++
		}
	})
}

// M147, I29: a Handler may use the server that serves it.
func TestM147HandlerCallsBack(t *testing.T) {
	var srv *server.Server
	h := tools(map[string]mcp.HandlerFunc{"reenter": func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if srv.Stats().InFlight == 0 {
			return nil, errors.New("the request that runs is not in flight")
		}
		if req.Scope.Yield() {
			return nil, errors.New("a session in use has yielded")
		}
		if err := req.Scope.Unrelated().Notify(ctx, note(t, toolsChanged, `{}`)); err != nil {
			return nil, err
		}
		srv.Quiesce()
		req.Scope.End()
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		srv = s.server
		got := s.post(raw("1", "tools/call", `{"name":"reenter"}`), s.session())
		equal(t, "result", got.body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

// M127, I24: the failure of one request of a session affects no other.
func TestM127FailureAffectsOneRequest(t *testing.T) {
	gated(t, server.Config{Limits: server.Limits{InFlightPerSession: 1}}, func(s *site, g *gate) {
		sess := s.session()
		call := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess))
		<-g.entered
		tests := []struct {
			name   string
			body   string
			header headers
			status int
		}{
			{"too many", raw("2", "tools/call", `{"name":"echo"}`), sess, 429},
			{"another era's header", raw("3", "tools/list", ""), headers{"Mcp-Session-Id": sess["Mcp-Session-Id"], "Mcp-Protocol-Version": "2026-07-28"}, 400},
			{"no message", "{", sess, 400},
			{"a modern request", modern("4", "no/such", ""), modernHeaders("no/such", ""), 404},
			{"another session", raw("5", "ping", ""), headers{"Mcp-Session-Id": "x"}, 404},
		}
		for _, tt := range tests {
			if got := s.post(tt.body, tt.header); got.status != tt.status {
				t.Errorf("%s: %d %s; want %d", tt.name, got.status, got.body, tt.status)
			}
		}
		close(g.release)
		equal(t, "the first", (<-call).body, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		equal(t, "the session", s.post(raw("6", "tools/call", `{"name":"echo"}`), sess).body, `{"jsonrpc":"2.0","id":6,"result":{"content":[]}}`)
	})
}

// M165, I29: a function of OnEnd may panic. Its session has ended all the same, the other
// functions have run, and other sessions go on.
func TestM165BrokenEndOfASession(t *testing.T) {
	var ends []string
	h := tools(map[string]mcp.HandlerFunc{"tools/list": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		key := req.Scope.Key()
		req.Scope.OnEnd(func() { panic("at the end") })
		req.Scope.OnEnd(func() { ends = append(ends, key) })
		return result(`{"tools":[]}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		deleted, idle, other := s.session(), s.session(), s.session()
		for _, sess := range []headers{deleted, idle} {
			s.post(raw("1", "tools/list", ""), sess)
		}
		if got := s.do(s.request(s.ctx(), http.MethodDelete, "", deleted)); got.status != 204 {
			t.Errorf("DELETE: %d %s; want 204", got.status, got.body)
		}
		for range 3 {
			s.advance(20 * time.Minute)
			if got := s.post(raw("2", "ping", ""), other); got.status != 200 {
				t.Fatalf("another session: %d %s", got.status, got.body)
			}
		}
		if got := s.server.Stats(); got.Panics != 2 || got.Sessions != 1 || len(ends) != 2 {
			t.Errorf("%+v, %d ends; want 2 panics, one session, 2 ends", got, len(ends))
		}
	})
}
