// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/memnet"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// The tests of this file replay published defects of other servers and
// gateways. Each says what must be seen.

// burst is a tool that sends so many progress notifications and then ends.
func burst(t *testing.T, n int) mcp.HandlerFunc {
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

// M012: requests of two clients with one id each get their own answer, in
// whatever order these come.
func TestM012SameIDFromTwoClients(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		a := s.async(s.request(s.ctx(), http.MethodPost, modern("1", "tools/call", `"name":"wait"`), modernHeaders("tools/call", "wait")))
		<-g.entered
		equal(t, "B", s.call("echo").body, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`)
		close(g.release)
		equal(t, "A", (<-a).body, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`)
	})
}

// M017: the id comes back byte for byte, and 1 is not "1".
func TestM017IDsAreTokens(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"echo": quick(`{}`)})
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		for _, id := range []string{"9007199254740993", "0", "-1", `""`, `"1"`, `"\u0061"`, "123456789012345678901234567890"} {
			got := s.post(raw(id, "tools/call", `{"name":"echo"}`), sess)
			equal(t, "legacy", got.body, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`)
			got = s.post(modern(id, "tools/call", `"name":"echo"`), modernHeaders("tools/call", "echo"))
			equal(t, "modern", got.body, `{"jsonrpc":"2.0","id":`+id+`,"result":{"resultType":"complete"}}`)
		}
		for _, id := range []string{"1.5", "null", "true", "{}", "1e3"} {
			if got := s.post(raw(id, "tools/call", `{"name":"echo"}`), sess); got.status != 400 || !strings.Contains(got.body, `"code":-32600`) {
				t.Errorf("id %s: %d %s; want 400 and -32600", id, got.status, got.body)
			}
		}
	})
}

// M011: the second request with an id in flight is refused on its own response.
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

// M009: an ask of the server with the id of the very request that it belongs to
// does not end that request.
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

// M024, M039, M053: what was said before the result stands before it, and the
// result stands before the end of the body.
func TestM039NotificationsPrecedeTheResult(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"burst": burst(t, 5)})
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

// M030: an error that comes after the stream has begun is an event of it.
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

// changing is a Handler whose view changes whenever the test says so.
type changing struct {
	mcp.Handler
	changed chan string // the method of the notice
	acked   chan struct{}
}

func (h *changing) Serve(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
	if req.Method != "subscriptions/listen" {
		return h.Handler.Serve(ctx, req, c)
	}
	ack, err := mcp.NewNotification("notifications/subscriptions/acknowledged", []byte(`{"notifications":{"toolsListChanged":true}}`))
	if err != nil {
		return nil, err
	}
	if err := c.Notify(ctx, ack); err != nil {
		return nil, err
	}
	h.acked <- struct{}{}
	for {
		select {
		case method := <-h.changed:
			if err := c.Notify(ctx, &mcp.Notification{Method: method}); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// withChanges runs f with a site whose view changes.
func withChanges(t *testing.T, m map[string]mcp.HandlerFunc, f func(*site, *changing)) {
	t.Helper()
	h := &changing{Handler: tools(m)}
	bubble(t, h, server.Config{}, func(s *site) {
		h.changed, h.acked = make(chan string), make(chan struct{}, 8)
		f(s, h)
	})
}

const toolsChanged = "notifications/tools/list_changed"

// M033, M034, M035: a change never rides on the answer of a request, and the
// form of an answer does not depend on what went before.
func TestM033ChangesStayOffOtherAnswers(t *testing.T) {
	var scope *mcp.Scope
	m := map[string]mcp.HandlerFunc{
		"burst": burst(t, 2),
		"tools/list": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			scope = req.Scope
			return result(`{"tools":[]}`)
		},
	}
	withChanges(t, m, func(s *site, _ *changing) {
		sess := s.session()
		list := raw("2", "tools/list", "")
		s.post(list, sess)
		for range 5 {
			if err := scope.Unrelated().Notify(s.ctx(), note(t, toolsChanged, `{}`)); err != nil {
				t.Fatal(err)
			}
			got := s.post(list, sess)
			equal(t, "list", got.body, `{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`)
			equal(t, "length", got.header.Get("Content-Length"), fmt.Sprint(len(got.body)))
			equal(t, "ping", s.post(raw("3", "ping", ""), sess).body, `{"jsonrpc":"2.0","id":3,"result":{}}`)
			if got := len(s.post(withToken("4", "burst", "1"), sess).events(t)); got != 3 {
				t.Errorf("%d events, want 2 notifications and the result", got)
			}
		}
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		defer st.close()
		equal(t, "change", st.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`","params":{}}`)
	})
}

