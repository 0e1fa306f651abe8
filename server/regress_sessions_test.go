// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// How sessions and requests begin, live and end.

// M086: only the server creates session ids, and a request with another id is not served.
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

// M095, M096, M101: a session in use is kept, an idle one ends, together with everything
// that was kept for it.
func TestM096ActivityKeepsASession(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		listening, calling, idle, never := s.session(), s.session(), s.session(), s.handshake(initialize)
		notifying := s.session() // does nothing else
		get := s.open(s.ctx(), http.MethodGet, "", listening)
		call := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), calling))
		<-g.entered
		s.advance(time.Minute)
		if got := s.post(raw("1", "ping", ""), never); got.status != 404 {
			t.Errorf("a session that was never used, after a minute: %d, want 404", got.status)
		}
		for range 8 {
			s.advance(15 * time.Minute)
			if got := s.post(`{"jsonrpc":"2.0","method":"notifications/unknown"}`, notifying); got.status != 202 {
				t.Fatalf("a session that only notifies: %d %s", got.status, got.body)
			}
		}
		if got := s.post(raw("1", "ping", ""), idle); got.status != 404 {
			t.Errorf("an idle session, after two hours: %d, want 404", got.status)
		}
		if got := s.server.Stats().Sessions; got != 3 {
			t.Errorf("%d sessions, want 3", got)
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
		s.advance(2 * time.Hour)
		if got := s.server.Stats().Sessions; got != 0 {
			t.Errorf("%d sessions are left, want 0", got)
		}
	})
}

// M121, C1: a modern client that disconnects has cancelled; R5: a legacy one has not.
//
// C1+ 2026-07-28 basic/transports/streamable-http: "Closing the SSE response stream
// MUST be treated by the server as cancellation of that request."
//
// R5- 2025-11-25 basic/transports: "Disconnection SHOULD NOT be interpreted as the
// client cancelling its request."
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
		s.advance(time.Minute)
		select {
		case err := <-g.cause:
			t.Errorf("legacy: the context ended with %v; want it to go on", err)
		default:
		}
		close(g.release)
		s.advance(0)
		if got := s.server.Stats(); got.Undelivered != 1 || got.InFlight != 0 {
			t.Errorf("%+v; want one undelivered answer and nothing in flight", got)
		}
	})
}

// M143: abandoned requests leave nothing behind. The bubble would not end otherwise.
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
		s.advance(time.Second)
		if got := s.server.Stats().InFlight; got != 0 {
			t.Errorf("%d requests are still in flight", got)
		}
	})
}

// M089, I18: a session belongs to a principal and not to a token: a refreshed token is as
// good, and one of another principal is not.
func TestM089SessionOutlivesItsToken(t *testing.T) {
	owners := map[string]string{"t1": "ann", "t2": "ann", "t3": "bob"}
	cfg := server.Config{Authenticate: identified(func(r *http.Request) (string, error) {
		principal, ok := owners[r.Header.Get("Authorization")]
		if !ok {
			return "", errors.New("unknown token")
		}
		return principal, nil
	})}
	bubble(t, tools(nil), cfg, func(s *site) {
		sess := s.sessionOf(headers{"Authorization": "t1"})
		delete(owners, "t1") // it has expired
		for token, status := range map[string]int{"t1": 401, "t2": 200, "t3": 404} {
			if got := s.post(raw("1", "ping", ""), sess, headers{"Authorization": token}); got.status != status {
				t.Errorf("%s: %d %s; want %d", token, got.status, got.body, status)
			}
		}
	})
	// Two principals that differ without a token are different.
	local := server.Config{Authenticate: identified(func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil })}
	bubble(t, tools(nil), local, func(s *site) {
		sess := s.sessionOf(headers{"X-User": "ann"})
		for user, status := range map[string]int{"ann": 200, "bob": 404, "": 404} {
			if got := s.post(raw("1", "ping", ""), sess, headers{"X-User": user}); got.status != status {
				t.Errorf("%q in the session of ann: %d %s; want %d", user, got.status, got.body, status)
			}
		}
	})
}

// M091: an initialize with a session id opens no session: an ended session is not found,
// and a live one is initialized already.
func TestM091InitializeWithASession(t *testing.T) {
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		sess := s.session()
		for name, tt := range map[string]struct {
			header headers
			status int
		}{"stale": {headers{"Mcp-Session-Id": "stale"}, 404}, "live": {sess, 400}} {
			got := s.post(initialize, tt.header)
			if id := got.header.Get("Mcp-Session-Id"); got.status != tt.status || id != "" {
				t.Errorf("%s: %d %s, session %q; want %d and none", name, got.status, got.body, id, tt.status)
			}
		}
		if got := s.server.Stats().Sessions; got != 1 {
			t.Errorf("%d sessions, want 1", got)
		}
	})
}

