// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// rolledBackServer is a modern server that becomes a legacy one, which refuses requests
// without a session.
type rolledBackServer struct {
	now, then *faultyserver.HTTP
	back      atomic.Bool
}

func newRolledBack(refuse func(x *faultyserver.Exchange)) *rolledBackServer {
	r := &rolledBackServer{now: &faultyserver.HTTP{Modern: true}}
	guarded := func(x *faultyserver.Exchange) {
		if x.R.Header.Get("Mcp-Session-Id") == "" {
			refuse(x)
			return
		}
		x.Polite()
	}
	r.then = &faultyserver.HTTP{Sessions: true, On: map[string]func(*faultyserver.Exchange){
		"server/discover": guarded, "tools/call": guarded, "tools/list": guarded, "ping": guarded,
	}}
	return r
}

func (r *rolledBackServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r.back.Load() {
		r.then.ServeHTTP(w, req)
		return
	}
	r.now.ServeHTTP(w, req)
}

// The client notices that a modern server has become a legacy one, in whatever way that
// refuses requests: at once if no modern server would answer so, otherwise after ten
// seconds without a success. It probes once, however many calls fail meanwhile (I39).
func TestI39ModernServerBecomesLegacy(t *testing.T) {
	rpcAs := func(status int, code int, text string) func(x *faultyserver.Exchange) {
		return func(x *faultyserver.Exchange) {
			x.Status(status, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, x.Msg.ID, code, text))
		}
	}
	without := func(status int, code int, text string) func(x *faultyserver.Exchange) {
		return func(x *faultyserver.Exchange) {
			x.Status(status, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`, code, text))
		}
	}
	tests := map[string]struct {
		refuse func(x *faultyserver.Exchange)
		within time.Duration
	}{
		"400 and -32000":              {without(400, -32000, "Bad Request: Server not initialized"), 0},
		"400 and -32600":              {without(400, -32600, "Bad Request: Missing session ID"), 0},
		"404 with text":               {func(x *faultyserver.Exchange) { x.Status(404, "text/plain", "not found") }, 0},
		"404 and -32001":              {rpcAs(404, -32001, "Session not found"), 11 * time.Second},
		"404 and -32001, without id":  {without(404, -32001, "Session not found"), 11 * time.Second},
		"422 with text":               {func(x *faultyserver.Exchange) { x.Status(422, "text/plain", "expect initialize request") }, 11 * time.Second},
		"200 and -32602":              {rpcAs(200, -32602, "Invalid request parameters"), 11 * time.Second},
		"200 and -32602, without id":  {without(200, -32602, "Invalid request parameters"), 11 * time.Second},
		"200 and -32600":              {rpcAs(200, -32600, `method "tools/call" is invalid during session initialization`), 11 * time.Second},
		"200 as a stream, no message": {func(x *faultyserver.Exchange) { x.Begin() }, 11 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newRolledBack(tt.refuse)
				c := dialHTTP(t, s, client.Config{})
				if _, err := within(t, c, echo(t), &recorder{}); err != nil {
					t.Fatal(err)
				}
				s.back.Store(true)
				began := time.Now()
				calls := 0
				for {
					var beside [5]*running
					for i := range beside {
						beside[i] = launch(t, c, echo(t), &recorder{})
					}
					_, err := within(t, c, echo(t), &recorder{})
					calls += 6
					for _, r := range beside {
						<-r.done
					}
					if err == nil {
						break
					}
					if time.Since(began) > time.Minute {
						t.Fatalf("after %v: %v", time.Since(began), err)
					}
					time.Sleep(500 * time.Millisecond)
				}
				if d := time.Since(began); d > tt.within {
					t.Errorf("found out after %v, want %v", d, tt.within)
				}
				if n := s.then.Count("server/discover"); n != 1 {
					t.Errorf("%d probes for %d calls, want 1", n, calls)
				}
				if n := s.then.Count("tools/call"); tt.within > 0 && n > calls {
					t.Errorf("%d calls arrived of %d: one was made twice", n, calls)
				}
			})
		})
	}
}

// A server in trouble keeps its era: it is probed at most every ten seconds, its errors
// are returned, and there are no useless handshakes.
func TestServerInTroubleStaysModern(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var ill atomic.Bool
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){}}
		for _, method := range []string{"tools/call", "server/discover"} {
			s.On[method] = func(x *faultyserver.Exchange) {
				if ill.Load() {
					x.Error(-32603, "the database is away")
					return
				}
				x.Polite()
			}
		}
		c := dialHTTP(t, s, client.Config{})
		if _, err := within(t, c, echo(t), &recorder{}); err != nil {
			t.Fatal(err)
		}
		probed := s.Count("server/discover")
		ill.Store(true)
		for range 100 {
			_, err := within(t, c, echo(t), &recorder{})
			wantError(t, err, -32603)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := s.Count("server/discover") - probed; n < 8 || n > 10 {
			t.Errorf("%d probes in 100 s, want one each 10 s", n)
		}
		ill.Store(false)
		res, err := within(t, c, echo(t), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		if n := c.Stats().Era; n != mcp.EraModern {
			t.Errorf("era %v", n)
		}
	})
}

// A success in between shows that the server has not changed: its errors are about the
// requests.
func TestErrorsBetweenResultsCauseNoProbe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"prompts/get": func(x *faultyserver.Exchange) { x.Error(-32602, "no such prompt") }}}
		c := dialHTTP(t, s, client.Config{})
		for range 100 {
			for range 5 {
				_, err := within(t, c, request(t, "prompts/get", `{"name":"x"}`), &recorder{})
				wantError(t, err, -32602)
			}
			if _, err := within(t, c, echo(t), &recorder{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := s.Count("server/discover"); n != 1 {
			t.Errorf("%d probes, want the first", n)
		}
	})
}

// With a configured version the server is not probed.
func TestPinnedServerIsNotProbed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) { x.Error(-32603, "no") }}}
		c := dialHTTP(t, s, client.Config{Version: mcp.LatestModern})
		for range 60 {
			_, err := within(t, c, echo(t), &recorder{})
			wantError(t, err, -32603)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := s.Count("server/discover") + s.Count("initialize"); n != 0 {
			t.Errorf("%d probes, want none", n)
		}
	})
}