// M036: with the GET open and another request running, what belongs to a
// request arrives on its stream, all of it and in order.
func TestM036RelatedMessagesHaveOneAddress(t *testing.T) {
	g := make(chan *gate, 1)
	m := map[string]mcp.HandlerFunc{
		"burst": burst(t, 80),
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

// M037, M038, M044, M045: what is said when the request is over is an error to
// whoever says it, and goes nowhere.
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
		if _, err := late.Ask(s.ctx(), &mcp.Request{Method: "roots/list"}); !errors.Is(err, mcp.ErrRequestEnded) {
			t.Errorf("Ask = %v, want ErrRequestEnded", err)
		}
	})
}

// M041: the header of a GET, and a comment behind it, are there at once.
func TestM041GetAnswersAtOnce(t *testing.T) {
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		start := time.Now()
		sess := s.session()
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		defer st.close()
		first := make([]byte, 1)
		if n, err := st.res.Body.Read(first); n != 1 || first[0] != ':' || err != nil {
			t.Errorf("first byte %q, %v; want a comment", first, err)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("it took %v", d)
		}
	})
}

// M042, M173: what changes once the client has seen the header is delivered.
func TestM042ChangeAfterTheHeader(t *testing.T) {
	withChanges(t, nil, func(s *site, h *changing) {
		st := s.open(s.ctx(), http.MethodGet, "", s.session())
		defer st.close()
		h.changed <- toolsChanged
		equal(t, "change", st.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
	})
}

// M048: the header comes within the grace period, and a slow result after any
// time.
func TestM048HeaderWithinGrace(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		sess := s.session()
		start := time.Now()
		st := s.open(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess)
		if d := time.Since(start); d != server.DefaultGrace {
			t.Errorf("the header came after %v, want %v", d, server.DefaultGrace)
		}
		s.pass(time.Hour)
		close(g.release)
		equal(t, "result", st.next(), `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		st.end()
	})
}

// M050: what is accepted and has no answer is 202 without a body.
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
	})
}

// M054: a stream outlives the HTTP server's own idea of how long an answer may
// take.
func TestM054WriteTimeoutOfTheHTTPServer(t *testing.T) {
	h := &changing{Handler: tools(nil)}
	bubbleWith(t, h, server.Config{}, func(hs *http.Server) { hs.WriteTimeout = time.Second }, func(s *site) {
		h.changed, h.acked = make(chan string), make(chan struct{}, 1)
		st := s.open(s.ctx(), http.MethodGet, "", s.session())
		defer st.close()
		for range 20 {
			sleep(300 * time.Millisecond)
			h.changed <- toolsChanged
			st.next()
		}
	})
}

// M086, M087: only the server makes session ids; M092: an unknown one is 404
// with the id of the request.
func TestM086OnlyTheServerMakesSessions(t *testing.T) {
	bubble(t, never(t), server.Config{}, func(s *site) {
		chosen := headers{"Mcp-Session-Id": strings.Repeat("A", 26)}
		if got := s.do(s.request(s.ctx(), http.MethodGet, "", chosen)); got.status != 404 {
			t.Errorf("GET: %d, want 404", got.status)
		}
		got := s.post(raw("9", "tools/call", `{"name":"echo"}`), chosen)
		equal(t, "POST", got.body, wireError("9", "-32600", "session not found; open a new one with initialize"))
		if got.status != 404 || s.server.Stats().Sessions != 0 {
			t.Errorf("status %d, %d sessions; want 404, 0", got.status, s.server.Stats().Sessions)
		}
	})
}

// M031: a second initialize changes nothing.
func TestM031SecondInitialize(t *testing.T) {
	var seen mcp.Version
	h := tools(map[string]mcp.HandlerFunc{"tools/list": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		seen = req.Client.Version
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		if got := s.post(opening("2025-03-26"), sess); got.status != 400 {
			t.Errorf("status %d, want 400", got.status)
		}
		s.post(raw("1", "tools/list", ""), sess)
		equal(t, "version", string(seen), "2025-11-25")
	})
}

// M095, M096, M101: what is used stays, what is not used goes, with everything
// that was kept for it.
func TestM096ActivityKeepsASession(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		listening, calling, idle, never := s.session(), s.session(), s.session(), s.handshake(initialize)
		get := s.open(s.ctx(), http.MethodGet, "", listening)
		call := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), calling))
		<-g.entered
		s.pass(time.Minute)
		if got := s.post(raw("1", "ping", ""), never); got.status != 404 {
			t.Errorf("a session that was never used, after a minute: %d, want 404", got.status)
		}
		s.pass(2 * time.Hour)
		if got := s.post(raw("1", "ping", ""), idle); got.status != 404 {
			t.Errorf("an idle session, after two hours: %d, want 404", got.status)
		}
		if got := s.server.Stats().Sessions; got != 2 {
			t.Errorf("%d sessions, want 2", got)
		}
		close(g.release)
		if got := <-call; got.status != 200 {
			t.Errorf("the long call: %d %s", got.status, got.body)
		}
		for _, h := range []headers{listening, calling} {
			if got := s.post(raw("1", "ping", ""), h); got.status != 200 {
				t.Errorf("a session in use: %d, want 200", got.status)
			}
		}
		get.close()
		s.pass(2 * time.Hour)
		if got := s.server.Stats().Sessions; got != 0 {
			t.Errorf("%d sessions are left, want 0", got)
		}
	})
}

// M121, C1: a modern client that goes away has cancelled; R5: a legacy one has
// not.
func TestM121Disconnect(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		ctx, cancel := context.WithCancel(s.ctx())
		failed := make(chan error, 1)
		send := func(r *http.Request) {
			go func() { // ends with the context
				res, err := s.client.Do(r)
				if err == nil {
					res.Body.Close()
				}
				failed <- err
			}()
			<-g.entered
		}
		send(s.request(ctx, http.MethodPost, modern("1", "tools/call", `"name":"wait"`), modernHeaders("tools/call", "wait")))
		cancel()
		start := time.Now()
		if err := <-g.cause; !strings.Contains(err.Error(), "closed the connection") || time.Since(start) != 0 {
			t.Errorf("modern: the context ended with %v after %v; want at once", err, time.Since(start))
		}
		<-failed

		ctx, cancel = context.WithCancel(s.ctx())
		send(s.request(ctx, http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), s.session()))
		cancel()
		<-failed
		s.pass(time.Minute)
		select {
		case err := <-g.cause:
			t.Errorf("legacy: the context ended with %v; want it to go on", err)
		default:
		}
		close(g.release)
		s.pass(0)
		if got := s.server.Stats(); got.Undelivered != 1 || got.InFlight != 0 {
			t.Errorf("%+v; want one undelivered answer and nothing in flight", got)
		}
	})
}

// M143: requests that their clients abandon leave nothing behind. The bubble
// would not end otherwise.
func TestM143AbandonedRequests(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"wait": func(ctx ctxType, _ *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		select {
		case <-time.After(time.Second):
			return result(`{}`)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		for i := range 300 {
			ctx, cancel := context.WithTimeout(s.ctx(), time.Duration(i%3+1)*500*time.Millisecond)
			res, err := s.client.Do(s.request(ctx, http.MethodPost, modern("1", "tools/call", `"name":"wait"`), modernHeaders("tools/call", "wait")))
			if err == nil {
				res.Body.Close()
			}
			cancel()
		}
		s.pass(time.Second)
		if got := s.server.Stats().InFlight; got != 0 {
			t.Errorf("%d requests are still in flight", got)
		}
	})
}

// M165: a Handler that panics, or returns nothing, fails that request alone.
func TestM165BrokenHandler(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{
		"panic": func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) { panic("secret") },
		"nil":   func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) { return nil, nil },
		"error": func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) { return nil, errors.New("secret") },
		"echo":  quick(`{}`),
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

// M171, U3, U5: the acknowledgement comes first, whatever was said before it,
// and everything on the stream names the subscription by the client's id.
func TestM171AcknowledgementComesFirst(t *testing.T) {
	h := mcp.HandlerFunc(func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if err := c.Notify(ctx, &mcp.Notification{Method: toolsChanged}); err != nil {
			return nil, err
		}
		sleep(time.Second) // long enough for whatever would be written to be written
		for _, n := range []*mcp.Notification{
			note(t, "notifications/progress", `{"progressToken":1,"progress":1}`), // U6: not on this stream
			note(t, "notifications/subscriptions/acknowledged", `{"notifications":{"toolsListChanged":true}}`),
			note(t, "notifications/resources/updated", `{"uri":"a:"}`),
		} {
			if err := c.Notify(ctx, n); err != nil {
				return nil, err
			}
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	bubble(t, h, server.Config{}, func(s *site) {
		st := s.open(s.ctx(), http.MethodPost, modern(`"sub"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), modernHeaders("subscriptions/listen", ""))
		const id = `"_meta":{"io.modelcontextprotocol/subscriptionId":"sub"}`
		equal(t, "ack", st.next(), `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},`+id+`}}`)
		equal(t, "change", st.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`","params":{`+id+`}}`)
		equal(t, "update", st.next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:",`+id+`}}`)
		go func() { _ = s.server.Shutdown(s.ctx()) }() // ends with the listen; M123
		equal(t, "result", st.next(), `{"jsonrpc":"2.0","id":"sub","result":{"resultType":"complete",`+id+`}}`)
		st.end()
	})
}

