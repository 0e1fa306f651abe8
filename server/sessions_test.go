// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

const noSessionsLeft = `2 sessions (limits.sessions); the request was not sent`

// FAULTS 25: the number of sessions is bounded; a session in use stays, and so does one
// that was used lately.
func TestSessionLimit(t *testing.T) {
	gated(t, server.Config{Limits: server.Limits{Sessions: 2}}, func(s *site, g *gate) {
		busy := s.session()
		r := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), busy))
		<-g.entered
		idle := s.session()
		want := `{"jsonrpc":"2.0","id":0,"error":{"code":1006,"message":"` + noSessionsLeft + `","data":{"source":"gateway","outcome":"not_dispatched"}}}`
		s.wantRefusal(refusalCase{name: "at once", body: initialize, status: 429, want: want, also: [2]string{"Retry-After", "30"}})
		s.advance(1500 * time.Millisecond)
		s.wantRefusal(refusalCase{name: "a little later", body: initialize, status: 429, want: want, also: [2]string{"Retry-After", "29"}})
		s.advance(28499 * time.Millisecond)
		s.wantRefusal(refusalCase{name: "a moment early", body: initialize, status: 429, want: want, also: [2]string{"Retry-After", "1"}})
		s.advance(time.Millisecond)
		second := s.session()
		if got := s.post(raw("1", "ping", ""), idle); got.status != 404 {
			t.Errorf("the idle session: %d, want 404", got.status)
		}
		close(g.release)
		if got := <-r; got.status != 200 {
			t.Errorf("the request in the busy session: %d %s", got.status, got.body)
		}
		for _, h := range []headers{busy, second} {
			if got := s.post(raw("1", "ping", ""), h); got.status != 200 {
				t.Errorf("a session in use: %d %s", got.status, got.body)
			}
		}
	})
}

// serveFrom serves a request that comes from the address.
func (s *site) serveFrom(address string, r *http.Request) reply {
	r.RemoteAddr = address
	return record(s.server, r)
}

// FAULTS 25: a flood of initialize from one address. The bound holds, the sessions of all
// other clients stay, and a new client gets one.
func TestFloodOfInitialize(t *testing.T) {
	bubble(t, tools(nil), server.Config{Limits: server.Limits{Sessions: 50}}, func(s *site) {
		open := func(address string) reply {
			return s.serveFrom(address, s.request(s.ctx(), http.MethodPost, initialize))
		}
		theirs := headers{"Mcp-Session-Id": open("192.0.2.1:1000").header.Get("Mcp-Session-Id")}
		s.serveFrom("192.0.2.1:1001", s.request(s.ctx(), http.MethodPost, raw("1", "ping", ""), theirs))
		s.advance(10 * time.Minute) // a person thinks
		var served, refused int
		for i := range 3000 {
			switch got := open(fmt.Sprint("192.0.2.66:", 1024+i)); {
			case got.status == 200:
				served++
			case got.status == 429 && got.header.Get("Retry-After") == "10":
				refused++
			default:
				t.Fatalf("%d %v %s", got.status, got.header, got.body)
			}
		}
		if served != 49 || refused != 2951 {
			t.Errorf("%d served, %d refused; want 49, 2951", served, refused)
		}
		if got := open("198.51.100.7:1"); got.status != 200 {
			t.Errorf("a newcomer: %d %s", got.status, got.body)
		}
		if got := s.serveFrom("192.0.2.1:1002", s.request(s.ctx(), http.MethodPost, raw("1", "ping", ""), theirs)); got.status != 200 {
			t.Errorf("the session of somebody else: %d %s", got.status, got.body)
		}
		if got := s.server.Stats().Sessions; got != 50 {
			t.Errorf("%d sessions, want 50", got)
		}
	})
}

// FAULTS 25: a named principal has its own bound, and the error names it.
func TestFloodOfAPrincipal(t *testing.T) {
	bubble(t, tools(nil), server.Config{Authenticate: identified(byHeader)}, func(s *site) {
		ann := headers{"Authorization": "ann"}
		for i := range 100 {
			if got := s.post(initialize, ann); got.status != 200 {
				t.Fatalf("number %d: %d %s", i, got.status, got.body)
			}
		}
		s.wantRefusal(refusalCase{name: "the 101st", body: initialize, header: ann, status: 429, also: [2]string{"Retry-After", "10"},
			want: `{"jsonrpc":"2.0","id":0,"error":{"code":1006,"message":"100 sessions of one principal (limits.sessionsPerPrincipal); the request was not sent",` +
				`"data":{"source":"gateway","outcome":"not_dispatched"}}}`})
		s.sessionOf(headers{"Authorization": "bob"})
		s.advance(10 * time.Second)
		s.sessionOf(ann)
		if got := s.server.Stats().Sessions; got != 101 {
			t.Errorf("%d sessions, want 100 of ann and one of bob", got)
		}
	})
}

