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

// The owner of a session, and the answers to everyone else.

// M087, I18, I22: an attacker cannot choose the session of another client. A GET creates
// none, and a client that is made to send a chosen id gets no session of that id.
//
// S1- 2025-11-25 tutorials/security/security_best_practices: "MCP servers **MUST** use
// secure, non-deterministic session IDs."
func TestM087ChosenSession(t *testing.T) {
	const chosen = "AAAAAAAAAAAAAAAAAAAAAAAAAA"
	withChanges(t, nil, func(s *site, h *changing) {
		fixed := headers{"Mcp-Session-Id": chosen}
		attack := func(when string) {
			if got := s.do(s.request(s.ctx(), http.MethodGet, "", fixed)); got.status != 404 {
				t.Errorf("GET of the attacker %s: %d %s; want 404", when, got.status, got.body)
			}
		}
		attack("first")
		for name, body := range map[string]string{"initialize": initialize, "a call": raw("1", "tools/call", `{"name":"x"}`)} {
			if got := s.post(body, fixed); got.status != 404 || got.header.Get("Mcp-Session-Id") != "" {
				t.Errorf("%s of the victim: %d %s, session %q; want 404 and none", name, got.status, got.body, got.header.Get("Mcp-Session-Id"))
			}
		}
		if got := s.server.Stats().Sessions; got != 0 {
			t.Errorf("%d sessions, want none", got)
		}
		victim := s.session()
		if victim["Mcp-Session-Id"] == chosen {
			t.Fatal("the victim has the session that the attacker chose")
		}
		attack("while the victim has a session")
		get := s.open(s.ctx(), http.MethodGet, "", victim)
		defer get.close()
		<-h.acked // one listen: that of the victim
		h.changed <- toolsChanged
		equal(t, "the victim's own stream", get.next(), `{"jsonrpc":"2.0","method":"`+toolsChanged+`"}`)
	})
}

// routes has two endpoints at one address, each with its own Handler. Access to the first
// can be revoked.
type routes struct {
	x, y    *server.Server
	revoked bool
	client  *site
}

func withRoutes(t *testing.T, f func(*routes)) {
	t.Helper()
	m := &routes{}
	name := func(text string) mcp.Handler {
		return tools(map[string]mcp.HandlerFunc{"tools/list": fixedResult(`{"tools":[],"of":"` + text + `"}`)})
	}
	allowed := server.Config{Authenticate: identified(func(*http.Request) (string, error) {
		if m.revoked {
			return "", errors.New("no longer")
		}
		return "ann", nil
	})}
	bubbleWith(t, name("y"), server.Config{Authenticate: identified(func(*http.Request) (string, error) { return "ann", nil })}, func(hs *http.Server) {
		m.x = server.New(name("x"), allowed)
		mux := http.NewServeMux()
		mux.Handle("/x", m.x)
		mux.Handle("/mcp", hs.Handler)
		hs.Handler = mux
	}, func(s *site) {
		m.y, m.client = s.server, s
		f(m)
		if err := m.x.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// post posts to a route.
func (m *routes) post(route, body string, hs ...headers) reply {
	r := m.client.request(m.client.ctx(), http.MethodPost, body, hs...)
	r.URL.Path = route
	return m.client.do(r)
}

// M090, I18, I40: a session belongs to its route: another route does not serve its id, even
// for the same principal, and whatever happened to the first.
func TestM090SessionOfAnotherRoute(t *testing.T) {
	withRoutes(t, func(m *routes) {
		sess := headers{"Mcp-Session-Id": m.post("/x", initialize).header.Get("Mcp-Session-Id")}
		m.post("/x", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, sess)
		list := raw("1", "tools/list", "")
		equal(t, "its own route", m.post("/x", list, sess).body, `{"jsonrpc":"2.0","id":1,"result":{"tools":[],"of":"x"}}`)
		m.revoked = true
		if got := m.post("/x", list, sess); got.status != 401 {
			t.Errorf("its own route, revoked: %d %s; want 401", got.status, got.body)
		}
		for _, verb := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			body := ""
			if verb == http.MethodPost {
				body = list
			}
			got := m.client.do(m.client.request(m.client.ctx(), verb, body, sess))
			if got.status != 404 || strings.Contains(got.body, `"of"`) {
				t.Errorf("%s at the other route: %d %s; want 404", verb, got.status, got.body)
			}
		}
		if x, y := m.x.Stats().Sessions, m.y.Stats().Sessions; x != 1 || y != 0 {
			t.Errorf("%d and %d sessions; want the one that there was", x, y)
		}
	})
}

// M092, I19: a request in a session that has ended, for whatever reason, gets 404 with a
// JSON error that has the id of the request, and nothing else gets 404.
//
// S6- 2025-11-25 basic/transports: "The server **MAY** terminate the session at any
// time, after which it **MUST** respond to requests containing that session ID with
// HTTP 404 Not Found."
func TestM092GoneSession(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"tools/list": fixedResult(`{"tools":[]}`)})
	bubble(t, h, server.Config{Authenticate: identified(byHeader)}, func(s *site) {
		ann := headers{"Authorization": "ann"}
		idle := s.sessionOf(ann)
		s.advance(31 * time.Minute)
		deleted, foreign := s.sessionOf(ann), s.sessionOf(headers{"Authorization": "bob"})
		s.do(s.request(s.ctx(), http.MethodDelete, "", deleted, ann))
		for name, sess := range map[string]headers{
			"never was": {"Mcp-Session-Id": strings.Repeat("B", 26)}, "idle for too long": idle, "deleted": deleted, "of somebody else": foreign,
		} {
			for _, id := range []string{"9", `"nine"`} {
				got := s.post(raw(id, "tools/list", ""), sess, ann)
				equal(t, name, got.body, wireError(id, "-32600", "session not found; open a new one with initialize"))
				if got.status != 404 || got.header.Get("Content-Type") != "application/json" {
					t.Errorf("%s: %d %s; want 404 and JSON", name, got.status, got.header.Get("Content-Type"))
				}
			}
		}
		if got := s.post(raw("9", "no/such", ""), s.sessionOf(ann), ann); got.status == 404 {
			t.Errorf("an unknown method of a session that lives: %d %s; a client would open a new session", got.status, got.body)
		}
	})
}

