// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// Streams that stay open: GETs and listens.

// changing is a Handler with lists that change when the test sends on changed.
type changing struct {
	mcp.Handler
	changed chan string // the method of the notification
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

// withChanges runs f with a site with a changing Handler.
func withChanges(t *testing.T, m map[string]mcp.HandlerFunc, f func(*site, *changing)) {
	t.Helper()
	h := &changing{Handler: tools(m)}
	bubble(t, h, server.Config{}, func(s *site) {
		h.changed, h.acked = make(chan string), make(chan struct{}, 8)
		f(s, h)
	})
}

const toolsChanged = "notifications/tools/list_changed"

// M041: the header of a GET, and a first event that is no message, are sent at once.
//
// T6+ 2025-11-25 basic/transports: "The server **MUST** either return `Content-Type:
// text/event-stream` in response to this HTTP GET, or else return HTTP 405 Method Not
// Allowed, indicating that the server does not offer an SSE stream at this endpoint."
func TestM041GetAnswersAtOnce(t *testing.T) {
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		start := time.Now()
		sess := s.session()
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		defer st.close()
		first := make([]byte, 64)
		if n, err := st.res.Body.Read(first); !strings.HasPrefix(string(first[:n]), "id: ") || err != nil {
			t.Errorf("first bytes %q, %v; want an event id", first[:n], err)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("it took %v", d)
		}
	})
}

