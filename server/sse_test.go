// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// sseSite runs f in a bubble with a site that serves HTTP with SSE.
func sseSite(t *testing.T, h mcp.Handler, cfg server.Config, f func(*site)) {
	t.Helper()
	bubble(t, h, cfg, func(s *site) {
		s.http.Handler = s.server.SSE()
		f(s)
	})
}

// sseConnection is an open stream with the URL for its messages.
type sseConnection struct {
	*stream
	to     string
	cancel context.CancelFunc
}

// connect opens a connection.
func (s *site) connect(hs ...headers) *sseConnection {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.ctx())
	st := s.open(ctx, http.MethodGet, "", append([]headers{{"Accept": "text/event-stream"}}, hs...)...)
	e, err := st.er.Next()
	if err != nil || e.Name != "endpoint" {
		s.t.Fatalf("the first event is %+v, %v; want an endpoint", e, err)
	}
	return &sseConnection{st, string(e.Data), cancel}
}

// send POSTs a message of a connection. Ordinary clients of that transport set no Accept
// header.
func (s *site) send(to, body string, hs ...headers) reply {
	s.t.Helper()
	r := s.request(s.ctx(), http.MethodPost, body, append([]headers{{"Accept": "-"}}, hs...)...)
	u, err := r.URL.Parse(to)
	if err != nil {
		s.t.Fatal(err)
	}
	r.URL = u
	return s.do(r)
}

const oldest = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}`

// initializeSSE completes the handshake.
func (s *site) initializeSSE(c *sseConnection, hs ...headers) {
	s.t.Helper()
	if got := s.send(c.to, oldest, hs...); got.status != 202 || got.body != "" {
		s.t.Fatalf("initialize: %d %q, want 202 and nothing", got.status, got.body)
	}
	if got := c.next(); !strings.Contains(got, `"protocolVersion":"2024-11-05"`) {
		s.t.Fatalf("the answer is %s", got)
	}
	s.send(c.to, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, hs...)
}

// "When a client connects, the server MUST send an `endpoint` event containing a URI for
// the client to use for sending messages. All subsequent client messages MUST be sent as
// HTTP POST requests to this endpoint. Server messages are sent as SSE `message` events"
// (2024-11-05, basic/transports, "HTTP with SSE")
//
// S1+ 2025-11-25 tutorials/security/security_best_practices: "MCP servers **MUST** use
// secure, non-deterministic session IDs."
//
// T7+ 2024-11-05 basic/transports: "When a client connects, the server **MUST** send
// an `endpoint` event containing a URI for the client to use for sending messages. All
// subsequent client messages **MUST** be sent as HTTP POST requests to this endpoint."
func TestSSE(t *testing.T) {
	ask := func(ctx context.Context, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		q, err := mcp.NewRequest("roots/list", nil)
		if err != nil {
			return nil, err
		}
		return mcp.Ask(ctx, c, q)
	}
	large := `{"content":[{"type":"text","text":"` + strings.Repeat("x", 100_000) + `"}]}`
	lines := "{\n\"content\":[],\r\n\"y\":\"" + strings.Repeat("y", 100_000) + "\"}"
	h := tools(map[string]mcp.HandlerFunc{"echo": fixedResult(`{"content":[],"n":1.0}`), "ask": ask, "large": fixedResult(large), "lines": fixedResult(lines)})
	sseSite(t, h, server.Config{}, func(s *site) {
		c := s.connect()
		if !strings.HasPrefix(c.to, "/mcp?sessionId=") {
			t.Errorf("messages go to %q", c.to)
		}
		other := s.connect()
		if other.to == c.to || len(other.to) < len("/mcp?sessionId=")+26 {
			t.Errorf("messages go to %q and to %q; want URLs that cannot be guessed", c.to, other.to)
		}
		other.cancel()
		s.initializeSSE(c)
		call := func(id, tool string) {
			if got := s.send(c.to, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"`+tool+`"}}`); got.status != 202 {
				t.Errorf("%s: %d %s", tool, got.status, got.body)
			}
		}
		call("1", "echo")
		equal(t, "result", c.next(), `{"jsonrpc":"2.0","id":1,"result":{"content":[],"n":1.0}}`)
		call(`"a"`, "large")
		equal(t, "large result", c.next(), `{"jsonrpc":"2.0","id":"a","result":`+large+`}`)
		call("2", "lines")
		equal(t, "result with line breaks", c.next(), `{"jsonrpc":"2.0","id":2,"result":`+strings.NewReplacer("\r", " ", "\n", " ").Replace(lines)+`}`)
		call("3", "ask")
		question := c.next()
		if !strings.Contains(question, `"method":"roots/list"`) {
			t.Fatalf("the question is %s", question)
		}
		m, err := mcp.Parse([]byte(question), mcp.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		s.send(c.to, string(jsonrpc.AppendResult(nil, m.ID, []byte(`{"roots":[]}`))))
		equal(t, "result of the one that asked", c.next(), `{"jsonrpc":"2.0","id":3,"result":{"roots":[]}}`)
		s.send(c.to, `{"jsonrpc":"2.0","id":4,"method":"ping"}`)
		equal(t, "pong", c.next(), `{"jsonrpc":"2.0","id":4,"result":{}}`)
		s.send(c.to, `{`)
		if got := c.next(); !strings.Contains(got, `"code":-32700`) {
			t.Errorf("half a message is answered with %s", got)
		}
		c.cancel()
	})
}

