// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"encoding/json"
	"fmt"
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

// In a profile with own names the URIs are those of the server; rules are about the others.
func TestURIsWithOwnNames(t *testing.T) {
	change := func(cfg *config.Config) {
		cfg.Profiles = append(cfg.Profiles, config.Profile{Name: "own", Servers: []string{"b"}, Names: config.NamesOwn})
		cfg.Policy = config.Policy{Otherwise: "deny", Rules: []config.PolicyRule{
			{Name: "b", Allow: "true", On: []string{"b__*", "ui://b/*"}},
			{Name: "big", Deny: "true", On: []string{"ui://b/page/big"}},
		}}
	}
	for _, behind := range []string{"legacy", "modern"} {
		withPageSite(t, behind, change, func(s *pageSite) {
			for era, c := range s.peers("own") {
				what := era + " to " + behind
				wantIn(s.T, what, c.send("resources/list", ""), `"uri":"ui://page"`, `!"uri":"ui://b/`, `!page/big`)
				wantIn(s.T, what, c.send("resources/templates/list", ""), `"uriTemplate":"ui://at/{city}"`)
				wantIn(s.T, what, c.send("tools/list", ""), `{"ui":{"resourceUri":"ui://page"},"ui/resourceUri":"ui://page"}`)
				wantIn(s.T, what, c.send("tools/call", `"name":"show"`), `"uri":"ui://page"`, `"resourceUri":"ui://page"`, `!ui://b/`)
				wantIn(s.T, what, c.send("resources/read", `"uri":"ui://page"`), `"uri":"ui://page"`, `"text":"ui://page of b"`)
				wantIn(s.T, what, c.send("resources/read", `"uri":"ui://at/Bern"`), `"uri":"ui://at/Bern"`)
				wantIn(s.T, what, c.send("resources/read", `"uri":"ui://page/big"`), "unknown resource")
				wantIn(s.T, what, c.send("resources/read", `"uri":"ui://b/page"`), `"error"`)
			}
		})
	}
}

// Lists of users have the URIs of their backend, and results too.
func TestURIsOfUsers(t *testing.T) {
	for _, era := range []string{"modern", "2025-11-25"} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk()
			d.pages = map[string][]string{"ann": {"ui://mine", "ui://both"}, "bob": {"ui://both"}}
			u := openUsers(t, d, era, nil)
			for _, user := range []string{"ann", "bob"} {
				u.signIn(user)
				for client, c := range map[string]peer{"modern": {u.Gateway, nil}, "session": {u.Gateway, u.Legacy(gatewaytest.WithToken(user))}} {
					what, token := user+", "+client+" to "+era, gatewaytest.WithToken(user)
					list := c.send("resources/list", "", token)
					wantIn(t, what, list, `"uri":"ui://crm/both"`)
					if strings.Contains(list, `"uri":"ui://crm/mine"`) != (user == "ann") {
						t.Errorf("%s: %s", what, list)
					}
					wantIn(t, what, c.send("resources/read", `"uri":"ui://crm/both"`, token), `"uri":"ui://crm/both"`, `"text":"of `+user+`"`)
					want := "error"
					if user == "ann" {
						want = `"uri":"ui://mine","text":"of ann"`
					}
					wantIn(t, what, c.send("resources/read", `"uri":"ui://mine"`, token), want)
				}
			}
		})
	}
}

// openUnlisted returns a gateway in front of two servers with resources that they do not list. The
// server "slow" never answers.
func openUnlisted(t *testing.T, change func(*config.Config)) *gatewaytest.Gateway {
	t.Helper()
	backends := make(gatewaytest.Backends)
	for _, name := range []string{"a", "b"} {
		backends[name] = &faultyserver.HTTP{
			Modern: name == "a", Capabilities: `{"tools":{},"resources":{}}`,
			On: map[string]func(*faultyserver.Exchange){
				"tools/list":               gatewaytest.ResultHandler(`{"tools":[{"name":"show","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://used-` + name + `"}}}]}`),
				"resources/list":           gatewaytest.ResultHandler(`{"resources":[]}`),
				"resources/templates/list": gatewaytest.ResultHandler(`{"resourceTemplates":[]}`),
				"resources/read": func(x *faultyserver.Exchange) {
					uri, _ := x.Msg.Params.Text(mcp.FieldURI)
					if got := x.R.Header.Get("Mcp-Name"); name == "a" && got != uri {
						t.Errorf("Mcp-Name is %q, and the URI %q", got, uri)
					}
					x.Result(fmt.Sprintf(`{"contents":[{"uri":%q,"text":"of %s"}]}`, uri, name))
				},
			},
		}
	}
	backends["slow"] = &faultyserver.HTTP{On: map[string]func(*faultyserver.Exchange){"initialize": (*faultyserver.Exchange).Hold, "server/discover": (*faultyserver.Exchange).Hold}}
	return backends.Open(t, change)
}

