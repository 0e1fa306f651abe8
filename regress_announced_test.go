// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

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
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// Announced capabilities, and the notifications that they promise.

// listenModern opens a listen for changes of tools.
func (h *gateway) listenModern(id string, headers ...header) *eventStream {
	h.t.Helper()
	body, hs := modernRequest(id, "subscriptions/listen", "", `"notifications":{"toolsListChanged":true},`)
	e := h.stream(h.request(h.t.Context(), http.MethodPost, body, append(headers, hs)...))
	if got := e.next(); !strings.Contains(got, "subscriptions/acknowledged") {
		h.t.Errorf("heard %s first, want the acknowledgement", got)
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
		h := openGateway(t, config.Config{}, inProcess(a))
		synctest.Wait()
		one, two := h.listenModern(`1`), h.listenModern(`"x"`)
		for range 3 {
			time.Sleep(5 * time.Second)
			a.change()
			for id, e := range map[string]*eventStream{`1`: one, `"x"`: two} {
				want := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`
				wantEqual(t, "heard", e.next(), want)
			}
		}
	})
}

// M175, I32, I22: a list is private unless all its parts are public, and no list is
// fetched on behalf of one client and returned to another.
func TestM175ListsArePrivateUnlessStated(t *testing.T) {
	list := func(scope string) *faultyserver.HTTP {
		s := serverWithTools(true, "x")
		s.On["tools/list"] = resultHandler(strings.TrimSuffix(toolList("x"), "}") + scope + `,"resultType":"complete","ttlMs":60000}`)
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
				servers, all := backends{}, []*faultyserver.HTTP{}
				for i, scope := range tt.scopes {
					s := list(scope)
					servers[fmt.Sprint("b", i)], all = s, append(all, s)
				}
				h := servers.open(t, func(cfg *config.Config) { withPrincipals(cfg, "ann", "bob") })
				fetched := all[0].Count("tools/list")
				for _, who := range []string{"ann", "bob", "ann"} {
					got := h.postModern("1", "tools/list", "", "", withToken(who)).body
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
		late := serverWithTools(true, "c")
		late.On["tools/list"] = func(x *faultyserver.Exchange) {
			<-ready
			x.Result(toolList("c"))
		}
		kept := func(name string) *faultyserver.HTTP {
			s := serverWithTools(true, name)
			s.On["tools/list"] = resultHandler(strings.TrimSuffix(toolList(name), "}") + `,"resultType":"complete","ttlMs":300000,"cacheScope":"public"}`)
			return s
		}
		h := backends{"a": kept("a"), "b": kept("b"), "c": late}.open(t, nil)
		sess := h.legacy()
		h.post(legacyRequest("1", "tools/list", ""), sess)
		get := h.listen(sess)
		got := h.postModern("1", "tools/list", "", "").body
		if strings.Contains(got, "c__c") || !strings.Contains(got, "a__a") || !strings.Contains(got, `"ttlMs":0`) {
			t.Errorf("partial list %s, want that of two backends, true for no time", got)
		}
		close(ready)
		if got := get.next(); !strings.Contains(got, toolsChanged) {
			t.Errorf("heard %s, want that there are more tools", got)
		}
		for _, got := range []string{h.postModern("2", "tools/list", "", "").body, h.post(legacyRequest("2", "tools/list", ""), sess).body} {
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
		sick := serverWithTools(true, "s")
		well := sick.On["tools/list"]
		sick.On["tools/list"] = func(x *faultyserver.Exchange) {
			if down.Load() {
				x.Status(http.StatusInternalServerError, "text/plain", "")
				return
			}
			well(x)
		}
		a := &announcer{}
		way := serveBackends(t, sick)
		entry := config.Backend{Name: "sick", URL: "http://sick/mcp"}
		cfg := config.Config{Servers: []config.Backend{entry}}
		opt := inProcess(a)
		opt.Transport = way
		h := openGateway(t, cfg, opt)
		sess := h.legacy()
		h.post(legacyRequest("1", "tools/list", ""), sess)
		get := h.listen(sess)
		time.Sleep(5 * time.Second)
		wantList := func(what string, names ...string) {
			t.Helper()
			if got := get.next(); !strings.Contains(got, toolsChanged) {
				t.Errorf("%s: heard %s", what, got)
			}
			wantEqual(t, what, h.post(legacyRequest("1", "tools/list", ""), sess).body, `{"jsonrpc":"2.0","id":1,"result":`+toolList(names...)+`}`)
			time.Sleep(2 * time.Minute) // a second notification would arrive before the next
		}
		a.change()
		wantList("a backend's own notice", "a__v1")
		down.Store(false)
		wantList("a backend is well again", "sick__s", "a__v1")
		entry.Exclude = []string{"s"}
		filtered := config.Config{Servers: []config.Backend{entry}}
		if err := h.g.Reload(t.Context(), filtered); err != nil {
			t.Fatal(err)
		}
		wantList("another filter", "a__v1")
		get.wantSilence(time.Minute)
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
			x.Result(toolList("t"))
		}
		late.On["prompts/list"] = resultHandler(`{"prompts":[{"name":"p"}]}`)
		late.On["prompts/get"] = resultHandler(`{"messages":[]}`)
		h := backends{"late": late}.open(t, nil)
		early := h.legacy()
		before := h.postModern("1", "server/discover", "", "").body
		close(ready)
		time.Sleep(5 * time.Second)
		after := h.postModern("1", "server/discover", "", "").body
		for _, capability := range []string{`"prompts":`, `"tools":`} {
			if !strings.Contains(before, capability) || !strings.Contains(after, capability) {
				t.Errorf("%s is advertised in %s and in %s, want both", capability, before, after)
			}
		}
		wantEqual(t, "list", h.post(legacyRequest("1", "prompts/list", ""), early).body, `{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"name":"late__p"}]}}`)
		wantEqual(t, "get", h.post(legacyRequest("2", "prompts/get", `{"name":"late__p"}`), early).body, `{"jsonrpc":"2.0","id":2,"result":{"messages":[]}}`)
		// Once it is known that there are no resources, none are advertised, and none
		// listed.
		if strings.Contains(after, `"resources":`) {
			t.Errorf("%s advertises resources", after)
		}
		wantEqual(t, "no resources", h.post(legacyRequest("3", "resources/list", ""), early).body, `{"jsonrpc":"2.0","id":3,"result":{"resources":[]}}`)
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
				silent := serverWithTools(false, "s")
				silent.Capabilities = `{"tools":{"listChanged":false}}`
				cfg := config.Config{}
				if backends == 2 {
					opt.Transport = serveBackends(t, silent)
					cfg.Servers = []config.Backend{{Name: "s", URL: "http://s/mcp"}}
				}
				h := openGateway(t, cfg, opt)
				sess := h.legacy()
				if got := h.postModern("1", "server/discover", "", "").body; !strings.Contains(got, `"tools":{"listChanged":true}`) {
					t.Errorf("advertised %s", got)
				}
				h.post(legacyRequest("1", "tools/list", ""), sess)
				get, listen := h.listen(sess), h.listenModern("2")
				checkNext := func(what string) {
					t.Helper()
					for _, e := range []*eventStream{get, listen} {
						if got := e.next(); !strings.Contains(got, toolsChanged) {
							t.Errorf("%s: heard %s", what, got)
						}
					}
				}
				time.Sleep(5 * time.Second)
				a.change()
				checkNext("announced")
				if backends == 2 {
					synctest.Wait() // for requests that read silent
					silent.On["tools/list"] = resultHandler(toolList("s", "s2"))
					time.Sleep(2 * time.Minute)
					h.post(legacyRequest("3", "tools/list", ""), sess)
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
				sess := h.legacy()
				get := h.listen(sess)
				synctest.Wait()
				close(notice)
				if !want {
					get.wantSilence(time.Minute)
					return
				}
				if got := get.next(); !strings.Contains(got, toolsChanged) {
					t.Errorf("heard %s", got)
				}
			})
		})
	}
}

// proxy returns a gateway that consists of our server over our client of another
// server, with nothing in between.
func proxy(t *testing.T, upstream http.Handler) *gateway {
	t.Helper()
	c := client.NewHTTP("http://b/mcp", client.Config{Name: "b", Transport: serveBackends(t, upstream)})
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
	return &gateway{t: t, http: &http.Client{Transport: tr}}
}
