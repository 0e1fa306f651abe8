// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// The tests of the regress_*_test.go files replay published defects of other clients
// and gateways, by their numbers in docs/regress.md. This file: how handshakes,
// sessions and clients end.

// bodyCounter is a transport that counts responses with unclosed bodies.
type bodyCounter struct {
	rt http.RoundTripper

	mu        sync.Mutex
	all, open int
}

func (b *bodyCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.rt.RoundTrip(r)
	if err == nil {
		b.count(1, 1)
		resp.Body = closeHook{resp.Body, sync.OnceFunc(func() { b.count(0, -1) })}
	}
	return resp, err
}

func (b *bodyCounter) count(all, open int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all += all
	b.open += open
}

// counts returns the number of responses, and how many of their bodies are open.
func (b *bodyCounter) counts() (all, open int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all, b.open
}

// closeHook calls a function before it closes.
type closeHook struct {
	io.ReadCloser

	do func()
}

func (c closeHook) Close() error {
	c.do()
	return c.ReadCloser.Close()
}

// A client that is closed before its first use opens nothing afterwards (M049).
func TestM049CloseBeforeTheFirstRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c, opened := dialLines(t, &faultyserver.Lines{}, client.Config{})
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		for _, req := range []*mcp.Request{echo(t), listen(t)} {
			_, err := c.Serve(t.Context(), req, &recorder{})
			wantFault(t, err, mcp.CodeShuttingDown, mcp.NotDispatched, "shutting down")
		}
		if n := opened(); n != 0 {
			t.Errorf("%d pipes were opened after the end", n)
		}
	})
}

// A refused GET is not repeated, and the body of each refusal is closed. A media type
// with a parameter is that of a stream (M083).
func TestM083FaultsOfTheListeningStream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const sessions = 20
		s := newStation()
		s.On["GET"] = func(x *faultyserver.Exchange) { x.Status(404, "text/plain", strings.Repeat("nothing here. ", 1000)) }
		var b *bodyCounter
		c := dialHTTPThrough(t, s, client.Config{}, func(rt http.RoundTripper) http.RoundTripper {
			b = &bodyCounter{rt: rt}
			return b
		})
		for i := range sessions {
			scope := mcp.NewScope(fmt.Sprint(i), nil)
			defer scope.End()
			if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		if n := s.Count(http.MethodGet); n != sessions {
			t.Errorf("%d GETs of %d sessions, want one each", n, sessions)
		}
		if all, open := b.counts(); open != 0 || all < 3*sessions {
			t.Errorf("%d of %d bodies are not closed", open, all)
		}
	})
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["GET"] = func(x *faultyserver.Exchange) {
			x.W.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			x.W.WriteHeader(http.StatusOK)
			x.Raw(": hello\n\n")
			x.Raw("data: " + <-s.listen + "\n\n")
			x.Hold()
		}
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			x.W.WriteHeader(http.StatusAccepted)
			s.listen <- response(x.Msg.ID, `{"content":["on the stream"]}`)
		}
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		res, err := within(t, dialHTTP(t, s, client.Config{}), in(scope, echo(t)), &recorder{})
		wantResult(t, res, err, `{"content":["on the stream"]}`)
		time.Sleep(time.Hour)
		if n := s.Count(http.MethodGet); n != 1 {
			t.Errorf("%d GETs, want 1", n)
		}
	})
}

