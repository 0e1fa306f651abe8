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
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// What is said to be told, and what is told of it.

// listenModern opens a listen for changes of tools.
func (h *house) listenModern(id string, headers ...said) *ears {
	h.t.Helper()
	body, hs := modernly(id, "subscriptions/listen", "", `"notifications":{"toolsListChanged":true},`)
	e := h.stream(h.request(h.t.Context(), http.MethodPost, body, append(headers, hs)...))
	if got := e.next(); !strings.Contains(got, "subscriptions/acknowledged") {
		h.t.Errorf("heard %s first, want the acknowledgement", got)
	}
	return e
}

func inHouse(a *announcer) signalbox.Options {
	return signalbox.Options{InProcess: []signalbox.InProcess{{Name: "a", Handler: a}}}
}

// M173, I33, I35: after the acknowledgement of a listen over HTTP a change comes on
// its stream, and the next one too.
func TestM173AcknowledgedListenHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &announcer{}
		h := openHouse(t, signalbox.Config{}, inHouse(a))
		synctest.Wait()
		one, two := h.listenModern(`1`), h.listenModern(`"x"`)
		for range 3 {
			time.Sleep(5 * time.Second)
			a.change()
			for id, e := range map[string]*ears{`1`: one, `"x"`: two} {
				want := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`
				same(t, "heard", e.next(), want)
			}
		}
	})
}

// M175, I32, I22: a list is private unless all who have a part in it say that it is
// not, and nobody's list is fetched on behalf of one and given to another.
func TestM175ListsArePrivateUnlessStated(t *testing.T) {
	list := func(scope string) *faultyserver.HTTP {
		s := stocked(true, "x")
		s.On["tools/list"] = answers(strings.TrimSuffix(toolList("x"), "}") + scope + `,"resultType":"complete","ttlMs":60000}`)
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
				servers, all := behind{}, []*faultyserver.HTTP{}
				for i, scope := range tt.scopes {
					s := list(scope)
					servers[fmt.Sprint("b", i)], all = s, append(all, s)
				}
				h := servers.open(t, func(cfg *signalbox.Config) { withPrincipals(cfg, "ann", "bob") })
				fetched := all[0].Count("tools/list")
				for _, who := range []string{"ann", "bob", "ann"} {
					got := h.postModern("1", "tools/list", "", "", as(who)).body
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

// M176, I32, I41: a list in which a backend is still missing may not be kept by
// anybody, and is complete as soon as the backend is there.
func TestM176PartialListsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := make(chan struct{})
		late := stocked(true, "c")
		late.On["tools/list"] = func(x *faultyserver.Exchange) {
			<-ready
			x.Result(toolList("c"))
		}
		kept := func(name string) *faultyserver.HTTP {
			s := stocked(true, name)
			s.On["tools/list"] = answers(strings.TrimSuffix(toolList(name), "}") + `,"resultType":"complete","ttlMs":300000,"cacheScope":"public"}`)
			return s
		}
		h := behind{"a": kept("a"), "b": kept("b"), "c": late}.open(t, nil)
		sess := h.legacy()
		h.post(asks("1", "tools/list", ""), sess)
		get := h.listen(sess)
		got := h.postModern("1", "tools/list", "", "").body
		if strings.Contains(got, "c__c") || !strings.Contains(got, "a__a") || !strings.Contains(got, `"ttlMs":0`) {
			t.Errorf("partial list %s, want that of two backends, true for no time", got)
		}
		close(ready)
		if got := get.next(); !strings.Contains(got, toolsChanged) {
			t.Errorf("heard %s, want that there are more tools", got)
		}
		for _, got := range []string{h.postModern("2", "tools/list", "", "").body, h.post(asks("2", "tools/list", ""), sess).body} {
			if !strings.Contains(got, "a__a") || !strings.Contains(got, "b__b") || !strings.Contains(got, "c__c") {
				t.Errorf("list %s, want that of three backends", got)
			}
		}
	})
}

// M179, I33: in an open session a change of a backend, its recovery, and a change of
// what the configuration lets through are each told once, after the list is new.
func TestM179ChangesBehindAGatewayAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		sick := stocked(true, "s")
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
		entry := signalbox.Backend{Name: "sick", URL: "http://sick/mcp"}
		cfg := signalbox.Config{Servers: []signalbox.Backend{entry}}
		opt := inHouse(a)
		opt.Transport = way
		h := openHouse(t, cfg, opt)
		sess := h.legacy()
		h.post(asks("1", "tools/list", ""), sess)
		get := h.listen(sess)
		time.Sleep(5 * time.Second)
		wantList := func(what string, names ...string) {
			t.Helper()
			if got := get.next(); !strings.Contains(got, toolsChanged) {
				t.Errorf("%s: heard %s", what, got)
			}
			same(t, what, h.post(asks("1", "tools/list", ""), sess).body, `{"jsonrpc":"2.0","id":1,"result":`+toolList(names...)+`}`)
			time.Sleep(2 * time.Minute) // a second notice would be heard before the next
		}
		a.change()
		wantList("a backend's own notice", "a__v1")
		down.Store(false)
		wantList("a backend is well again", "sick__s", "a__v1")
		entry.Exclude = []string{"s"}
		filtered := signalbox.Config{Servers: []signalbox.Backend{entry}}
		if err := h.g.Reload(t.Context(), filtered); err != nil {
			t.Fatal(err)
		}
		wantList("another filter", "a__v1")
		get.silent(time.Minute)
	})
}

// M180, I35: what a session is told at its beginning, before the backends are known,
// holds for all that comes later; and nothing is offered that was not advertised.
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
		late.On["prompts/list"] = answers(`{"prompts":[{"name":"p"}]}`)
		late.On["prompts/get"] = answers(`{"messages":[]}`)
		h := behind{"late": late}.open(t, nil)
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
		same(t, "list", h.post(asks("1", "prompts/list", ""), early).body, `{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"name":"late__p"}]}}`)
		same(t, "get", h.post(asks("2", "prompts/get", `{"name":"late__p"}`), early).body, `{"jsonrpc":"2.0","id":2,"result":{"messages":[]}}`)
		// Once it is known that there are no resources, none are advertised, and none listed.
		if strings.Contains(after, `"resources":`) {
			t.Errorf("%s advertises resources", after)
		}
		same(t, "no resources", h.post(asks("3", "resources/list", ""), early).body, `{"jsonrpc":"2.0","id":3,"result":{"resources":[]}}`)
	})
}

// M181, I35: through a gateway, in front of one backend and of two, in both eras: it
// says that changes are told, and tells them, also those that a backend does not
// announce, which it finds out when the list is asked for.
func TestM181ListChangedIsTrueOfAGateway(t *testing.T) {
	for _, backends := range []int{1, 2} {
		t.Run(fmt.Sprint(backends), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, opt := &announcer{}, signalbox.Options{}
				opt.InProcess = append(opt.InProcess, signalbox.InProcess{Name: "a", Handler: a})
				silent := stocked(false, "s")
				silent.Capabilities = `{"tools":{"listChanged":false}}`
				cfg := signalbox.Config{}
				if backends == 2 {
					opt.Transport = serveBackends(t, silent)
					cfg.Servers = []signalbox.Backend{{Name: "s", URL: "http://s/mcp"}}
				}
				h := openHouse(t, cfg, opt)
				sess := h.legacy()
				if got := h.postModern("1", "server/discover", "", "").body; !strings.Contains(got, `"tools":{"listChanged":true}`) {
					t.Errorf("advertised %s", got)
				}
				h.post(asks("1", "tools/list", ""), sess)
				get, listen := h.listen(sess), h.listenModern("2")
				hear := func(what string) {
					t.Helper()
					for _, e := range []*ears{get, listen} {
						if got := e.next(); !strings.Contains(got, toolsChanged) {
							t.Errorf("%s: heard %s", what, got)
						}
					}
				}
				time.Sleep(5 * time.Second)
				a.change()
				hear("announced")
				if backends == 2 {
					synctest.Wait() // for requests that read silent
					silent.On["tools/list"] = answers(toolList("s", "s2"))
					time.Sleep(2 * time.Minute)
					h.post(asks("3", "tools/list", ""), sess)
					hear("found out")
				}
			})
		})
	}
}

// M181, I35: a proxy without a catalog passes on what its server says of itself: where
// that is "no", a notice that comes all the same is not passed on, and where it is
// "yes" it is.
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
					get.silent(time.Minute)
					return
				}
				if got := get.next(); !strings.Contains(got, toolsChanged) {
					t.Errorf("heard %s", got)
				}
			})
		})
	}
}

// proxy returns a house that is our server over our client of another server, and
// nothing in between.
func proxy(t *testing.T, behind http.Handler) *house {
	t.Helper()
	c := client.NewHTTP("http://b/mcp", client.Config{Name: "b", Transport: serveBackends(t, behind)})
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
	return &house{t: t, http: &http.Client{Transport: tr}}
}