// M042: a change after the client has received the header is delivered.
func TestM042ChangeAfterTheHeader(t *testing.T) {
	withChanges(t, nil, func(s *site, h *changing) {
		st := s.open(s.ctx(), http.MethodGet, "", s.session())
		defer st.close()
		h.changed <- toolsChanged
		equal(t, "change", st.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
	})
}

// M054: a stream outlives the WriteTimeout of the http.Server.
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

// M171, U3, U5: the acknowledgement is sent first, whatever the Handler sent before it, and
// each message on the stream has the subscription id of the client.
//
// U3+ 2026-07-28 basic/patterns/subscriptions: "The server MUST send
// `notifications/subscriptions/acknowledged` as the first message carrying the
// subscription's ID"
//
// U5+ 2026-07-28 basic/patterns/subscriptions: "All notifications delivered on the
// stream carry `io.modelcontextprotocol/subscriptionId` in `_meta`, identifying the
// `subscriptions/listen` request that opened the stream."
//
// U6- 2026-07-28 basic/transports/streamable-http: "Request-scoped notifications like
// `notifications/progress` and `notifications/message` are not delivered on the listen
// stream"
func TestM171AcknowledgementComesFirst(t *testing.T) {
	h := mcp.HandlerFunc(func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if err := c.Notify(ctx, &mcp.Notification{Method: toolsChanged}); err != nil {
			return nil, err
		}
		sleep(time.Second) // long enough for any pending write
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
		st := s.open(s.ctx(), http.MethodPost, modern(`"sub"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:"]}`), modernHeaders("subscriptions/listen", ""))
		const id = `"_meta":{"io.modelcontextprotocol/subscriptionId":"sub"}`
		equal(t, "ack", st.next(), `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},`+id+`}}`)
		equal(t, "change", st.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`","params":{`+id+`}}`)
		equal(t, "update", st.next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:",`+id+`}}`)
		go func() { _ = s.server.Shutdown(s.ctx()) }() // ends with the listen; M123
		equal(t, "result", st.next(), `{"jsonrpc":"2.0","id":"sub","result":{"resultType":"complete",`+id+`}}`)
		st.end()
	})
}

// M177: a legacy client receives nothing before its notifications/initialized.
func TestM177NothingBeforeInitialized(t *testing.T) {
	withChanges(t, nil, func(s *site, h *changing) {
		sess := s.handshake(initialize)
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		defer st.close()
		<-h.acked
		h.changed <- toolsChanged
		got := make(chan string, 1)
		go func() { got <- st.next() }() // ends with the change
		s.advance(10 * time.Second)
		select {
		case e := <-got:
			t.Fatalf("before initialized: %s", e)
		default:
		}
		s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, sess)
		equal(t, "change", <-got, `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
	})
}

// resourceUpdated sends a notification so large that it cannot be written to a client that
// does not read.
func (s *site) resourceUpdated(scope *mcp.Scope) {
	s.t.Helper()
	large := `{"uri":"file:///` + strings.Repeat("x", 2*memnet.DefaultBuffer) + `"}`
	if err := scope.Unrelated().Notify(s.ctx(), note(s.t, "notifications/resources/updated", large)); err != nil {
		s.t.Fatal(err)
	}
}

// M042, I17: a change that was being written when the connection broke is delivered by the
// next GET: it is kept until there is one.
func TestM042ChangeOnABrokenConnection(t *testing.T) {
	var scope *mcp.Scope
	m := keepScope(&scope)
	breaks := map[string]func(*site, *stream){
		"the client stops reading": func(s *site, _ *stream) { s.advance(server.DefaultWriteTimeout) },
		"the client goes away":     func(s *site, st *stream) { st.close(); s.advance(0) },
	}
	for name, breakOff := range breaks {
		t.Run(name, func(t *testing.T) {
			withChanges(t, m, func(s *site, h *changing) {
				sess := s.handshake(initialize)
				s.post(raw("1", "tools/list", ""), sess)
				first := s.open(s.ctx(), http.MethodGet, "", sess)
				defer first.close()
				<-h.acked
				// Kept until the client is initialized, and then taken at once.
				h.changed <- toolsChanged
				s.advance(0) // so that it is queued before the next one
				s.resourceUpdated(scope)
				s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, sess)
				s.advance(0)
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

// I17: the system accepts a write for a client that has just disconnected; a message
// written that way counts as not delivered.
func TestChangeForDisconnectedClient(t *testing.T) {
	var scope *mcp.Scope
	m := keepScope(&scope)
	withChanges(t, m, func(s *site, _ *changing) {
		sess := s.session()
		s.post(raw("1", "tools/list", ""), sess)
		if err := scope.Unrelated().Notify(s.ctx(), note(t, toolsChanged, `{}`)); err != nil {
			t.Fatal(err)
		}
		left, leave := context.WithCancel(s.ctx())
		leave()
		rec := httptest.NewRecorder() // accepts everything, as the system does
		s.server.ServeHTTP(rec, s.request(left, http.MethodGet, "", sess))
		if !strings.Contains(rec.Body.String(), toolsChanged) {
			t.Fatalf("written: %q; want the change", rec.Body)
		}
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		defer st.close()
		equal(t, "change", st.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`","params":{}}`)
	})
}

// FAULTS 24: GETs that pile up on one session, because none of their clients reads, are
// bounded; the one that has the stream goes on, and when the others are given up there is
// room again.
func TestStreamsOfASessionAreBounded(t *testing.T) {
	var scope *mcp.Scope
	m := keepScope(&scope)
	withChanges(t, m, func(s *site, h *changing) {
		h.acked = make(chan struct{}, 32)
		sess := s.session()
		s.post(raw("1", "tools/list", ""), sess)
		for range 16 {
			stuck := s.open(s.ctx(), http.MethodGet, "", sess)
			defer stuck.close()
			s.resourceUpdated(scope)
			s.advance(0)
		}
		const want = `{"jsonrpc":"2.0","error":{"code":1006,"message":"16 responses for one stream of a session (limits.streamsPerSession); the request was not sent",` +
			`"data":{"source":"gateway","outcome":"not_dispatched"}}}`
		s.wantRefusal(refusalCase{name: "the 17th", method: http.MethodGet, header: sess, status: 429, want: want, also: [2]string{"Retry-After", "5"}})
		other := s.open(s.ctx(), http.MethodGet, "", s.session()) // has its own bound
		defer other.close()
		s.advance(server.DefaultWriteTimeout)
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		defer st.close()
		if got := st.next(); !strings.Contains(got, "resources/updated") {
			t.Errorf("after the others were given up: %.80s; want the update", got)
		}
	})
}

// M056, M057, I13: each message is delivered once: a client that reconnects receives
// neither what it had nor anything twice.
func TestM057ReconnectRepeatsNothing(t *testing.T) {
	withChanges(t, nil, func(s *site, h *changing) {
		sess := s.session()
		first := s.open(s.ctx(), http.MethodGet, "", sess)
		<-h.acked
		for range 2 {
			h.changed <- toolsChanged
			first.next()
		}
		s.dropConnection(first)
		s.advance(time.Second)
		for range 3 { // reconnect without anything new
			st := s.open(s.ctx(), http.MethodGet, "", sess)
			<-h.acked
			got := make(chan string, 1)
			go func() { // ends with the stream
				if data, err := st.read(); err == nil {
					got <- data
				}
			}()
			s.advance(time.Second)
			select {
			case e := <-got:
				t.Errorf("it is sent again: %s", e)
			default:
			}
			st.close()
			s.advance(0)
		}
	})
}

// M056: a change that could not be delivered while no stream was open is delivered once, to
// the first that opens.
func TestM056PendingChangeIsSentOnce(t *testing.T) {
	var scope *mcp.Scope
	m := keepScope(&scope)
	withChanges(t, m, func(s *site, h *changing) {
		sess := s.session()
		s.post(raw("1", "tools/list", ""), sess)
		for range 3 {
			if err := scope.Unrelated().Notify(s.ctx(), note(t, toolsChanged, `{}`)); err != nil {
				t.Fatal(err)
			}
		}
		const want = `{"jsonrpc":"2.0","method":"` + toolsChanged + `","params":{}}`
		first := s.open(s.ctx(), http.MethodGet, "", sess)
		equal(t, "first", first.next(), want)
		second := s.open(s.ctx(), http.MethodGet, "", sess)
		first.end()
		s.do(s.request(s.ctx(), http.MethodDelete, "", sess))
		second.end()
	})
}

// M059, M062, M063: an event id is untrusted input. One that the server has not made is
// refused permanently and at once, and the open stream goes on.
func TestM059EventIDs(t *testing.T) {
	withChanges(t, nil, func(s *site, h *changing) {
		sess := s.session()
		open := s.open(s.ctx(), http.MethodGet, "", sess)
		defer open.close()
		<-h.acked
		for _, id := range []string{"0", "-1", "1", "9999999999999999999999", "_", "9_1", sess["Mcp-Session-Id"] + "/0/1", "../..", "%00", strings.Repeat("9", 8000)} {
			got := s.do(s.request(s.ctx(), http.MethodGet, "", sess, headers{"Last-Event-Id": id}))
			if got.status != 400 || !strings.Contains(got.body, "unknown event id") || len(got.body) > 400 {
				t.Errorf("%.40s: %d %s; want 400", id, got.status, got.body)
			}
		}
		h.changed <- toolsChanged
		equal(t, "the open stream", open.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
	})
}

// M081, M084: a GET without a session id is refused at once, and so is one with an unknown
// session id.
func TestM081GetWithoutASession(t *testing.T) {
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		start := time.Now()
		for name, h := range map[string]headers{"none": {}, "empty": {"Mcp-Session-Id": ""}} {
			got := s.do(s.request(s.ctx(), http.MethodGet, "", h))
			equal(t, name, got.body, invalid("Mcp-Session-Id header is missing; open a session with initialize"))
			if got.status != 400 {
				t.Errorf("%s: %d, want 400", name, got.status)
			}
		}
		if got := s.do(s.request(s.ctx(), http.MethodGet, "", headers{"Mcp-Session-Id": "early"})); got.status != 404 {
			t.Errorf("a session that is not known yet: %d, want 404", got.status)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("it took %v", d)
		}
	})
}