// M095, I20: sessions that are opened, used and left, with and without a DELETE, leave
// nothing behind when their time is over; each scope ends once.
func TestM095DeadSessionsCostNothing(t *testing.T) {
	const n = 200
	var mu sync.Mutex // some end in a sweep
	ended := map[string]int{}
	h := tools(map[string]mcp.HandlerFunc{"tools/list": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		key := req.Scope.Key()
		req.Scope.OnEnd(func() {
			mu.Lock()
			defer mu.Unlock()
			ended[key]++
		})
		return result(`{"tools":[]}`)
	}})
	bubble(t, h, server.Config{}, func(s *site) {
		for i := range n {
			sess := s.session()
			s.post(raw("1", "tools/list", ""), sess)
			if i%2 == 0 {
				s.do(s.request(s.ctx(), http.MethodDelete, "", sess))
			}
		}
		if got := s.server.Stats().Sessions; got != n/2 {
			t.Errorf("%d sessions are open, want half", got)
		}
		s.advance(31 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if got := s.server.Stats().Sessions; got != 0 || len(ended) != n {
			t.Errorf("%d sessions are open, %d have ended; want 0, %d", got, len(ended), n)
		}
		for key, times := range ended {
			if times != 1 {
				t.Errorf("the scope of %s ended %d times", key, times)
			}
		}
	})
}

// M098: the idle time is exact: a session of two seconds ends after two seconds.
func TestM098IdleTimeIsExact(t *testing.T) {
	bubble(t, tools(nil), server.Config{Limits: server.Limits{SessionIdle: 2 * time.Second}}, func(s *site) {
		sess := s.session()
		for range 5 {
			s.advance(1999 * time.Millisecond)
			if got := s.post(raw("1", "ping", ""), sess); got.status != 200 {
				t.Fatalf("a session in use: %d", got.status)
			}
		}
		s.advance(3 * time.Second)
		if got := s.post(raw("1", "ping", ""), sess); got.status != 404 {
			t.Errorf("after its time: %d, want 404", got.status)
		}
	})
}

// M099, I21: short sessions do not evict one that is in use.
func TestM099LiveSessionOutlastsShortOnes(t *testing.T) {
	bubble(t, tools(nil), server.Config{Limits: server.Limits{Sessions: 10}}, func(s *site) {
		alive := s.session()
		for i := range 100 {
			sess := s.session()
			if i%4 == 0 {
				s.do(s.request(s.ctx(), http.MethodDelete, "", sess))
			}
			s.advance(5 * time.Second)
			if got := s.post(raw("1", "ping", ""), alive); got.status != 200 {
				t.Fatalf("after %d others: %d %s", i, got.status, got.body)
			}
		}
	})
}

// M101: requests that arrive at the moment of expiry are served or get a 404, and never
// remain unanswered.
func TestM101ArrivalAtTheMomentOfExpiry(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"echo": fixedResult(`{}`)})
	seen := map[int]int{}
	for range 30 {
		bubble(t, h, server.Config{Limits: server.Limits{SessionIdle: time.Minute}}, func(s *site) {
			sess := s.session()
			var calls []<-chan reply
			sleep(time.Minute)
			for i := range 4 {
				calls = append(calls, s.async(s.request(s.ctx(), http.MethodPost, raw(fmt.Sprint(i), "tools/call", `{"name":"echo"}`), sess)))
			}
			for i, call := range calls {
				got := <-call
				seen[got.status]++
				if ok := got.status == 200 || got.status == 404; !ok || !strings.Contains(got.body, fmt.Sprintf(`"id":%d,`, i)) {
					t.Errorf("call %d: %d %s; want an answer or that the session is gone", i, got.status, got.body)
				}
			}
		})
	}
	t.Logf("answers by status: %v", seen)
}

// M119, M120: a cancel by POST is accepted, and the Handler is cancelled at once, in the
// form of each era.
func TestM119M120CancelReachesTheHandler(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		sess := s.session()
		call := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess))
		<-g.entered
		start := time.Now()
		if got := s.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`, sess); got.status != 202 || got.body != "" {
			t.Errorf("cancel: %d %q; want 202 and nothing", got.status, got.body)
		}
		<-g.cause
		if got := <-call; strings.Contains(got.body, "jsonrpc") {
			t.Errorf("the cancelled request is answered: %s", got.body)
		}
		ctx, leave := context.WithCancel(s.ctx())
		gone := make(chan struct{})
		go func() { // ends with ctx
			defer close(gone)
			if res, err := s.client.Do(s.request(ctx, http.MethodPost, modern("1", "tools/call", `"name":"wait"`), modernHeaders("tools/call", "wait"))); err == nil {
				res.Body.Close()
			}
		}()
		<-g.entered
		leave()
		<-g.cause
		<-gone
		if d := time.Since(start); d != 0 {
			t.Errorf("it took %v", d)
		}
	})
}