// FAULTS 25, the other side: a client with tools that leave a session behind each time they
// run is served however often it does so. The test opens enough to reach the bound of a
// principal several times.
func TestToolsThatLeaveSessionsBehind(t *testing.T) {
	for _, principal := range []string{"", "ann"} {
		h := tools(map[string]mcp.HandlerFunc{"echo": fixedResult(`{}`)})
		bubble(t, h, server.Config{Authenticate: identified(byHeader)}, func(s *site) {
			auth := headers{"Authorization": principal}
			for i := range 250 {
				sess := s.sessionOf(auth)
				s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, sess, auth)
				if got := s.post(raw("1", "tools/call", `{"name":"echo"}`), sess, auth); got.status != 200 {
					t.Fatalf("run %d of %q: %d %s", i, principal, got.status, got.body)
				}
				s.advance(2 * time.Second)
			}
		})
	}
}

// Behind a proxy all users have one address. The 101st user, and the last for which there
// is room, are served like the first.
func TestUsersBehindAProxy(t *testing.T) {
	bubble(t, tools(nil), server.Config{Limits: server.Limits{Sessions: 300}}, func(s *site) {
		var all []headers
		for range 300 {
			all = append(all, s.session())
		}
		for i, h := range all {
			if got := s.post(raw("1", "ping", ""), h); got.status != 200 {
				t.Errorf("user %d: %d %s", i, got.status, got.body)
			}
		}
		if got := s.post(initialize); got.status != 429 {
			t.Errorf("one more: %d, want 429", got.status)
		}
	})
}

// Addresses of a network that is assigned as a whole count as one client.
func TestAddressesCountedTogether(t *testing.T) {
	tests := []struct{ first, second, third string }{
		{"127.0.0.1:1", "127.0.0.2:2", "192.0.2.1:1"},
		{"[::1]:1", "127.255.255.255:2", "10.0.0.1:1"},
		{"[::ffff:127.0.0.1]:1", "[::1]:2", "[::ffff:10.0.0.1]:1"},
		{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"},
		{"10.0.0.1:1", "[::ffff:10.0.0.1]:1", "10.0.0.2:1"},
		{"[2001:db8:1:2::1]:1", "[2001:db8:1:2:ffff:ffff:ffff:ffff]:1", "[2001:db8:1:3::1]:1"},
		{"[fe80::1%eth0]:1", "[fe80::2%eth1]:1", "[fe81::1]:1"},
		{"@", "@", "pipe"}, // a listener that is not on a network
	}
	for _, tt := range tests {
		bubble(t, tools(nil), server.Config{Limits: server.Limits{Sessions: 2}}, func(s *site) {
			open := func(address string) int {
				return s.serveFrom(address, s.request(s.ctx(), http.MethodPost, initialize)).status
			}
			// The second fills its share of the table only if it counts as the first; the
			// third, which has no session, then takes one of them.
			if got := []int{open(tt.first), open(tt.second), open(tt.first), open(tt.third)}; fmt.Sprint(got) != "[200 200 429 200]" {
				t.Errorf("%s, %s, %s: %v", tt.first, tt.second, tt.third, got)
			}
		})
	}
}

// A Handler that has no room for its state of each session may ask for one to end. An idle
// session ends, and its client is informed when it returns; a session in use does not.
func TestScopesYield(t *testing.T) {
	scopes := map[string]*mcp.Scope{}
	var ended []string
	g := newGate()
	h := tools(map[string]mcp.HandlerFunc{
		"wait": func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
			return g.serve(ctx, req, c)
		},
		"keep": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			name, _ := req.Params.Text(mcp.FieldURI)
			scopes[name] = req.Scope
			req.Scope.OnEnd(func() { ended = append(ended, name) })
			return result(`{}`)
		},
	})
	bubble(t, h, server.Config{}, func(s *site) {
		g = newGate()
		sessions := map[string]headers{}
		for _, name := range []string{"idle", "calling", "listening"} {
			sessions[name] = s.session()
			s.post(raw("1", "tools/call", `{"name":"keep","uri":"`+name+`"}`), sessions[name])
		}
		call := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sessions["calling"]))
		<-g.entered
		get := s.open(s.ctx(), http.MethodGet, "", sessions["listening"])
		yields := func(name string, want bool) {
			t.Helper()
			if got := scopes[name].Yield(); got != want {
				t.Errorf("%s yields: %t, want %t", name, got, want)
			}
		}
		yields("calling", false)
		yields("listening", false)
		yields("idle", true)
		yields("idle", true) // it has ended
		s.wantRefusal(refusalCase{name: "its client", body: raw("2", "ping", ""), header: sessions["idle"], status: 404,
			want: wireError("2", "-32600", "session not found; open a new one with initialize")})
		close(g.release)
		<-call
		get.close()
		s.advance(0)
		yields("calling", true)
		yields("listening", true)
		equal(t, "ended", strings.Join(ended, " "), "idle calling listening")
		if got := s.server.Stats().Sessions; got != 0 {
			t.Errorf("%d sessions are left, want 0", got)
		}
	})
}

