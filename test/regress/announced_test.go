// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package regress_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// Announced capabilities, and the notifications that they promise.

// listenModern opens a listen for changes of tools.
func listenModern(h *gatewaytest.Gateway, id string, headers ...gatewaytest.Header) *gatewaytest.EventStream {
	h.T.Helper()
	body, hs := gatewaytest.ModernRequest(id, "subscriptions/listen", "", `"notifications":{"toolsListChanged":true},`)
	e := h.Stream(h.Request(h.T.Context(), http.MethodPost, body, append(headers, hs)...))
	if got := e.Next(); !strings.Contains(got, "subscriptions/acknowledged") {
		h.T.Errorf("heard %s first, want the acknowledgement", got)
	}
	return e
}

func inProcess(a *announcer) signalbox.Options {
	return signalbox.Options{InProcess: []signalbox.InProcess{{Name: "a", Handler: a}}}
}

// M173, I33, I35: after the acknowledgement of a listen over HTTP a change arrives on
// its stream, and the next one too.
func TestM173AcknowledgedListenGetsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &announcer{}
		h := gatewaytest.Open(t, config.Config{}, inProcess(a))
		synctest.Wait()
		one, two := listenModern(h, `1`), listenModern(h, `"x"`)
		for range 3 {
			time.Sleep(5 * time.Second)
			a.change()
			for id, e := range map[string]*gatewaytest.EventStream{`1`: one, `"x"`: two} {
				want := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`
				gatewaytest.WantEqual(t, "heard", e.Next(), want)
			}
		}
	})
}

// M175, I32, I22: a list is private unless all its parts are public, and no list is
// fetched on behalf of one client and returned to another.
func TestM175ListsArePrivateUnlessStated(t *testing.T) {
	list := func(scope string) *faultyserver.HTTP {
		s := gatewaytest.ServerWithTools(true, "x")
		s.On["tools/list"] = gatewaytest.ResultHandler(strings.TrimSuffix(gatewaytest.ToolList("x"), "}") + scope + `,"resultType":"complete","ttlMs":60000}`)
		return s
	}
	const public = `,"cacheScope":"public"`
	for _, tt := range []struct {
		name   string
		scopes []string
		want   string
	}{
		{"not stated", []string{""}, `"cacheScope":"private"`},
		{"private", []string{`,"cacheScope":"private"`}, `"cacheScope":"private"`},
		{"public", []string{public, public}, `"cacheScope":"public"`},
		{"one of two", []string{public, ""}, `"cacheScope":"private"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers, all := gatewaytest.Backends{}, []*faultyserver.HTTP{}
				for i, scope := range tt.scopes {
					s := list(scope)
					servers[fmt.Sprint("b", i)], all = s, append(all, s)
				}
				h := servers.Open(t, func(cfg *config.Config) { gatewaytest.WithPrincipals(cfg, "ann", "bob") })
				fetched := all[0].Count("tools/list")
				for _, who := range []string{"ann", "bob", "ann"} {
					got := h.PostModern("1", "tools/list", "", "", gatewaytest.WithToken(who)).Body
					if !strings.Contains(got, tt.want) || !strings.Contains(got, "b0__x") {
						t.Errorf("%s: %s, want %s", who, got, tt.want)
					}
				}
				if n := all[0].Count("tools/list"); n != fetched+1 {
					t.Errorf("%d fetches for the clients' lists, want one for all clients of these capabilities", n-fetched)
				}
				for _, r := range all[0].Seen() {
					if auth := r.Header.Get("Authorization"); auth != "" || strings.Contains(r.Body, "ann") {
						t.Errorf("a list was fetched with %q: %s", auth, r.Body)
					}
				}
			})
		})
	}
}

