// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// I21, I30: a Handler that sends more than its client reads waits for room, and no longer
// than its context lasts. The message that it waited with is not sent.
func TestNotifyWaitsForRoomOrContext(t *testing.T) {
	var waited time.Duration
	var failed error
	h := tools(map[string]mcp.HandlerFunc{"talk": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		start := time.Now()
		for failed = nil; failed == nil; {
			failed = c.Notify(ctx, note(t, "notifications/x", `{"pad":"`+strings.Repeat("x", 100<<10)+`"}`))
		}
		waited = time.Since(start)
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		st := s.open(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"talk"}`), s.session())
		s.advance(5 * time.Second) // without reading
		if !errors.Is(failed, context.DeadlineExceeded) || waited != 3*time.Second {
			t.Errorf("Notify = %v after %v; want its deadline after 3s", failed, waited)
		}
		n := 0
		for got := st.next(); !strings.Contains(got, `"result"`); got = st.next() {
			n++
		}
		if n == 0 {
			t.Error("nothing of what there was room for has come")
		}
		st.end()
	})
}

// I21: the number of questions is bounded. What exceeds the bound is refused to the
// Handler, and the client receives none of it.
func TestQuestionsAreBounded(t *testing.T) {
	refused := make(chan error, 32)
	h := tools(map[string]mcp.HandlerFunc{"ask": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for range 20 {
			go func() { // ends with ctx, which ends with the request
				_, err := mcp.Ask(ctx, c, &mcp.Request{Method: "roots/list"})
				refused <- err
			}()
		}
		for range 4 {
			if err := <-refused; !errors.As(err, new(*mcp.Fault)) || !strings.Contains(err.Error(), "too many questions") {
				t.Errorf("Ask = %v; want that there are too many", err)
			}
		}
		sleep(time.Second) // until the client has those that were not refused
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		refused = make(chan error, 32)
		events := s.post(raw("1", "tools/call", `{"name":"ask"}`), s.session()).events(t)
		asked := strings.Count(strings.Join(events, "\n"), `"method":"roots/list"`)
		if asked > 16 || !strings.Contains(events[len(events)-1], `"id":1,"result"`) {
			t.Errorf("%d questions, the last event %s; want at most 16 and the result", asked, events[len(events)-1])
		}
	})
}

// A question that is asked while the session ends fails with that reason.
func TestQuestionOfAnEndedSession(t *testing.T) {
	withScope(t, func(s *site, sess headers, scope *mcp.Scope) {
		asked := make(chan error, 1)
		go func() { // ends with the session
			_, err := mcp.Ask(s.ctx(), scope.Unrelated(), &mcp.Request{Method: "roots/list"})
			asked <- err
		}()
		s.advance(time.Second)
		s.do(s.request(s.ctx(), http.MethodDelete, "", sess))
		for _, err := range []error{<-asked, func() error {
			_, err := mcp.Ask(s.ctx(), scope.Unrelated(), &mcp.Request{Method: "roots/list"})
			return err
		}()} {
			if fault, ok := errors.AsType[*mcp.Fault](err); !ok || fault.Code != mcp.CodeSessionEnded {
				t.Errorf("Ask = %v; want that the session has ended", err)
			}
		}
	})
}

// Messages that belong to no request and are no changes: log messages pass at the client's
// level, and messages that need a request are refused.
func TestUnrelatedMessages(t *testing.T) {
	withScope(t, func(s *site, sess headers, scope *mcp.Scope) {
		s.post(raw("2", "logging/setLevel", `{"level":"warning"}`), sess)
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		defer st.close()
		for _, n := range []*mcp.Notification{
			note(t, "notifications/message", `{"level":"info","data":"too little"}`),
			note(t, "notifications/progress", `{"progressToken":1,"progress":1}`),
			note(t, "notifications/subscriptions/acknowledged", `{}`),
			note(t, "notifications/message", `{"level":"error","data":"enough"}`),
		} {
			if err := scope.Unrelated().Notify(s.ctx(), n); err != nil {
				t.Errorf("%s: %v", n.Method, err)
			}
		}
		equal(t, "event", st.next(), `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"enough"}}`)
		if got := s.server.Stats().Dropped; got != 3 {
			t.Errorf("dropped = %d, want 3", got)
		}
	})
}

// A client that does not listen holds up nothing: messages without room are dropped and
// counted, except changes, which merge.
func TestUnrelatedFlood(t *testing.T) {
	withScope(t, func(s *site, sess headers, scope *mcp.Scope) {
		start := time.Now()
		for i := range 3000 {
			for _, n := range []*mcp.Notification{
				note(t, toolsChanged, `{}`),
				note(t, "notifications/message", `{"level":"error","data":"x"}`),
				note(t, "notifications/elicitation/complete", fmt.Sprintf(`{"elicitationId":"%d"}`, i)),
			} {
				if err := scope.Unrelated().Notify(s.ctx(), n); err != nil {
					t.Fatal(err)
				}
			}
		}
		got := s.server.Stats()
		if time.Since(start) != 0 || got.Merged != 2999 || got.Dropped < 4000 {
			t.Errorf("it took %v, %d merged, %d dropped; want no time, 2999, and what has no room", time.Since(start), got.Merged, got.Dropped)
		}
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		defer st.close()
		equal(t, "change", st.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`","params":{}}`)
	})
}

