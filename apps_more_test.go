// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

const modelOnly = `"_meta":{"ui":{"visibility":["model"]}}`

// withApp returns the servers "a", which has an app, and "o", which has none.
func withApp() (app, other *appServer, all gatewaytest.Backends) {
	app = newAppServer(false, []string{page("show"), appOnly("refresh")}, []string{page("show"), appOnly("refresh")})
	other = newAppServer(false, nil, nil)
	other.plain = []string{tool("plain", ""), tool("meta", `{"x":1}`)}
	other.ui = other.plain
	return app, other, gatewaytest.Backends{"a": app, "o": other}
}

// The tools of servers without an app, and those of the gateway, are for the model alone in the
// lists of clients that render apps. Nothing else is changed, and not for other clients.
func TestFence(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*config.Config)
		want   map[string]string // by the tool, what is in its definition
	}{
		"by default": {nil, map[string]string{
			"a__show": `"_meta":{"ui":{"resourceUri":"ui://`, "a__refresh": `"_meta":{"ui":{"visibility":["app"]}}}`,
			"o__plain": modelOnly, "o__meta": `"_meta":{"x":1,"ui":{"visibility":["model"]}}`,
		}},
		"without it": {func(cfg *config.Config) { cfg.Apps.Fence = new(bool) }, map[string]string{
			"a__show": `"_meta":{"ui":{"resourceUri":"ui://`, "a__refresh": `["app"]`,
			"o__plain": `{"name":"o__plain","inputSchema":{"type":"object"}}`, "o__meta": `"_meta":{"x":1}}`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, _, all := withApp()
				h := all.Open(t, tt.change)
				for _, v := range []mcp.Version{mcp.V20251125, mcp.V20260728} {
					tools := openAs(h, v, rendering).list()
					for tool, want := range tt.want {
						if !strings.Contains(tools[tool], want) {
							t.Errorf("%s: %s, want %s", tool, tools[tool], want)
						}
					}
					plain := openAs(h, v, `{}`).list()
					for _, tool := range []string{"o__plain", "o__meta"} {
						if strings.Contains(plain[tool], "visibility") {
							t.Errorf("another client is shown %s", plain[tool])
						}
					}
				}
			})
		})
	}
}

// In a search view, tools with a page stay listed for clients that render apps, and tools for
// apps alone are neither found nor called by the tools of the gateway.
func TestAppsInASearchView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, _, all := withApp()
		h := all.Open(t, nil).At("search")
		host, plain := openAs(h, mcp.V20251125, rendering), openAs(h, mcp.V20251125, `{}`)
		plain.wantNames("find_tool", "call_tool")
		host.wantNames("find_tool", "call_tool", "a__show", "a__refresh")
		tools := host.list()
		for _, own := range []string{"find_tool", "call_tool"} {
			if !strings.Contains(tools[own], modelOnly) {
				t.Errorf("%s", tools[own])
			}
			if other := plain.list()[own]; strings.Contains(other, "visibility") {
				t.Errorf("another client is shown %s", other)
			}
		}
		if got := host.request("tools/call", "find_tool", `"arguments":{"query":"refresh show","limit":10}`); strings.Contains(got, "a__refresh") || !strings.Contains(got, "a__show") {
			t.Errorf("found: %s", got)
		}
		for _, name := range []string{"a__refresh", "refresh", "show"} {
			if got := host.request("tools/call", "call_tool", `"arguments":{"name":"`+name+`"}`); !strings.Contains(got, "there is no tool") || strings.Contains(got, "nearest are a__refresh") {
				t.Errorf("call_tool of %s: %s", name, got)
			}
		}
		if n := app.Count("tools/call"); n != 0 {
			t.Errorf("%d calls were sent", n)
		}
		host.wantCalled("refresh", "refresh of a")
	})
}