// M176, I32, I41: a list without a backend that is not known yet must not be cached,
// and is complete as soon as the backend is known.
func TestM176PartialListsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := make(chan struct{})
		late := gatewaytest.ServerWithTools(true, "c")
		late.On["tools/list"] = func(x *faultyserver.Exchange) {
			<-ready
			x.Result(gatewaytest.ToolList("c"))
		}
		kept := func(name string) *faultyserver.HTTP {
			s := gatewaytest.ServerWithTools(true, name)
			s.On["tools/list"] = gatewaytest.ResultHandler(strings.TrimSuffix(gatewaytest.ToolList(name), "}") + `,"resultType":"complete","ttlMs":300000,"cacheScope":"public"}`)
			return s
		}
		h := gatewaytest.Backends{"a": kept("a"), "b": kept("b"), "c": late}.Open(t, nil)
		sess := h.Legacy()
		h.Post(gatewaytest.LegacyRequest("1", "tools/list", ""), sess)
		get := h.Listen(sess)
		got := h.PostModern("1", "tools/list", "", "").Body
		if strings.Contains(got, "c__c") || !strings.Contains(got, "a__a") || !strings.Contains(got, `"ttlMs":0`) {
			t.Errorf("partial list %s, want that of two backends, true for no time", got)
		}
		close(ready)
		if got := get.Next(); !strings.Contains(got, gatewaytest.ToolsChanged) {
			t.Errorf("heard %s, want that there are more tools", got)
		}
		for _, got := range []string{h.PostModern("2", "tools/list", "", "").Body, h.Post(gatewaytest.LegacyRequest("2", "tools/list", ""), sess).Body} {
			if !strings.Contains(got, "a__a") || !strings.Contains(got, "b__b") || !strings.Contains(got, "c__c") {
				t.Errorf("list %s, want that of three backends", got)
			}
		}
	})
}

// M179, I33: in an open session a change of a backend, its recovery, and a change of
// what the configuration offers are each notified once, after the list is new.
func TestM179ChangesBehindAGatewayAreNotified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		sick := gatewaytest.ServerWithTools(true, "s")
		well := sick.On["tools/list"]
		sick.On["tools/list"] = func(x *faultyserver.Exchange) {
			if down.Load() {
				x.Status(http.StatusInternalServerError, "text/plain", "")
				return
			}
			well(x)
		}
		a := &announcer{}
		way := gatewaytest.ServeBackends(t, sick)
		entry := config.Backend{Name: "sick", URL: "http://sick/mcp"}
		cfg := config.Config{Servers: []config.Backend{entry}}
		opt := inProcess(a)
		opt.Transport = way
		h := gatewaytest.Open(t, cfg, opt)
		sess := h.Legacy()
		h.Post(gatewaytest.LegacyRequest("1", "tools/list", ""), sess)
		get := h.Listen(sess)
		time.Sleep(5 * time.Second)
		wantList := func(what string, names ...string) {
			t.Helper()
			if got := get.Next(); !strings.Contains(got, gatewaytest.ToolsChanged) {
				t.Errorf("%s: heard %s", what, got)
			}
			gatewaytest.WantEqual(t, what, h.Post(gatewaytest.LegacyRequest("1", "tools/list", ""), sess).Body, `{"jsonrpc":"2.0","id":1,"result":`+gatewaytest.ToolList(names...)+`}`)
			time.Sleep(2 * time.Minute) // a second notification would arrive before the next
		}
		a.change()
		wantList("a backend's own notice", "a__v1")
		down.Store(false)
		wantList("a backend is well again", "sick__s", "a__v1")
		entry.Exclude = []string{"s"}
		filtered := config.Config{Servers: []config.Backend{entry}}
		if err := h.G.Reload(t.Context(), filtered); err != nil {
			t.Fatal(err)
		}
		wantList("another filter", "a__v1")
		get.WantSilence(time.Minute)
	})
}

// M180, I35: the capabilities at the beginning of a session, before the backends are
// known, hold for all that comes later; and nothing is offered that was not advertised.
//
// V9+ 2025-11-25 basic/lifecycle: "Only use capabilities that were successfully
// negotiated"
func TestM180CapabilitiesHoldForTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := make(chan struct{})
		late := &faultyserver.HTTP{Modern: true, Capabilities: `{"tools":{},"prompts":{}}`, On: map[string]func(*faultyserver.Exchange){}}
		late.On["tools/list"] = func(x *faultyserver.Exchange) {
			<-ready
			x.Result(gatewaytest.ToolList("t"))
		}
		late.On["prompts/list"] = gatewaytest.ResultHandler(`{"prompts":[{"name":"p"}]}`)
		late.On["prompts/get"] = gatewaytest.ResultHandler(`{"messages":[]}`)
		h := gatewaytest.Backends{"late": late}.Open(t, nil)
		early := h.Legacy()
		before := h.PostModern("1", "server/discover", "", "").Body
		close(ready)
		time.Sleep(5 * time.Second)
		after := h.PostModern("1", "server/discover", "", "").Body
		for _, capability := range []string{`"prompts":`, `"tools":`} {
			if !strings.Contains(before, capability) || !strings.Contains(after, capability) {
				t.Errorf("%s is advertised in %s and in %s, want both", capability, before, after)
			}
		}
		gatewaytest.WantEqual(t, "list", h.Post(gatewaytest.LegacyRequest("1", "prompts/list", ""), early).Body, `{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"name":"late__p"}]}}`)
		gatewaytest.WantEqual(t, "get", h.Post(gatewaytest.LegacyRequest("2", "prompts/get", `{"name":"late__p"}`), early).Body, `{"jsonrpc":"2.0","id":2,"result":{"messages":[]}}`)
		// Once it is known that there are no resources, none are advertised, and none
		// listed.
		if strings.Contains(after, `"resources":`) {
			t.Errorf("%s advertises resources", after)
		}
		gatewaytest.WantEqual(t, "no resources", h.Post(gatewaytest.LegacyRequest("3", "resources/list", ""), early).Body, `{"jsonrpc":"2.0","id":3,"result":{"resources":[]}}`)
	})
}