// A refused cancellation after a refused call causes nothing else: it is sent once, and
// no handshake, probe or call follows (M116).
func TestM116RefusedCancelNotice(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		arrived, unauthorized := make(chan struct{}), func(x *faultyserver.Exchange) { x.Status(401, "", "") }
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			close(arrived)
			x.Hold() // the authorization takes its time
		}
		s.On["notifications/cancelled"] = unauthorized
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		call := launch(t, c, in(scope, echo(t)), &recorder{})
		<-arrived
		before := len(s.Seen())
		call.cancel()
		<-call.done
		time.Sleep(time.Hour)
		after := s.Seen()[before:]
		if len(after) != 1 || after[0].Method != "notifications/cancelled" {
			t.Errorf("after the cancel the server has seen %+v; want one notice", after)
		}
		res, err := within(t, c, in(scope, request(t, "tools/list", "")), &recorder{})
		if res != nil || !errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) || s.Count("initialize") != 1 {
			t.Errorf("the session afterwards: %v, %v, %d handshakes; want the server's own word and 1", res, err, s.Count("initialize"))
		}
	})
}

// hookHandler is a log handler that calls back for every record.
type hookHandler struct {
	slog.Handler

	do func()
}

func (h hookHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (h hookHandler) Handle(context.Context, slog.Record) error { h.do(); return nil }
func (h hookHandler) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h hookHandler) WithGroup(string) slog.Handler             { return h }

// Callbacks during the making of a connection may use the client: no lock is held
// meanwhile (M132).
func TestM132HooksOfAConnection(t *testing.T) {
	var c *client.Client
	ask := func() {
		if c != nil && c.Stats().Serving == 0 {
			t.Error("what is being served is not counted")
		}
	}
	inBubble(t, func(t *testing.T) {
		c = dialHTTPThrough(t, newStation(), client.Config{}, func(rt http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPost {
					ask()
				}
				return rt.RoundTrip(r)
			})
		})
		scope := mcp.NewScope("s", nil)
		res, err := within(t, c, in(scope, echo(t)), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		scope.End()
	})
	inBubble(t, func(t *testing.T) {
		c = nil
		var wg sync.WaitGroup
		s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) {
			x.Raw("no message, which is logged\n")
			x.Polite()
		}}}
		c = client.NewPipe(func(context.Context) (io.ReadWriteCloser, error) {
			ask()
			a, b := memnet.Pipe(1 << 20)
			wg.Go(func() { s.Serve(b) }) // ends when the client closes its end; waited for below
			return a, nil
		}, client.Config{Name: "b", Logger: slog.New(hookHandler{do: ask})})
		res, err := within(t, c, echo(t), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		pipe := c
		c = nil // log records at the end must not call back
		if err := pipe.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
}

// A client can be closed during a handshake: the connection ends, no later one is made,
// and the child is reaped (M134).
func TestM134CloseWhileConnecting(t *testing.T) {
	for _, method := range []string{"server/discover", "initialize"} {
		inBubble(t, func(t *testing.T) {
			arrived, gate := make(chan *faultyserver.Line, 1), make(chan struct{})
			s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){method: func(x *faultyserver.Line) {
				arrived <- x
				<-gate
				x.Polite()
			}}}
			c, opened := dialLines(t, s, client.Config{})
			call := launch(t, c, echo(t), &recorder{})
			<-arrived
			began := time.Now()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			<-call.done
			if f, ok := errors.AsType[*mcp.Fault](call.err); !ok || f.Outcome != mcp.NotDispatched {
				t.Errorf("%s: the call ended with %v; want that it was not sent", method, call.err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("%s: Close took %v", method, took)
			}
			close(gate)
			time.Sleep(time.Minute)
			if got := c.Stats(); got.Serving != 0 || opened() != 1 || s.Count("tools/call") != 0 {
				t.Errorf("%s: %+v, %d pipes, %d calls; want nothing after the end", method, got, opened(), s.Count("tools/call"))
			}
		})
	}
}

// A server that does not implement ping is alive all the same, and the session is kept
// (M140).
func TestM140UnknownPingIsAnAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) { x.Error(-32000, "session expired") } // an error of the tool itself
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		for i := range 3 {
			_, err := within(t, c, in(scope, echo(t)), &recorder{})
			wantError(t, err, -32000)
			synctest.Wait()
			if pings, sessions := s.Count("ping"), s.Count("initialize"); pings != i+1 || sessions != 1 {
				t.Errorf("%d pings and %d handshakes after %d errors; want one ping each and the one session", pings, sessions, i+1)
			}
		}
	})
}