// A POST of any other content type is not read, and the connection receives no answer to
// it, whether or not the connection exists.
//
// T12- own: "A body with another type is not read, so that no check of messages is
// bypassed."
//
// T12+ own: "A message is sent as application/json and nothing else"
func TestSSEOtherContentTypes(t *testing.T) {
	sseSite(t, tools(nil), server.Config{}, func(s *site) {
		c := s.connect()
		defer c.cancel()
		for _, kind := range []string{"-", "text/plain", "text/event-stream", "application/json, text/plain", "application/x-www-form-urlencoded", "application/*"} {
			for _, to := range []string{c.to, c.to + "x", "/mcp"} {
				got := s.send(to, oldest, headers{"Content-Type": kind})
				if got.status != http.StatusUnsupportedMediaType || !strings.Contains(got.body, "content type must be application/json") {
					t.Errorf("%q to %s: %d %s; want 415", kind, to, got.status, got.body)
				}
			}
		}
		// This is the first message of the connection: a second initialize would be
		// refused.
		s.initializeSSE(c, headers{"Content-Type": "Application/JSON; charset=utf-8"})
	})
}

// The modern era is not served there.
func TestSSEIsLegacy(t *testing.T) {
	sseSite(t, tools(nil), server.Config{}, func(s *site) {
		c := s.connect()
		defer c.cancel()
		s.send(c.to, modern("1", "server/discover", ""))
		equal(t, "before the handshake", c.next(), `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"session not initialized; send initialize first, or name \"io.modelcontextprotocol/protocolVersion\" in _meta"}}`)
		s.initializeSSE(c)
		s.send(c.to, modern("2", "server/discover", ""))
		equal(t, "after it", c.next(), `{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"method \"server/discover\" does not exist in 2024-11-05"}}`)
	})
}

