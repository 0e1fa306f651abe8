// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// withSearch adds a profile with a search view of the servers files and github.
func withSearch(cfg *config.Config) {
	cfg.Profiles = append(cfg.Profiles, config.Profile{
		Name: "found", Servers: []string{"files", "github"}, Exclude: []string{"*delete*"},
		View: config.ViewSearch, Always: []string{"*slow"}, Split: true,
	})
}

// toolCall calls a tool with arguments.
func (p peer) toolCall(name, arguments string) string {
	p.T.Helper()
	return p.ask("tools/call", name, `"arguments":`+arguments)
}

// textIn returns the text of a result, or the whole answer if it is an error.
func textIn(t *testing.T, body string) string {
	t.Helper()
	var answer struct {
		Result struct {
			Content []struct{ Text string }
		}
		Error json.RawMessage
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if answer.Error != nil || len(answer.Result.Content) == 0 {
		return body
	}
	return answer.Result.Content[0].Text
}

// In a profile with a search view the list has the tools of the gateway and those that are always
// listed, and every tool of the profile can be found, and called in both ways, for each pair of eras.
func TestSearchView(t *testing.T) {
	for _, behind := range []string{"legacy", "modern"} {
		withProfileSite(t, behind, withSearch, func(s *profileSite) {
			for era, c := range s.peers("found") {
				list := c.ask("tools/list", "", "")
				gatewaytest.WantEqual(t, era+" list", strings.Join(namesIn(t, list, "tools", "name"), " "), "find_tool call_tool call_tool_readonly files__slow github__slow")
				found := c.toolCall("find_tool", `{"query":"read github","limit":2,"detail":"name"}`)
				if want := `{"tools":[{"name":"github__read","server":"github"},{"name":"files__read","server":"files"}]}`; textIn(t, found) != want || !strings.Contains(found, `"structuredContent":`+want) {
					t.Errorf("%s: %s", era, found)
				}
				if found := textIn(t, c.toolCall("find_tool", `{"query":"read"}`)); !strings.Contains(found, `"inputSchema":{`) {
					t.Errorf("%s: %s", era, found)
				}
				if found := textIn(t, c.toolCall("find_tool", `{"query":"read","detail":"signature"}`)); !strings.Contains(found, `"signature":"{}"`) {
					t.Errorf("%s: %s", era, found)
				}
				if found := textIn(t, c.toolCall("find_tool", `{"query":"wiki delete"}`)); strings.Contains(found, "wiki") || strings.Contains(found, "delete__") {
					t.Errorf("%s: found what is outside of the profile: %s", era, found)
				}
				for _, arguments := range []string{`{"name":"github__read"}`, `{"name":"github__read","arguments":{"x":1}}`} {
					gatewaytest.WantEqual(t, era+" call_tool", textIn(t, c.toolCall("call_tool", arguments)), "read of github")
				}
				gatewaytest.WantEqual(t, era+" direct", textIn(t, c.ask("tools/call", "github__read", "")), "read of github")
				for arguments, want := range map[string]string{
					`{}`:                                    "name is missing",
					`{"name":7}`:                            "name must be the name of a tool",
					`{"name":"a","name":"b"}`:               "each of them once",
					`{"name":"github__read","arguments":7}`: "arguments must be an object",
					`{"name":"github__raed"}`:               `there is no tool "github__raed"; the nearest are github__read, github__slow: find tools with find_tool`,
					`{"name":"github__slo"}`:                `there is no tool "github__slo"; the nearest are github__slow, github__read: find tools with find_tool`,
					`{"name":"wiki__read"}`:                 `there is no tool "wiki__read"; the nearest are`,
					`{"name":"files__delete"}`:              `there is no tool "files__delete"; the nearest are`,
					`{"name":"find_tool"}`:                  `there is no tool "find_tool"`,
					`{"name":"call_tool"}`:                  `there is no tool "call_tool"`,
				} {
					body := c.toolCall("call_tool", arguments)
					if !strings.Contains(textIn(t, body), want) || !strings.Contains(body, `"isError":true`) {
						t.Errorf("%s: call_tool %s: %s, want %s", era, arguments, body, want)
					}
				}
				if body := c.toolCall("call_tool_readonly", `{"name":"github__read"}`); !strings.Contains(body, `does not declare readOnlyHint`) {
					t.Errorf("%s: %s", era, body)
				}
				for arguments, want := range map[string]string{
					`{}`:                         "query is missing",
					`{"query":"x","limit":11}`:   "limit must be from 1 to 10",
					`{"query":"x","detail":"y"}`: "detail must be",
					`{"query":["x"]}`:            "query must be a string",
					`{"query":"x","limit":"9"}`:  "limit must be a whole number",
					`{"query":"zzz"}`:            "No tool has any word",
				} {
					if got := textIn(t, c.toolCall("find_tool", arguments)); !strings.Contains(got, want) {
						t.Errorf("%s: find_tool %s: %s, want %s", era, arguments, got, want)
					}
				}
			}
			// The profile that each configuration has.
			all := peer{s.At("search"), nil}
			gatewaytest.WantEqual(t, "search", strings.Join(namesIn(t, all.ask("tools/list", "", ""), "tools", "name"), " "), "find_tool call_tool")
			gatewaytest.WantEqual(t, "search", textIn(t, all.toolCall("call_tool", `{"name":"wiki__delete"}`)), "delete of wiki")
			// Elsewhere the tools of the gateway are unknown.
			if body := (peer{s.At("coding"), nil}).toolCall("find_tool", `{"query":"read"}`); !strings.Contains(body, `"error"`) {
				t.Errorf("without a search view: %s", body)
			}
		})
	}
}

// A call within a call has a record of its own, with the id of the outer one.
func TestCallsWithinCallsAreRecorded(t *testing.T) {
	withProfileSite(t, "modern", withSearch, func(s *profileSite) {
		peer{s.At("found"), nil}.toolCall("call_tool", `{"name":"github__read"}`)
		calls := s.G.Calls(signalbox.CallFilter{Most: 2}).Calls
		if len(calls) != 2 || calls[0].Name != "call_tool" || calls[0].Backend != "" || calls[1].Name != "github__read" || calls[1].Parent != calls[0].ID || calls[1].Sent == nil {
			t.Errorf("recorded %+v", calls)
		}
	})
}

// Invariants C1 and C2: call_tool calls exactly what its sender may call with the same arguments, and find_tool
// finds nothing else.
func TestSearchIsNoWayAroundThePolicy(t *testing.T) {
	g, o := withPolicy(t, officeRules(), nil)
	dispatched := make(map[bool]int)
	for _, who := range []*mcp.Identity{person("ann", "staff"), person("bob", "staff boss"), person("cid", "staff", "mcp:write", "mcp:use"), person("eve", "guests"), nil} {
		find := requestOf(t, who, "tools/call", `{"name":"find_tool","arguments":{"query":"office get set deploy secret","limit":10}}`)
		find.Profile = config.SearchProfile
		found := answerTo(t, g, find)
		for _, name := range []string{"office__get", "office__set", "office__deploy", "office__secret", "office__none"} {
			for _, arguments := range []string{`{}`, `{"env":"prod"}`} {
				o.arrived()
				direct := answerTo(t, g, requestOf(t, who, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments)))
				want := o.arrived()
				outer := requestOf(t, who, "tools/call", fmt.Sprintf(`{"name":"call_tool","arguments":{"name":%q,"arguments":%s}}`, name, arguments))
				outer.Profile = config.SearchProfile
				through := answerTo(t, g, outer)
				if diff := cmp.Diff(want, o.arrived()); diff != "" {
					t.Errorf("%v calls %s %s: %s\ndirect %s\n%s", who, name, arguments, through, direct, diff)
				}
				if len(want) > 0 && through != direct {
					t.Errorf("%v calls %s %s: %s, want %s", who, name, arguments, through, direct)
				}
				dispatched[len(want) > 0]++
			}
			if listed := slices.Contains(namesFor(t, g, who), name); strings.Contains(found, `"`+name+`"`) != listed {
				t.Errorf("%v: %s is listed: %t, and found: %s", who, name, listed, found)
			}
		}
	}
	if dispatched[true] == 0 || dispatched[false] == 0 {
		t.Errorf("dispatched %v: nothing is compared", dispatched)
	}
}