// M181, I35: a gateway in front of one backend and of two, in both eras, announces
// changes and notifies of them, including those that a backend does not announce, which
// it detects when the list is requested.
func TestM181ListChangedIsTrueOfAGateway(t *testing.T) {
	for _, backends := range []int{1, 2} {
		t.Run(fmt.Sprint(backends), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, opt := &announcer{}, signalbox.Options{}
				opt.InProcess = append(opt.InProcess, signalbox.InProcess{Name: "a", Handler: a})
				silent := gatewaytest.ServerWithTools(false, "s")
				silent.Capabilities = `{"tools":{"listChanged":false}}`
				cfg := config.Config{}
				if backends == 2 {
					opt.Transport = gatewaytest.ServeBackends(t, silent)
					cfg.Servers = []config.Backend{{Name: "s", URL: "http://s/mcp"}}
				}
				h := gatewaytest.Open(t, cfg, opt)
				sess := h.Legacy()
				if got := h.PostModern("1", "server/discover", "", "").Body; !strings.Contains(got, `"tools":{"listChanged":true}`) {
					t.Errorf("advertised %s", got)
				}
				h.Post(gatewaytest.LegacyRequest("1", "tools/list", ""), sess)
				get, listen := h.Listen(sess), listenModern(h, "2")
				checkNext := func(what string) {
					t.Helper()
					for _, e := range []*gatewaytest.EventStream{get, listen} {
						if got := e.Next(); !strings.Contains(got, gatewaytest.ToolsChanged) {
							t.Errorf("%s: heard %s", what, got)
						}
					}
				}
				time.Sleep(5 * time.Second)
				a.change()
				checkNext("announced")
				if backends == 2 {
					synctest.Wait() // for requests that read silent
					silent.On["tools/list"] = gatewaytest.ResultHandler(gatewaytest.ToolList("s", "s2"))
					time.Sleep(2 * time.Minute)
					h.Post(gatewaytest.LegacyRequest("3", "tools/list", ""), sess)
					checkNext("found out")
				}
			})
		})
	}
}

// M181, I35: a proxy without a catalog forwards the capabilities of its server: if
// listChanged is false, a notification is not forwarded, and if it is true it is.
func TestM181ListChangedIsThatOfTheServer(t *testing.T) {
	for bit, want := range map[string]bool{"true": true, "false": false} {
		t.Run(bit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				notice := make(chan struct{})
				s := &faultyserver.HTTP{Sessions: true, Capabilities: `{"tools":{"listChanged":` + bit + `}}`, On: map[string]func(*faultyserver.Exchange){}}
				s.On["GET"] = func(x *faultyserver.Exchange) {
					x.Begin()
					select {
					case <-notice:
						x.Event("", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
						x.Hold()
					case <-x.R.Context().Done():
					}
				}
				h := proxy(t, s)
				sess := h.Legacy()
				get := h.Listen(sess)
				synctest.Wait()
				close(notice)
				if !want {
					get.WantSilence(time.Minute)
					return
				}
				if got := get.Next(); !strings.Contains(got, gatewaytest.ToolsChanged) {
					t.Errorf("heard %s", got)
				}
			})
		})
	}
}

// proxy returns a gateway that consists of our server over our client of another
// server, with nothing in between.
func proxy(t *testing.T, upstream http.Handler) *gatewaytest.Gateway {
	t.Helper()
	c := client.NewHTTP("http://b/mcp", client.Config{Name: "b", Transport: gatewaytest.ServeBackends(t, upstream)})
	s := server.New(c, server.Config{})
	ln := memnet.Listen()
	srv := &http.Server{Handler: s}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }() // ends with the Close below, which waits for it
	tr := ln.Transport()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the server: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("closing the client: %v", err)
		}
		tr.CloseIdleConnections()
		srv.Close()
		<-served
	})
	return &gatewaytest.Gateway{T: t, HTTP: &http.Client{Transport: tr}}
}