// M177: a legacy client hears nothing before it has said that it is initialized.
func TestM177NothingBeforeInitialized(t *testing.T) {
	withChanges(t, nil, func(s *site, h *changing) {
		sess := s.handshake(initialize)
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		defer st.close()
		<-h.acked
		h.changed <- toolsChanged
		got := make(chan string, 1)
		go func() { got <- st.next() }() // ends with the change
		s.pass(10 * time.Second)
		select {
		case e := <-got:
			t.Fatalf("before initialized: %s", e)
		default:
		}
		s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, sess)
		equal(t, "change", <-got, `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
	})
}

// resourceUpdated tells of a change whose notice is so large that a client which
// does not read keeps it from being written.
func (s *site) resourceUpdated(scope *mcp.Scope) {
	s.t.Helper()
	large := `{"uri":"file:///` + strings.Repeat("x", 2*memnet.DefaultBuffer) + `"}`
	if err := scope.Unrelated().Notify(s.ctx(), note(s.t, "notifications/resources/updated", large)); err != nil {
		s.t.Fatal(err)
	}
}

// M042, I17: a change that was on its way when the connection broke is told by
// the next GET: it is not lost until there is another.
func TestM042ChangeOnABrokenConnection(t *testing.T) {
	var scope *mcp.Scope
	m := map[string]mcp.HandlerFunc{"tools/list": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		scope = req.Scope
		return result(`{"tools":[]}`)
	}}
	breaks := map[string]func(*site, *stream){
		"the client stops reading": func(s *site, _ *stream) { s.pass(server.DefaultWriteTimeout) },
		"the client goes away":     func(s *site, st *stream) { st.close(); s.pass(0) },
	}
	for name, breakOff := range breaks {
		t.Run(name, func(t *testing.T) {
			withChanges(t, m, func(s *site, h *changing) {
				sess := s.handshake(initialize)
				s.post(raw("1", "tools/list", ""), sess)
				first := s.open(s.ctx(), http.MethodGet, "", sess)
				defer first.close()
				<-h.acked
				// Held until the client is initialized, and then taken at once.
				h.changed <- toolsChanged
				s.pass(0) // so that it stands before the next one
				s.resourceUpdated(scope)
				s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, sess)
				s.pass(0)
				breakOff(s, first)
				soon, cancel := context.WithTimeout(s.ctx(), time.Second)
				defer cancel()
				second := s.open(soon, http.MethodGet, "", sess)
				defer second.close()
				<-h.acked
				for _, want := range []string{`"` + toolsChanged + `"`, `"notifications/resources/updated"`} {
					if got := second.next(); !strings.Contains(got, want) {
						t.Errorf("the second GET tells %.80s; want %s", got, want)
					}
				}
			})
		})
	}
}

// I17: the system takes a write for a client that has just left; what was
// written that way counts as not written.
func TestChangeForAClientThatHasLeft(t *testing.T) {
	var scope *mcp.Scope
	m := map[string]mcp.HandlerFunc{"tools/list": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		scope = req.Scope
		return result(`{"tools":[]}`)
	}}
	withChanges(t, m, func(s *site, _ *changing) {
		sess := s.session()
		s.post(raw("1", "tools/list", ""), sess)
		if err := scope.Unrelated().Notify(s.ctx(), note(t, toolsChanged, `{}`)); err != nil {
			t.Fatal(err)
		}
		left, leave := context.WithCancel(s.ctx())
		leave()
		rec := httptest.NewRecorder() // takes everything, as the system does
		s.server.ServeHTTP(rec, s.request(left, http.MethodGet, "", sess))
		if !strings.Contains(rec.Body.String(), toolsChanged) {
			t.Fatalf("written: %q; want the change", rec.Body)
		}
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		defer st.close()
		equal(t, "change", st.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`","params":{}}`)
	})
}

