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
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

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
				first := true
				s.On["GET"] = func(x *faultyserver.Exchange) {
					if uses.of(x) == "tools/list" { // the gateway's own
						if first = first && listening; !first {
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