// All goroutines of a session end with it while the client continues, if its handshake
// failed as well as if its scope ended (M146).
func TestM146NothingRunsAfterASession(t *testing.T) {
	tests := map[string]func(x *faultyserver.Exchange){
		"the handshake fails": func(x *faultyserver.Exchange) { x.Status(500, "", "") },
		"the scope ends":      func(x *faultyserver.Exchange) { x.Initialize() },
	}
	for name, initialize := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStation()
				s.Capabilities = announces
				s.On["initialize"] = initialize
				var b *bodyCounter
				var served atomic.Int32
				c := dialHTTPThrough(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					served.Add(1)
					defer served.Add(-1)
					s.ServeHTTP(w, r)
				}), client.Config{}, func(rt http.RoundTripper) http.RoundTripper {
					b = &bodyCounter{rt: rt}
					return b
				})
				if _, err := c.Probe(t.Context()); (err == nil) != (name == "the scope ends") {
					t.Fatalf("probe: %v", err)
				}
				for i := range 10 {
					ctx, cancel := context.WithCancel(t.Context())
					scope := mcp.NewScope(fmt.Sprint(i), nil)
					listening := make(chan struct{})
					go func() { // ends with ctx, or with the failure
						defer close(listening)
						_, _ = c.Serve(ctx, in(scope, listen(t)), &recorder{})
					}()
					time.Sleep(time.Second)
					cancel()
					<-listening
					scope.End()
				}
				time.Sleep(5 * time.Minute) // the connections of the probe have expired, too
				synctest.Wait()
				_, open := b.counts()
				if n := served.Load(); n != 0 || open != 0 || c.Stats().Serving != 0 {
					t.Errorf("%d requests at the server, %d open bodies, %+v; want nothing", n, open, c.Stats())
				}
			})
		})
	}
}

// A session does not belong to a request: neither the end of the request that opened it
// nor the failure of another one affects the next (M152).
func TestM152SessionOutlivesItsFirstRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		arrived, gate := make(chan struct{}), make(chan struct{})
		s := newStation()
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			switch name, _ := x.Msg.Params.Text(mcp.FieldName); name {
			case "breaks":
				x.Begin()
				x.Abort()
			case "waits":
				close(arrived)
				<-gate
			}
			x.Polite()
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		ctx, cancel := context.WithCancelCause(t.Context())
		res, err := c.Serve(ctx, in(scope, echo(t)), &recorder{}) // R1 opens the session
		wantResult(t, res, err, `{"content":[]}`)
		cancel(errors.New("R1 has ended"))
		waiting := launch(t, c, in(scope, tool(t, "waits")), &recorder{})
		<-arrived
		_, err = within(t, c, in(scope, tool(t, "breaks")), &recorder{})
		wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "broke")
		close(gate)
		waiting.wantResult(t, `{"content":[]}`)
		res, err = within(t, c, in(scope, echo(t)), &recorder{}) // R2
		wantResult(t, res, err, `{"content":[]}`)
		if n, m := s.Count("initialize"), s.Count("tools/call"); n != 1 || m != 4 {
			t.Errorf("%d sessions and %d calls, want 1 and 4", n, m)
		}
	})
}

