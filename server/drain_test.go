// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

const refusedDraining = `"error":{"code":1004,"message":"the gateway is shutting down; the request was not sent",` +
	`"data":{"source":"gateway","outcome":"not_dispatched"}}}`

// While load balancers learn that the server is about to end, new sessions are refused so
// that a client can try elsewhere, and everything else is served.
func TestQuiesce(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		sess := s.session()
		call := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess))
		<-g.entered
		s.server.Quiesce()
		s.server.Quiesce()
		s.wantRefusal(refusalCase{name: "initialize", body: initialize, status: 503, want: `{"jsonrpc":"2.0","id":0,` + refusedDraining,
			also: [2]string{"Retry-After", "5"}})
		equal(t, "modern", s.call("echo").body, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`)
		equal(t, "legacy", s.post(raw("2", "tools/call", `{"name":"echo"}`), sess).body, `{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
		get := s.open(s.ctx(), http.MethodGet, "", sess)
		defer get.close()
		close(g.release)
		equal(t, "the call before", (<-call).body, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		if got := s.server.Stats(); got.Sessions != 1 {
			t.Errorf("%d sessions, want the one from before", got.Sessions)
		}
	})
}

// An open pipe may still be used, but not for a new session.
func TestQuiesceOnAPipe(t *testing.T) {
	pipesGated(t, server.Config{}, func(c *console, _ *gate) {
		c.server.Quiesce()
		c.send(initialize)
		c.expect(`{"jsonrpc":"2.0","id":0,` + refusedDraining)
		c.send(modern("1", "tools/call", `"name":"echo"`))
		c.expect(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`)
	})
}

// streamEnds records when and how streams end, measured from the beginning of a Shutdown.
type streamEnds struct {
	began time.Time
	after chan time.Duration
	text  chan string
}

// watch records when the response of a GET or a listen ends, and its text.
func (e *streamEnds) watch(s *site, r *http.Request) {
	s.t.Helper()
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	go func() { // ends with the response
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		e.after <- time.Since(e.began)
		e.text <- string(text)
	}()
}

// withSpread runs f with n GETs and n listens open on a server that spreads their ends over a
// minute.
func withSpread(t *testing.T, n int, f func(*site, *streamEnds)) {
	t.Helper()
	bubble(t, tools(nil), server.Config{Spread: time.Minute}, func(s *site) {
		e := &streamEnds{after: make(chan time.Duration, 2*n), text: make(chan string, 2*n)}
		for range n {
			e.watch(s, s.request(s.ctx(), http.MethodGet, "", s.session()))
			e.watch(s, s.request(s.ctx(), http.MethodPost, modern("1", "subscriptions/listen", ""), modernHeaders("subscriptions/listen", "")))
		}
		s.advance(time.Second)
		e.began = time.Now()
		f(s, e)
	})
}

// DELIVERY 5.5: streams end one after another, each at a random point of its own part of
// the time, so that their clients do not reconnect at once. Each ends properly, a listen
// with its result and a GET with a retry time.
//
// R8+ 2025-11-25 basic/transports: "it SHOULD send an SSE event with a standard retry
// field before closing the connection."
func TestShutdownSpreadsTheEndsOfStreams(t *testing.T) {
	retry := regexp.MustCompile(`\nretry: ([0-9]+)\n\n$`)
	withSpread(t, 3, func(s *site, e *streamEnds) {
		if err := s.server.Shutdown(s.ctx()); err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		took := time.Since(e.began)
		for i := range 6 {
			at, least, most := <-e.after, time.Duration(i)*10*time.Second, time.Duration(i+1)*10*time.Second
			if i == 0 {
				most = 1
			}
			if at < least || at >= most {
				t.Errorf("end %d after %v; want within [%v, %v)", i, at, least, most)
			}
		}
		if took >= time.Minute {
			t.Errorf("Shutdown took %v, want less than a minute", took)
		}
		listens := 0
		for range 6 {
			text := <-e.text
			if m := retry.FindStringSubmatch(text); m != nil {
				if ms, err := strconv.Atoi(m[1]); err != nil || ms < 1000 || ms > 2000 {
					t.Errorf("retry: %s; want from 1000 to 2000", m[1])
				}
				continue
			}
			if listens++; !regexp.MustCompile(`"result":\{"resultType":"complete"`).MatchString(text) {
				t.Errorf("a stream ended with neither a result nor a time to come back: %q", text)
			}
		}
		if listens != 3 {
			t.Errorf("%d listens, want 3", listens)
		}
	})
}

// Shutdown does not wait for the rest of the time if no stream is left or its context is
// over.
func TestSpreadEndsEarly(t *testing.T) {
	withSpread(t, 2, func(s *site, e *streamEnds) {
		done := s.shutdown(5 * time.Second)
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) || time.Since(e.began) != 5*time.Second {
			t.Errorf("Shutdown = %v after %v; want the deadline after 5s", err, time.Since(e.began))
		}
		s.advance(0)
		if len(e.after) != 4 {
			t.Errorf("%d streams have ended, want 4", len(e.after))
		}
	})
	bubble(t, tools(nil), server.Config{Spread: time.Minute}, func(s *site) {
		var open []*stream
		for range 3 {
			open = append(open, s.open(s.ctx(), http.MethodGet, "", s.session()))
		}
		began := time.Now()
		done := s.shutdown(time.Hour)
		open[0].end()
		s.advance(time.Second)
		for _, st := range open[1:] {
			st.close()
		}
		if err := <-done; err != nil || time.Since(began) != time.Second {
			t.Errorf("Shutdown = %v after %v; want nil after 1s, when the last client had left", err, time.Since(began))
		}
	})
	withSpread(t, 2, func(s *site, e *streamEnds) {
		done := s.shutdown(time.Hour)
		if err := s.server.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if err := <-done; err != nil || time.Since(e.began) != 0 {
			t.Errorf("Shutdown = %v after %v; want nil at once, because Close cut it", err, time.Since(e.began))
		}
	})
}

// What a request in flight needs of its client still gets through: it could not end
// otherwise.
func TestShutdownTakesAnswers(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"ask": ask("roots/list", "{}")})
	bubble(t, h, server.Config{}, func(s *site) {
		sess, other := s.session(), s.session()
		st := s.open(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"ask"}`), sess)
		st.next()
		done := s.shutdown(time.Minute)
		s.wantRefusal(refusalCase{name: "a request", body: raw("2", "tools/list", ""), header: sess, status: 503,
			want: `{"jsonrpc":"2.0","id":2,` + refusedDraining, also: [2]string{"Retry-After", "5"}})
		s.wantRefusal(refusalCase{name: "a GET", method: http.MethodGet, header: sess, status: 503, want: `{"jsonrpc":"2.0",` + refusedDraining})
		if got := s.do(s.request(s.ctx(), http.MethodDelete, "", other)); got.status != 204 {
			t.Errorf("DELETE: %d, want 204", got.status)
		}
		if got := s.post(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`, sess); got.status != 202 {
			t.Errorf("the answer: %d %s; want 202", got.status, got.body)
		}
		equal(t, "result", st.next(), `{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
		st.end()
		if err := <-done; err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		// The sessions have ended with the server; that is no reason to open new ones.
		s.wantRefusal(refusalCase{name: "afterwards", body: raw("3", "tools/list", ""), header: sess, status: 503, want: `{"jsonrpc":"2.0","id":3,` + refusedDraining})
	})
}

// A cancel gets through as well.
func TestShutdownTakesCancels(t *testing.T) {
	gated(t, server.Config{}, func(s *site, g *gate) {
		sess := s.session()
		call := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess))
		<-g.entered
		done := s.shutdown(time.Minute)
		s.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, sess)
		synctest.Wait()
		if err := <-g.cause; err == nil {
			t.Error("the context has not ended")
		}
		if err := <-done; err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		<-call
	})
}

// Thousands of streams end in turn, without a scan of all of them each time.
func TestSpreadOfMany(t *testing.T) {
	const n = 500
	bubble(t, tools(nil), server.Config{Spread: time.Minute}, func(s *site) {
		var at []time.Duration
		e := &streamEnds{after: make(chan time.Duration, n), text: make(chan string, n)}
		for i := range n {
			e.watch(s, s.request(s.ctx(), http.MethodPost, modern(fmt.Sprint(i), "subscriptions/listen", ""), modernHeaders("subscriptions/listen", "")))
		}
		e.began = time.Now()
		if err := s.server.Shutdown(s.ctx()); err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		for range n {
			at = append(at, <-e.after)
		}
		early, _ := slices.BinarySearch(at, 30*time.Second)
		if early < n/2-10 || early > n/2+10 {
			t.Errorf("%d of %d streams had ended after half of the time", early, n)
		}
	})
}
