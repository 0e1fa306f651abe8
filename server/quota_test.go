// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// byHeader takes the principal from a header.
func byHeader(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }

func overQuota(id, what string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":1006,"message":"2 ` + what +
		` (limits.inFlightPerPrincipal); the request was not sent","data":{"source":"gateway","outcome":"not_dispatched"}}}`
}

// I21: requests without a session are bounded per principal. A client above the bound is
// told when to retry, and other principals are not affected.
//
// X1+ 2026-07-28 server/tools: "Rate limit tool invocations"
//
// X1- 2026-07-28 server/tools: "Rate limit tool invocations"
func TestRequestsOfAPrincipalAreBounded(t *testing.T) {
	cfg := server.Config{Authenticate: identified(byHeader), Limits: server.Limits{InFlightPerPrincipal: 2}}
	gated(t, cfg, func(s *site, g *gate) {
		ann, bob := headers{"Authorization": "ann"}, headers{"Authorization": "bob"}
		wait := modern("1", "tools/call", `"name":"wait"`)
		echo := modern("2", "tools/call", `"name":"echo"`)
		var calls []<-chan reply
		for range 2 {
			calls = append(calls, s.async(s.request(s.ctx(), http.MethodPost, wait, modernHeaders("tools/call", "wait"), ann)))
			<-g.entered
		}
		h := modernHeaders("tools/call", "echo")
		h["Authorization"] = "ann"
		s.wantRefusal(refusalCase{name: "the third", body: echo, header: h, status: 429,
			want: overQuota("2", "requests of one principal in flight"), also: [2]string{"Retry-After", "5"}})
		s.wantRefusal(refusalCase{name: "initialize", body: initialize, header: ann, status: 429, want: overQuota("0", "requests of one principal in flight")})
		if got := s.post(echo, modernHeaders("tools/call", "echo"), bob); got.status != 200 {
			t.Errorf("another principal: %d %s", got.status, got.body)
		}
		if got := s.post(raw("3", "tools/call", `{"name":"echo"}`), s.sessionOf(bob), bob); got.status != 200 {
			t.Errorf("another principal's session: %d %s", got.status, got.body)
		}
		close(g.release)
		for _, call := range calls {
			if got := <-call; got.status != 200 {
				t.Errorf("a request within the bound: %d %s", got.status, got.body)
			}
		}
		// Each request gives its place back before its answer is sent.
		for range 20 {
			if got := s.post(echo, h); got.status != 200 {
				t.Fatalf("after the others have ended: %d %s", got.status, got.body)
			}
		}
	})
}

// sessionOf opens a session of a principal.
func (s *site) sessionOf(principal headers) headers {
	s.t.Helper()
	got := s.post(initialize, principal)
	id := got.header.Get("Mcp-Session-Id")
	if id == "" {
		s.t.Fatalf("initialize: %d %s", got.status, got.body)
	}
	return headers{"Mcp-Session-Id": id}
}

// Listens are counted separately: they take no place of a request.
func TestListensOfAPrincipalAreBounded(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"echo": fixedResult(`{}`)})
	bubble(t, h, server.Config{Limits: server.Limits{InFlightPerPrincipal: 2}}, func(s *site) {
		listen := modern("1", "subscriptions/listen", "")
		hs := modernHeaders("subscriptions/listen", "")
		var open []*stream
		for range 2 {
			st := s.open(s.ctx(), http.MethodPost, listen, hs)
			st.next()
			open = append(open, st)
		}
		s.wantRefusal(refusalCase{name: "the third", body: listen, header: hs, status: 429, want: overQuota("1", "subscriptions of one principal")})
		if got := s.call("echo"); got.status != 200 {
			t.Errorf("a request: %d %s", got.status, got.body)
		}
		open[0].close()
		s.advance(0)
		st := s.open(s.ctx(), http.MethodPost, listen, hs)
		st.next()
		st.close()
		open[1].close()
	})
}