// A client can be closed in any state of its streams: with an open listening stream and
// a live session, after a refused handshake, and after a failed listening stream. A
// second close does nothing (M155).
func TestM155EndInAnyState(t *testing.T) {
	tests := map[string]struct {
		prepare func(s *station, left chan<- struct{})
		fails   bool
	}{
		"the session is not the client's to end": {func(s *station, left chan<- struct{}) {
			s.On["DELETE"] = func(x *faultyserver.Exchange) { x.Status(http.StatusMethodNotAllowed, "", "") }
			s.On["GET"] = func(x *faultyserver.Exchange) {
				x.Begin()
				x.Hold()
				close(left)
			}
		}, false},
		"initialize is refused": {func(s *station, left chan<- struct{}) {
			s.On["initialize"] = func(x *faultyserver.Exchange) { x.Status(401, "", "") }
			close(left)
		}, true},
		"the listening stream has failed": {func(s *station, left chan<- struct{}) {
			s.On["GET"] = func(x *faultyserver.Exchange) {
				x.Begin()
				x.Abort()
			}
			close(left)
		}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, left := newStation(), make(chan struct{})
				tt.prepare(s, left)
				c := dialHTTP(t, s, client.Config{})
				scope := mcp.NewScope("s", nil)
				if _, err := within(t, c, in(scope, echo(t)), &recorder{}); (err != nil) != tt.fails {
					t.Errorf("the call: %v", err)
				}
				time.Sleep(time.Hour)
				began := time.Now()
				for range 2 {
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				}
				<-left
				if took := time.Since(began); took > time.Second {
					t.Errorf("it took %v", took)
				}
				scope.End()
			})
		})
	}
}

// After a failed probe the client is usable: calls and the listening stream of the
// detected era work over the same connection (M156).
func TestM156AfterAFailedProbe(t *testing.T) {
	probes := map[string]func(x *faultyserver.Exchange){
		"broken":  func(x *faultyserver.Exchange) { x.Abort() },
		"half":    func(x *faultyserver.Exchange) { x.Begin(); x.Raw("data: {"); x.Abort() },
		"refused": func(x *faultyserver.Exchange) { x.Status(405, "", "") },
		"silent":  func(x *faultyserver.Exchange) { x.Hold() },
	}
	for name, probe := range probes {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStation()
				s.Capabilities = announces
				s.On["server/discover"] = probe
				c := dialHTTP(t, s, client.Config{})
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				for range 2 {
					res, err := within(t, c, in(scope, echo(t)), &recorder{})
					wantResult(t, res, err, `{"content":[]}`)
				}
				ear := &recorder{}
				launch(t, c, in(scope, listen(t)), ear)
				<-s.open
				synctest.Wait()
				s.listen <- listChanged
				synctest.Wait()
				if got := ear.notifications(); len(got) != 2 || got[1] != "tools/list_changed" {
					t.Errorf("heard %q, want the acknowledgement and the change", got)
				}
				if n := s.Count("initialize"); n != 1 {
					t.Errorf("%d handshakes, want 1", n)
				}
			})
		})
	}
}

// If the server closes only its output of a pair of pipes, that ends the connection.
// Pending calls fail, and the next request has a new pair, without anything of the old
// one (M161).
func TestM161EndOfOneOfTwoPipes(t *testing.T) {
	for _, modern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			var wg sync.WaitGroup
			var remote *memnet.Conn
			arrived := make(chan struct{}, 1)
			s := &faultyserver.Lines{Modern: modern, On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) {
				if name, _ := x.Msg.Params.Text(mcp.FieldName); name == "wait" {
					arrived <- struct{}{}
					return
				}
				x.Polite()
			}}}
			pairs := 0
			c := client.NewPipe(func(context.Context) (io.ReadWriteCloser, error) {
				pairs++
				a, b := memnet.Pipe(1 << 20)
				remote = b
				wg.Go(func() { s.Serve(b) }) // ends when the client closes its end; waited for below
				return a, nil
			}, client.Config{Name: "b"})
			scope := mcp.NewScope("s", nil)
			waiting := launch(t, c, in(scope, tool(t, "wait")), &recorder{})
			<-arrived
			began := time.Now()
			if err := remote.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			<-waiting.done
			wantFault(t, waiting.err, mcp.CodeBackendFailed, mcp.Unknown, "closed the connection")
			res, err := within(t, c, in(scope, echo(t)), &recorder{})
			wantResult(t, res, err, `{"content":[]}`)
			if took := time.Since(began); took > 2*time.Second || pairs != 2 {
				t.Errorf("after %v and %d pairs of pipes; want at once, and 2", took, pairs)
			}
			if n := s.Count("initialize"); !modern && n != 2 {
				t.Errorf("%d handshakes, want one for each pair", n)
			}
			scope.End()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			wg.Wait()
		})
	}
}

