// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// newClockServer returns a server like others: with the same names, the same URIs, and its own answers.
func newClockServer(t *testing.T, name string) *mux.Mux {
	say := func(own string) mux.Tool {
		return mux.Tool{Name: own, Description: "tells the time", Call: func(context.Context, *mux.Call) (*mux.Result, error) { return mux.Say("%s of %s", own, name), nil }}
	}
	read := func(_ context.Context, call *mux.Call) ([]mux.Contents, error) {
		uri, _ := call.Request.Params.Text(mcp.FieldURI)
		return []mux.Contents{mux.TextContents(uri, "text/html", "page of "+name)}, nil
	}
	long := mux.Tool{Name: "long", Task: mux.TaskOptional, Call: func(ctx context.Context, call *mux.Call) (*mux.Result, error) {
		return call.Background(ctx, func(context.Context, *mux.Call) (*mux.Result, error) { return mux.Say("done by %s", name), nil })
	}}
	m := mux.New(say("get-time"), say("set-time"), long,
		mux.Prompt{Name: "ask", Arguments: []mux.Argument{{Name: "x", Complete: func(context.Context, string, map[string]string) ([]string, error) { return []string{name}, nil }}},
			Get: func(context.Context, *mux.Call) ([]mux.Message, error) { return nil, nil }},
		mux.Resource{URI: "ui://get-time/page", Name: "page", Read: read},
		mux.Resource{URI: "file:///time", Name: "file", Read: read},
		mux.Template{URI: "time://{zone}", Name: "zone", Read: read},
	)
	m.Name, m.Version, m.Instructions = name, "1", "Use "+name+"."
	t.Cleanup(func() { m.Close() })
	return m
}

// clockSite is a gateway in front of two servers with the same names and URIs, each with a profile.
type clockSite struct {
	*profileSite

	clocks map[string]*mux.Mux
}

func withClockSite(t *testing.T, era string, change func(*config.Config), f func(*clockSite)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &clockSite{new(profileSite), make(map[string]*mux.Mux)}
		backends := make(gatewaytest.Backends)
		for _, name := range []string{"east", "west"} {
			s.clocks[name] = newClockServer(t, name)
			edge := server.New(s.clocks[name], server.Config{AllowedHosts: []string{"*"}})
			t.Cleanup(func() { edge.Close() })
			backends[name] = edge
		}
		s.Gateway = backends.Open(t, func(cfg *config.Config) {
			for i := range cfg.Servers {
				cfg.Servers[i].Era = era
			}
			cfg.Profiles = []config.Profile{
				{Name: "east", Servers: []string{"east"}, Names: config.NamesOwn},
				{Name: "west", Servers: []string{"west"}, Names: config.NamesOwn},
				{Name: "finder", Servers: []string{"west"}, Names: config.NamesOwn, View: config.ViewSearch, Always: []string{"get-*"}},
			}
			if change != nil {
				change(cfg)
			}
			s.cfg = *cfg
		})
		f(s)
	})
}