// With apps: false, for all or for one server, nothing about apps is offered; a reload applies
// it, and turns it on again.
func TestAppsOff(t *testing.T) {
	no := false
	for name, off := range map[string]func(*config.Config){
		"all":        func(cfg *config.Config) { cfg.Apps.Off = true },
		"one server": func(cfg *config.Config) { cfg.Servers[0].Apps = &no },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				app, _, all := withApp()
				app.On["resources/list"] = gatewaytest.ResultHandler(`{"resources":[{"uri":"ui://show","name":"s"},{"uri":"x:y","name":"y"}]}`)
				app.On["resources/read"] = gatewaytest.ResultHandler(`{"contents":[{"uri":"ui://show","text":"<html>"}]}`)
				app.ui[0] = tool("show", `{"ui":{"resourceUri":"ui://show"},"ui/resourceUri":"ui://show","openai/outputTemplate":"ui://show","x":1}`)
				app.plain = app.ui
				on := config.Config{Servers: []config.Backend{{Name: "a", URL: "http://a/mcp"}, {Name: "o", URL: "http://o/mcp"}}}
				h := all.Open(t, nil)
				without := on
				without.Servers = append([]config.Backend(nil), on.Servers...)
				off(&without)
				for _, cfg := range []config.Config{without, on, without} {
					if err := h.G.Reload(t.Context(), cfg); err != nil {
						t.Fatal(err)
					}
					time.Sleep(5 * time.Second)
					isOff := cfg.Apps.Off || cfg.Servers[0].Apps != nil
					host := openAs(h, mcp.V20251125, rendering)
					tools := host.list()
					page, refresh := tools["a__show"], tools["a__refresh"]
					if has := strings.Contains(page, "ui://a/show"); has == isOff || strings.Contains(page, `"x":1`) == false {
						t.Errorf("off %t: %s", isOff, page)
					}
					if (refresh == "") != isOff {
						t.Errorf("off %t: the tool for apps is %q", isOff, refresh)
					}
					list := host.request("resources/list", "", "")
					read := host.request("resources/read", "", `"uri":"ui://a/show"`) + host.request("resources/read", "", `"uri":"ui://show"`)
					if strings.Contains(list, "ui://a/show") == isOff || !strings.Contains(list, "x:y") {
						t.Errorf("off %t: %s", isOff, list)
					}
					if strings.Contains(read, "html") == isOff {
						t.Errorf("off %t: read %s", isOff, read)
					}
					if isOff {
						host.wantUnknown("show")
						host.wantUnknown("refresh")
						host.wantUnknown("a__refresh")
						if strings.Contains(host.hello, "io.modelcontextprotocol/ui") == cfg.Apps.Off {
							t.Errorf("declared: %s", host.hello)
						}
						continue
					}
					host.wantCalled("refresh", "refresh of a")
				}
			})
		})
	}
}

// The lists for clients that render apps are requested once, and only of a server that has an
// app, or is configured to have one.
func TestSecondListsAreOfServersWithAnApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, other, all := withApp()
		shy := newAppServer(false, []string{tool("text", "")}, []string{page("shown")})
		declares := newAppServer(true, []string{tool("text", "")}, []string{page("shown")})
		declares.Capabilities = `{"tools":{},"extensions":{"io.modelcontextprotocol/ui":{}}}`
		all["s"], all["d"] = shy, declares
		yes := true
		h := all.Open(t, func(cfg *config.Config) {
			for i := range cfg.Servers {
				if cfg.Servers[i].Name == "s" {
					cfg.Servers[i].Apps = &yes
				}
			}
		})
		full := `{"roots":{},"sampling":{},"elicitation":{"form":{},"url":{}},` + uiExtension + `}`
		lists := func() (n [4]int) {
			for i, s := range []*appServer{app, other, shy, declares} {
				n[i] = s.Count("tools/list")
			}
			return n
		}
		before := lists()
		for range 3 {
			openAs(h, mcp.V20251125, full).wantNames("a__show", "a__refresh", "o__plain", "o__meta", "s__shown", "d__shown")
		}
		after := lists()
		if got, want := after, [4]int{before[0] + 1, before[1], before[2] + 1, before[3] + 1}; got != want {
			t.Errorf("lists were requested %v times, want %v", got, want)
		}
		openAs(h, mcp.V20251125, fullCapabilities).wantNames("a__show", "o__plain", "o__meta", "s__text", "d__text")
		if got := lists(); got != after {
			t.Errorf("for another client, lists were requested %v times, want %v", got, after)
		}
	})
}