// view: auto lists all tools to clients that search them, and to all while the list is short.
func TestAutoView(t *testing.T) {
	auto := func(above int) func(*config.Config) {
		return func(cfg *config.Config) {
			cfg.Search.Above = above
			cfg.Profiles = append(cfg.Profiles, config.Profile{Name: "auto", View: config.ViewAuto, Always: []string{"wiki__read"}})
		}
	}
	const (
		short = "find_tool call_tool wiki__read"
		all   = "files__read files__delete files__slow github__read github__delete github__slow wiki__read wiki__delete wiki__slow"
	)
	for _, tt := range []struct {
		above        int
		client, want string
		marked       bool
	}{
		{100000, "x", all, false}, {1, "x", short, false}, {-1, "x", all, false},
		{1, "codex-mcp-client", all, false}, {1, "claude-code", all, true},
	} {
		withProfileSite(t, "modern", auto(tt.above), func(s *profileSite) {
			at := s.At("auto")
			meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"` + tt.client + `","version":"1"}}`
			modern := at.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+meta+`}}`, gatewaytest.Header{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}).Body
			gatewaytest.WantEqual(t, fmt.Sprint(tt), strings.Join(namesIn(t, modern, "tools", "name"), " "), tt.want)
			if !strings.Contains(modern, `"cacheScope":"private"`) {
				t.Errorf("%v: %s", tt, modern)
			}
			if n := strings.Count(modern, `"_meta":{"anthropic/alwaysLoad":true}`); n != 0 && !tt.marked || n != 1 && tt.marked {
				t.Errorf("%v: %d tools are marked", tt, n)
			}
			gatewaytest.WantEqual(t, "called", textIn(t, peer{at, nil}.toolCall("call_tool", `{"name":"github__read"}`)), "read of github")
		})
	}
}

// A tool of a backend with the name of one of the gateway is left out of a search view, and named; the
// rest is listed.
func TestReservedNames(t *testing.T) {
	withProfileSite(t, "modern", func(cfg *config.Config) {
		withSearch(cfg)
		cfg.Servers[0].Rename = map[string]string{"read": "call_tool"}
	}, func(s *profileSite) {
		found := peer{s.At("found"), nil}
		if body := found.toolCall("call_tool", `{"name":"github__read"}`); textIn(t, body) != "read of github" {
			t.Error(body)
		}
		gatewaytest.WantEqual(t, "elsewhere", textIn(t, peer{s.At(""), nil}.ask("tools/call", "call_tool", "")), "read of files")
		if problems := strings.Join(s.G.Status().Problems, "\n"); !strings.Contains(problems, `profile "found": tool "call_tool" of backend "files" is left out`) || !strings.Contains(problems, code.NameReserved) {
			t.Error(problems)
		}
	})
}

// call_tool_readonly calls no tool without readOnlyHint, also if the server has not listed it when the call arrives.
func TestReadOnlyCallWaitsForTheHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gatewaytest.ServerWithTools(true, "write")
		listed := make(chan struct{})
		s.On["tools/list"] = waitingFor(listed, s.On["tools/list"])
		var p gatewaytest.Backends = map[string]http.Handler{"crm": s}
		found := p.Open(t, func(cfg *config.Config) {
			cfg.Profiles = append(cfg.Profiles, config.Profile{Name: "found", View: config.ViewSearch, Split: true})
		}).At("found")
		go func() {
			time.Sleep(3 * time.Second)
			close(listed)
		}()
		body := peer{found, nil}.toolCall("call_tool_readonly", `{"name":"crm__write"}`)
		if !strings.Contains(body, "does not declare readOnlyHint") || s.Count("tools/call") != 0 {
			t.Errorf("%s, and %d calls", body, s.Count("tools/call"))
		}
	})
}

// waitingFor is a handler that waits.
func waitingFor(ready <-chan struct{}, next func(*faultyserver.Exchange)) func(*faultyserver.Exchange) {
	return func(x *faultyserver.Exchange) {
		<-ready
		next(x)
	}
}
