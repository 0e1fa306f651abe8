// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// scriptedTool is a tool that sends the words that the test sends it, one after another,
// until it receives the result.
type scriptedTool struct {
	words  chan string
	caller chan mcp.Caller
}

func newScriptedTool() *scriptedTool {
	return &scriptedTool{words: make(chan string), caller: make(chan mcp.Caller, 1024)}
}

func (k *scriptedTool) serve(ctx context.Context, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
	k.caller <- c
	for {
		select {
		case word := <-k.words:
			if rest, ok := strings.CutPrefix(word, "result "); ok {
				return result(rest)
			}
			n, err := mcp.NewNotification("notifications/x", []byte(`{"say":"`+word+`"}`))
			if err != nil {
				return nil, err
			}
			if err := c.Notify(ctx, n); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func wordMessage(word string) string {
	return `{"jsonrpc":"2.0","method":"notifications/x","params":{"say":"` + word + `"}}`
}

// withScriptedTool runs f in a bubble with a site that has a scriptedTool named "talk".
func withScriptedTool(t *testing.T, cfg server.Config, f func(*site, *scriptedTool)) {
	t.Helper()
	var k *scriptedTool
	h := tools(map[string]mcp.HandlerFunc{
		"talk": func(ctx ctxType, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) { return k.serve(ctx, req, c) },
		"echo": fixedResult(`{"content":[]}`),
	})
	bubble(t, h, cfg, func(s *site) {
		k = newScriptedTool()
		f(s, k)
	})
}

// sessionIn opens a session of a revision.
func (s *site) sessionIn(v mcp.Version) headers {
	s.t.Helper()
	h := s.handshake(strings.Replace(initialize, "2025-11-25", string(v), 1))
	s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, h)
	return h
}

// startCall calls the tool "talk" with a first word, without which the stream would not begin
// at once.
func (s *site) startCall(ctx context.Context, k *scriptedTool, sess headers, id, word string) *stream {
	s.t.Helper()
	opened := make(chan *stream, 1)
	go func() { opened <- s.open(ctx, http.MethodPost, raw(id, "tools/call", `{"name":"talk"}`), sess) }() // ends with the header
	k.words <- word
	st := <-opened
	equal(s.t, "first word", st.next(), wordMessage(word))
	return st
}

// dropConnection breaks a connection. What was read counts as written by then: a server
// that finds its client gone right after a write treats the message as not written.
func (s *site) dropConnection(st *stream) {
	s.advance(0)
	st.close()
	s.advance(0)
}

// resume reconnects after an event.
func (s *site) resume(sess headers, last string) *stream {
	s.t.Helper()
	return s.open(s.ctx(), http.MethodGet, "", sess, headers{"Last-Event-Id": last})
}

// resumeRefused reconnects and expects to be refused.
func (s *site) resumeRefused(sess headers, last string) reply {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx(), time.Second) // a stream has no end
	defer cancel()
	return s.do(s.request(ctx, http.MethodGet, "", sess, headers{"Last-Event-Id": last}))
}

// DELIVERY 5.2, M065, S-resumability: after a break exactly the rest is sent, in each
// revision that has event ids, whatever happened meanwhile.
//
// R4+ 2025-11-25 basic/transports: "The server MAY use this header to replay messages
// that would have been sent after the last event ID, on the stream that was
// disconnected, and to resume the stream from that point."
//
// R9+ 2025-11-25 basic/transports: "Resumption is always via HTTP GET with
// Last-Event-ID."
func TestM065RestOfAnAnswer(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V20250326, mcp.V20250618, mcp.V20251125} {
		t.Run(string(v), func(t *testing.T) {
			withScriptedTool(t, server.Config{}, func(s *site, k *scriptedTool) {
				sess := s.sessionIn(v)
				st := s.startCall(s.ctx(), k, sess, "1", "one")
				s.dropConnection(st)
				k.words <- "two"
				again := s.resume(sess, st.last)
				equal(t, "second", again.next(), wordMessage("two"))
				k.words <- "three" // and then live
				equal(t, "third", again.next(), wordMessage("three"))
				s.dropConnection(again)
				k.words <- `result {"isError":true}`
				s.advance(4 * time.Minute)
				end := s.resume(sess, again.last)
				equal(t, "the end", end.next(), `{"jsonrpc":"2.0","id":1,"result":{"isError":true}}`)
				end.end()
				older := s.resume(sess, st.last) // an older event id: everything after it, once more
				for i, want := range []string{wordMessage("two"), wordMessage("three"), `{"jsonrpc":"2.0","id":1,"result":{"isError":true}}`} {
					equal(t, fmt.Sprint("again ", i), older.next(), want)
				}
				older.end()
				if got := s.server.Stats(); got.Undelivered != 0 || got.Dropped != 0 || got.Replayed != 3 {
					t.Errorf("%+v; want nothing lost, and 3 messages that were sent again", got)
				}
			})
		})
	}
}

