// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// growing is a legacy server with a tool "grow", which adds the tool "grown" to the
// session that calls it, and a tool "ask" for clients with capabilities.
type growing struct {
	*faultyserver.HTTP

	mu    sync.Mutex
	can   map[string]bool // by session, whether its client has capabilities
	grown map[string]bool // by session
	lists int
}

func newGrowing() *growing {
	s := &growing{HTTP: serverWithTools(false), can: make(map[string]bool), grown: make(map[string]bool)}
	s.Capabilities = `{"tools":{"listChanged":true}}`
	session := func(x *faultyserver.Exchange) string { return x.R.Header.Get("Mcp-Session-Id") }
	s.On["initialize"] = func(x *faultyserver.Exchange) {
		x.Polite()
		id := x.W.Header().Get("Mcp-Session-Id")
		s.mu.Lock()
		defer s.mu.Unlock()
		s.can[id] = strings.Contains(string(x.Msg.Params.Raw(mcp.FieldCapabilities)), `"elicitation"`)
	}
	s.On["tools/list"] = func(x *faultyserver.Exchange) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lists++
		tools := []string{"grow"}
		if s.can[session(x)] {
			tools = append(tools, "ask")
		}
		if s.grown[session(x)] {
			tools = append(tools, "grown")
		}
		x.Result(toolList(tools...))
	}
	s.On["tools/call"] = func(x *faultyserver.Exchange) {
		if name, _ := x.Msg.Params.Text(mcp.FieldName); name == "grow" {
			s.mu.Lock()
			s.grown[session(x)] = true
			s.mu.Unlock()
			x.Event("", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			x.Event("", `{"jsonrpc":"2.0","id":`+x.Msg.ID.String()+`,"result":{"content":[]}}`)
			return
		}
		x.Polite()
	}
	return s
}

func (s *growing) listed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

const fullCapabilities = `{"roots":{},"sampling":{},"elicitation":{"form":{},"url":{}}}`

// legacyWith opens a legacy session with capabilities.
func (h *gateway) legacyWith(capabilities string) header {
	h.t.Helper()
	got := h.post(legacyRequest("0", "initialize", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"test","version":"1"}}`))
	sess := header{"Mcp-Session-Id": got.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": "2025-11-25"}
	if got := h.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, sess); got.status != 202 {
		h.t.Fatalf("initialized: %d %s", got.status, got.body)
	}
	return sess
}

func (h *gateway) lists(tool string, headers ...header) bool {
	h.t.Helper()
	return strings.Contains(h.post(legacyRequest("1", "tools/list", ""), headers...).body, `"`+tool+`"`)
}

func (h *gateway) calls(tool string, headers ...header) string {
	h.t.Helper()
	return h.post(legacyRequest("2", "tools/call", `{"name":"`+tool+`"}`), headers...).body
}

// A tool that a server adds for one session is listed, announced and callable for the
// client of that session, from the result of the call that added it, and for no other.
func TestToolOfOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := backends{"b": newGrowing()}.open(t, nil)
		one, other := h.legacyWith(fullCapabilities), h.legacyWith(fullCapabilities)
		stream, otherStream := h.listen(one), h.listen(other)
		if h.lists("b__grown", one) || !h.lists("b__grow", one) || h.lists("b__grown", other) {
			t.Fatal("the tool is there before it was added")
		}
		if got := h.calls("b__grow", one); !strings.Contains(got, `"content":[]`) {
			t.Fatalf("the call that adds it: %s", got)
		}
		if got := h.calls("b__grown", one); !strings.Contains(got, `"content":[]`) {
			t.Errorf("called at once: %s", got)
		}
		// Before it lists: a session is not notified of what it has listed.
		if got := stream.next(); !strings.Contains(got, "tools/list_changed") {
			t.Errorf("the session that has it received %s", got)
		}
		if !h.lists("b__grown", one) {
			t.Error("the session that has it does not list it")
		}
		if h.lists("b__grown", other) {
			t.Error("another session lists it")
		}
		if got := h.calls("b__grown", other); !strings.Contains(got, "-32602") {
			t.Errorf("another session called it: %s", got)
		}
		otherStream.wantSilence(time.Minute)
	})
}

// What only a session had is removed when the session at the backend ends, and its
// client is notified.
func TestToolOfOneSessionGoesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGrowing()
		h := backends{"b": s}.open(t, nil)
		one := h.legacyWith(fullCapabilities)
		h.calls("b__grow", one)
		if !h.lists("b__grown", one) {
			t.Fatal("it is not listed")
		}
		stream := h.listen(one)
		synctest.Wait()
		first := true
		call := s.On["tools/call"]
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			if first {
				first = false
				x.Status(http.StatusNotFound, "", "")
				return
			}
			call(x)
		}
		h.calls("b__grown", one) // in another session at the backend, which must not know it
		if h.lists("b__grown", one) {
			t.Error("it is listed after the session has ended that had it")
		}
		if got := stream.next(); !strings.Contains(got, "tools/list_changed") {
			t.Errorf("received %s", got)
		}
	})
}

// A tool that a server offers only to clients with certain capabilities is neither
// listed nor callable for others. The server is queried once for all clients with the
// same ones.
func TestToolForCapabilities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGrowing()
		h := backends{"b": s}.open(t, nil)
		if full := h.legacyWith(fullCapabilities); !h.lists("b__ask", full) {
			t.Error("a client that can be asked does not have it")
		}
		before := s.listed()
		for range 3 {
			bare := h.legacyWith(`{}`)
			if h.lists("b__ask", bare) || !h.lists("b__grow", bare) {
				t.Error("a client that cannot be asked has it")
			}
			if got := h.calls("b__ask", bare); !strings.Contains(got, "-32602") {
				t.Errorf("a client that cannot be asked has called it: %s", got)
			}
		}
		if got := h.postModern("1", "tools/list", "", "").body; strings.Contains(got, "b__ask") {
			t.Errorf("a modern client that cannot be asked has it: %s", got)
		}
		if n := s.listed() - before; n != 1 {
			t.Errorf("the server was asked %d times, want once", n)
		}
	})
}

// The first list of a client waits for a slow server to return its lists for these
// capabilities, as it does for a server that is starting.
func TestFirstListWaitsForCapabilities(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"by default": nil,
		"no limits":  func(cfg *config.Config) { cfg.Limits.FirstList, cfg.Limits.Handshake = -1, -1 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newGrowing()
				h := backends{"b": s}.open(t, change)
				list := s.On["tools/list"]
				s.On["tools/list"] = func(x *faultyserver.Exchange) {
					time.Sleep(10 * time.Second)
					list(x)
				}
				if bare := h.legacyWith(`{}`); h.lists("b__ask", bare) || !h.lists("b__grow", bare) {
					t.Error("a client that cannot be asked has the tool that asks")
				}
			})
		})
	}
}

// A server with the usual lists for clients without capabilities is not queried again
// for clients with more.
func TestCapabilitiesThatMakeNoDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serverWithTools(false, "x")
		h := backends{"b": s}.open(t, nil)
		before := s.Count("tools/list")
		for _, capabilities := range []string{`{}`, `{"roots":{}}`, `{"elicitation":{}}`, `{"sampling":{},"roots":{}}`} {
			if !h.lists("b__x", h.legacyWith(capabilities)) {
				t.Errorf("%s: the tool is not listed", capabilities)
			}
		}
		if n := s.Count("tools/list") - before; n != 1 {
			t.Errorf("the server was asked %d times, want once", n)
		}
	})
}