// Two servers with the same names and URIs are both whole, each at a profile of its own, for each pair of eras.
func TestProfilesOfOneHaveOwnNames(t *testing.T) {
	for _, behind := range []string{"legacy", "modern"} {
		withClockSite(t, behind, nil, func(s *clockSite) {
			for _, name := range []string{"east", "west"} {
				for era, c := range s.peers(name) {
					what := fmt.Sprintf("%s at %s in front of %s", era, name, behind)
					for list, want := range map[string]string{
						"tools/list tools name":                                  "get-time set-time long",
						"prompts/list prompts name":                              "ask",
						"resources/list resources uri":                           "ui://get-time/page file:///time",
						"resources/templates/list resourceTemplates uriTemplate": "time://{zone}",
					} {
						of := strings.Fields(list)
						got := strings.Join(namesIn(s.T, c.ask(of[0], "", ""), of[1], of[2]), " ")
						gatewaytest.WantEqual(s.T, what+": "+of[0], got, want)
					}
					for _, tt := range []struct{ method, name, params, want string }{
						{"tools/call", "get-time", "", "get-time of " + name},
						{"prompts/get", "ask", "", `"messages":[]`},
						{"resources/read", "", `"uri":"ui://get-time/page"`, "page of " + name},
						{"resources/read", "", `"uri":"file:///time"`, "page of " + name},
						{"resources/read", "", `"uri":"time://utc"`, "page of " + name},
						{"resources/read", "", `"uri":"other://unlisted"`, `"error"`},
						{"completion/complete", "", `"ref":{"type":"ref/prompt","name":"ask"},"argument":{"name":"x","value":""}`, `"values":["` + name + `"]`},
						{"tools/call", name + "__get-time", "", `unknown tool: \"` + name + `__get-time\"`},
						{"tools/call", "none", "", `unknown tool: \"none\"`},
					} {
						if got := s.askAs(c, tt.method, tt.name, tt.params); !strings.Contains(got, tt.want) {
							t.Errorf("%s: %s %s%s: %s, want %s", what, tt.method, tt.name, tt.params, got, tt.want)
						}
					}
				}
			}
			at := s.At("east")
			for _, got := range []string{at.PostModern("1", "server/discover", "", "").Body, at.Post(initializeMessage).Body} {
				if !strings.Contains(got, `"instructions":"Use east."`) {
					t.Errorf("in front of %s: %s, want the instructions of the server alone", behind, got)
				}
			}
			for era, c := range s.peers("") { // everything is as without the profiles
				if got := c.ask("tools/call", "west__get-time", ""); !strings.Contains(got, "get-time of west") {
					t.Errorf("%s in front of %s: %s", era, behind, got)
				}
			}
		})
	}
}

// A search view finds and calls tools by the names of the server.
func TestProfileOfOneWithSearchView(t *testing.T) {
	withClockSite(t, "modern", nil, func(s *clockSite) {
		for era, c := range s.peers("finder") {
			gatewaytest.WantEqual(t, era, strings.Join(namesIn(t, c.ask("tools/list", "", ""), "tools", "name"), " "), "find_tool call_tool get-time")
			if got := s.callWith(c, "find_tool", `{"query":"time","detail":"name"}`); !strings.Contains(got, `"name":"set-time"`) {
				t.Errorf("%s: %s", era, got)
			}
			if got := s.callWith(c, "call_tool", `{"name":"set-time"}`); !strings.Contains(got, "set-time of west") {
				t.Errorf("%s: %s", era, got)
			}
		}
	})
}

func (s *clockSite) callWith(c peer, name, arguments string) string {
	return c.ask("tools/call", name, `"arguments":`+arguments)
}

// A rule of a policy is about the same item by its own name: nothing that is hidden or refused in the whole
// gateway is open at a profile of one.
func TestPolicyOfProfileOfOne(t *testing.T) {
	for _, behind := range []string{"legacy", "modern"} {
		withClockSite(t, behind, func(cfg *config.Config) {
			cfg.Policy = config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{
				{Name: "no-setting", Deny: "true", On: []string{"west__set-time"}},
				{Name: "no-page", Deny: "item.uri == 'file:///time'"},
				{Name: "by-zone", Deny: "item.uri == 'time://west'"},
				{Name: "no-args", Deny: "has(args.zone)", On: []string{"west__get-*"}},
				{Name: "by-name", Deny: "item.name == 'ask'"}, // the name in the whole gateway is west__ask
			}}
		}, func(s *clockSite) {
			for era, c := range s.peers("west") {
				what := era + " in front of " + behind
				gatewaytest.WantEqual(t, what, strings.Join(namesIn(t, c.ask("tools/list", "", ""), "tools", "name"), " "), "get-time long")
				for _, tt := range []struct{ method, name, params, want string }{
					{"tools/call", "get-time", "", "get-time of west"},
					{"tools/call", "get-time", `"arguments":{"zone":1}`, "policy no-args does not allow these arguments"},
					{"tools/call", "set-time", "", `unknown tool: \"set-time\"`},
					{"resources/read", "", `"uri":"file:///time"`, "unknown resource"},
					{"resources/read", "", `"uri":"time://east"`, "page of west"},
					{"resources/read", "", `"uri":"time://west"`, "policy by-zone does not allow this resource"},
					{"prompts/get", "ask", "", `"messages":[]`},
				} {
					if got := s.askAs(c, tt.method, tt.name, tt.params); !strings.Contains(got, tt.want) {
						t.Errorf("%s: %s %s%s: %s, want %s", what, tt.method, tt.name, tt.params, got, tt.want)
					}
				}
			}
			for era, c := range s.peers("east") {
				gatewaytest.WantEqual(t, era, strings.Join(namesIn(t, c.ask("tools/list", "", ""), "tools", "name"), " "), "get-time set-time long")
			}
		})
	}
}