// A Handler cannot send to a client before its initialize is answered, nor ask in a listen.
func TestAskOutsideRequests(t *testing.T) {
	errs := make(chan error, 10)
	h := mcp.HandlerFunc(func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if err := c.Notify(ctx, note(t, "notifications/message", `{"level":"error","data":"early"}`)); err != nil {
			return nil, err
		}
		_, err := mcp.Ask(ctx, c, &mcp.Request{Method: "roots/list"})
		errs <- err
		return result(discovered)
	})
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()                             // server/discover
		st := s.open(s.ctx(), http.MethodGet, "", sess) // the inner listen
		s.post(modern("1", "subscriptions/listen", ""), modernHeaders("subscriptions/listen", ""))
		s.advance(0)
		st.close()
		want := []string{"cannot be asked during initialize", "does not belong to a subscription", "does not belong to a subscription"}
		if len(errs) != len(want) {
			t.Fatalf("%d questions, want %d", len(errs), len(want))
		}
		for _, text := range want {
			if err := <-errs; err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("Ask = %v; want %q", err, text)
			}
		}
	})
}

// A Handler's server/discover may fail or be malformed; the answer to initialize then has
// what is known.
func TestDiscoveryOfAHandler(t *testing.T) {
	text := ""
	h := mcp.HandlerFunc(func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
		if text == "" {
			return nil, nil
		}
		return result(text)
	})
	bubble(t, h, server.Config{}, func(s *site) {
		for _, tt := range []struct{ text, want string }{
			{`{}`, `"capabilities":{},"serverInfo":{"name":"signalbox","version":"0"}}`},
			{`{"capabilities":[]}`, `"error":{"code":-32603,"message":"internal error (ref `},
			{`{"capabilities":{"tools":1,"made_up":2}}`, `"capabilities":{"tools":1},`},
			{"", `"error":{"code":-32603,"message":"internal error (ref `},
		} {
			text = tt.text
			got := s.post(initialize)
			if !strings.Contains(got.body, tt.want) {
				t.Errorf("%s: %s; want %s in it", tt.text, got.body, tt.want)
			}
			if opened := got.header.Get("Mcp-Session-Id") != ""; opened == strings.Contains(tt.want, "error") {
				t.Errorf("%s: a session was opened: %t", tt.text, opened)
			}
		}
	})
}

// During a shutdown a batch is answered request by request, as otherwise.
func TestBatchDuringShutdown(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		sess := s.handshake(opening("2025-03-26"))
		call := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess))
		<-g.entered
		done := s.shutdown(time.Minute)
		note := `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`
		events := s.post("["+raw("2", "tools/call", `{"name":"echo"}`)+","+note+","+raw("3", "ping", "")+"]", sess).events(t)
		equal(t, "answers", strings.Join(events, "\n"), `{"jsonrpc":"2.0","id":3,"result":{}}`+"\n"+`{"jsonrpc":"2.0","id":2,`+refusedDraining)
		close(g.release)
		<-call
		if err := <-done; err != nil {
			t.Errorf("Shutdown = %v", err)
		}
	})
}