// With share, a modern server has lists of its own for clients that render apps, and one with sessions has the same for all:
// its only session is that of other clients.
func TestSecondListsOfASharedServer(t *testing.T) {
	eraCells(t, func(t *testing.T, v mcp.Version, modern bool) {
		s := newAppServer(modern, []string{page("show"), tool("text", "")}, []string{page("show"), page("more")})
		h := gatewaytest.Backends{"b": s}.Open(t, func(cfg *config.Config) { cfg.Servers[0].Share = true })
		host, plain := openAs(h, v, rendering), openAs(h, v, `{}`)
		plain.wantNames("b__show", "b__text")
		if modern {
			host.wantNames("b__show", "b__more")
			host.wantCalled("b__more", "more of b, renders true")
		} else {
			host.wantNames("b__show", "b__text")
			host.wantCalled("b__text", "text of b, renders false")
		}
		plain.wantCalled("b__text", "text of b, renders false")
		all := h.G.Definitions()
		h.G.ReadAppTools(t.Context(), all)
		if n := len(all.Items); modern != (n == 3) || !modern && n != 2 {
			t.Errorf("its definitions are %+v", all.Items)
		}
	})
}

// A client that renders apps is notified when the lists for such clients change, also if the
// others do not.
func TestListChangesForClientsThatRenderApps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, _, all := withApp()
		changed := make(chan struct{})
		app.On["GET"] = func(x *faultyserver.Exchange) {
			x.Begin()
			for {
				select {
				case <-changed:
					x.Event("", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				case <-x.R.Context().Done():
					return
				}
			}
		}
		way := gatewaytest.ServeBackends(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { all[r.Host].ServeHTTP(w, r) }))
		cfg := config.Config{Servers: []config.Backend{{Name: "a", URL: "http://a/mcp"}, {Name: "o", URL: "http://o/mcp"}}}
		h := gatewaytest.Open(t, cfg, signalbox.Options{Transport: way, ListsFolder: t.TempDir()})
		host := openAs(h, mcp.V20251125, rendering)
		host.wantNames("a__show", "a__refresh", "o__plain", "o__meta")
		stream := h.Listen(host.session)
		time.Sleep(5 * time.Second)
		app.mu.Lock()
		app.ui = append(app.ui, page("new"))
		app.mu.Unlock()
		changed <- struct{}{}
		if got := stream.Next(); !strings.Contains(got, "tools/list_changed") {
			t.Errorf("received %s", got)
		}
		host.wantNames("a__show", "a__refresh", "a__new", "o__plain", "o__meta")
		host.wantCalled("new", "new of a")
	})
}

// An own name is judged by the policy as the listed name is. A hidden tool does not exist: it is
// neither called nor makes the name one of several. The record has the listed name.
func TestOwnNamesAndPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		tools := []string{page("show"), appOnly("refresh")}
		a, b := newAppServer(false, tools, tools), newAppServer(true, tools, tools)
		h := gatewaytest.Backends{"a": a, "b": b}.Open(t, func(cfg *config.Config) {
			gatewaytest.WithPrincipals(cfg, "ann", "bob", "eve")
			cfg.Audit.File = path
			cfg.Policy = config.Policy{Otherwise: config.PolicyDeny, Rules: []config.PolicyRule{
				{Name: "ann", Allow: `principal.name == "ann"`, On: []string{"a__*"}},
				{Name: "bob", Allow: `principal.name == "bob"`},
				{Name: "args", Deny: `has(args.env) && args.env == "prod"`, On: []string{"a__refresh"}},
			}}
		})
		ann := openAs(h, mcp.V20251125, rendering, gatewaytest.WithToken("ann"))
		bob := openAs(h, mcp.V20260728, rendering, gatewaytest.WithToken("bob"))
		eve := openAs(h, mcp.V20260728, rendering, gatewaytest.WithToken("eve"))
		ann.wantCalled("show", "show of a")
		ann.wantCalled("refresh", "refresh of a")
		if got := bob.call("show"); !strings.Contains(got, "2 servers here (a__show, b__show)") {
			t.Errorf("both are visible: %s", got)
		}
		eve.wantUnknown("show")
		calls := a.Count("tools/call")
		if got := ann.request("tools/call", "refresh", `"arguments":{"env":"prod"}`); !strings.Contains(got, "policy args does not allow these arguments") {
			t.Errorf("arguments that the policy forbids: %s", got)
		}
		if a.Count("tools/call") != calls || b.Count("tools/call") != 0 {
			t.Error("a call that is not allowed was sent")
		}
		if err := h.G.Close(); err != nil {
			t.Fatal(err)
		}
		record := readFile(t, path)
		for _, want := range []string{
			`"method":"tools/call","name":"a__show","named":"own","backend":"a","outcome":"ok"`,
			`"decision":"denied","rule":"args"`,
		} {
			if !strings.Contains(record, want) {
				t.Errorf("the record has no %s:\n%s", want, record)
			}
		}
	})
}