// Each request is checked separately: its origin, its method, its principal. The id in the
// URL is no credential.
//
// T7- 2024-11-05 basic/transports: "All subsequent client messages **MUST** be sent as
// HTTP POST requests to this endpoint."
//
// T1- 2024-11-05 basic/transports: "Servers **MUST** validate the `Origin` header on
// all incoming connections to prevent DNS rebinding attacks"
func TestSSERefusals(t *testing.T) {
	var events []server.EventKind
	cfg := server.Config{
		Authenticate: identified(func(r *http.Request) (string, error) {
			principal := r.Header.Get("Authorization")
			if principal == "" {
				return "", errors.New("nobody")
			}
			return principal, nil
		}),
		Limits:  server.Limits{RequestBody: 1000},
		Observe: func(_ context.Context, e server.Event) { events = append(events, e.Kind) },
	}
	sseSite(t, tools(nil), cfg, func(s *site) {
		alice := headers{"Authorization": "alice"}
		c := s.connect(alice)
		defer c.cancel()
		s.initializeSSE(c, alice)
		const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		for _, tt := range []struct {
			name, method, to, body string
			headers                headers
			status                 int
		}{
			{"stream, no credentials", "GET", "/mcp", "", headers{"Authorization": "-"}, 401},
			{"stream, foreign page", "GET", "/mcp", "", headers{"Origin": "http://evil.example"}, 403},
			{"stream, foreign host", "GET", "/mcp", "", headers{"Host": "evil.example"}, 403},
			{"stream, not as a stream", "GET", "/mcp", "", headers{"Accept": "application/json"}, 406},
			{"message, no credentials", "POST", c.to, ping, headers{"Authorization": "-"}, 401},
			{"message, of another", "POST", c.to, ping, headers{"Authorization": "bob"}, 404},
			{"message, foreign page", "POST", c.to, ping, headers{"Origin": "http://evil.example"}, 403},
			{"message, foreign host", "POST", c.to, ping, headers{"Host": "evil.example"}, 403},
			{"message, made up", "POST", "/mcp?sessionId=x", ping, nil, 404},
			{"message, to nobody", "POST", "/mcp", ping, nil, 400},
			{"message, as text", "POST", c.to, ping, headers{"Content-Type": "text/plain"}, 415},
			{"message, compressed", "POST", c.to, ping, headers{"Content-Encoding": "gzip"}, 415},
			{"message, too long", "POST", c.to, strings.Repeat(" ", 1001), nil, 413},
			{"token in the URL", "POST", c.to + "&access_token=x", ping, nil, 401},
			{"end", "DELETE", c.to, "", nil, 405},
			{"other method", "PUT", c.to, "", nil, 405},
		} {
			r := s.request(s.ctx(), tt.method, tt.body, headers{"Authorization": "alice"}, tt.headers)
			u, err := r.URL.Parse(tt.to)
			if err != nil {
				t.Fatal(err)
			}
			r.URL = u
			if got := s.do(r); got.status != tt.status {
				t.Errorf("%s: %d %s, want %d", tt.name, got.status, got.body, tt.status)
			}
		}
		s.send(c.to, ping, alice)
		equal(t, "of all these only this is answered", c.next(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		foreign := 0
		for _, k := range events {
			if k == server.ForeignSession {
				foreign++
			}
		}
		if foreign != 1 {
			t.Errorf("%d foreign sessions in %q", foreign, events)
		}
	})
}

// A connection is subject to the limits of sessions: their number, and how long an idle one
// lasts. One that has ended makes room.
func TestSSELimits(t *testing.T) {
	cfg := server.Config{
		Authenticate: identified(func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }),
		Limits:       server.Limits{Sessions: 3, SessionsPerPrincipal: 2, SessionUninitialized: time.Minute},
	}
	sseSite(t, tools(nil), cfg, func(s *site) {
		alice, bob := headers{"Authorization": "alice"}, headers{"Authorization": "bob"}
		try := func(principal headers) int {
			return s.do(s.request(s.ctx(), http.MethodGet, "", headers{"Accept": "text/event-stream"}, principal)).status
		}
		a, _ := s.connect(alice), s.connect(alice)
		if got := try(alice); got != 429 {
			t.Errorf("a third connection of one principal: %d, want 429", got)
		}
		b := s.connect(bob)
		if got := try(bob); got != 429 {
			t.Errorf("a fourth connection: %d, want 429", got)
		}
		s.initializeSSE(a, alice)
		a.cancel()
		s.advance(time.Second)
		c := s.connect(bob)
		s.initializeSSE(c, bob)
		s.advance(2 * time.Minute)
		b.end() // nothing was sent
		s.send(c.to, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, bob)
		equal(t, "the one that is used", c.next(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		c.cancel()
	})
}

// The connection is the session: everything that runs in it ends with it.
func TestSSEEnd(t *testing.T) {
	var g *gate
	wait := func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		return g.serve(ctx, req, c)
	}
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`
	t.Run("by the client", func(t *testing.T) {
		sseSite(t, tools(map[string]mcp.HandlerFunc{"wait": wait}), server.Config{}, func(s *site) {
			g = newGate()
			c := s.connect()
			s.initializeSSE(c)
			s.send(c.to, call)
			<-g.entered
			c.cancel()
			<-g.cause
			s.advance(time.Second)
			if got := s.send(c.to, call).status; got != 404 {
				t.Errorf("a message of a connection that has ended: %d, want 404", got)
			}
		})
	})
	t.Run("cancelled", func(t *testing.T) {
		sseSite(t, tools(map[string]mcp.HandlerFunc{"wait": wait}), server.Config{}, func(s *site) {
			g = newGate()
			c := s.connect()
			defer c.cancel()
			s.initializeSSE(c)
			s.send(c.to, call)
			<-g.entered
			s.send(c.to, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			<-g.cause
		})
	})
	t.Run("by the server", func(t *testing.T) {
		sseSite(t, tools(map[string]mcp.HandlerFunc{"wait": wait}), server.Config{}, func(s *site) {
			g = newGate()
			c := s.connect()
			s.initializeSSE(c)
			s.send(c.to, call)
			<-g.entered
			stopped := make(chan error, 1)
			go func() { stopped <- s.server.Shutdown(s.ctx()) }() // ends with the call
			synctest.Wait()
			close(g.release)
			equal(t, "the call that was under way", c.next(), `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
			c.end()
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			if got := s.do(s.request(s.ctx(), http.MethodGet, "")).status; got != 503 {
				t.Errorf("a connection after the end: %d, want 503", got)
			}
		})
	})
}