// FAULTS 24: GETs that pile up on one session, because none of their clients
// reads, are bounded; the one that carries the stream goes on, and when the
// others are given up there is room again.
func TestStreamsOfASessionAreBounded(t *testing.T) {
	var scope *mcp.Scope
	m := map[string]mcp.HandlerFunc{"tools/list": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		scope = req.Scope
		return result(`{"tools":[]}`)
	}}
	withChanges(t, m, func(s *site, h *changing) {
		h.acked = make(chan struct{}, 32)
		sess := s.session()
		s.post(raw("1", "tools/list", ""), sess)
		for range 16 {
			stuck := s.open(s.ctx(), http.MethodGet, "", sess)
			defer stuck.close()
			s.resourceUpdated(scope)
			s.pass(0)
		}
		const want = `{"jsonrpc":"2.0","error":{"code":1006,"message":"16 streams per session (limits.streamsPerSession); the request was not sent",` +
			`"data":{"source":"gateway","outcome":"not_dispatched"}}}`
		s.refuses(refusalCase{name: "the 17th", method: http.MethodGet, header: sess, status: 429, want: want, also: [2]string{"Retry-After", "5"}})
		other := s.open(s.ctx(), http.MethodGet, "", s.session()) // has a bound of its own
		defer other.close()
		s.pass(server.DefaultWriteTimeout)
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		defer st.close()
		if got := st.next(); !strings.Contains(got, "resources/updated") {
			t.Errorf("after the others were given up: %.80s; want the update", got)
		}
	})
}