// A name that an app has called is never that of another server's tool in one configuration
// (C10). It becomes refused, unless its caller does not see the tool that had it.
func TestOwnNameNeverMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAppServer(false, []string{page("show"), page("other")}, nil)
		b := newAppServer(false, []string{page("mine")}, nil)
		a.ui, b.ui = a.plain, b.plain
		h := gatewaytest.Backends{"a": a, "b": b}.Open(t, func(cfg *config.Config) {
			gatewaytest.WithPrincipals(cfg, "ann", "bob")
			cfg.Policy = config.Policy{Otherwise: config.PolicyDeny, Rules: []config.PolicyRule{
				{Name: "ann", Allow: `principal.name == "ann"`},
				{Name: "bob", Allow: `principal.name == "bob"`, On: []string{"b__*"}},
			}}
		})
		ann := openAs(h, mcp.V20260728, rendering, gatewaytest.WithToken("ann"))
		bob := openAs(h, mcp.V20260728, rendering, gatewaytest.WithToken("bob"))
		ann.wantCalled("show", "show of a")
		a.set(page("other"))
		b.set(page("show"))
		time.Sleep(2 * time.Minute) // neither announces changes: the lists expire
		ann.list()
		time.Sleep(5 * time.Second)
		ann.wantNames("a__other", "b__show")
		if got := ann.call("show"); !strings.Contains(got, `2 servers here (a__show, b__show)`) {
			t.Errorf("the name of another server's tool: %s", got)
		}
		bob.wantCalled("show", "show of b")
		if got := ann.call("show"); !strings.Contains(got, `2 servers here (a__show, b__show)`) {
			t.Errorf("after another caller: %s", got)
		}
	})
}

// A name that an app has called is not that of a tool which is listed by it later (C10).
func TestOwnNameIsNotTakenByAListedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, other, all := withApp()
		h := all.Open(t, func(cfg *config.Config) { cfg.Servers[1].Prefix = new("") })
		host, plain := openAs(h, mcp.V20260728, rendering), openAs(h, mcp.V20260728, `{}`)
		host.wantCalled("show", "show of a")
		other.set(tool("plain", ""), tool("show", ""), tool("refresh", ""))
		time.Sleep(2 * time.Minute)
		plain.list()
		time.Sleep(5 * time.Second)
		plain.wantCalled("show", "show of o")
		if got := host.call("show"); !strings.Contains(got, `2 servers here (a__show, show)`) {
			t.Errorf("the name of another server's tool: %s", got)
		}
		host.wantCalled("plain", "plain of o")
		host.wantCalled("refresh", "refresh of o") // no app has called it
	})
}

// An app that calls before all servers are known waits for those that may have an app, as a
// call of a shared name does.
func TestOwnNameWaitsForServers(t *testing.T) {
	for name, tt := range map[string]struct {
		slow []string // the tools of the slow server
		want string
	}{
		"it has the name, too": {[]string{page("show")}, "2 servers here"},
		"it has another":       {[]string{page("other")}, "show of a"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, s := newAppServer(false, []string{page("show")}, []string{page("show")}), newAppServer(false, tt.slow, tt.slow)
				start := s.On["initialize"]
				s.On["initialize"] = func(x *faultyserver.Exchange) {
					time.Sleep(2 * time.Second)
					start(x)
				}
				h := gatewaytest.Backends{"a": a, "s": s}.Open(t, nil)
				began := time.Now()
				got := openAs(h, mcp.V20260728, rendering).call("show")
				if took := time.Since(began); !strings.Contains(got, tt.want) || took < 2*time.Second {
					t.Errorf("after %v: %s", took, got)
				}
			})
		})
	}
}