// The DELETE of a session is sent although all contexts of the session are cancelled,
// and a server that does not answer it is not waited for without end (M162).
func TestM162DeleteAfterCancellation(t *testing.T) {
	for _, held := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s, arrived, said, let := newStation(), make(chan struct{}), make(chan string, 1), make(chan time.Time, 1)
			s.On["tools/call"] = func(x *faultyserver.Exchange) {
				close(arrived)
				x.Hold()
			}
			s.On["DELETE"] = func(x *faultyserver.Exchange) {
				said <- x.R.Header.Get("Mcp-Session-Id")
				if held {
					x.Hold()
				}
				let <- time.Now()
			}
			c := dialHTTP(t, s, client.Config{})
			scope := mcp.NewScope("s", nil)
			call := launch(t, c, in(scope, echo(t)), &recorder{})
			<-arrived
			began := time.Now()
			call.cancel()
			scope.End()
			if took := time.Since(began); took != 0 {
				t.Errorf("the end of the scope took %v", took)
			}
			<-call.done
			if got := <-said; got != faultyserver.SessionID {
				t.Errorf("goodbye of %q, want that of the session", got)
			}
			if took := (<-let).Sub(began); held != (took > 0) || took > 6*time.Second {
				t.Errorf("held %v: let go after %v, want a bound of seconds", held, took)
			}
			synctest.Wait()
			if st := c.Stats(); st.Serving != 0 {
				t.Errorf("%d requests are served", st.Serving)
			}
		})
	}
}

// Ten requests find that the session has ended while the first of them opens the next
// one: all continue in that one, and each is executed once. Calls that were in progress
// in the ended session may have run, and are not made again (M167).
func TestM167OneNewSessionForAll(t *testing.T) {
	const calls = 10
	inBubble(t, func(t *testing.T) {
		s := newStation()
		arrived, again, gate := make(chan struct{}), make(chan struct{}), make(chan struct{})
		s.On["initialize"] = func(x *faultyserver.Exchange) {
			if s.Count("initialize") > 1 {
				again <- struct{}{}
				<-gate
			}
			x.Initialize()
		}
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			name, _ := x.Msg.Params.Text(mcp.FieldName)
			switch old := x.R.Header.Get("Mcp-Session-Id") == faultyserver.SessionID; {
			case old && name == "under way":
				close(arrived)
				x.Hold()
			case old:
				x.Status(404, "", "")
			default:
				x.Result(`{"content":["` + x.R.Header.Get("Mcp-Session-Id") + `"]}`)
			}
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		before := launch(t, c, in(scope, tool(t, "under way")), &recorder{})
		<-arrived
		leader := launch(t, c, in(scope, echo(t)), &recorder{})
		<-again
		<-before.done
		wantFault(t, before.err, mcp.CodeBackendFailed, mcp.Unknown, "ended the session")
		all := []*running{leader}
		for range calls {
			all = append(all, launch(t, c, in(scope, echo(t)), &recorder{}))
		}
		synctest.Wait()
		close(gate)
		for _, call := range all {
			call.wantResult(t, `{"content":["faulty-session-2"]}`)
		}
		// The first request noticed by a call of its own, which the ended session
		// refused.
		if n, m := s.Count("initialize"), s.Count("tools/call"); n != 2 || m != 2+1+calls {
			t.Errorf("%d handshakes and %d calls, want 2 and %d", n, m, 3+calls)
		}
	})
}
