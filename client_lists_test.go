// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
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
	s := &growing{HTTP: gatewaytest.ServerWithTools(false), can: make(map[string]bool), grown: make(map[string]bool)}
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
		x.Result(gatewaytest.ToolList(tools...))
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
func legacyWith(h *gatewaytest.Gateway, capabilities string) gatewaytest.Header {
	h.T.Helper()
	got := h.Post(gatewaytest.LegacyRequest("0", "initialize", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"test","version":"1"}}`))
	sess := gatewaytest.Header{"Mcp-Session-Id": got.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": "2025-11-25"}
	if got := h.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, sess); got.Status != 202 {
		h.T.Fatalf("initialized: %d %s", got.Status, got.Body)
	}
	return sess
}

func lists(h *gatewaytest.Gateway, tool string, headers ...gatewaytest.Header) bool {
	h.T.Helper()
	return strings.Contains(h.Post(gatewaytest.LegacyRequest("1", "tools/list", ""), headers...).Body, `"`+tool+`"`)
}

func calls(h *gatewaytest.Gateway, tool string, headers ...gatewaytest.Header) string {
	h.T.Helper()
	return h.Post(gatewaytest.LegacyRequest("2", "tools/call", `{"name":"`+tool+`"}`), headers...).Body
}

// A tool that a server adds for one session is listed, announced and callable for the
// client of that session, from the result of the call that added it, and for no other.
func TestToolOfOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := gatewaytest.Backends{"b": newGrowing()}.Open(t, nil)
		one, other := legacyWith(h, fullCapabilities), legacyWith(h, fullCapabilities)
		stream, otherStream := h.Listen(one), h.Listen(other)
		if lists(h, "b__grown", one) || !lists(h, "b__grow", one) || lists(h, "b__grown", other) {
			t.Fatal("the tool is there before it was added")
		}
		if got := calls(h, "b__grow", one); !strings.Contains(got, `"content":[]`) {
			t.Fatalf("the call that adds it: %s", got)
		}
		if got := calls(h, "b__grown", one); !strings.Contains(got, `"content":[]`) {
			t.Errorf("called at once: %s", got)
		}
		// Before it lists: a session is not notified of what it has listed.
		if got := stream.Next(); !strings.Contains(got, "tools/list_changed") {
			t.Errorf("the session that has it received %s", got)
		}
		if !lists(h, "b__grown", one) {
			t.Error("the session that has it does not list it")
		}
		if lists(h, "b__grown", other) {
			t.Error("another session lists it")
		}
		if got := calls(h, "b__grown", other); !strings.Contains(got, "-32602") {
			t.Errorf("another session called it: %s", got)
		}
		otherStream.WantSilence(time.Minute)
	})
}

// What only a session had is removed when the session at the backend ends, and its
// client is notified.
func TestToolOfOneSessionGoesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGrowing()
		h := gatewaytest.Backends{"b": s}.Open(t, nil)
		one := legacyWith(h, fullCapabilities)
		calls(h, "b__grow", one)
		if !lists(h, "b__grown", one) {
			t.Fatal("it is not listed")
		}
		stream := h.Listen(one)
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
		calls(h, "b__grown", one) // in another session at the backend, which must not know it
		if lists(h, "b__grown", one) {
			t.Error("it is listed after the session has ended that had it")
		}
		if got := stream.Next(); !strings.Contains(got, "tools/list_changed") {
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
		h := gatewaytest.Backends{"b": s}.Open(t, nil)
		if full := legacyWith(h, fullCapabilities); !lists(h, "b__ask", full) {
			t.Error("a client that can be asked does not have it")
		}
		before := s.listed()
		for range 3 {
			bare := legacyWith(h, `{}`)
			if lists(h, "b__ask", bare) || !lists(h, "b__grow", bare) {
				t.Error("a client that cannot be asked has it")
			}
			if got := calls(h, "b__ask", bare); !strings.Contains(got, "-32602") {
				t.Errorf("a client that cannot be asked has called it: %s", got)
			}
		}
		if got := h.PostModern("1", "tools/list", "", "").Body; strings.Contains(got, "b__ask") {
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
				h := gatewaytest.Backends{"b": s}.Open(t, change)
				list := s.On["tools/list"]
				s.On["tools/list"] = func(x *faultyserver.Exchange) {
					time.Sleep(10 * time.Second)
					list(x)
				}
				if bare := legacyWith(h, `{}`); lists(h, "b__ask", bare) || !lists(h, "b__grow", bare) {
					t.Error("a client that cannot be asked has the tool that asks")
				}
			})
		})
	}
}

// When the shared lists have changed, the next list of a client with other capabilities is
// as new as they are.
func TestListForCapabilitiesIsNotOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGrowing()
		var changed atomic.Bool
		list := s.On["tools/list"]
		s.On["tools/list"] = func(x *faultyserver.Exchange) {
			s.mu.Lock()
			can := s.can[x.R.Header.Get("Mcp-Session-Id")]
			s.mu.Unlock()
			switch {
			case !changed.Load():
				list(x)
			case can:
				x.Result(gatewaytest.ToolList("new", "ask"))
			default:
				x.Result(gatewaytest.ToolList("new"))
			}
		}
		h := gatewaytest.Backends{"b": s}.Open(t, nil)
		if got := h.PostModern("1", "tools/list", "", "").Body; strings.Contains(got, "b__ask") || !strings.Contains(got, "b__grow") {
			t.Fatal(got)
		}
		changed.Store(true)
		if _, err := h.G.RetryBackend(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if got := h.PostModern("1", "tools/list", "", "").Body; !strings.Contains(got, "b__new") || strings.Contains(got, "b__grow") {
			t.Errorf("listed after a change: %s", got)
		}
	})
}

// A server with the usual lists for clients without capabilities is not queried again
// for clients with more.
func TestCapabilitiesThatMakeNoDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gatewaytest.ServerWithTools(false, "x")
		h := gatewaytest.Backends{"b": s}.Open(t, nil)
		before := s.Count("tools/list")
		for _, capabilities := range []string{`{}`, `{"roots":{}}`, `{"elicitation":{}}`, `{"sampling":{},"roots":{}}`} {
			if !lists(h, "b__x", legacyWith(h, capabilities)) {
				t.Errorf("%s: the tool is not listed", capabilities)
			}
		}
		if n := s.Count("tools/list") - before; n != 1 {
			t.Errorf("the server was asked %d times, want once", n)
		}
	})
}

// firstUses records the first use of each session of a server, by session id.
type firstUses struct{ all sync.Map }

type firstUse struct {
	once   sync.Once
	known  chan struct{} // closed when method is set
	method string
}

func (u *firstUses) in(x *faultyserver.Exchange) *firstUse {
	use, _ := u.all.LoadOrStore(x.R.Header.Get("Mcp-Session-Id"), &firstUse{known: make(chan struct{})})
	return use.(*firstUse)
}

func (u *firstUses) note(x *faultyserver.Exchange, method string) {
	use := u.in(x)
	use.once.Do(func() {
		use.method = method
		close(use.known)
	})
}

// of waits until the session is used.
func (u *firstUses) of(x *faultyserver.Exchange) string {
	use := u.in(x)
	select {
	case <-use.known:
		return use.method
	case <-x.R.Context().Done():
		return ""
	}
}

// If a legacy server notifies of a new tool only in the session that added it, the
// gateway fetches the lists again and notifies all clients. It does not notify of
// changes that no client can see, however often the server sends them.
func TestNoticeInOneClientsSessionIsForAll(t *testing.T) {
	for name, listening := range map[string]bool{"it notifies no other session": true, "it has no other way to notify": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				notice := make(chan struct{})
				s := gatewaytest.ServerWithTools(false, "x")
				s.Capabilities = `{"tools":{"listChanged":true}}`
				var tools atomic.Value
				tools.Store(gatewaytest.ToolList("x"))
				var uses firstUses
				s.On["tools/list"] = func(x *faultyserver.Exchange) {
					uses.note(x, "tools/list")
					x.Result(tools.Load().(string))
				}
				s.On["tools/call"] = func(x *faultyserver.Exchange) {
					uses.note(x, "tools/call")
					x.Result(`{"content":[]}`)
				}
				var listens atomic.Bool // the gateway's own session has a stream
				listens.Store(listening)
				s.On["GET"] = func(x *faultyserver.Exchange) {
					if uses.of(x) == "tools/list" { // the gateway's own
						if !listens.CompareAndSwap(true, false) {
							x.Status(http.StatusMethodNotAllowed, "", "")
							return
						}
						x.Begin()
						x.Hold()
						return
					}
					x.Begin()
					for {
						select {
						case <-notice:
							x.Event("", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
						case <-x.R.Context().Done():
							return
						}
					}
				}
				h := gatewaytest.Backends{"b": s}.Open(t, func(cfg *config.Config) { cfg.Limits.CallIdle = -1 })
				time.Sleep(time.Second) // until the first list is known, which is not a change
				ann, bob := h.Legacy(), h.Legacy()
				h.Post(gatewaytest.LegacyRequest("1", "tools/list", ""), bob)
				get := h.Listen(bob)
				if got := h.Post(gatewaytest.LegacyRequest("1", "tools/call", `{"name":"b__x"}`), ann).Body; !strings.Contains(got, `"result"`) {
					t.Errorf("call: %s", got)
				}
				time.Sleep(5 * time.Second)
				fetched := s.Count("tools/list")
				for range 100 {
					notice <- struct{}{}
				}
				time.Sleep(20 * time.Second)
				if n := s.Count("tools/list") - fetched; n == 0 || n > 10 {
					t.Errorf("%d fetches for 100 notices at once, want a few", n)
				}
				fetched = s.Count("tools/list")
				for range 100 {
					notice <- struct{}{}
					time.Sleep(10 * time.Millisecond) // longer than a fetch
				}
				time.Sleep(20 * time.Second)
				if n := s.Count("tools/list") - fetched; n == 0 || n > 10 {
					t.Errorf("%d fetches for 100 notices in a second, want a few", n)
				}
				tools.Store(gatewaytest.ToolList("x", "y"))
				notice <- struct{}{}
				if got := get.Next(); !strings.Contains(got, gatewaytest.ToolsChanged) {
					t.Errorf("heard %s", got)
				}
				gatewaytest.WantEqual(t, "list", h.Post(gatewaytest.LegacyRequest("2", "tools/list", ""), bob).Body, `{"jsonrpc":"2.0","id":2,"result":`+gatewaytest.ToolList("b__x", "b__y")+`}`)
				get.WantSilence(time.Minute)
			})
		})
	}
}