// The only client of a gateway has the lists that are for it.
func TestOnlyClientRendersApps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, renders := range []bool{true, false} {
			s := newAppServer(false, []string{page("show"), appOnly("refresh"), tool("text", "")}, []string{page("show"), appOnly("refresh")})
			cfg := config.Config{Servers: []config.Backend{{Name: "a", URL: "http://a/mcp"}}}
			h := gatewaytest.Open(t, cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, s), OneClient: true})
			if !renders {
				c := openAs(h, mcp.V20251125, `{}`)
				c.wantNames("a__show", "a__text")
				c.wantUnknown("refresh")
				continue
			}
			c := openAs(h, mcp.V20251125, rendering)
			c.wantNames("a__show", "a__refresh")
			c.wantCalled("refresh", "refresh of a, renders true")
		}
	})
}

// Users of a server that lists only for them have its app, each its own.
func TestAppsOfUsers(t *testing.T) {
	for _, era := range eras {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk()
			d.meta = map[string]string{"show": `{"ui":{"resourceUri":"ui://show"}}`, "refresh": `{"ui":{"visibility":["app"]}}`}
			d.give("ann", "show", "refresh")
			d.give("bob", "show")
			u := openUsers(t, d, era, nil)
			u.signIn("ann")
			u.signIn("bob")
			ann := openAs(u.Gateway, mcp.V20260728, rendering, gatewaytest.WithToken("ann"))
			bob := openAs(u.Gateway, mcp.V20260728, rendering, gatewaytest.WithToken("bob"))
			plain := openAs(u.Gateway, mcp.V20260728, `{}`, gatewaytest.WithToken("ann"))
			ann.wantNames("crm__show", "crm__refresh", "wiki__read")
			bob.wantNames("crm__show", "wiki__read")
			plain.wantNames("crm__show", "wiki__read")
			ann.wantCalled("refresh", "refresh by ann")
			bob.wantCalled("show", "show by bob")
			bob.wantUnknown("refresh")
			plain.wantUnknown("refresh")
			if got := ann.list()["wiki__read"]; !strings.Contains(got, modelOnly) {
				t.Errorf("%s: %s", era, got)
			}
		})
	}
}

// A session to which a server adds an app has it, and another one has not.
func TestAppOfOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGrowing()
		list := s.On["tools/list"]
		s.On["tools/list"] = func(x *faultyserver.Exchange) {
			s.mu.Lock()
			grown := s.grown[x.R.Header.Get("Mcp-Session-Id")]
			s.mu.Unlock()
			if !grown {
				list(x)
				return
			}
			x.Result(`{"tools":[` + tool("grow", "") + `,` + page("grown") + `,` + appOnly("tick") + `]}`)
		}
		h := gatewaytest.Backends{"b": s}.Open(t, nil)
		full := strings.TrimSuffix(fullCapabilities, "}") + `,` + uiExtension + `}`
		host, other, plain := openAs(h, mcp.V20251125, full), openAs(h, mcp.V20251125, full), openAs(h, mcp.V20251125, fullCapabilities)
		host.wantNames("b__grow", "b__ask")
		host.call("b__grow")
		plain.call("b__grow")
		host.wantNames("b__grow", "b__grown", "b__tick")
		if got := host.call("tick"); !strings.Contains(got, `"content":[]`) {
			t.Errorf("called by the app: %s", got)
		}
		plain.wantNames("b__grow", "b__grown")
		other.wantNames("b__grow", "b__ask")
		other.wantUnknown("tick")
	})
}

// A server that declares the extension and has no tool with a page, such as another gateway, has
// no app: its own names are unknown, and its tools are for the model alone.
func TestServerThatDeclaresAppsAndHasNone(t *testing.T) {
	eraCells(t, func(t *testing.T, v mcp.Version, modern bool) {
		_, _, all := withApp()
		s := newAppServer(modern, []string{tool("echo", "")}, []string{tool("echo", "")})
		s.Capabilities = `{"tools":{},"extensions":{"io.modelcontextprotocol/ui":{}}}`
		all["d"] = s
		host := openAs(all.Open(t, nil), v, rendering)
		if got := host.list()["d__echo"]; !strings.Contains(got, modelOnly) {
			t.Errorf("listed: %s", got)
		}
		host.wantUnknown("echo")
		host.wantCalled("refresh", "refresh of a")
	})
}
