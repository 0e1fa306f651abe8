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

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// Late messages: an answer after its request was unregistered, messages of a request that
// is over, and clients that have gone.

// gatedWriter is a ResponseWriter of a connection that accepts nothing until release is
// closed.
type gatedWriter struct {
	*httptest.ResponseRecorder

	entered chan struct{} // closed with the first write
	release chan struct{}
}

func newGatedWriter() *gatedWriter {
	return &gatedWriter{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
}

func (w *gatedWriter) Write(p []byte) (int, error) {
	select {
	case <-w.entered:
	default:
		close(w.entered)
	}
	<-w.release
	return w.ResponseRecorder.Write(p)
}

// M024, I1, I10: the Handler has ended, and its request is unregistered so that its id is
// free, before the first byte of the answer is sent. The body does not end before the last
// byte.
func TestM024AnswerIsWrittenBeforeTheEndOfTheBody(t *testing.T) {
	const result = `{"jsonrpc":"2.0","id":1,"result":{}}`
	for sent, form := range map[int]string{0: "application/json", 3: "text/event-stream"} {
		t.Run(form, func(t *testing.T) {
			h := tools(map[string]mcp.HandlerFunc{"burst": progressBurst(t, sent)})
			bubble(t, h, server.Config{}, func(s *site) {
				sess := s.session()
				w, done := newGatedWriter(), make(chan struct{})
				go func() { // ends with the answer
					defer close(done)
					s.server.ServeHTTP(w, s.request(s.ctx(), http.MethodPost, withToken("1", "burst", "7"), sess))
				}()
				<-w.entered
				s.advance(time.Second)
				if got := s.server.Stats().InFlight; got != 0 {
					t.Fatalf("%d requests are in flight; want the Handler to have ended", got)
				}
				equal(t, "the same id again", s.post(raw("1", "ping", ""), sess).body, result)
				select {
				case <-done:
					t.Fatal("the body has ended before anything was written")
				default:
				}
				close(w.release)
				<-done
				got := reply{w.Code, w.Header(), w.Body.String()}
				equal(t, "form", got.header.Get("Content-Type"), form)
				if sent == 0 {
					equal(t, "body", got.body, result)
					return
				}
				events := got.events(t)
				if len(events) != sent+1 {
					t.Fatalf("%d events, want %d reports and the result", len(events), sent)
				}
				equal(t, "the last event", events[sent], result)
			})
		})
	}
}

// M043, I8, I9: the Caller of a request that is over reaches no client; the Unrelated
// Caller of its scope uses the session's own stream.
func TestM043CallerAfterRequest(t *testing.T) {
	var kept mcp.Caller
	var scope *mcp.Scope
	h := tools(map[string]mcp.HandlerFunc{"keep": func(_ ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		kept, scope = c, req.Scope
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		get := s.open(s.ctx(), http.MethodGet, "", sess)
		defer get.close()
		equal(t, "result", s.post(raw("1", "tools/call", `{"name":"keep"}`), sess).body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		sent := make(chan error, 2)
		time.AfterFunc(time.Minute, func() { // a timer of the Handler
			sent <- kept.Notify(s.ctx(), note(t, "notifications/x", `{"from":"the request"}`))
			sent <- scope.Unrelated().Notify(s.ctx(), note(t, toolsChanged, `{"from":"the session"}`))
		})
		if err := <-sent; !errors.Is(err, mcp.ErrRequestEnded) {
			t.Errorf("through the request: %v; want that it has ended", err)
		}
		if err := <-sent; err != nil {
			t.Errorf("through the session: %v", err)
		}
		equal(t, "the first message on the GET", get.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`","params":{"from":"the session"}}`)
	})
}

// M044, I9: a notification after the answer of its request has the same fate in both eras,
// whatever else is open: the Handler gets an error, and nothing is sent.
//
// C8- 2026-07-28 basic/patterns/progress: "Progress notifications MUST stop after
// completion"
func TestM044ProgressAfterTheResult(t *testing.T) {
	var leave chan struct{}
	var sent chan error
	h := tools(map[string]mcp.HandlerFunc{"spawn": func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		token := string(req.Params.Raw(mcp.MetaProgressToken))
		report := note(t, "notifications/progress", `{"progressToken":`+token+`,"progress":1}`)
		go func() { // ends when leave is closed; the test waits for it
			<-leave
			sent <- errors.Join(c.Notify(ctx, report), c.Notify(context.WithoutCancel(ctx), report))
		}()
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		leave, sent = make(chan struct{}), make(chan error, 2)
		sess := s.session()
		get := s.open(s.ctx(), http.MethodGet, "", sess)
		equal(t, "legacy", s.post(withToken("1", "spawn", "7"), sess).body, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"spawn","_meta":{"progressToken":7,` + meta + `}}}`
		equal(t, "modern", s.post(body, modernHeaders("tools/call", "spawn")).body, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`)
		close(leave)
		for range 2 {
			if err := <-sent; !errors.Is(err, mcp.ErrRequestEnded) {
				t.Errorf("Notify = %v; want that the request has ended", err)
			}
		}
		s.advance(time.Minute)
		s.do(s.request(s.ctx(), http.MethodDelete, "", sess))
		get.end() // it had no message
	})
	pipes(t, h, server.Config{}, func(c *console) {
		leave, sent = make(chan struct{}), make(chan error, 1)
		c.handshake()
		c.send(withToken("1", "spawn", "7"))
		c.expect(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		close(leave)
		if err := <-sent; !errors.Is(err, mcp.ErrRequestEnded) {
			t.Errorf("on a pipe: Notify = %v; want that the request has ended", err)
		}
		c.send(raw("2", "ping", ""))
		c.expect(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	})
}

// M097, I11, I20: a vanished peer acknowledges nothing and sends nothing. It is detected by
// the timeout of a write; only then does its session become idle, and it ends like any
// other.
func TestM097VanishedPeerDoesNotKeepItsSession(t *testing.T) {
	const idle = 10 * time.Minute
	var scope *mcp.Scope
	h := tools(keepScope(&scope))
	bubble(t, h, server.Config{Limits: server.Limits{SessionIdle: idle}}, func(s *site) {
		sess := s.session()
		s.post(raw("1", "tools/list", ""), sess)
		get := s.open(s.ctx(), http.MethodGet, "", sess)
		defer get.close() // it is never read
		s.advance(2 * idle)
		if got := s.server.Stats().Sessions; got != 1 {
			t.Fatalf("%d sessions while the GET is open, want 1", got)
		}
		s.resourceUpdated(scope)
		s.advance(server.DefaultWriteTimeout + time.Second)
		if got := s.server.Stats(); got.InFlight != 0 || got.Sessions != 1 {
			t.Errorf("after one write that was not taken: %+v; want no stream, and the session", got)
		}
		s.advance(idle + time.Minute)
		if got := s.server.Stats().Sessions; got != 0 {
			t.Errorf("%d sessions after their idle time, want 0", got)
		}
	})
}

// M140, I26, I28: connections that open and close while their keep-alives are due leave
// nothing running, and end once.
func TestM140KeepAliveMeetsTheEnd(t *testing.T) {
	var ended int
	h := tools(map[string]mcp.HandlerFunc{"tools/list": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		req.Scope.OnEnd(func() { ended++ })
		return result(`{"tools":[]}`)
	}})
	bubble(t, h, server.Config{KeepAlive: time.Millisecond}, func(s *site) {
		const rounds = 50
		for i := range rounds {
			sess := s.session()
			s.post(raw("1", "tools/list", ""), sess)
			get := s.open(s.ctx(), http.MethodGet, "", sess)
			sleep(time.Duration(i%5) * 500 * time.Microsecond) // at a keep-alive, and between two
			if i%2 == 0 {
				get.close()
			}
			if got := s.do(s.request(s.ctx(), http.MethodDelete, "", sess)); got.status != 204 {
				t.Fatalf("DELETE: %d", got.status)
			}
			get.close()
		}
		s.advance(time.Minute)
		if got := s.server.Stats(); got.InFlight != 0 || got.Sessions != 0 || ended != rounds {
			t.Errorf("%+v, %d scopes have ended; want nothing and %d", got, ended, rounds)
		}
	})
}

// M151, I28: clients that disconnect in the middle of a response leave no request and no
// goroutine behind that time would wake.
func TestM151DropInTheMiddleOfAResponse(t *testing.T) {
	var release chan struct{}
	h := tools(map[string]mcp.HandlerFunc{"talk": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if err := c.Notify(ctx, note(t, "notifications/x", `{}`)); err != nil {
			return nil, err
		}
		select {
		case <-release:
			return result(`{}`)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		release = make(chan struct{})
		sess := s.session()
		drop := func(body string, hs headers) {
			ctx, leave := context.WithCancel(s.ctx())
			st := s.open(ctx, http.MethodPost, body, hs)
			st.next()
			leave()
			st.close()
			s.advance(0)
		}
		const each = 20
		for i := range each {
			drop(raw(fmt.Sprint(i), "tools/call", `{"name":"talk"}`), sess)
			drop(modern(fmt.Sprint(i), "tools/call", `"name":"talk"`), modernHeaders("tools/call", "talk"))
		}
		s.advance(time.Hour)
		// A modern client that disconnects has cancelled; a legacy one has not, and its
		// call waits as one goroutine that nothing wakes.
		if got := s.server.Stats().InFlight; got != each {
			t.Errorf("%d requests in flight, want the %d legacy ones", got, each)
		}
		close(release)
		s.advance(0)
		if got := s.server.Stats(); got.InFlight != 0 || got.Panics != 0 {
			t.Errorf("%+v; want nothing in flight", got)
		}
		// A remaining goroutine would keep the bubble from ending, and one that spins would
		// keep its time from advancing.
	})
}

// M158, I26, I29: a function of OnEnd may end its session again, and end the server: it
// runs once, and there is no deadlock. At the end of an idle session the test does not end
// the server, because Close waits for background work, and functions of OnEnd must not
// block.
func TestM158EndFromWithinTheEnd(t *testing.T) {
	ways := map[string]func(s *site, sess headers){
		"DELETE": func(s *site, sess headers) { s.do(s.request(s.ctx(), http.MethodDelete, "", sess)) },
		"Close":  func(s *site, _ headers) { _ = s.server.Close() },
		"idle":   func(s *site, _ headers) { s.advance(31 * time.Minute) },
	}
	for name, end := range ways {
		t.Run(name, func(t *testing.T) {
			var srv *server.Server
			var times int
			h := tools(map[string]mcp.HandlerFunc{"tools/list": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
				scope := req.Scope
				scope.OnEnd(func() { //nolint:contextcheck // Close has no context
					times++
					scope.End()
					srv.Quiesce()
					if name == "idle" {
						return
					}
					if err := srv.Close(); err != nil {
						t.Errorf("Close from within: %v", err)
					}
				})
				return result(`{"tools":[]}`)
			}})
			bubble(t, h, server.Config{}, func(s *site) {
				srv = s.server
				sess := s.session()
				s.post(raw("1", "tools/list", ""), sess)
				end(s, sess)
				if times != 1 {
					t.Errorf("it ran %d times, want once", times)
				}
			})
		})
	}
}

// M182, I10: two goroutines of one Handler send notifications one after the other. The
// order of the calls is the order on the wire.
func TestM182OrderOfTwoGoroutines(t *testing.T) {
	const rounds = 100
	h := tools(map[string]mcp.HandlerFunc{"steps": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		notify := func(what string, i int) {
			_ = c.Notify(ctx, note(t, "notifications/x", fmt.Sprintf(`{"%s":%d}`, what, i)))
		}
		for i := range rounds {
			began, ended := make(chan struct{}), make(chan struct{})
			go func() { // ends at once; waited for below
				notify("start", i)
				close(began)
			}()
			go func() { // ends after the one before it; waited for below
				defer close(ended)
				<-began
				notify("end", i)
			}()
			<-ended
		}
		return result(`{}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		events := s.post(raw("1", "tools/call", `{"name":"steps"}`), s.session()).events(t)
		if len(events) != 2*rounds+1 {
			t.Fatalf("%d events, want %d", len(events), 2*rounds+1)
		}
		for i := range rounds {
			for j, what := range []string{"start", "end"} {
				if got := events[2*i+j]; !strings.Contains(got, fmt.Sprintf(`{"%s":%d}`, what, i)) {
					t.Fatalf("event %d is %s, want the %s of %d", 2*i+j, got, what, i)
				}
			}
		}
	})
}