// A resource that is in no list is read by the label, without a wait for other servers, and as its
// server writes it if a tool has it.
func TestUnlistedURIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openUnlisted(t, nil)
		c := peer{h, nil}
		for _, tt := range []struct {
			uri, want string
			waits     bool
		}{
			{"ui://a/used-a", `"uri":"ui://a/used-a","text":"of a"`, false},
			{"ui://b/never", `"uri":"ui://b/never","text":"of b"`, false},
			{"ui://slow/x", "unknown resource", true},
			{"ui://used-b", `"uri":"ui://used-b","text":"of b"`, false},
			{"ui://never", "unknown resource", false}, // slow has had its time
		} {
			began := time.Now()
			wantIn(t, tt.uri, c.send("resources/read", fmt.Sprintf(`"uri":%q`, tt.uri)), tt.want)
			if waited := time.Since(began) > time.Second; waited != tt.waits {
				t.Errorf("%s took %s", tt.uri, time.Since(began))
			}
		}
	})
}

// A policy decides about a resource that is in no list, and what it hides is as what does not exist.
func TestPolicyOfUnlistedURIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openUnlisted(t, func(cfg *config.Config) {
			gatewaytest.WithPrincipals(cfg, "ann", "bob")
			cfg.Policy = config.Policy{Otherwise: "deny", Rules: []config.PolicyRule{
				{Name: "ann", Allow: `principal.name == "ann"`, On: []string{"*__show", "ui://a/*"}},
				{Name: "secret", Deny: "true", On: []string{"ui://a/host/secret*"}},
				{Name: "tools", Allow: "true", On: []string{"*__show"}},
			}}
		})
		time.Sleep(time.Minute) // slow has had its time
		for _, tt := range []struct{ user, uri, want string }{
			{"ann", "ui://a/used-a", `"text":"of a"`},
			{"ann", "ui://used-a", `"text":"of a"`},
			{"ann", "ui://a/other", `"text":"of a"`},
			{"ann", "ui://b/used-b", ""},
			{"ann", "ui://used-b", ""},
			{"ann", "ui://a/host/secret", ""},
			{"ann", "ui://a/HOST/%73ecret", "policy secret does not allow this resource"}, // the server may read it so
			{"bob", "ui://a/used-a", ""},
			{"bob", "ui://used-a", ""},
			{"bob", "ui://a/other", ""},
		} {
			got := withoutCall(peer{h, nil}.send("resources/read", fmt.Sprintf(`"uri":%q`, tt.uri), gatewaytest.WithToken(tt.user)))
			if tt.want != "" {
				wantIn(t, tt.user+" "+tt.uri, got, tt.want)
				continue
			}
			absent := withoutCall(peer{h, nil}.send("resources/read", `"uri":"ui://zzz/none"`, gatewaytest.WithToken(tt.user)))
			gatewaytest.WantEqual(t, tt.user+" "+tt.uri, got, strings.ReplaceAll(absent, "ui://zzz/none", tt.uri))
		}
	})
}

// Quotas, filters and the audit record have the URI that clients see, whatever form a client sends.
func TestLimitsOfURIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openUnlisted(t, func(cfg *config.Config) {
			cfg.Quotas = []config.Quota{{On: []string{"ui://a/used-*"}, Calls: config.Rate{Calls: 2, Every: time.Hour}, Burst: 2, Per: config.QuotaPerPrincipal}}
			cfg.Filters = []config.Filter{{In: config.FilterResults, On: []string{"ui://b/*"}, Redact: []config.Redaction{{Match: "of b"}}}}
		})
		c := peer{h, nil}
		for i, uri := range []string{"ui://used-a", "ui://a/used-a", "ui://used-a"} {
			want := `"text":"of a"`
			if i == 2 {
				want = "quotas[0]"
			}
			wantIn(t, uri, c.send("resources/read", fmt.Sprintf(`"uri":%q`, uri)), want)
		}
		for _, uri := range []string{"ui://used-b", "ui://b/used-b"} {
			wantIn(t, uri, c.send("resources/read", fmt.Sprintf(`"uri":%q`, uri)), `"contents"`, "!of b")
		}
		var names []string
		for _, call := range h.G.Calls(signalbox.CallFilter{}).Calls {
			names = append(names, call.Name)
		}
		if len(names) != 5 || strings.Count(strings.Join(names, " "), "ui://a/used-a") != 3 || strings.Count(strings.Join(names, " "), "ui://b/used-b") != 2 {
			t.Errorf("recorded: %q", names)
		}
	})
}