// A request of a client that has disconnected counts until its Handler returns, because it
// uses resources until then. One that is refused because the server shuts down gives its
// place back.
func TestQuotaCountsHandlers(t *testing.T) {
	release := make(chan struct{})
	deaf := func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) { <-release; return result(`{}`) }
	h := tools(map[string]mcp.HandlerFunc{"deaf": deaf, "echo": fixedResult(`{}`)})
	bubble(t, h, server.Config{Limits: server.Limits{InFlightPerPrincipal: 1}}, func(s *site) {
		release = make(chan struct{})
		ctx, leave := context.WithCancel(s.ctx())
		gone := make(chan error, 1)
		go func() { // ends with ctx
			res, err := s.client.Do(s.request(ctx, http.MethodPost, modern("1", "tools/call", `"name":"deaf"`), modernHeaders("tools/call", "deaf")))
			if err == nil {
				res.Body.Close()
			}
			gone <- err
		}()
		s.advance(0)
		leave()
		<-gone
		s.advance(0)
		if got := s.call("echo"); got.status != 429 {
			t.Errorf("while the Handler runs: %d, want 429", got.status)
		}
		close(release)
		s.advance(0)
		if got := s.call("echo"); got.status != 200 {
			t.Errorf("after it has returned: %d %s, want 200", got.status, got.body)
		}
		if err := s.server.Shutdown(s.ctx()); err != nil {
			t.Error(err)
		}
		for range 3 {
			if got := s.call("echo"); got.status != 503 {
				t.Errorf("after Shutdown: %d, want 503 each time", got.status)
			}
		}
	})
}

// An answer for which there is no memory left is dropped, and the client gets an error
// which states that the request has run. An answer that has begun is written to its end,
// and releases its memory.
func TestAnswerWithoutMemory(t *testing.T) {
	const size = 200 << 10
	h := tools(map[string]mcp.HandlerFunc{"t": func(ctxType, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
		sleep(time.Second)
		return result(`{"content":[{"type":"text","text":"` + strings.Repeat(".", size) + `"}]}`)
	}})
	cfg := server.Config{Limits: server.Limits{PendingPerPrincipal: size / 2}}
	bubble(t, h, cfg, func(s *site) {
		s.net.Buffer = 4 << 10
		ask := func() (*http.Response, error) {
			return s.client.Do(s.request(s.ctx(), http.MethodPost, modern("1", "tools/call", `"name":"t"`), modernHeaders("tools/call", "t")))
		}
		answers := make(chan *http.Response, 2)
		for range 2 {
			go func() { // ends with the header of its answer
				res, err := ask()
				if err != nil {
					t.Error(err)
				}
				answers <- res
			}()
			sleep(time.Millisecond)
		}
		first, second := <-answers, <-answers
		if pending := s.server.Stats().Pending; pending < size/2 {
			t.Errorf("%d bytes are pending", pending)
		}
		third, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		wantBody(t, third, http.StatusTooManyRequests, "limits.pendingPerPrincipal", `"outcome":"not_dispatched"`)
		// Which of the first two comes first is random.
		whole := 0
		for _, res := range []*http.Response{first, second} {
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			switch {
			case err != nil:
				t.Error(err)
			case len(body) > size:
				whole++
			case !strings.Contains(string(body), `"outcome":"completed"`) || !strings.Contains(string(body), "limits.pendingPerPrincipal"):
				t.Errorf("got %s", body)
			}
		}
		if whole != 1 {
			t.Errorf("%d whole answers, want 1", whole)
		}
		sleep(time.Millisecond)
		if pending := s.server.Stats().Pending; pending != 0 {
			t.Errorf("%d bytes are pending at the end", pending)
		}
	})
}

// What a client on a pipe does not read counts for its principal.
func TestAnswersOnAPipeCountForThePrincipal(t *testing.T) {
	cfg := server.Config{Limits: server.Limits{PendingPerPrincipal: 100 << 10}}
	pipesAs(t, &mcp.Identity{Principal: "alice"}, largeResult(1<<20), cfg, func(c *console) {
		c.send(modern("1", "tools/call", `"name":"large"`))
		synctest.Wait()
		c.send(modern("2", "tools/call", `"name":"large"`))
		synctest.Wait()
		if got := c.next(); len(got) < 1<<20 {
			t.Errorf("the first answer: %.300s", got)
		}
		if got := c.next(); !strings.Contains(got, "limits.pendingPerPrincipal") || !strings.Contains(got, `"outcome":"not_dispatched"`) {
			t.Errorf("the second answer: %.300s", got)
		}
	})
}

func wantBody(t *testing.T, res *http.Response, status int, parts ...string) {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != status || err != nil {
		t.Errorf("got %d, %v: %.300s", res.StatusCode, err, body)
	}
	for _, part := range parts {
		if !strings.Contains(string(body), part) {
			t.Errorf("%.300s has no %q", body, part)
		}
	}
}
