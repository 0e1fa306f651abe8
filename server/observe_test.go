// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// watcher keeps the events of a server.
type watcher struct {
	mu     sync.Mutex
	events []server.Event
}

func (w *watcher) observe(_ context.Context, e server.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// take returns the events since the last call.
func (w *watcher) take() []server.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.events = nil }()
	return w.events
}

// wantOnly checks that exactly this event has happened.
func (w *watcher) wantOnly(t *testing.T, what string, want server.Event) {
	t.Helper()
	if got := w.take(); !slices.Equal(got, []server.Event{want}) {
		t.Errorf("%s: events %+v; want %+v", what, got, want)
	}
}

// connection is the address of every client of a site.
const connection = "127.0.0.1:80"

// key is the short form of a session id in logs and events.
func key(h headers) string { return keyOf(h["Mcp-Session-Id"]) }

func keyOf(id string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(id)))[:8] }

// FAULTS 16, 21, 22, 36, 37: a refusal because of the caller's identity is an event that
// contains neither a token nor a whole session id.
func TestEventsOfRefusals(t *testing.T) {
	w := &watcher{}
	cfg := server.Config{Observe: w.observe, Authenticate: identified(func(r *http.Request) (string, error) {
		switch principal := r.Header.Get("Authorization"); principal {
		case "ann", "bob":
			return principal, nil
		case "old":
			return "", &server.Denial{Message: "the token has expired"}
		default:
			return "", fmt.Errorf("token %q is unknown", principal)
		}
	})}
	bubble(t, tools(nil), cfg, func(s *site) {
		ann := s.sessionOf(headers{"Authorization": "ann"})
		as := func(principal string, also ...headers) []headers {
			return append(also, headers{"Authorization": principal})
		}
		tests := []eventCase{
			{"host", "POST", "", as("ann", headers{"Host": "evil.example"}), server.Event{Kind: server.ForeignHost, Detail: "evil.example"}},
			{"origin", "GET", "", as("ann", headers{"Origin": "null"}), server.Event{Kind: server.ForeignOrigin, Detail: "null"}},
			{"token in the query", "POST", "access_token=SECRET", as("ann"), server.Event{Kind: server.QueryToken}},
			{"unknown token", "POST", "", as("SECRET"), server.Event{Kind: server.Unauthenticated, Detail: "not authenticated"}},
			{"denied", "DELETE", "", as("old"), server.Event{Kind: server.Unauthenticated, Detail: "the token has expired"}},
			{"event id", "GET", "", as("ann", ann, headers{"Last-Event-Id": "a\u202e\"b"}),
				server.Event{Kind: server.UnknownEventID, Principal: "ann", Session: key(ann), Detail: `a\u202e\"b`}},
			{"nothing of the kind", "PUT", "", as("ann"), server.Event{}},
		}
		for _, method := range []string{"POST", "GET", "DELETE"} {
			unknown := func(id string) eventCase {
				return eventCase{method + " " + id, method, "", as("bob", headers{"Mcp-Session-Id": id}),
					server.Event{Kind: server.UnknownSession, Principal: "bob", Session: keyOf(id)}}
			}
			foreign := unknown(ann["Mcp-Session-Id"])
			foreign.want.Kind = server.ForeignSession
			tests = append(tests, foreign, unknown("ABCDEFGHIJKL"), unknown("A"), unknown(`\"`))
		}
		for _, tt := range tests {
			r := s.request(s.ctx(), tt.method, raw("1", "ping", ""), tt.header...)
			r.URL.RawQuery = tt.query
			s.do(r)
			if tt.want.Kind != "" {
				tt.want.Remote = connection
				w.wantOnly(t, tt.name, tt.want)
			} else if got := w.take(); len(got) != 0 {
				t.Errorf("%s: events %+v; want none", tt.name, got)
			}
		}
	})
}

// eventCase is a request and the events that it causes.
type eventCase struct {
	name   string
	method string
	query  string
	header []headers
	want   server.Event
}