// T9: a batch with slow answers sends keep-alives.
func TestBatchKeepsAlive(t *testing.T) {
	gated(t, server.Config{KeepAlive: 10 * time.Second}, func(s *site, g *gate) {
		sess := s.handshake(opening("2025-03-26"))
		call := s.async(s.request(s.ctx(), http.MethodPost, "["+raw("1", "tools/call", `{"name":"wait"}`)+"]", sess))
		<-g.entered
		s.advance(35 * time.Second)
		close(g.release)
		got := <-call
		if n := strings.Count(got.body, ": \n\n"); n != 4 { // one with the header
			t.Errorf("%d comments in %q, want 4", n, got.body)
		}
		equal(t, "answer", strings.Join(got.events(t), "\n"), `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	})
}

// The address that a connection was made to is allowed as a Host, like loopback. Another
// address is not, nor is a malformed Host.
func TestHostOfTheConnection(t *testing.T) {
	local := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 8080}
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		for host, status := range map[string]int{
			"10.0.0.5": 200, "10.0.0.5:8080": 200, "[::ffff:10.0.0.5]": 200,
			"10.0.0.6": 403, "ten": 403, "": 403, "[::1": 403, "a:b:c": 403, "10.0.0.5.": 403,
		} {
			r := s.request(context.WithValue(s.ctx(), http.LocalAddrContextKey, local), http.MethodPost, initialize)
			r.Host = host
			if got := record(s.server, r); got.status != status {
				t.Errorf("%q: %d %s; want %d", host, got.status, got.body, status)
			}
		}
		for name, at := range map[string]any{"none": nil, "no address": &net.UnixAddr{Name: "@", Net: "unix"}} {
			r := s.request(context.WithValue(s.ctx(), http.LocalAddrContextKey, at), http.MethodPost, initialize)
			r.Host = "10.0.0.5"
			if got := record(s.server, r); got.status != 403 {
				t.Errorf("%s: %d, want 403", name, got.status)
			}
		}
	})
}

// FAULTS 1: a body that ends before its Content-Length is no message, and the limit is
// named in its own unit.
func TestBodyLengths(t *testing.T) {
	bubble(t, never(t), server.Config{Limits: server.Limits{RequestBody: 1001}}, func(s *site) {
		r := s.request(s.ctx(), http.MethodPost, "")
		r.Body, r.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF))), 100
		equal(t, "short", record(s.server, r).body, invalid("the body ended too early"))
		r = s.request(s.ctx(), http.MethodPost, strings.Repeat(" ", 1002))
		equal(t, "long", record(s.server, r).body, invalid("body exceeds 1001 bytes (limits.requestBody)"))
		r = s.request(s.ctx(), http.MethodPost, strings.Repeat(" ", 1001))
		equal(t, "just fits", fmt.Sprint(record(s.server, r).status), "400")
	})
}

// A body of any length is received whole, in pieces of any size, with or without a
// Content-Length. A long body that ends too early reaches no Handler.
func TestBodiesInPieces(t *testing.T) {
	var got []byte
	h := tools(map[string]mcp.HandlerFunc{"take": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		got = req.Params.Raw(mcp.FieldArguments)
		return result(`{"content":[]}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		send := func(size, piece, missing int, length bool) (args string, a reply) {
			args = `{"x":"` + strings.Repeat("points ", size/7) + `"}`
			body := modern("1", "tools/call", `"name":"take","arguments":`+args)
			body += strings.Repeat(" ", missing) // the body is a complete message without them
			r := s.request(s.ctx(), http.MethodPost, "", modernHeaders("tools/call", "take"))
			r.Body, r.ContentLength = noLength{&slowBody{text: body[:len(body)-missing], piece: piece}}, -1
			if length {
				r.ContentLength = int64(len(body))
			}
			got = nil
			return args, record(s.server, r)
		}
		for _, size := range []int{10, 4 << 10, 64<<10 - 300, 64 << 10, 64<<10 + 300, 200 << 10} {
			for _, piece := range []int{1 << 10, 4093, 64 << 10, 1 << 20} {
				for _, length := range []bool{true, false} {
					if args, a := send(size, piece, 0, length); a.status != 200 || string(got) != args {
						t.Errorf("%d bytes in pieces of %d: %d, and %d bytes of arguments, want %d", size, piece, a.status, len(got), len(args))
					}
				}
				_, a := send(size, piece, 1, true)
				if equal(t, "body", a.body, invalid("the body ended too early")); a.status != 400 || got != nil {
					t.Errorf("%d bytes in pieces of %d, and one is missing: %d", size, piece, a.status)
				}
			}
		}
	})
}

// Memory for an announced length is allocated only as the body arrives.
func TestContentLengthAllocatesNothing(t *testing.T) {
	bubble(t, never(t), server.Config{Limits: server.Limits{RequestBody: 1 << 30}}, func(s *site) {
		for _, sent := range []int{0, 60 << 10} {
			r := s.request(s.ctx(), http.MethodPost, "")
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat(" ", sent))), 1<<30
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			a := record(s.server, r)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
				t.Errorf("%d bytes of the GiB that was announced take %d bytes of memory", sent, used)
			}
			equal(t, "body", a.body, invalid("the body ended too early"))
		}
	})
}

