// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/pins"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// Invariant C2, and row 16: a tool of the gateway that a rule hides from a sender is not listed and is unknown, and
// the rest of the list is whole. The parts of it can still be called.
func TestOwnToolsFollowThePolicy(t *testing.T) {
	rules := config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{
		{Name: "no-calls", Deny: `principal.name == "bob"`, On: []string{"call_tool"}},
		{Name: "no-gets", Deny: `principal.name == "cid"`, On: []string{"office__get"}},
	}}
	g, o := withPolicy(t, rules, nil)
	inSearch := func(who, method, params string) string {
		req := requestOf(t, person(who, "staff"), method, params)
		req.Profile = config.SearchProfile
		return answerTo(t, g, req)
	}
	o.arrived()
	for who, want := range map[string]struct {
		listed []string
		sent   int
	}{
		"ann": {[]string{"find_tool", "call_tool"}, 1},
		"bob": {[]string{"find_tool"}, 0},
		"cid": {[]string{"find_tool", "call_tool"}, 0},
	} {
		if got := namesIn(t, `{"result":`+inSearch(who, "tools/list", `{}`)+`}`, "tools", "name"); !slices.Equal(got, want.listed) {
			t.Errorf("%s is listed %v, want %v", who, got, want.listed)
		}
		called := inSearch(who, "tools/call", `{"name":"call_tool","arguments":{"name":"office__get"}}`)
		if n := len(o.arrived()); n != want.sent {
			t.Errorf("%s: %d calls were sent, want %d: %s", who, n, want.sent, called)
		}
		unknown := strings.Replace(inSearch(who, "tools/call", `{"name":"call_toad","arguments":{"name":"office__get"}}`), "call_toad", "call_tool", 1)
		if (called == unknown) != (who == "bob") {
			t.Errorf("%s calls call_tool: %s\nan unknown tool: %s", who, called, unknown)
		}
		found := inSearch(who, "tools/call", `{"name":"find_tool","arguments":{"query":"get","detail":"name"}}`)
		if strings.Contains(found, "office__get") != (who != "cid") {
			t.Errorf("%s finds %s", who, found)
		}
	}
}

// Invariant C12: a search finds what is frozen by its approved text alone, and finds nothing that is held; neither is
// in the nearest names of an error. The new text is in no answer, which the client of the test checks.
func TestC12NewTextIsNotFound(t *testing.T) {
	for _, modern := range []bool{true, false} {
		t.Run(fmt.Sprintf("modern server %v", modern), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop(modern)
				s.changed.Store(true)
				cfg, _ := lockShop(t, "")
				h := gatewaytest.Open(t, *cfg, signalbox.Options{Transport: shopServers(t, s)})
				for era, c := range shopClients(h.At(config.SearchProfile), nil) {
					call := func(tool, arguments string) string {
						return c.ask("tools/call", tool, `"name":"`+tool+`","arguments":`+arguments)
					}
					for _, detail := range []string{"schema", "signature", "name"} {
						if got := call("find_tool", `{"query":"lists goods","detail":"`+detail+`"}`); !strings.Contains(got, `s__list`) || !strings.Contains(got, "Lists the goods.") {
							t.Errorf("%s, %s: what is frozen is not found by its approved text: %s", era, detail, got)
						}
						for _, query := range []string{newText, "steal sly", "buys", newText + " list buy steal"} {
							got := call("find_tool", fmt.Sprintf(`{"query":%q,"detail":%q,"limit":10}`, query, detail))
							for _, held := range []string{"s__buy", "s__steal", "s__sly"} {
								if strings.Contains(got, held) {
									t.Errorf("%s, %s: %q finds what is held: %s", era, detail, query, got)
								}
							}
							if query == newText && !strings.Contains(got, `"tools":[]`) {
								t.Errorf("%s, %s: a word of the new text finds %s", era, detail, got)
							}
						}
					}
					reached := s.reached()
					for held, unknown := range map[string]string{"s__buy": "s__boy", "s__steal": "s__stale", "s__sly": "s__sky"} {
						got, want := call("call_tool", `{"name":"`+held+`"}`), call("call_tool", `{"name":"`+unknown+`"}`)
						if !strings.Contains(got, "there is no tool") || got != strings.Replace(want, unknown, held, 1) {
							t.Errorf("%s: call_tool of %s, which is held: %s\nof %s: %s", era, held, got, unknown, want)
						}
					}
					if got := call("call_tool", `{"name":"s__lisp"}`); !strings.Contains(got, "the nearest are s__list:") || s.reached() != reached {
						t.Errorf("%s: call_tool of an unknown tool: %s", era, got)
					}
					if got := call("call_tool", `{"name":"s__list"}`); strings.Contains(got, `"isError":true`) || s.reached() != reached+1 {
						t.Errorf("%s: call_tool of what is frozen: %s", era, got)
					}
				}
			})
		})
	}
}