// Every 429 is an event with the key of its limit, wherever the limit applies. M102 for
// batches: a refusal within a batch is reported like that of a single request.
func TestEventsOfLimits(t *testing.T) {
	w := &watcher{}
	limits := server.Limits{InFlightPerSession: 1, InFlightPerPrincipal: 1}
	gated(t, server.Config{Observe: w.observe, Limits: limits}, func(s *site, g *gate) {
		sess := s.handshake(opening("2025-03-26"))
		limited := func(key, session string) server.Event {
			return server.Event{Kind: server.Limited, Remote: connection, Session: session, Detail: key}
		}
		wait := raw("1", "tools/call", `{"name":"wait"}`)
		one := s.async(s.request(s.ctx(), http.MethodPost, wait, sess))
		<-g.entered
		s.post(raw("2", "tools/call", `{"name":"echo"}`), sess)
		w.wantOnly(t, "session", limited("limits.inFlightPerSession", key(sess)))
		s.post("["+raw("2", "tools/call", `{"name":"echo"}`)+"]", sess)
		w.wantOnly(t, "batch", limited("limits.inFlightPerSession", key(sess)))
		two := s.async(s.request(s.ctx(), http.MethodPost, modern("1", "tools/call", `"name":"wait"`), modernHeaders("tools/call", "wait")))
		<-g.entered
		s.call("echo")
		w.wantOnly(t, "principal", limited("limits.inFlightPerPrincipal", ""))
		close(g.release)
		<-one
		<-two
		if got := w.take(); len(got) != 0 {
			t.Errorf("events of what was served: %+v; want none", got)
		}
	})
}

// FAULTS 18, 28: an answer to no question and a cancel of no request are events and are
// counted, in both eras; those that match are not.
func TestEventsOfIdleMessages(t *testing.T) {
	w := &watcher{}
	gated(t, server.Config{Observe: w.observe}, func(s *site, g *gate) {
		sess := s.session()
		other := s.session()
		call := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess))
		<-g.entered
		cancel := func(id string) string {
			return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
		}
		idle := func(h headers, id string) server.Event {
			return server.Event{Kind: server.IdleCancel, Remote: connection, Session: key(h), Detail: id}
		}
		for _, id := range []string{"7", `"1"`, "null", "{}"} {
			s.post(cancel(id), sess)
			w.wantOnly(t, "cancel of "+id, idle(sess, quoted(id)))
		}
		s.post(cancel("1"), other) // the id belongs to another session
		w.wantOnly(t, "foreign", idle(other, "1"))
		s.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"_meta":{` + meta + `}}}`)
		w.wantOnly(t, "modern", server.Event{Kind: server.IdleCancel, Remote: connection, Detail: "1"})
		s.post(cancel("1"), sess)
		<-call
		s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, sess)
		if got := w.take(); len(got) != 0 {
			t.Errorf("a cancel that hit: %+v; want no event", got)
		}
		s.post(cancel("1"), sess)
		w.wantOnly(t, "once more", idle(sess, "1"))
		s.post(`{"jsonrpc":"2.0","id":"`+strings.Repeat("x", 300)+`","result":{}}`, sess)
		w.wantOnly(t, "stray", server.Event{Kind: server.Stray, Remote: connection, Session: key(sess), Detail: `\"` + strings.Repeat("x", 198)})
		if st := s.server.Stats(); st.IdleCancels != 7 || st.Strays != 1 {
			t.Errorf("%d idle cancels, %d strays; want 7, 1", st.IdleCancels, st.Strays)
		}
	})
}

// quoted is the value as it appears quoted in an event.
func quoted(v string) string { return strings.ReplaceAll(v, `"`, `\"`) }

// On a pipe there is no address; before initialize there is no session.
func TestEventsOnAPipe(t *testing.T) {
	w := &watcher{}
	cfg := server.Config{Observe: w.observe, Limits: server.Limits{InFlightPerSession: 1}}
	pipesGated(t, cfg, func(c *console, g *gate) {
		sync := func() {
			c.send(raw("99", "ping", ""))
			c.expect(`{"jsonrpc":"2.0","id":99,"result":{}}`)
		}
		c.send(`{"jsonrpc":"2.0","id":3,"result":{}}`)
		sync()
		w.wantOnly(t, "stray", server.Event{Kind: server.Stray, Detail: "3"})
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/unknown"}`)
		sync()
		w.wantOnly(t, "cancel", server.Event{Kind: server.IdleCancel, Detail: "4"})
		c.send(modern("1", "tools/call", `"name":"wait"`))
		<-g.entered
		c.send(modern("2", "tools/call", `"name":"echo"`))
		if got := c.next(); !strings.Contains(got, "limits.inFlightPerSession") {
			t.Errorf("the second: %s; want a refusal", got)
		}
		w.wantOnly(t, "limit", server.Event{Kind: server.Limited, Detail: "limits.inFlightPerSession"})
		close(g.release)
		c.next()
		c.handshake()
		c.send(`{"jsonrpc":"2.0","id":3,"result":{}}`)
		sync()
		got := w.take()
		if len(got) != 1 || got[0].Kind != server.Stray || len(got[0].Session) != 8 {
			t.Errorf("a stray of the session: %+v; want one that names it", got)
		}
	})
}