// M170: streams that open and close are not counted afterwards.
func TestM170StreamsAreNotCountedTwice(t *testing.T) {
	withChanges(t, nil, func(s *site, h *changing) {
		h.acked = make(chan struct{}, 200)
		sess := s.session()
		for i := range 100 {
			st := s.open(s.ctx(), http.MethodGet, "", sess)
			if i%3 == 0 {
				s.advance(0)
			}
			st.close()
		}
		s.advance(time.Second)
		if got := s.server.Stats(); got.InFlight != 0 || got.Sessions != 1 {
			t.Errorf("%+v; want nothing in flight and one session", got)
		}
	})
}

// M047: a notification to a session while it ends gives its sender an error, and nothing
// worse, whichever is first.
func TestM047NotifyWhileASessionEnds(t *testing.T) {
	var scope *mcp.Scope
	h := tools(keepScope(&scope))
	for range 20 {
		bubble(t, h, server.Config{}, func(s *site) {
			sess := s.session()
			s.post(raw("1", "tools/list", ""), sess)
			get := s.open(s.ctx(), http.MethodGet, "", sess)
			deleted := s.async(s.request(s.ctx(), http.MethodDelete, "", sess))
			var err error
			for range 200 {
				if err = scope.Unrelated().Notify(s.ctx(), note(t, toolsChanged, `{}`)); err != nil {
					break
				}
			}
			if got := <-deleted; got.status != 204 {
				t.Errorf("DELETE: %d", got.status)
			}
			if err == nil {
				err = scope.Unrelated().Notify(s.ctx(), note(t, toolsChanged, `{}`))
			}
			if !errors.Is(err, mcp.ErrRequestEnded) {
				t.Errorf("Notify = %v; want that the session has ended", err)
			}
			_, _ = io.Copy(io.Discard, get.res.Body)
			get.close()
		})
	}
}