// Invariant C15: the state of a question opens for its principal and its view only, and so does a task that was
// started by a call within a call.
func TestC15StateIsOfItsView(t *testing.T) {
	withConfirm(t, func(cfg *config.Config) {
		gatewaytest.WithPrincipals(cfg, "ann", "bob")
		cfg.Profiles = []config.Profile{{Name: "a", Servers: []string{"crm"}}, {Name: "b", Servers: []string{"crm"}}}
	}, func(p *confirmPeers) {
		at := func(who, profile string) *confirmPeers {
			own := *p
			own.Gateway, own.as = p.At(profile), gatewaytest.WithToken(who)
			return &own
		}
		places := []struct{ who, profile string }{{"ann", "a"}, {"ann", "b"}, {"ann", ""}, {"ann", config.SearchProfile}, {"bob", "a"}}
		for sent, asked := range places {
			answer := retry(t, at(asked.who, asked.profile).modern("tools/call", "crm__delete", withForm, arguments), accepted)
			for _, other := range places {
				if other != asked {
					p.want(fmt.Sprintf("the state of %v at %v", asked, other), at(other.who, other.profile).modern("tools/call", "crm__delete", withForm, arguments+answer), sent, "requestState is unknown")
				}
			}
			p.want(fmt.Sprintf("the state of %v", asked), at(asked.who, asked.profile).modern("tools/call", "crm__delete", withForm, arguments+answer), sent+1, `"content":[]`)
		}
	})
}

// Invariant C15: a task that a call within a call has started is of its principal and its view.
func TestC15TaskOfAnInnerCall(t *testing.T) {
	g, o := withPolicy(t, config.Policy{}, nil)
	ann, bob := person("ann", "staff"), person("bob", "staff")
	start := requestOf(t, ann, "tools/call", `{"name":"call_tool","arguments":{"name":"office__get"},"task":{}}`)
	start.Profile = config.SearchProfile
	started := answerTo(t, g, start)
	_, id, _ := strings.Cut(started, `"taskId":"`)
	id, _, ok := strings.Cut(id, `"`)
	if !ok {
		t.Fatalf("started %s", started)
	}
	o.arrived()
	for _, tt := range []struct {
		who     *mcp.Identity
		profile string
		reached bool
	}{{ann, config.SearchProfile, true}, {ann, "", false}, {bob, config.SearchProfile, false}, {bob, "", false}} {
		for _, method := range []string{"tasks/get", "tasks/cancel"} {
			req := requestOf(t, tt.who, method, fmt.Sprintf(`{"taskId":%q}`, id))
			req.Profile = tt.profile
			got := answerTo(t, g, req)
			if sent := len(o.arrived()) == 1; sent != tt.reached {
				t.Errorf("%s of %s at %q: sent %t: %s", method, tt.who.Principal, tt.profile, sent, got)
			}
		}
	}
}

// Row 22: a change of one member that people or models read leaves the approved definition in place, in lists of all
// clients and in search, and is reported. One member more of any kind counts.
func TestEachMemberIsPinned(t *testing.T) {
	const (
		approved = `{"name":"list","title":"List","description":"Lists the goods.","inputSchema":{"type":"object"},"annotations":{"destructiveHint":false},"icons":[{"src":"data:,"}],"_meta":{"x":1}}`
		offered  = `{"name":"s__list","title":"List","description":"Lists the goods.","inputSchema":{"type":"object"},"annotations":{"destructiveHint":false},"icons":[{"src":"data:,"}],"_meta":{"x":1}}`
	)
	synctest.Test(t, func(t *testing.T) {
		s := newShop(true)
		listed := approved
		s.On["tools/list"] = func(x *faultyserver.Exchange) { x.Result(`{"tools":[` + listed + `]}`) }
		cfg, file := lockShop(t, "")
		l, digest := pins.NewLock(), pins.NewDigester(nil).Of([]byte(approved))
		l.SetServer("s", pins.Server{Name: "shop", Version: "1"})
		l.Approve(pins.Key{Server: "s", Kind: pins.Tool, Name: "list"}, digest)
		writeText(t, config.TextFile(file, digest), approved)
		writeText(t, config.LockFile(file), string(l.Format()))
		cfg = loadShop(t, file, "")
		h := gatewaytest.Open(t, *cfg, signalbox.Options{Transport: shopServers(t, s)})
		for _, change := range []struct{ was, is string }{
			{`"List"`, `"ATTACK"`}, {`"Lists the goods."`, `"ATTACK"`}, {`"destructiveHint":false`, `"destructiveHint":true`},
			{`"destructiveHint":false`, `"destructiveHint":false,"readOnlyHint":true`}, {`"data:,"`, `"data:,ATTACK"`},
			{`"_meta":{"x":1}`, `"_meta":{"x":2}`}, {`"_meta":{"x":1}`, `"_meta":{"x":1,"ui":{"resourceUri":"ui://ATTACK"}}`}, {`,"_meta":{"x":1}`, ``},
		} {
			listed = strings.Replace(approved, change.was, change.is, 1)
			if _, err := h.G.RetryBackend(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			for era, c := range shopClients(h, nil) {
				if got := c.ask("tools/list", "", ""); !strings.Contains(got, offered) {
					t.Errorf("%s, %s to %s: listed %s", era, change.was, change.is, got)
				}
			}
			for era, c := range shopClients(h.At(config.SearchProfile), nil) {
				found := c.ask("tools/call", "find_tool", `"name":"find_tool","arguments":{"query":"list goods"}`)
				if !strings.Contains(found, `"annotations":{"destructiveHint":false}`) || !strings.Contains(found, "Lists the goods.") {
					t.Errorf("%s, %s to %s: found %s", era, change.was, change.is, found)
				}
			}
			if it := h.G.Explain("s__list", "").Items; len(it) != 1 || it[0].Code != code.ItemFrozen || len(it[0].Changes) == 0 {
				t.Errorf("%s to %s: explained as %+v", change.was, change.is, it)
			}
		}
		listed = approved
		if _, err := h.G.RetryBackend(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if it := h.G.Explain("s__list", "").Items; len(it) != 1 || it[0].Code != "" {
			t.Errorf("unchanged: explained as %+v", it)
		}
	})
}