// Events on a pipe, and on a connection of HTTP with SSE, have the principal. A message that
// exceeds a limit is one, as over HTTP.
func TestEventsHaveTheirPrincipal(t *testing.T) {
	const alice = "alice"
	w := &watcher{}
	cfg := server.Config{Observe: w.observe, Limits: server.Limits{Depth: 10, RequestBody: 1000}}
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`
	pipesAs(t, &mcp.Identity{Principal: alice}, tools(nil), cfg, func(c *console) {
		for _, tt := range []struct {
			line string
			want server.Event
		}{
			{`{"jsonrpc":"2.0","id":3,"result":{}}`, server.Event{Kind: server.Stray, Detail: "3"}},
			{cancel, server.Event{Kind: server.IdleCancel, Detail: "4"}},
			{raw("1", "ping", nested(10)), server.Event{Kind: server.Limited, Detail: "limits.depth"}},
			{strings.Repeat(" ", 1001), server.Event{Kind: server.Limited, Detail: "limits.requestBody"}},
			{modern("1", "tools/call", `"name":"x","requestState":"sbp1.x"`), server.Event{Kind: server.UnknownState}},
		} {
			c.send(tt.line)
			if tt.want.Kind == server.Limited || tt.want.Kind == server.UnknownState {
				c.next()
			}
			synctest.Wait()
			tt.want.Principal = alice
			w.wantOnly(t, string(tt.want.Kind), tt.want)
		}
	})
	cfg.Authenticate = identified(func(*http.Request) (string, error) { return alice, nil })
	sseSite(t, tools(nil), cfg, func(s *site) {
		c := s.connect()
		defer c.cancel()
		s.send(c.to, cancel)
		synctest.Wait()
		w.wantOnly(t, "over SSE", server.Event{Kind: server.IdleCancel, Principal: alice, Remote: connection, Detail: "4"})
	})
}

// A request that does not reach the Handler is counted as refused, on each transport.
func TestRefusedRequestsAreCounted(t *testing.T) {
	const removed = `{"jsonrpc":"2.0","id":5,"method":"server/discover"}`
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		sess := s.handshake(opening("2025-03-26"))
		s.post(removed, sess)
		s.post("["+removed+",{}]", sess)
		if got := s.server.Stats().Refused; got != 3 {
			t.Errorf("%d requests were refused over HTTP, want 3", got)
		}
	})
	pipes(t, tools(nil), server.Config{}, func(c *console) {
		c.handshake()
		for _, line := range []string{removed, "{}"} {
			c.send(line)
			c.next()
		}
		if got := c.server.Stats().Refused; got != 2 {
			t.Errorf("%d requests were refused on a pipe, want 2", got)
		}
	})
}

// Guard makes the checks of the endpoint, with the same answers, except for the method,
// which is left to the next handler.
func TestGuard(t *testing.T) {
	w := &watcher{}
	cfg := server.Config{Observe: w.observe, Authenticate: identified(func(r *http.Request) (string, error) {
		if r.Header.Get("Authorization") != "good" {
			return "", &server.Denial{Message: "who are you?", Challenge: `Bearer realm="x"`}
		}
		return "ann", nil
	})}
	tests := []struct {
		name   string
		method string
		query  string
		header headers
		status int
		event  server.EventKind
	}{
		{"good", "GET", "", headers{}, 200, ""},
		{"a method of its own", "PATCH", "", headers{}, 200, ""},
		{"host", "GET", "", headers{"Host": "evil.example"}, 403, server.ForeignHost},
		{"origin", "GET", "", headers{"Origin": "http://evil.example"}, 403, server.ForeignOrigin},
		{"token in the query", "GET", "access_token=x", headers{}, 401, server.QueryToken},
		{"no token", "GET", "", headers{"Authorization": "-"}, 401, server.Unauthenticated},
	}
	bubble(t, never(t), cfg, func(s *site) {
		var reached int
		guarded := s.server.Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			reached++
			_, _ = io.WriteString(w, "inside")
		}))
		for _, tt := range tests {
			build := func(method string) *http.Request {
				r := s.request(s.ctx(), method, "", headers{"Authorization": "good"}, tt.header)
				r.URL.RawQuery = tt.query
				return r
			}
			reached = 0
			got := record(guarded, build(tt.method))
			if got.status != tt.status || (reached == 1) != (tt.status == 200) {
				t.Errorf("%s: status %d, reached %d times; want %d", tt.name, got.status, reached, tt.status)
			}
			events := w.take()
			if tt.event == "" {
				equal(t, tt.name, got.body, "inside")
				continue
			}
			if len(events) != 1 || events[0].Kind != tt.event {
				t.Errorf("%s: events %+v; want one %s", tt.name, events, tt.event)
			}
			endpoint := record(s.server, build(tt.method))
			equal(t, tt.name, fmt.Sprint(got), fmt.Sprint(endpoint))
			w.take()
		}
		if got := s.server.Stats().Refused; got != 8 {
			t.Errorf("refused = %d, want 8: those of the guard count as well", got)
		}
	})
}

// record serves a request with h, without a connection.
func record(h http.Handler, r *http.Request) reply {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return reply{rec.Code, rec.Header(), rec.Body.String()}
}

// An error in the log may wake an operator at night. That a client has cancelled its
// request is not logged as one, whatever the Handler returns; that a Handler fails is, also
// if its error looks like a cancellation.
func TestErrorsInTheLog(t *testing.T) {
	tests := []struct {
		name   string
		err    func(ctx context.Context) error
		cancel bool
		want   bool
	}{
		{"cancelled, its context's error", context.Context.Err, true, false},
		{"cancelled, the cause", context.Cause, true, false},
		{"cancelled, wrapped", func(ctx context.Context) error { return fmt.Errorf("asking: %w", ctx.Err()) }, true, false},
		{"cancelled, and broken besides", func(context.Context) error { return errors.New("disk full") }, true, true},
		{"broken", func(context.Context) error { return errors.New("disk full") }, false, true},
		{"a deadline of its own", func(context.Context) error { return context.DeadlineExceeded }, false, true},
		{"a context of its own", func(context.Context) error { return context.Canceled }, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log strings.Builder // written by one goroutine, read after it has ended
			h := tools(map[string]mcp.HandlerFunc{"fail": func(ctx context.Context, _ *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
				if tt.cancel {
					<-ctx.Done()
				}
				return nil, tt.err(ctx)
			}})
			pipes(t, h, server.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(c *console) {
				c.send(modern("1", "tools/call", `"name":"fail"`))
				synctest.Wait()
				if tt.cancel {
					c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
				}
				synctest.Wait()
			})
			if got := strings.Contains(log.String(), "level=ERROR"); got != tt.want {
				t.Errorf("logged as an error: %v, want %v\n%s", got, tt.want, log.String())
			}
		})
	}
}

// FAULTS 16: a page that may not call leaves one line in the log, with its input sanitized.
// With an Observe function there is an event, and no line is needed.
func TestForeignPagesLeaveOneLine(t *testing.T) {
	watched := 0
	watch := func(context.Context, server.Event) { watched++ }
	for _, tt := range []struct {
		name    string
		header  headers
		observe func(context.Context, server.Event)
		lines   int
		want    string
	}{
		{"host", headers{"Host": "evil.example"}, nil, 1, `level=WARN msg="request refused" event=foreign_host`},
		{"null origin", headers{"Origin": "null"}, nil, 1, `event=foreign_origin principal="" remote=127.0.0.1`},
		{"origin that would colour a terminal", headers{"Origin": "http://\u009b31m.example"}, nil, 1, `detail=http://\u009b31m.example`},
		{"host, watched", headers{"Host": "evil.example"}, watch, 0, ""},
		{"our own", headers{"Origin": "http://localhost"}, nil, 0, ""},
	} {
		var log strings.Builder // written by one goroutine, read after it has ended
		cfg := server.Config{Observe: tt.observe, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		bubble(t, tools(nil), cfg, func(s *site) {
			s.do(s.request(s.ctx(), "POST", raw("1", "ping", ""), tt.header))
		})
		if got := strings.Count(log.String(), "\n"); got != tt.lines || !strings.Contains(log.String(), tt.want) {
			t.Errorf("%s: %d lines, want %d with %s\n%s", tt.name, got, tt.lines, tt.want, log.String())
		}
	}
	if watched != 1 {
		t.Errorf("%d events were observed, want 1", watched)
	}
}