// M109, I22, I31: each request is served as its own principal: a session restricts its use
// to its owner, and provides no identity. The parameters do not matter for that.
func TestM109IdentityOfThisRequest(t *testing.T) {
	type seen struct{ principal, context string }
	got := make(chan seen, 8)
	owners := map[string]string{"t1": "ann", "t2": "ann", "t3": "bob"}
	h := tools(map[string]mcp.HandlerFunc{"tools/list": func(ctx ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		caller, _ := ctx.Value(requestKey{}).(string)
		got <- seen{req.Principal, caller}
		return result(`{"tools":[]}`)
	}})
	cfg := server.Config{Authenticate: identified(func(r *http.Request) (string, error) { return owners[r.Header.Get("Authorization")], nil })}
	bubbleWith(t, h, cfg, withRequestContext, func(s *site) {
		as := func(token string) headers { return headers{"Authorization": token, "X-Request": "with " + token} }
		sess := s.sessionOf(as("t1"))
		for name, body := range map[string]string{
			"no parameters": raw("1", "tools/list", ""), "an object": raw("1", "tools/list", "{}"),
		} {
			if r := s.post(body, sess, as("t2")); r.status != 200 {
				t.Fatalf("%s: %d %s", name, r.status, r.body)
			}
			if now := <-got; now != (seen{"ann", "with t2"}) {
				t.Errorf("%s: served as %+v; want ann with t2", name, now)
			}
			if r := s.post(body, sess, as("t3")); r.status != 404 {
				t.Errorf("%s: bob in the session of ann: %d %s; want 404", name, r.status, r.body)
			}
		}
		for _, params := range []string{"null", "[]", `["tools"]`, `"x"`} {
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":` + params + `}`
			if r := s.post(body, sess, as("t3")); r.status == 200 {
				t.Errorf("params %s: bob in the session of ann: %d %s", params, r.status, r.body)
			}
			r := s.post(body, sess, as("t2"))
			select {
			case now := <-got:
				if now != (seen{"ann", "with t2"}) {
					t.Errorf("params %s: served as %+v; want ann with t2", params, now)
				}
			default:
				if r.status != 400 || !strings.Contains(r.body, `"id":1,"error"`) {
					t.Errorf("params %s: neither served nor refused: %d %s", params, r.status, r.body)
				}
			}
		}
	})
}

// withRequestContext adds the header X-Request of a request to the context of Handlers.
func withRequestContext(hs *http.Server) {
	inner := hs.Handler
	hs.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), requestKey{}, r.Header.Get("X-Request"))
		inner.ServeHTTP(w, r.WithContext(ctx))
	})
}