// Quotas and filters are about the same items by their own names, and about tasks that they have started.
func TestQuotasAndFiltersOfProfileOfOne(t *testing.T) {
	withClockSite(t, "modern", func(cfg *config.Config) {
		cfg.Quotas = []config.Quota{{Per: config.QuotaPerAll, On: []string{"west__set-time"}, Calls: config.Rate{Calls: 1, Every: time.Hour}}}
		cfg.Filters = []config.Filter{
			{In: config.FilterResults, On: []string{"west__get-time", "west__long"}, Redact: []config.Redaction{{Match: "west", With: "somewhere"}}},
		}
	}, func(s *clockSite) {
		c := peer{s.At("west"), nil}
		if got := c.ask("tools/call", "set-time", ""); !strings.Contains(got, "set-time of west") {
			t.Error(got)
		}
		if got := c.ask("tools/call", "set-time", ""); !strings.Contains(got, "quotas[0]") {
			t.Errorf("%s, want the quota to be used up", got)
		}
		if got := c.ask("tools/call", "get-time", ""); !strings.Contains(got, "get-time of somewhere") {
			t.Error(got)
		}
		sess := s.At("west").Legacy()
		legacy := func(method, params string) string {
			return s.At("west").Post(gatewaytest.LegacyRequest("1", method, params), sess).Body
		}
		var begun struct {
			Result struct{ Task struct{ TaskID string } }
		}
		if body := legacy("tools/call", `{"name":"long","task":{}}`); json.Unmarshal([]byte(body), &begun) != nil || begun.Result.Task.TaskID == "" {
			t.Fatalf("%s, want a task", body)
		}
		if got := legacy("tasks/result", `{"taskId":"`+begun.Result.Task.TaskID+`"}`); !strings.Contains(got, "done by somewhere") {
			t.Errorf("%s, want the result to be filtered", got)
		}
	})
}

// The record has the name of the item in the whole gateway, and that which the client has used.
func TestRecordOfProfileOfOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	withClockSite(t, "legacy", func(cfg *config.Config) { cfg.Audit.File = file }, func(s *clockSite) {
		for _, c := range s.peers("west") {
			c.ask("tools/call", "get-time", "")
		}
		s.peers("")["modern"].ask("tools/call", "west__get-time", "")
	})
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(raw)) {
		var entry struct{ Method, Name, Said string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %q", entry.Method, entry.Name, entry.Said))
	}
	gatewaytest.WantEqual(t, "record", strings.Join(got, "\n"), `tools/call west__get-time "get-time"
tools/call west__get-time "get-time"
tools/call west__get-time ""`)
}