// A quiet connection has keep-alives, for proxies in between that would close it.
func TestSSEKeepAlive(t *testing.T) {
	sseSite(t, tools(nil), server.Config{KeepAlive: 20 * time.Second}, func(s *site) {
		c := s.connect()
		s.initializeSSE(c)
		began := time.Now()
		buf := make([]byte, 100)
		n, err := c.res.Body.Read(buf)
		if got := string(buf[:n]); err != nil || got != string(frame.AppendComment(nil, "")) || time.Since(began) > 21*time.Second {
			t.Errorf("read %q, %v after %v; want a comment within 21 s", got, err, time.Since(began))
		}
		c.cancel()
	})
}

// largeCall is a call of the tool with a result larger than all buffers in between.
func largeCall(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"large"}}`, id)
}

func largeResult(size int) mcp.Handler {
	return tools(map[string]mcp.HandlerFunc{"large": fixedResult(`{"content":[{"type":"text","text":"` + strings.Repeat(".", size) + `"}]}`)})
}

// A client that does not read, or only slowly, does not keep the server from ending: it has
// as long as a pipe for the last messages.
func TestSSEEndDoesNotWaitForASlowReader(t *testing.T) {
	for name, pause := range map[string]time.Duration{"stuck": time.Hour, "slow": 200 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			const before = 5 * time.Second // less than a write may take
			sseSite(t, largeResult(1<<20), server.Config{}, func(s *site) {
				s.net.Buffer = 512
				c := s.connect()
				s.initializeSSE(c)
				s.send(c.to, largeCall(1))
				ctx, stop := context.WithCancel(s.ctx())
				var reader sync.WaitGroup
				reader.Go(func() { // ends with the stream, or with the test
					piece := make([]byte, 1000)
					for {
						select {
						case <-time.After(pause):
						case <-ctx.Done():
							return
						}
						if _, err := c.res.Body.Read(piece); err != nil {
							return
						}
					}
				})
				s.advance(before)
				began := time.Now()
				if err := s.server.Close(); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("the end took %v", took)
				}
				stop()
				c.cancel()
				reader.Wait()
			})
		})
	}
}

// A client that sends and does not read is read from no faster than it reads, and the
// number of its pending messages is bounded: each of them was read.
func TestSSEPendingMessagesAreBounded(t *testing.T) {
	const most, sent = 4, 40
	sseSite(t, largeResult(64<<10), server.Config{Limits: server.Limits{InFlightPerSession: most}, WriteTimeout: time.Hour}, func(s *site) {
		s.net.Buffer = 512
		c := s.connect()
		s.initializeSSE(c)
		var answers []<-chan reply
		for i := range sent {
			r := s.request(s.ctx(), http.MethodPost, largeCall(i+1), headers{"Accept": "-"})
			u, err := r.URL.Parse(c.to)
			if err != nil {
				t.Fatal(err)
			}
			r.URL = u
			answers = append(answers, s.async(r))
			s.advance(0)
		}
		taken, refused, waiting := 0, 0, 0
		for _, a := range answers {
			select {
			case got := <-a:
				switch got.status {
				case http.StatusAccepted:
					taken++
				case http.StatusTooManyRequests:
					refused++
					if !strings.Contains(got.body, "limits.inFlightPerSession") || got.header.Get("Retry-After") == "" {
						t.Errorf("refused with %s", got.body)
					}
				default:
					t.Errorf("answered with %d %s", got.status, got.body)
				}
			default:
				waiting++
			}
		}
		if waiting == 0 || waiting > 2*most || refused == 0 || taken == 0 {
			t.Errorf("of %d messages %d were taken, %d refused, and %d wait; want at most %d that wait", sent, taken, refused, waiting, 2*most)
		}
		c.cancel()
		synctest.Wait()
	})
}

// The endpoint for messages is on the requested host, however the path is spelled.
func TestSSEEndpointStaysOnTheHost(t *testing.T) {
	for _, path := range []string{"/mcp", "//evil.example/mcp", "///evil.example", "/%2Fevil.example/x", `/\evil.example/x`} {
		sseSite(t, tools(nil), server.Config{}, func(s *site) {
			ctx, cancel := context.WithCancel(s.ctx())
			defer cancel()
			r := s.request(ctx, http.MethodGet, "", headers{"Accept": "text/event-stream"})
			r.URL.Opaque, r.URL.Path = "", ""
			r.URL = &url.URL{Scheme: "http", Host: "localhost", Opaque: "//localhost" + path}
			res, err := s.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			buf := make([]byte, 300)
			n, err := res.Body.Read(buf)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s, %v", path, res.Status, err)
			}
			_, to, _ := strings.Cut(string(buf[:n]), "data: ")
			base := &url.URL{Scheme: "http", Host: "localhost", Path: path}
			u, err := base.Parse(strings.TrimSpace(to))
			if err != nil || u.Host != "localhost" || strings.Contains(to, `\`) {
				t.Errorf("%s: messages go to %q, which is %v, %v", path, to, u, err)
			}
		})
	}
}

// A connection counts as a session.
func TestSSEConnectionsAreCounted(t *testing.T) {
	sseSite(t, tools(nil), server.Config{}, func(s *site) {
		a, b := s.connect(), s.connect()
		s.initializeSSE(a)
		if got := s.server.Stats().Sessions; got != 2 {
			t.Errorf("%d sessions, want 2", got)
		}
		a.cancel()
		b.cancel()
		s.advance(time.Second)
		if got := s.server.Stats().Sessions; got != 0 {
			t.Errorf("%d sessions when both have gone, want 0", got)
		}
	})
}