// A session cannot be asked to end while it is being opened: it would have ended before its
// client receives its id.
func TestScopeDoesNotYieldDuringInitialize(t *testing.T) {
	yielded := true
	h := mcp.HandlerFunc(func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		if req.Method == "server/discover" {
			yielded = req.Scope.Yield()
		}
		return result(discovered)
	})
	bubble(t, h, server.Config{}, func(s *site) {
		sess := s.session()
		if got := s.post(raw("1", "tools/list", ""), sess); got.status != 200 || yielded {
			t.Errorf("yielded: %t; the session is answered %d %s", yielded, got.status, got.body)
		}
	})
}

// The scope of a pipe never yields: its client could not open another session.
func TestPipeDoesNotYield(t *testing.T) {
	var scope *mcp.Scope
	h := tools(keepScope(&scope))
	pipes(t, h, server.Config{}, func(c *console) {
		c.handshake()
		c.send(raw("1", "tools/list", ""))
		c.expect(`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`)
		if scope.Yield() {
			t.Error("the scope of a pipe has yielded")
		}
		c.send(raw("2", "tools/list", ""))
		c.expect(`{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`)
	})
}

// However a session ends, its state is released.
func TestScopesEnd(t *testing.T) {
	ends := map[string]func(*site, headers){
		"deleted": func(s *site, h headers) { s.do(s.request(s.ctx(), http.MethodDelete, "", h)) },
		"expired": func(s *site, _ headers) { s.advance(2 * time.Hour) },
		"evicted": func(s *site, _ headers) { s.advance(30 * time.Second); s.session() },
		"closed":  func(s *site, _ headers) { _ = s.server.Close() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			ended := 0
			h := mcp.HandlerFunc(func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
				if ended == 0 {
					req.Scope.OnEnd(func() { ended++ })
				}
				return result(discovered)
			})
			bubble(t, h, server.Config{Limits: server.Limits{Sessions: 1}}, func(s *site) {
				end(s, s.session())
				s.advance(0)
				if ended != 1 {
					t.Errorf("the scope ended %d times, want 1", ended)
				}
			})
		})
	}
}

// FAULTS 21, S4: to any other principal a session looks as if it had never existed, in the
// whole of the answer, on every method and while the server drains; and requests of a
// stranger do not keep it alive.
func TestForeignSessionLooksUnknown(t *testing.T) {
	gated(t, server.Config{Authenticate: identified(byHeader), Limits: server.Limits{SessionIdle: time.Minute}}, func(s *site, g *gate) {
		ann, bob := headers{"Authorization": "ann"}, headers{"Authorization": "bob"}
		sess := s.sessionOf(ann)
		look := func(when string) {
			t.Helper()
			for name, body := range map[string]string{"POST": raw("7", "ping", ""), "GET": "", "DELETE": "", "POST batch": "[]",
				"POST notification": `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
				"POST response":     `{"jsonrpc":"2.0","id":1,"result":{}}`, "POST initialize": initialize} {
				method, _, _ := strings.Cut(name, " ")
				answer := func(id string) string {
					got := s.do(s.request(s.ctx(), method, body, bob, headers{"Mcp-Session-Id": id}))
					got.header.Del("Date")
					return fmt.Sprint(got.status, got.header, got.body)
				}
				equal(t, when+": "+name, answer(sess["Mcp-Session-Id"]), answer("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
			}
		}
		for range 4 {
			s.advance(20 * time.Second)
			look("in service")
		}
		if got := s.server.Stats().Sessions; got != 0 {
			t.Errorf("%d sessions; want the unused one of ann to have ended", got)
		}
		sess = s.sessionOf(ann)
		call := s.async(s.request(s.ctx(), http.MethodPost, raw("1", "tools/call", `{"name":"wait"}`), sess, ann))
		<-g.entered
		done := s.shutdown(time.Minute)
		look("during a shutdown")
		close(g.release)
		if got := <-call; got.status != 200 {
			t.Errorf("the request of its owner: %d %s", got.status, got.body)
		}
		<-done
	})
}