// "Servers SHOULD immediately send an SSE event consisting of an event ID and an
// empty data field" (2025-11-25, basic/transports, "Sending Messages to the
// Server"). Before that revision no client expects one.
//
// R6+ 2025-11-25 basic/transports: "The server SHOULD immediately send an SSE event
// consisting of an event ID and an empty data field in order to prime the client to
// reconnect"
//
// R6- 2025-11-25 basic/transports: "The server SHOULD immediately send an SSE event
// consisting of an event ID and an empty data field in order to prime the client to
// reconnect"
func TestPrimingEvent(t *testing.T) {
	for v, want := range map[mcp.Version]bool{mcp.V20241105: false, mcp.V20250326: false, mcp.V20250618: false, mcp.V20251125: true} {
		withScriptedTool(t, server.Config{Grace: time.Second}, func(s *site, _ *scriptedTool) {
			st := s.open(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"talk"}`), s.sessionIn(v))
			defer st.close()
			first := make([]byte, 64)
			n, err := st.res.Body.Read(first)
			if err != nil {
				t.Fatal(err)
			}
			got := string(first[:n])
			if primed := strings.HasPrefix(got, "id: ") && strings.HasSuffix(got, "\ndata:\n\n"); primed != want || !primed && got != ": \n\n" {
				t.Errorf("%s: the stream begins with %q; want an event without data: %v", v, got, want)
			}
		})
	}
}

// A revision without event ids has none, and its streams are lost with their
// connections.
//
// R6- 2025-11-25 basic/transports: "The server SHOULD immediately send an SSE event
// consisting of an event ID and an empty data field in order to prime the client to
// reconnect"
func TestNoEventIDsIn20241105(t *testing.T) {
	withScriptedTool(t, server.Config{}, func(s *site, k *scriptedTool) {
		st := s.startCall(s.ctx(), k, s.sessionIn(mcp.V20241105), "1", "one")
		if st.last != "" {
			t.Errorf("the event has the id %q", st.last)
		}
		s.dropConnection(st)
		k.words <- `result {}`
		s.advance(0)
		if got := s.server.Stats(); got.Undelivered != 1 || got.Kept != 0 {
			t.Errorf("%+v; want the result undelivered and nothing kept", got)
		}
	})
}

// An answer of one JSON object is not kept: no client can resume it.
func TestJSONAnswersAreNotKept(t *testing.T) {
	withScriptedTool(t, server.Config{}, func(s *site, _ *scriptedTool) {
		sess := s.session()
		for i := range 10 {
			s.post(raw(fmt.Sprint(i), "tools/call", `{"name":"echo"}`), sess)
		}
		if got := s.server.Stats().Kept; got != 0 {
			t.Errorf("%d bytes are kept", got)
		}
	})
}

// M066, M063: nothing follows the end, and a client that tries to resume gets a response
// that it does not take for a success.
//
// R10- 2025-11-25 basic/transports: "After the JSON-RPC response has been sent, the
// server SHOULD terminate the SSE stream."
func TestM066NothingFollowsTheEnd(t *testing.T) {
	withScriptedTool(t, server.Config{}, func(s *site, k *scriptedTool) {
		sess := s.session()
		st := s.startCall(s.ctx(), k, sess, "1", "one")
		caller := <-k.caller
		k.words <- `result {}`
		st.next()
		st.end()
		if err := caller.Notify(s.ctx(), note(t, "notifications/x", `{}`)); !errors.Is(err, mcp.ErrRequestEnded) {
			t.Errorf("a word behind the result: %v; want %v", err, mcp.ErrRequestEnded)
		}
		got := s.resumeRefused(sess, st.last)
		equal(t, "body", got.body, invalid(fmt.Sprintf("nothing follows event id %q; its stream has ended", st.last)))
		if got.status != 400 {
			t.Errorf("status %d, want 400", got.status)
		}
	})
}

// M059, FAULTS 22: event ids that are malformed, from the future, of another stream, of
// another session, or too old.
//
// R9- 2025-11-25 basic/transports: "Resumption is always via HTTP GET with
// Last-Event-ID."
func TestM059EventIDsAreHostile(t *testing.T) {
	withScriptedTool(t, server.Config{}, func(s *site, k *scriptedTool) {
		victim, sess := s.session(), s.session()
		theirs := s.startCall(s.ctx(), k, victim, "1", "secret")
		before := theirs.last
		k.words <- `result {}`
		theirs.next()
		theirs.end()
		mine := s.startCall(s.ctx(), k, sess, "1", "one")
		number, pos, _ := strings.Cut(mine.last, "-")
		for _, id := range []string{
			before, theirs.last, // M068
			number + "-" + pos + "0", number + "-3w5e11264sgsf", number + "-2", number, "-" + pos, number + "-01", "zz-1",
			mine.last + "." + before, mine.last + "." + mine.last, mine.last + ".", "." + mine.last,
			strings.Repeat("1-1.", 5000), mine.last + ", " + mine.last, "*", "%00", "é",
		} {
			got := s.resumeRefused(sess, id)
			if got.status != 400 || !strings.Contains(got.body, "unknown event id") || len(got.body) > 400 {
				t.Errorf("%.40q: %d %.200s; want 400", id, got.status, got.body)
			}
		}
		k.words <- `result {}` // none of this has affected the stream
		equal(t, "result", mine.next(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		mine.end()
	})
}

// M068, I22: another principal's session is unknown, and so are its events.
//
// S11- 2026-07-28 tutorials/security/security_best_practices: "MCP servers **MUST
// NOT** treat possession of a state handle as authentication."
func TestM068EventsOfAnotherSession(t *testing.T) {
	withScriptedTool(t, server.Config{Authenticate: identified(byToken)}, func(s *site, k *scriptedTool) {
		ann, bob := headers{"Authorization": "Bearer ann"}, headers{"Authorization": "Bearer bob"}
		open := func(principal headers) headers {
			got := s.post(initialize, principal)
			return headers{"Mcp-Session-Id": got.header.Get("Mcp-Session-Id"), "Authorization": principal["Authorization"]}
		}
		v, a := open(ann), open(bob)
		st := s.startCall(s.ctx(), k, v, "1", "secret")
		s.dropConnection(st)
		k.words <- "more"
		if got := s.resumeRefused(a, st.last); got.status != 400 || strings.Contains(got.body, "more") {
			t.Errorf("with its own session: %d %s", got.status, got.body)
		}
		v["Authorization"] = a["Authorization"]
		if got := s.resumeRefused(v, st.last); got.status != 404 || strings.Contains(got.body, "more") {
			t.Errorf("with the other's session: %d %s", got.status, got.body)
		}
	})
}

// byToken takes the principal from the bearer token.
func byToken(r *http.Request) (string, error) {
	principal, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return "", &server.Denial{Message: "no token"}
	}
	return principal, nil
}

// M075, I12: a client that reconnects while its old connection is still open takes the
// stream over, and the end of the old connection loses nothing of it.
func TestM075ResumeTakesOver(t *testing.T) {
	withScriptedTool(t, server.Config{}, func(s *site, k *scriptedTool) {
		sess := s.session()
		st := s.startCall(s.ctx(), k, sess, "1", "one")
		again := s.resume(sess, st.last)
		if _, err := st.read(); err == nil {
			t.Error("the old connection got a message")
		}
		s.dropConnection(st)
		k.words <- "two"
		equal(t, "second", again.next(), wordMessage("two"))
		k.words <- `result {}`
		equal(t, "result", again.next(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		again.end()
	})
}

// A stream is kept for its retention. Then the request ends with an error, and nothing is
// left.
func TestRetentionEnds(t *testing.T) {
	withScriptedTool(t, server.Config{Limits: server.Limits{EventRetention: time.Minute}}, func(s *site, k *scriptedTool) {
		sess := s.session()
		st := s.startCall(s.ctx(), k, sess, "1", "one")
		s.dropConnection(st)
		k.words <- `result {}`
		s.advance(59 * time.Second)
		if got := s.server.Stats(); got.Kept == 0 || got.Undelivered != 0 {
			t.Errorf("%+v; want the result kept", got)
		}
		s.advance(10 * time.Second)
		if got := s.server.Stats(); got.Kept != 0 || got.Undelivered != 1 {
			t.Errorf("%+v; want the result given up", got)
		}
		again := s.resume(sess, st.last)
		equal(t, "last word", again.next(), `{"jsonrpc":"2.0","id":1,"error":{"code":1006,"message":"result no longer available (limits.eventRetention 1m0s); the request was executed",`+
			`"data":{"source":"gateway","outcome":"completed"}}}`)
		again.end()
	})
}

// A stream that was resumed and delivered is kept for its retention after that, and no
// longer.
func TestRetentionEndsAfterResume(t *testing.T) {
	cfg := server.Config{Limits: server.Limits{EventRetention: time.Minute}}
	nothingIsLeft := func(t *testing.T, s *site) {
		t.Helper()
		if got := s.server.Stats(); got.Kept == 0 {
			t.Errorf("%+v; want something kept for a minute", got)
		}
		s.advance(2 * time.Minute)
		if got := s.server.Stats(); got.Kept != 0 {
			t.Errorf("%+v; want nothing kept", got)
		}
	}
	withScriptedTool(t, cfg, func(s *site, k *scriptedTool) {
		sess := s.session()
		st := s.startCall(s.ctx(), k, sess, "1", "one")
		s.dropConnection(st)
		again := s.resume(sess, st.last)
		k.words <- `result {}`
		again.next()
		again.end()
		nothingIsLeft(t, s)
	})
}

// The response of a batch cannot be resumed: its events have no ids, and nothing of it is
// kept. If the client disconnects, the requests run on, and their answers are counted as
// not delivered (I25).
func TestBatchIsNotResumable(t *testing.T) {
	withScriptedTool(t, server.Config{}, func(s *site, k *scriptedTool) {
		call := func(id, name string) string { return raw(id, "tools/call", `{"name":"`+name+`"}`) }
		st := s.open(s.ctx(), http.MethodPost, "["+call("1", "talk")+","+call("2", "talk")+","+call("3", "echo")+"]", s.sessionIn(mcp.V20250326))
		equal(t, "the quick one", st.next(), `{"jsonrpc":"2.0","id":3,"result":{"content":[]}}`)
		k.words <- "one" // of either
		equal(t, "a message", st.next(), wordMessage("one"))
		k.words <- `result {}`
		st.next()
		if st.last != "" {
			t.Errorf("the event id %q, want none", st.last)
		}
		s.dropConnection(st)
		if got := s.server.Stats(); got.InFlight != 1 {
			t.Errorf("%+v; want one request in flight", got)
		}
		k.words <- `result {}`
		s.advance(0)
		if got := s.server.Stats(); got.Kept != 0 || got.Undelivered != 1 || got.InFlight != 0 {
			t.Errorf("%+v; want nothing kept, and one answer not delivered", got)
		}
	})
}

// All sessions together have a bound, and a session that keeps little loses nothing because
// of those that keep much.
func TestEventLogBoundOfAllSessions(t *testing.T) {
	const most = 40 << 10
	withScriptedTool(t, server.Config{Limits: server.Limits{EventLog: 20 << 10, EventLogs: most}}, func(s *site, k *scriptedTool) {
		modest := s.session()
		small := s.startCall(s.ctx(), k, modest, "1", "small")
		s.dropConnection(small)
		k.words <- `result {}`
		for range 5 {
			st := s.startCall(s.ctx(), k, s.session(), "1", strings.Repeat("x", 18<<10))
			s.dropConnection(st)
			k.words <- `result {}`
		}
		s.advance(0)
		if got := s.server.Stats(); got.Kept > most || got.Purged == 0 {
			t.Errorf("%+v; want no more than %d kept", got, most)
		}
		again := s.resume(modest, small.last)
		equal(t, "result", again.next(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

// FAULTS 26: a client that reads nothing is given up after the write timeout. What it has
// not received is kept for it, as far as there is room, and the result in any case.
func TestSlowClientResumes(t *testing.T) {
	withScriptedTool(t, server.Config{WriteTimeout: 2 * time.Second}, func(s *site, k *scriptedTool) {
		sess := s.session()
		st := s.startCall(s.ctx(), k, sess, "1", "one")
		big := strings.Repeat("x", 300<<10) // more than the buffers in between
		k.words <- big
		s.advance(10 * time.Second)
		const more = 1500 // more than may wait for a connected client
		for range more {
			select {
			case k.words <- "two":
			case <-time.After(time.Minute):
				t.Fatal("the client was not given up: its tool waits for it")
			}
		}
		k.words <- `result {}`
		s.dropConnection(st)
		again := s.resume(sess, st.last)
		equal(t, "big", again.next(), wordMessage(big))
		for range more {
			equal(t, "two", again.next(), wordMessage("two"))
		}
		equal(t, "result", again.next(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		again.end()
	})
}

// The standalone stream is resumed after its own events, in the same way, and continues
// with new changes.
func TestStandaloneIsResumed(t *testing.T) {
	withChanges(t, nil, func(s *site, h *changing) {
		const changed = `{"jsonrpc":"2.0","method":"` + toolsChanged + `"}`
		sess := s.session()
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		<-h.acked
		h.changed <- toolsChanged
		equal(t, "change", st.next(), changed)
		before := st.last
		h.changed <- toolsChanged
		equal(t, "change", st.next(), changed)
		s.dropConnection(st)
		again := s.resume(sess, before)
		<-h.acked
		equal(t, "what may have been lost", again.next(), changed)
		h.changed <- toolsChanged
		equal(t, "what is new", again.next(), changed)
		s.dropConnection(again)
	})
}

// M057: a question that was delivered on a GET and lost with it is not sent again on a new
// one, and once nothing is kept any more a GET still works.
func TestM057QuestionsAreNotRepeated(t *testing.T) {
	var scope *mcp.Scope
	m := keepScope(&scope)
	bubble(t, tools(m), server.Config{Limits: server.Limits{InputWait: time.Hour}}, func(s *site) {
		sess := s.session()
		s.post(raw("1", "tools/list", ""), sess)
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		ctx, giveUp := context.WithCancel(s.ctx())
		asked := make(chan error, 1)
		go func() { // ends with the context
			_, err := mcp.Ask(ctx, scope.Unrelated(), &mcp.Request{Method: "roots/list"})
			asked <- err
		}()
		equal(t, "question", st.next(), `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		s.dropConnection(st)
		for _, away := range []time.Duration{time.Second, 10 * time.Minute} {
			s.advance(away)
			fresh := s.open(s.ctx(), http.MethodGet, "", sess)
			got := make(chan string, 1)
			go func() { // ends with the stream
				if data, err := fresh.read(); err == nil {
					got <- data
				}
			}()
			s.advance(time.Minute)
			select {
			case data := <-got:
				t.Errorf("after %v a fresh GET gets %s", away, data)
			default:
			}
			s.dropConnection(fresh)
		}
		giveUp()
		<-asked
	})
}

// 5.5: a client that loses its connection while the server drains can resume, and receives
// the answer that the server waits for. No client is disconnected that might be unable to
// return.
func TestResumeWhileDraining(t *testing.T) {
	withScriptedTool(t, server.Config{StreamLife: time.Second}, func(s *site, k *scriptedTool) {
		sess := s.session()
		st := s.startCall(s.ctx(), k, sess, "1", "one")
		c := k.extension()
		done := s.shutdown(time.Minute)
		s.advance(2 * time.Second)
		if c.Poll(time.Second) {
			t.Error("the client is sent away from a server that is about to end")
		}
		s.dropConnection(st)
		again := s.resume(sess, st.last)
		k.words <- `result {}`
		equal(t, "result", again.next(), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		again.end()
		if err := <-done; err != nil {
			t.Errorf("Shutdown = %v", err)
		}
	})
}