// M113, I18: a session id is not derived from its owner's name: every name is possible, and
// none can pass for another.
func TestM113OddSubjects(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"tools/list": func(_ ctxType, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		return result(fmt.Sprintf(`{"tools":[],"as":%q}`, req.Principal))
	}})
	subjects := []string{"a", "a:b", "b", ":b", "a|b", "a/b", "a.b", "a b", "a,b", "a=b&c", "%3A", "a%3Ab", "https://issuer.example/|user:1", "ä€", "A", strings.Repeat("x:", 500)}
	bubble(t, h, server.Config{Authenticate: identified(byHeader)}, func(s *site) {
		sessions := map[string]headers{}
		for _, subject := range subjects {
			sessions[subject] = s.sessionOf(headers{"Authorization": subject})
		}
		for _, owner := range subjects {
			for _, caller := range subjects {
				got := s.post(raw("1", "tools/list", ""), sessions[owner], headers{"Authorization": caller})
				switch {
				case owner == caller:
					equal(t, owner, got.body, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"tools":[],"as":%q}}`, owner))
				case got.status != 404:
					t.Errorf("%q in the session of %q: %d %s; want 404", caller, owner, got.status, got.body)
				}
			}
		}
		if got := s.post(raw("1", "tools/list", ""), headers{"Authorization": "a:b"}); got.status != 400 {
			t.Errorf("no session id: %d %s; want 400", got.status, got.body)
		}
	})
}

// M114, I17, I35: a failed probe changes nothing: the next message is a first initialize.
func TestM114ProbeBeforeInitialize(t *testing.T) {
	probe := `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}`
	h := tools(map[string]mcp.HandlerFunc{"tools/list": fixedResult(`{"tools":[]}`)})
	bubble(t, h, server.Config{}, func(s *site) {
		for range 2 {
			got := s.post(probe, headers{"MCP-Protocol-Version": "2099-01-01", "Mcp-Method": "server/discover"})
			if got.status != 400 || !strings.Contains(got.body, `"code":-32022`) || got.header.Get("Mcp-Session-Id") != "" {
				t.Errorf("probe: %d %s; want 400, -32022 and no session", got.status, got.body)
			}
		}
		equal(t, "list", s.post(raw("2", "tools/list", ""), s.session()).body, `{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`)
	})
	pipes(t, h, server.Config{}, func(c *console) {
		for range 2 {
			c.send(probe)
			if got := c.next(); !strings.Contains(got, `"code":-32022`) {
				t.Errorf("probe on a pipe: %s; want -32022", got)
			}
		}
		c.handshake()
		c.send(raw("2", "tools/list", ""))
		c.expect(`{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`)
	})
}

// M197, I3, I42: a message that is nested too deep is answered, with its id if that could
// be read, and the next message is served.
func TestM197TooDeepToRead(t *testing.T) {
	deep := nested(500)
	tests := []struct{ name, body, id string }{
		{"the id comes first", raw("7", "ping", deep), `"id":7,`},
		{"the id comes last", `{"jsonrpc":"2.0","method":"ping","params":` + deep + `,"id":7}`, ""},
		{"64 levels", raw("7", "ping", nested(64)), `"id":7,"result"`},
	}
	bubble(t, tools(nil), server.Config{}, func(s *site) {
		sess := s.session()
		for _, tt := range tests {
			start := time.Now()
			got := s.post(tt.body, sess)
			if !strings.Contains(got.body, tt.id) || !strings.Contains(got.body, `"error"`) != strings.Contains(tt.id, "result") {
				t.Errorf("%s: %d %s; want %s in it", tt.name, got.status, got.body, tt.id)
			}
			if d := time.Since(start); d != 0 {
				t.Errorf("%s: it took %v", tt.name, d)
			}
		}
		equal(t, "the next one", s.post(raw("8", "ping", ""), sess).body, `{"jsonrpc":"2.0","id":8,"result":{}}`)
	})
	pipes(t, tools(nil), server.Config{}, func(c *console) {
		for _, tt := range tests {
			c.send(tt.body)
			if got := c.next(); !strings.Contains(got, tt.id) || !strings.Contains(got, `"error"`) != strings.Contains(tt.id, "result") {
				t.Errorf("%s, on a pipe: %s; want %s in it", tt.name, got, tt.id)
			}
		}
		c.send(raw("8", "ping", ""))
		c.expect(`{"jsonrpc":"2.0","id":8,"result":{}}`)
	})
}