// Without a prefix, URIs stay as they are, also after a reload.
func TestURIsAfterReload(t *testing.T) {
	withPageSite(t, "modern", nil, func(s *pageSite) {
		c := peer{s.Gateway, nil}
		wantIn(s.T, "before", c.send("tools/call", `"name":"b__show"`), `"resourceUri":"ui://b/page"`)
		none := ""
		cfg := config.Config{Servers: []config.Backend{{Name: "a", URL: "http://a/mcp", Era: "modern"}, {Name: "b", URL: "http://b/mcp", Era: "modern", Prefix: &none}}}
		if err := s.G.Reload(s.T.Context(), cfg); err != nil {
			s.T.Fatal(err)
		}
		wantIn(s.T, "after", c.send("resources/list", ""), `"uri":"ui://page"`, `"uri":"ui://a/page"`, "!ui://b/")
		wantIn(s.T, "after", c.send("tools/call", `"name":"show"`), `"resourceUri":"ui://page"`)
		wantIn(s.T, "after", c.send("resources/read", `"uri":"ui://page"`), `"text":"ui://page of b"`)
		wantIn(s.T, "after", c.send("resources/read", `"uri":"ui://a/page"`), `"text":"ui://page of a"`)
	})
}

func TestExplainURIs(t *testing.T) {
	withPageSite(t, "modern", nil, func(s *pageSite) {
		for name, want := range map[string]string{
			"ui://a/page":  `true ["ui://a/page is offered, own ui://page"] `,
			"ui://page":    `false ["ui://a/page is offered, own ui://page" "ui://b/page is offered, own ui://page"] `,
			"ui://only-a":  `true ["ui://a/only-a is offered, own ui://only-a"] `,
			"ui://a/never": `true [] a  true`,
			"ui://a/at/x":  `true [] a ui://a/at/{city} false`,
			"ui://at/x":    `false [] `,
			"ui://zz/x":    `false [] `,
		} {
			x := s.G.Explain(name, "")
			items := []string{}
			for _, it := range x.Items {
				items = append(items, fmt.Sprintf("%s is offered, own %s", it.Name, it.Own))
				if text, _ := json.Marshal(it.Chain); !strings.Contains(string(text), "its server's own URI is "+it.Own) {
					s.T.Errorf("%s: %s", name, text)
				}
			}
			got := fmt.Sprintf("%t %q ", x.Offered, items)
			if x.Route != nil {
				got += fmt.Sprint(x.Route.Backend, " ", x.Route.Template, " ", x.Route.ByName)
			}
			gatewaytest.WantEqual(s.T, name, got, want)
		}
	})
}

// A policy is explained for both forms of a URI, and for one that is in no list.
func TestExplainPolicyOfURIs(t *testing.T) {
	change := func(cfg *config.Config) {
		cfg.Policy = config.Policy{Otherwise: "deny", Rules: []config.PolicyRule{{Name: "a", Allow: "true", On: []string{"ui://a/*"}}}}
	}
	withPageSite(t, "modern", change, func(s *pageSite) {
		for name, want := range map[string]string{
			"ui://a/page": "a allowed a", "ui://only-a": "a allowed a", "ui://a/never": "a allowed a", "ui://a/at/x": "a allowed a",
			"ui://b/page": "b denied otherwise", "ui://only-b": "b denied otherwise", "ui://b/never": "b denied otherwise",
		} {
			all := s.G.ExplainPolicy(&signalbox.PolicyQuestion{Name: name})
			if len(all) != 1 {
				s.T.Errorf("%s: %d explanations", name, len(all))
				continue
			}
			gatewaytest.WantEqual(s.T, name, strings.TrimSpace(fmt.Sprint(all[0].Backend, " ", all[0].Outcome, " ", all[0].Rule)), want)
		}
	})
}
