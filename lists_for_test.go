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

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// growing is a legacy server with a tool "grow", which adds the tool "grown" for the
// session in which it is called, and a tool "ask" for clients that can be asked.
type growing struct {
	*faultyserver.HTTP

	mu    sync.Mutex
	can   map[string]bool // by session, that its client can be asked
	grown map[string]bool // by session
	lists int
}

func newGrowing() *growing {
	s := &growing{HTTP: stocked(false), can: make(map[string]bool), grown: make(map[string]bool)}
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

// able opens a legacy session with capabilities.
func (h *house) able(capabilities string) said {
	h.t.Helper()
	got := h.post(asks("0", "initialize", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"test","version":"1"}}`))
	sess := said{"Mcp-Session-Id": got.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": "2025-11-25"}
	if got := h.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, sess); got.status != 202 {
		h.t.Fatalf("initialized: %d %s", got.status, got.body)
	}
	return sess
}

func (h *house) lists(tool string, headers ...said) bool {
	h.t.Helper()
	return strings.Contains(h.post(asks("1", "tools/list", ""), headers...).body, `"`+tool+`"`)
}

func (h *house) calls(tool string, headers ...said) string {
	h.t.Helper()
	return h.post(asks("2", "tools/call", `{"name":"`+tool+`"}`), headers...).body
}

// What a server adds for one session is listed, announced and callable for the client
// of that session, from the result of the call on that has added it, and for no other.
func TestToolOfOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := behind{"b": newGrowing()}.open(t, nil)
		one, other := h.able(fullCapabilities), h.able(fullCapabilities)
		ear, otherEar := h.listen(one), h.listen(other)
		if h.lists("b__grown", one) || !h.lists("b__grow", one) || h.lists("b__grown", other) {
			t.Fatal("the tool is there before it was added")
		}
		if got := h.calls("b__grow", one); !strings.Contains(got, `"content":[]`) {
			t.Fatalf("the call that adds it: %s", got)
		}
		if got := h.calls("b__grown", one); !strings.Contains(got, `"content":[]`) {
			t.Errorf("called at once: %s", got)
		}
		// Before it lists: a session is not told of what it has listed.
		if got := ear.next(); !strings.Contains(got, "tools/list_changed") {
			t.Errorf("the session that has it was told %s", got)
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
		otherEar.silent(time.Minute)
	})
}

// What a session alone had is gone with the session at the backend, and its client is
// told so.
func TestToolOfOneSessionGoesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGrowing()
		h := behind{"b": s}.open(t, nil)
		one := h.able(fullCapabilities)
		h.calls("b__grow", one)
		if !h.lists("b__grown", one) {
			t.Fatal("it is not listed")
		}
		ear := h.listen(one)
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
		h.calls("b__grown", one) // in another session at the backend, which is not to know it
		if h.lists("b__grown", one) {
			t.Error("it is listed after the session has ended that had it")
		}
		if got := ear.next(); !strings.Contains(got, "tools/list_changed") {
			t.Errorf("told %s", got)
		}
	})
}

// A tool that a server shows only to clients with certain capabilities is neither
// listed nor callable for others. The server is asked once for all clients alike.
func TestToolForCapabilities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGrowing()
		h := behind{"b": s}.open(t, nil)
		if full := h.able(fullCapabilities); !h.lists("b__ask", full) {
			t.Error("a client that can be asked does not have it")
		}
		before := s.listed()
		for range 3 {
			bare := h.able(`{}`)
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

// The first list of a client waits for a server that takes long to show what it has for
// clients like this one, as it does for one that starts.
func TestFirstListWaitsForCapabilities(t *testing.T) {
	for name, change := range map[string]func(*signalbox.Config){
		"by default": nil,
		"no limits":  func(cfg *signalbox.Config) { cfg.Limits.FirstList, cfg.Limits.Handshake = -1, -1 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newGrowing()
				h := behind{"b": s}.open(t, change)
				list := s.On["tools/list"]
				s.On["tools/list"] = func(x *faultyserver.Exchange) {
					time.Sleep(10 * time.Second)
					list(x)
				}
				if bare := h.able(`{}`); h.lists("b__ask", bare) || !h.lists("b__grow", bare) {
					t.Error("a client that cannot be asked has the tool that asks")
				}
			})
		})
	}
}

// A server that shows the same to clients that can do nothing is not asked again for
// those that can do more.
func TestCapabilitiesThatMakeNoDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stocked(false, "x")
		h := behind{"b": s}.open(t, nil)
		before := s.Count("tools/list")
		for _, capabilities := range []string{`{}`, `{"roots":{}}`, `{"elicitation":{}}`, `{"sampling":{},"roots":{}}`} {
			if !h.lists("b__x", h.able(capabilities)) {
				t.Errorf("%s: the tool is not listed", capabilities)
			}
		}
		if n := s.Count("tools/list") - before; n != 1 {
			t.Errorf("the server was asked %d times, want once", n)
		}
	})
}
