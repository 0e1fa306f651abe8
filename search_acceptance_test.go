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
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// Row 16 of the acceptance table: tools of a backend with the names of the gateway's own are hidden in a search view and
// named as problems. The list has all others, and the gateway's own are what is called.
func TestRow16ToolsWithReservedNames(t *testing.T) {
	server := gatewaytest.ServerWithTools(true, "find_tool", "call_tool", "call_tool_readonly", "read", "write")
	synctest.Test(t, func(t *testing.T) {
		h := gatewaytest.Backends{"b": server}.Open(t, func(cfg *config.Config) {
			cfg.Servers[0].Prefix = new("")
			cfg.Profiles = append(cfg.Profiles, config.Profile{Name: "found", View: config.ViewSearch, Always: []string{"*"}})
		})
		for era, c := range map[string]peer{"modern": {h.At("found"), nil}, "session": {h.At("found"), h.At("found").Legacy()}} {
			list := c.ask("tools/list", "", "")
			gatewaytest.WantEqual(t, era+" list", strings.Join(namesIn(t, list, "tools", "name"), " "), "find_tool call_tool call_tool_readonly read write")
			if n := strings.Count(list, `"name":"find_tool"`); n != 1 || !strings.Contains(list, `"query"`) {
				t.Errorf("%s: find_tool is not the gateway's: %s", era, list)
			}
			before := server.Count("tools/call")
			if found := textIn(t, c.toolCall("find_tool", `{"query":"read","limit":1}`)); !strings.Contains(found, `"name":"read"`) || server.Count("tools/call") != before {
				t.Errorf("%s: found %s", era, found)
			}
		}
		problems := h.G.Status().Problems
		for _, name := range []string{"find_tool", "call_tool"} {
			if !slices.ContainsFunc(problems, func(p string) bool {
				return strings.Contains(p, `profile "found": tool "`+name+`" of backend "b" is left out`) && strings.Contains(p, code.NameReserved)
			}) {
				t.Errorf("%s is not in %q", name, problems)
			}
		}
	})
}

// Row 17: search works for modern clients without a session, for clients with a policy, and beside tools that are always
// listed, all at once.
func TestRow17SearchWithPolicyAndAlwaysVisibleTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := gatewaytest.Backends{"b": gatewaytest.ServerWithTools(true, "read_page", "read_secret", "list_pages")}.Open(t, func(cfg *config.Config) {
			cfg.Profiles = append(cfg.Profiles, config.Profile{Name: "found", View: config.ViewSearch, Always: []string{"b__list_pages", "b__read_secret"}})
			cfg.Policy = config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{{Name: "boss", Deny: `principal.name != "ann"`, On: []string{"*secret"}}}}
			gatewaytest.WithPrincipals(cfg, "ann", "bob")
		})
		for name, sees := range map[string]bool{"ann": true, "bob": false} {
			as := gatewaytest.WithToken(name)
			modern := func(method, tool, params string) string {
				body, hs := gatewaytest.ModernRequest("1", method, tool, params)
				return h.At("found").Post(body, hs, as).Body
			}
			session := h.At("found").Legacy(as)
			for era, ask := range map[string]func(method, tool, params string) string{
				"modern":  modern,
				"session": peer{h.At("found"), session}.ask,
			} {
				want := "find_tool call_tool b__list_pages"
				if sees {
					want = "find_tool call_tool b__read_secret b__list_pages"
				}
				gatewaytest.WantEqual(t, name+" "+era, strings.Join(namesIn(t, ask("tools/list", "", ""), "tools", "name"), " "), want)
				found := textIn(t, ask("tools/call", "find_tool", `"arguments":{"query":"read","limit":5}`))
				if !strings.Contains(found, "b__read_page") || strings.Contains(found, "b__read_secret") != sees {
					t.Errorf("%s %s found %s", name, era, found)
				}
				called := ask("tools/call", "call_tool", `"arguments":{"name":"b__read_secret"}`)
				if isUnknown := strings.Contains(called, `there is no tool`); isUnknown == sees {
					t.Errorf("%s %s called: %s", name, era, called)
				}
			}
		}
	})
}

// Row 19: with 2,000 tools 200 clients that connect at once get the full list, and none of them waits for anything.
func TestRow19ManyToolsAndClients(t *testing.T) {
	const tools = 2000
	many := 200
	if testing.Short() {
		many = 40
	}
	names := make([]string, tools)
	for i := range names {
		names[i] = fmt.Sprintf("tool%04d", i)
	}
	synctest.Test(t, func(t *testing.T) {
		h := gatewaytest.Backends{"b": gatewaytest.ServerWithTools(true, names...)}.Open(t, nil)
		h.PostModern("1", "tools/list", "", "") // the backend has been reached
		began := time.Now()
		var connecting []<-chan gatewaytest.Response
		for range many / 2 {
			connecting = append(connecting, h.Async(initializeMessage))
		}
		var clients []gatewaytest.Header // nil for a modern one
		for _, c := range connecting {
			got := <-c
			clients = append(clients, gatewaytest.Header{"Mcp-Session-Id": got.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": "2025-11-25"}, nil)
		}
		list := func(sess gatewaytest.Header, cursor string) <-chan gatewaytest.Response {
			if cursor != "" {
				cursor = `"cursor":"` + cursor + `"`
			}
			if sess != nil {
				return h.Async(gatewaytest.LegacyRequest("1", "tools/list", "{"+cursor+"}"), sess)
			}
			body, hs := gatewaytest.ModernRequest("1", "tools/list", "", cursor)
			return h.Async(body, hs)
		}
		listed, cursors := make([]int, len(clients)), make([]string, len(clients))
		for page := range 3 {
			var answers []<-chan gatewaytest.Response
			for i, sess := range clients {
				if page > 0 && cursors[i] == "" {
					answers = append(answers, nil)
					continue
				}
				answers = append(answers, list(sess, cursors[i]))
			}
			for i, answer := range answers {
				if answer == nil {
					continue
				}
				body := (<-answer).Body
				listed[i] += strings.Count(body, `"name":"b__tool`)
				_, rest, _ := strings.Cut(body, `"nextCursor":"`)
				cursors[i], _, _ = strings.Cut(rest, `"`)
			}
		}
		for i, n := range listed {
			if n != tools || cursors[i] != "" {
				t.Errorf("client %d has a list of %d tools", i, n)
			}
		}
		found := h.At(config.SearchProfile)
		for range many {
			if got := textIn(t, peer{found, nil}.toolCall("find_tool", `{"query":"tool1234","limit":1,"detail":"name"}`)); !strings.Contains(got, "b__tool1234") {
				t.Errorf("found %s", got)
			}
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it took %v", waited)
		}
		if calls := h.G.Calls(signalbox.CallFilter{Failed: true}).Calls; len(calls) != 0 {
			t.Errorf("failed: %+v", calls)
		}
	})
}
