// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/server"
)

const unknownOutcome = `{"jsonrpc":"2.0","id":1,"error":{"code":1004,"message":"the gateway is shutting down; the request may have been executed",` +
	`"data":{"source":"gateway","outcome":"unknown"}}}`

// shutdown begins a Shutdown and returns a channel with its error.
func (s *site) shutdown(patience time.Duration) <-chan error {
	done := make(chan error, 1)
	go func() { // ends with Shutdown
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		done <- s.server.Shutdown(ctx)
	}()
	s.advance(0)
	return done
}

// M122: a graceful shutdown delivers the results of running requests, in both eras, and
// refuses new ones.
func TestM122ShutdownDeliversResults(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		sess := s.session()
		legacy := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess))
		modern := s.async(s.request(s.ctx(), http.MethodPost, modern("1", "tools/call", `"name":"wait"`), modernHeaders("tools/call", "wait")))
		<-g.entered
		<-g.entered
		get := s.open(s.ctx(), http.MethodGet, "", sess)
		done := s.shutdown(time.Minute)
		get.end()
		refused := s.call("echo")
		equal(t, "refused", refused.body, `{"jsonrpc":"2.0","id":1,"error":{"code":1004,"message":"the gateway is shutting down; the request was not sent",`+
			`"data":{"source":"gateway","outcome":"not_dispatched"}}}`)
		if refused.status != 503 || refused.header.Get("Retry-After") == "" {
			t.Errorf("status %d, Retry-After %q; want 503 and one", refused.status, refused.header.Get("Retry-After"))
		}
		close(g.release)
		equal(t, "legacy", (<-legacy).body, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		equal(t, "modern", (<-modern).body, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`)
		if err := <-done; err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		if err := s.server.Shutdown(s.ctx()); err != nil {
			t.Errorf("Shutdown again = %v", err)
		}
	})
}

// When the context of Shutdown ends, remaining requests end with an error that states that
// they may have run, and their contexts end.
func TestShutdownCancelsRemainingRequests(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		sess := s.session()
		legacy := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess))
		modern := s.async(s.request(s.ctx(), http.MethodPost, modern("1", "tools/call", `"name":"wait"`), modernHeaders("tools/call", "wait")))
		<-g.entered
		<-g.entered
		start := time.Now()
		done := s.shutdown(3 * time.Second)
		equal(t, "legacy", (<-legacy).body, unknownOutcome)
		equal(t, "modern", (<-modern).body, unknownOutcome)
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("Shutdown = %v after %v; want the deadline after 3s", err, time.Since(start))
		}
		if got := s.server.Stats(); got.Sessions != 0 || got.InFlight != 0 {
			t.Errorf("%+v; want nothing left", got)
		}
	})
}

// M123, M144: Close ends open streams, may be called twice and concurrently, and leaves
// nothing running.
func TestM123M144CloseWhileStreamsAreOpen(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		sess := s.session()
		get := s.open(s.ctx(), http.MethodGet, "", sess)
		listen := s.open(s.ctx(), http.MethodPost, modern("1", "subscriptions/listen", ""), modernHeaders("subscriptions/listen", ""))
		listen.next()
		call := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess))
		<-g.entered
		closed := make(chan error, 2)
		for range 2 {
			go func() { closed <- s.server.Close() }() // ends with Close
		}
		racing := s.async(s.request(s.ctx(), http.MethodPost, initialize))
		get.end()
		equal(t, "listen", listen.next(), `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`)
		listen.end()
		equal(t, "call", (<-call).body, unknownOutcome)
		for range 2 {
			if err := <-closed; err != nil {
				t.Errorf("Close = %v", err)
			}
		}
		if got := <-racing; got.status != 503 && got.status != 200 {
			t.Errorf("a session that was being opened: %d %s; want that it was, or 503", got.status, got.body)
		}
		if got := s.post(initialize); got.status != 503 || got.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("a session after the end: %d %s; want 503 and none", got.status, got.body)
		}
		if got := s.server.Stats(); got.InFlight != 0 || got.Sessions != 0 {
			t.Errorf("%+v; want nothing left", got)
		}
	})
}

// A client that ends its session has cancelled its calls: their responses end, and no error
// is sent to a client that has closed its reader.
func TestDeleteWhileServing(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		sess := s.session()
		call := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess))
		<-g.entered
		if got := s.do(s.request(s.ctx(), http.MethodDelete, "", sess)); got.status != 204 {
			t.Errorf("DELETE: %d, want 204", got.status)
		}
		got := <-call
		equal(t, "call", got.body, "")
		equal(t, "type", got.header.Get("Content-Type"), "text/event-stream")
		if err := <-g.cause; err == nil {
			t.Error("the context has not ended")
		}
	})
}

// A second GET takes over: the first ends, and nothing is lost or sent twice.
func TestSecondGetSupersedes(t *testing.T) {
	withChanges(t, nil, func(s *site, h *changing) {
		sess := s.session()
		first := s.open(s.ctx(), http.MethodGet, "", sess)
		<-h.acked
		second := s.open(s.ctx(), http.MethodGet, "", sess)
		<-h.acked
		first.end()
		h.changed <- toolsChanged
		equal(t, "change", second.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
		s.do(s.request(s.ctx(), http.MethodDelete, "", sess))
		second.end()
	})
}

// T9: a quiet stream gets a comment regularly.
//
// T9+ 2026-07-28 basic/transports/streamable-http: "servers are encouraged to
// periodically emit an SSE comment line (a line beginning with a colon, e.g. `:\r\n`)
// as a keep-alive."
func TestKeepAlive(t *testing.T) {
	bubble(t, tools(nil), server.Config{KeepAlive: 7 * time.Second}, func(s *site) {
		st := s.open(s.ctx(), http.MethodGet, "", s.session())
		defer st.close()
		start := time.Now()
		buf := make([]byte, 64)
		for i := range 4 {
			n, err := st.res.Body.Read(buf)
			if err != nil || n == 0 || i > 0 && buf[0] != ':' {
				t.Fatalf("read %q, %v; want a comment, or the first event id", buf[:n], err)
			}
			if got, want := time.Since(start), time.Duration(i)*7*time.Second; got != want {
				t.Errorf("comment %d after %v, want %v", i, got, want)
			}
		}
	})
}

// FAULTS 26, M097: a client that does not read is given up after the write timeout, and
// keeps nothing alive.
func TestClientThatDoesNotRead(t *testing.T) {
	withChanges(t, nil, func(s *site, h *changing) {
		sess := s.session()
		st := s.open(s.ctx(), http.MethodGet, "", sess)
		defer st.close()
		<-h.acked
		s.advance(100 * time.Hour) // the keep-alives of four days do not fit into the buffers
		if got := s.server.Stats(); got.InFlight != 0 || got.Sessions != 0 {
			t.Errorf("%+v; want the stream and the session gone", got)
		}
	})
}