// Updates of a resource that both servers have reach the clients of the profile of each.
func TestUpdatesAtProfilesOfOne(t *testing.T) {
	for _, behind := range []string{"legacy", "modern"} {
		withClockSite(t, behind, nil, func(s *clockSite) {
			time.Sleep(time.Minute)
			const uri = "ui://get-time/page"
			streams := make(map[string]*gatewaytest.EventStream)
			for _, name := range []string{"east", "west"} {
				at := s.At(name)
				sess := at.Legacy()
				at.Post(gatewaytest.LegacyRequest("2", "resources/subscribe", `{"uri":"`+uri+`"}`), sess)
				streams[name+" session"] = at.Listen(sess)
				body, hs := gatewaytest.ModernRequest("1", "subscriptions/listen", "", `"notifications":{"resourceSubscriptions":["`+uri+`"]}`)
				streams[name+" listen"] = at.Stream(at.Request(s.T.Context(), "POST", body, hs))
				if ack := streams[name+" listen"].Next(); !strings.Contains(ack, uri) {
					t.Errorf("%s in front of %s: agreed to %s", name, behind, ack)
				}
			}
			synctest.Wait()
			if err := s.clocks["west"].Updated(uri); err != nil {
				t.Error(err)
			}
			for name, stream := range streams {
				if strings.HasPrefix(name, "west") {
					if got := stream.Next(); !strings.Contains(got, "notifications/resources/updated") || !strings.Contains(got, uri) {
						t.Errorf("%s in front of %s: %s", name, behind, got)
					}
					continue
				}
				stream.WantSilence(time.Minute)
			}
		})
	}
}

// A call by an own name waits for a server that is still starting, as one by a prefixed name does.
func TestOwnNameOfStartingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newClockServer(t, "slow")
		edge := server.New(clock, server.Config{AllowedHosts: []string{"*"}})
		t.Cleanup(func() { edge.Close() })
		var started atomic.Bool
		slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !started.Swap(true) {
				time.Sleep(time.Second)
			}
			edge.ServeHTTP(w, r)
		})
		g := gatewaytest.Backends{"slow": slow}.Open(t, func(cfg *config.Config) {
			cfg.Profiles = []config.Profile{{Name: "own", Servers: []string{"slow"}, Names: config.NamesOwn}}
		})
		if got := g.At("own").PostModern("1", "tools/call", "get-time", "").Body; !strings.Contains(got, "get-time of slow") {
			t.Error(got)
		}
	})
}

// Lists of users are those of the profile, too, by own names.
func TestOwnNamesOfListsOfUsers(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk()
			d.give("ann", "pay", "read")
			d.give("bob", "read")
			u := openUsers(t, d, era, func(cfg *config.Config) {
				cfg.Profiles = []config.Profile{{Name: "own", Servers: []string{"crm"}, Names: config.NamesOwn}}
			})
			for user, want := range map[string]string{"ann": "pay read", "bob": "read"} {
				u.signIn(user)
				list := u.At("own").PostModern("1", "tools/list", "", "", gatewaytest.WithToken(user)).Body
				gatewaytest.WantEqual(t, era+": "+user, listedNames(list), want)
				got := u.At("own").PostModern("1", "tools/call", "pay", "", gatewaytest.WithToken(user)).Body
				if paid := strings.Contains(got, "pay by "+user); paid != (user == "ann") {
					t.Errorf("%s: %s: %s", era, user, got)
				}
			}
		})
	}
}

// Status and why know the names of a profile of one.
func TestProfileOfOneIsExplained(t *testing.T) {
	withClockSite(t, "modern", nil, func(s *clockSite) {
		s.peers("")["modern"].ask("tools/list", "", "")
		for _, tt := range []struct{ name, want string }{
			{"get-time", "get-time true [listed profile west: names: own]"},
			{"west__get-time", "get-time true [listed profile west: names: own]"},
			{"ui://get-time/page", "ui://get-time/page true [listed as a resource]"},
			{"east__get-time", `east__get-time false [listed prefix "east__" profile west: its servers are west]`},
		} {
			e := s.G.Explain(tt.name, "west")
			var got []string
			for _, it := range e.Items {
				var chain []string
				for _, step := range it.Chain {
					chain = append(chain, step.Text)
				}
				got = append(got, fmt.Sprint(it.Name, " ", it.Offered, " ", chain))
			}
			gatewaytest.WantEqual(t, tt.name, strings.Join(got, "\n"), tt.want)
		}
		for _, p := range s.G.Status().Profiles {
			if want := map[string]string{"east": "own 3", "west": "own 3", "finder": "own 3", "search": " 2"}[p.Name]; fmt.Sprint(p.Names, " ", p.Tools) != want {
				t.Errorf("%s: %s %d, want %s", p.Name, p.Names, p.Tools, want)
			}
		}
	})
}