// A pipe that fails is reported as an error, unlike one that ends; a server that has ended
// serves no pipe.
func TestPipesThatFail(t *testing.T) {
	s := server.New(tools(nil), server.Config{})
	cut := errors.New("the pipe broke")
	if err := s.ServeStdio(t.Context(), iotest.ErrReader(cut), io.Discard); !errors.Is(err, cut) {
		t.Errorf("ServeStdio = %v, want %v", err, cut)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := s.ServeStdio(t.Context(), strings.NewReader(""), io.Discard); err == nil {
		t.Error("a server that has ended serves a pipe")
	}
}

// A Handler that ends its goroutine instead of returning fails its request, and the request
// does not hang.
func TestHandlerThatEndsItsGoroutine(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"exit": func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
		runtime.Goexit()
		return nil, nil
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		if got := s.call("exit"); !strings.Contains(got.body, `"code":-32603`) {
			t.Errorf("%d %s; want an internal error", got.status, got.body)
		}
		s.advance(0) // the answer is sent before the request has ended
		if got := s.server.Stats().InFlight; got != 0 {
			t.Errorf("%d in flight, want 0", got)
		}
	})
}

// Results of every size arrive unmodified: those that are copied, those that are joined for
// one write, and those that are written piece by piece.
func TestResultsOfEverySize(t *testing.T) {
	size := 0
	h := tools(map[string]mcp.HandlerFunc{"size": func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
		return result(`{"x":"` + strings.Repeat("y", size) + `"}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.handshake(opening("2025-03-26"))
		for _, size = range []int{0, 4080, 4090, 4096, 10_000, 32 << 10, 33 << 10, 300_000} {
			want := `{"jsonrpc":"2.0","id":1,"result":{"x":"` + strings.Repeat("y", size) + `"}}`
			if got := s.post(raw("1", "tools/call", `{"name":"size"}`), sess); got.body != want || got.header.Get("Content-Length") != fmt.Sprint(len(want)) {
				t.Errorf("%d bytes as JSON: %.80s, length %s", size, got.body, got.header.Get("Content-Length"))
			}
			if got := s.post("["+raw("1", "tools/call", `{"name":"size"}`)+"]", sess).events(t); len(got) != 1 || got[0] != want {
				t.Errorf("%d bytes as an event: %.80s", size, got)
			}
		}
	})
	pipes(t, h, server.Config{}, func(c *console) {
		c.handshake()
		for _, size = range []int{0, 4090, 10_000, 33 << 10} {
			c.send(raw("1", "tools/call", `{"name":"size"}`))
			c.expect(`{"jsonrpc":"2.0","id":1,"result":{"x":"` + strings.Repeat("y", size) + `"}}`)
		}
	})
}
