// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// lenient is a server that understands many spellings of a URI, with items of all kinds, one of each called
// secret.
type lenient struct {
	name string

	mu    sync.Mutex
	asked []string // requests for what is secret
}

// spelled returns the URI that the server takes another one for.
func (*lenient) spelled(uri string) string {
	uri, _, _ = strings.Cut(uri, "#")
	if plain, err := url.PathUnescape(uri); err == nil {
		uri = plain
	}
	scheme, rest, _ := strings.Cut(uri, ":")
	rest, isWhole := strings.CutPrefix(rest, "//")
	if !isWhole {
		return "another"
	}
	host, at, hasPath := strings.Cut(rest, "/")
	if hasPath {
		isFolder := strings.HasSuffix(at, "/") || strings.HasSuffix(at, "/.")
		if at = path.Clean("/" + at); isFolder && at != "/" {
			at += "/"
		}
	}
	return strings.ToLower(scheme) + "://" + strings.ToLower(host) + at
}

func (s *lenient) Serve(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
	about, _ := req.Params.Text(mcp.FieldName)
	if uri, ok := req.Params.Text(mcp.FieldURI); ok {
		about = s.spelled(uri)
	}
	if uri, ok := req.Params.Text(mcp.FieldRefURI); ok {
		about = s.spelled(uri)
	}
	if name, ok := req.Params.Text(mcp.FieldRefName); ok {
		about = name
	}
	if strings.Contains(about, "secret") {
		s.mu.Lock()
		s.asked = append(s.asked, req.Method+" "+about)
		s.mu.Unlock()
	}
	text := "of " + s.name
	if strings.Contains(about, "secret") {
		text = "SECRET " + text
	}
	result := func(format string, args ...any) (*mcp.Result, error) {
		return mcp.NewResult(fmt.Appendf(nil, format, args...))
	}
	switch req.Method {
	case "server/discover":
		return result(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}}}`)
	case "tools/list":
		return result(`{"tools":[{"name":"secret","inputSchema":{"type":"object"},"description":"SECRET"},{"name":"show","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://page"}}}]}`)
	case "prompts/list":
		return result(`{"prompts":[{"name":"secret","description":"SECRET"},{"name":"ask"}]}`)
	case "resources/list":
		return result(`{"resources":[{"uri":"ui://secret","name":"SECRET"},{"uri":"file:///secret","name":"SECRET"},{"uri":"ui://page","name":"page"}]}`)
	case "resources/templates/list":
		return result(`{"resourceTemplates":[{"uriTemplate":"ui://t/{x}","name":"t"},{"uriTemplate":"file:///t/{x}","name":"f"},{"uriTemplate":"ui://secret/{x}","name":"SECRET"}]}`)
	case "skills/list":
		return result(`{"skills":[%s,%s]}`, s.skill("skill://secret/SKILL.md", "SECRET"), s.skill("skill://open/SKILL.md", "open"))
	case "skills/get":
		return result(`{"skill":%s}`, s.skill(about, text))
	case "resources/read":
		return result(`{"contents":[{"uri":%q,"text":%q}]}`, about, text)
	case "resources/directory/read":
		return result(`{"resources":[{"uri":"%s/SKILL.md","name":%[2]q},{"uri":"skill://secret/SKILL.md","name":"SECRET"},{"uri":"skill://%%73ecret/SKILL.md","name":"SECRET"},{"uri":"ui://secret","name":"SECRET"},{"uri":"file:///secret","name":"SECRET"}]}`, about, text)
	case "tools/call":
		return result(`{"content":[{"type":"text","text":%q},{"type":"resource_link","uri":"ui://page","name":"page"}]}`, text)
	case "prompts/get":
		return result(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}]}`, text)
	case "completion/complete":
		return result(`{"completion":{"values":[%q]}}`, text)
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s", req.Method)
}

func (*lenient) skill(uri, text string) string {
	return fmt.Sprintf(`{"uri":%q,"frontmatter":{"name":"x","description":%q},"resources":[{"uri":%[1]q,"digest":"sha256:00","size":1}]}`, uri, text)
}

// openServers returns a gateway in front of servers of 2026-07-28, by name. It is called in a bubble.
func openServers(t *testing.T, servers map[string]mcp.Handler, change func(*config.Config)) *gatewaytest.Gateway {
	t.Helper()
	backends := make(gatewaytest.Backends)
	for name, h := range servers {
		edge := server.New(h, server.Config{AllowedHosts: []string{"*"}})
		t.Cleanup(func() { edge.Close() })
		backends[name] = edge
	}
	return backends.Open(t, change)
}

// No spelling of a name, no method and no profile leads a caller to an item that a rule hides.
func TestHiddenItemsByAnyWay(t *testing.T) {
	spellings := func(scheme, at string) []string {
		return []string{
			scheme + "://" + at, strings.ToUpper(scheme) + "://" + at, scheme + ":" + at, scheme + ":/" + at, scheme + ":///" + at,
			scheme + "://" + strings.ReplaceAll(at, "secret", "%73ecret"), scheme + "://" + strings.ReplaceAll(at, "secret", "x/../secret"),
			scheme + "://" + strings.ReplaceAll(at, "secret", "./secret"), scheme + "://" + at + "#x", scheme + "://" + at + "/.", scheme + "://" + strings.ToUpper(at),
			scheme + "://" + strings.ReplaceAll(at, "secret", "SECRET"), scheme + "://" + at + "/",
		}
	}
	var uris []string
	for _, at := range []string{"secret", "a/secret", "a/a/secret", "b/secret", "t/secret", "a/t/secret", "secret/{x}", "a/secret/{x}", "secret/x", "a/secret/x"} {
		uris = append(uris, spellings("ui", at)...)
		uris = append(uris, spellings("file", "/"+at)...)
	}
	for _, at := range []string{"secret", "a/secret", "b/secret"} {
		uris = append(uris, spellings("skill", at)...)
		uris = append(uris, spellings("skill", at+"/SKILL.md")...)
	}
	names := []string{"secret", "a__secret", "b__secret", "Secret", "secret ", "a__a__secret"}
	broad := []string{"*__secret", "ui://*secret*", "file:*secret*", "skill://*secret*"}
	exact := []string{"a__secret", "b__secret", "ui://a/secret", "ui://b/secret", "file:///secret", "skill://a/secret/SKILL.md", "skill://b/secret/SKILL.md"}
	for i, on := range [][]string{broad, exact} {
		alone := i == 1
		synctest.Test(t, func(t *testing.T) {
			a, b := &lenient{name: "a"}, &lenient{name: "b"}
			profiles := []config.Profile{
				{Name: "own", Servers: []string{"a"}, Names: config.NamesOwn}, {Name: "pass", Servers: []string{"a"}, Names: config.NamesOwn, Extensions: config.ExtensionsPass},
				{Name: "find", Servers: []string{"a"}, Names: config.NamesOwn, View: config.ViewSearch}, {Name: "search", View: config.ViewSearch},
			}
			servers := map[string]mcp.Handler{"a": a, "b": b}
			if alone {
				delete(servers, "b")
			}
			g := openServers(t, servers, func(cfg *config.Config) {
				cfg.Profiles, cfg.Results.Max = profiles, 16<<10
				cfg.Policy = config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{{Name: "r", Deny: `principal.name == "bob"`, On: on}}}
			}).G
			ann, bob := person("ann", ""), person("bob", "")
			send := func(as *mcp.Identity, profile, capabilities, method, params string) string {
				req := requestOf(t, as, method, params)
				req.Profile, req.Client.Capabilities = profile, []byte(capabilities)
				return answerTo(t, g, req)
			}
			if got := send(ann, "", `{}`, "resources/read", `{"uri":"ui://a/secret"}`); !strings.Contains(got, "SECRET of a") {
				t.Fatal(got)
			}
			a.asked = nil
			for _, profile := range []string{"", "own", "pass", "find", "search"} {
				for _, capabilities := range []string{`{}`, rendering} {
					if profile != "" && capabilities != rendering {
						continue
					}
					try := func(method, params string) {
						t.Helper()
						got := send(bob, profile, capabilities, method, params)
						if i == 1 { // other items may have secret in their names
							both := append(a.asked, b.asked...)
							a.asked, b.asked = slices.DeleteFunc(both, func(asked string) bool {
								_, about, _ := strings.Cut(asked, " ")
								return !slices.Contains([]string{"secret", "ui://secret", "file:///secret", "skill://secret/SKILL.md"}, about)
							}), nil
							if len(a.asked) == 0 {
								return
							}
						}
						if strings.Contains(got, "SECRET of") || strings.Contains(got, `"SECRET"`) || len(a.asked)+len(b.asked) > 0 {
							t.Errorf("%d: %q, %s %s: %s, asked %q", i, profile, method, params, got, append(a.asked, b.asked...))
						}
						a.asked, b.asked = nil, nil
					}
					for _, list := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list", "skills/list"} {
						try(list, `{}`)
					}
					for _, uri := range uris {
						for _, method := range []string{"resources/read", "skills/get", "resources/directory/read", "skills/get/"} {
							try(method, fmt.Sprintf(`{"uri":%q}`, uri))
						}
						try("completion/complete", fmt.Sprintf(`{"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"x","value":""}}`, uri))
					}
					try("resources/directory/read", `{"uri":"skill://open"}`)
					try("resources/directory/read", `{"uri":"skill://a/open"}`)
					for _, name := range names {
						try("tools/call", fmt.Sprintf(`{"name":%q}`, name))
						try("tools/call", fmt.Sprintf(`{"name":"call_tool","arguments":{"name":%q}}`, name))
						try("tools/call", fmt.Sprintf(`{"name":"find_tool","arguments":{"query":%q}}`, name))
						try("prompts/get", fmt.Sprintf(`{"name":%q}`, name))
						try("completion/complete", fmt.Sprintf(`{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"x","value":""}}`, name))
					}
				}
			}
		})
	}
}

// The filters for a tool apply to the result of its task, also if its client knows the tool by another name
// after a reload.
func TestFilterOfTaskAfterRename(t *testing.T) {
	for _, names := range []string{config.NamesOwn, ""} {
		withClockSite(t, "modern", func(cfg *config.Config) {
			cfg.Filters = []config.Filter{{In: config.FilterResults, On: []string{"west__long"}, Redact: []config.Redaction{{Match: "west", With: "somewhere"}}}}
			cfg.Profiles[1].Names = names
		}, func(s *clockSite) {
			c, name := peer{s.At("west"), s.At("west").Legacy()}, "long"
			if names == "" {
				name = "west__long"
			}
			get := `"taskId":"` + taskIDIn(s.T, c.send("tools/call", `"name":"`+name+`","task":{}`)) + `"`
			wantIn(s.T, name, c.send("tasks/result", get), "done by somewhere")
			cfg := s.cfg
			cfg.Profiles = slices.Clone(cfg.Profiles)
			cfg.Profiles[1].Names = map[string]string{config.NamesOwn: "", "": config.NamesOwn}[names]
			if err := s.G.Reload(s.T.Context(), cfg); err != nil {
				s.T.Fatal(err)
			}
			synctest.Wait()
			wantIn(s.T, name, c.send("tasks/result", get), "done by somewhere", "!done by west")
		})
	}
}

// A rule that asks about a tool asks whichever name a client has for it, and an agreement is for one call at
// one profile.
func TestConfirmByOwnName(t *testing.T) {
	withConfirm(t, func(cfg *config.Config) {
		cfg.Policy.Rules = cfg.Policy.Rules[:2] // the last one reads arguments, which pass cannot have
		cfg.Profiles = []config.Profile{
			{Name: "own", Servers: []string{"crm"}, Names: config.NamesOwn},
			{Name: "find", Servers: []string{"crm"}, Names: config.NamesOwn, View: config.ViewSearch},
			{Name: "pass", Servers: []string{"crm"}, Names: config.NamesOwn, Extensions: config.ExtensionsPass},
		}
	}, func(p *confirmPeers) {
		p.server.On["tools/list"] = gatewaytest.ResultHandler(`{"tools":[{"name":"delete","title":"Delete a customer","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true},"_meta":{"ui":{"resourceUri":"ui://x"}}}]}`)
		time.Sleep(time.Minute)
		p.PostModern("1", "tools/list", "", "")
		time.Sleep(time.Minute)
		const renders = `{"elicitation":{"form":{}},` + uiExtension + `}`
		at := func(profile string) *confirmPeers {
			own := *p
			own.Gateway = p.At(profile)
			return &own
		}
		for i, tt := range []struct{ profile, name, caps, arguments, other string }{
			{"own", "delete", withForm, arguments, ""},
			{"", "delete", renders, arguments, "own"},
			{"find", "call_tool", withForm, `,"arguments":{"name":"delete"` + arguments + `}`, "own"},
		} {
			asked := at(tt.profile).modern("tools/call", tt.name, tt.caps, tt.arguments)
			p.want(tt.profile, asked, i, `"resultType":"input_required"`, "Title: Delete a customer")
			agreed := retry(p.t, asked, accepted)
			p.want(tt.profile+", another profile", at(tt.other).modern("tools/call", tt.name, tt.caps, tt.arguments+agreed), i, "")
			p.want(tt.profile, at(tt.profile).modern("tools/call", tt.name, tt.caps, tt.arguments+agreed), i+1, `"content":[]`)
			p.want(tt.profile+", again", at(tt.profile).modern("tools/call", tt.name, tt.caps, tt.arguments+agreed), i+1, `requestState is unknown`)
		}
		p.want("a method that is not known", at("pass").modern("x/delete", "delete", withForm, ""), 3, "unknown method")
		if n := p.server.Count("x/delete"); n != 0 {
			p.t.Error("a method that is not known was sent")
		}
	})
}

// The result of a call that began before a reload with other filters was not filtered by those, and is not kept.
func TestResultOfOldFiltersIsNotKept(t *testing.T) {
	started, next := make(chan struct{}), make(chan struct{})
	b := mux.New(mux.Tool{Name: "get", Call: func(context.Context, *mux.Call) (*mux.Result, error) {
		started <- struct{}{}
		<-next
		return mux.Say("%s", secretWord+manyLines(50<<10)), nil
	}})
	t.Cleanup(func() { b.Close() })
	cfg := config.Config{Results: config.Results{Max: 16 << 10}}
	g := gatewaytest.New(t, cfg, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "b", Handler: b}}})
	answered := make(chan string)
	call := func() { answered <- answerTo(t, g, callOf(t, nil, "b__get", `{}`)) }
	go call()
	<-started
	cfg.Filters = []config.Filter{redactFilter("?")}
	if err := g.Reload(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	next <- struct{}{}
	answer := <-answered
	if id, _, ok := readAnswer(t, answer).rest(); ok || strings.Contains(answer, "signalbox://results/") || !strings.Contains(answer, "because the filters have changed") {
		t.Errorf("%.300s", answerTo(t, g, readOf(t, nil, id, 0)))
	}
	if s := g.Status().Results; s.Kept != 0 {
		t.Errorf("%+v", s)
	}
	go call()
	<-started
	next <- struct{}{}
	if id, _, ok := readAnswer(t, <-answered).rest(); !ok || strings.Contains(answerTo(t, g, readOf(t, nil, id, 0)), secretWord) {
		t.Error("a result of the filters in use is not kept, or not filtered")
	}
}

// A subscription to a resource has the updates of those within it, but for those that a rule hides.
func TestUpdatesOfHiddenResources(t *testing.T) {
	for _, behind := range []string{"legacy", "modern"} {
		withPageSite(t, behind, func(cfg *config.Config) {
			cfg.Profiles = append(cfg.Profiles, config.Profile{Name: "own", Servers: []string{"b"}, Names: config.NamesOwn})
			cfg.Policy = config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{{Name: "r", Deny: "true", On: []string{"ui://b/page/big", "ui://b/page/secret*"}}}}
		}, func(s *pageSite) {
			streams := make(map[string]*gatewaytest.EventStream)
			for profile, uri := range map[string]string{"": "ui://b/page", "of-b": "ui://page", "own": "ui://page"} {
				c := s.peers(profile)["session"]
				wantIn(s.T, profile, c.send("resources/subscribe", fmt.Sprintf(`"uri":%q`, uri)), `"result"`)
				streams["session at "+profile] = c.Listen(c.sess)
				body, hs := gatewaytest.ModernRequest("1", "subscriptions/listen", "", `"notifications":{"resourceSubscriptions":["`+uri+`"]}`)
				streams["modern at "+profile] = c.Stream(c.Request(s.T.Context(), http.MethodPost, body, hs))
				wantIn(s.T, "agreed", streams["modern at "+profile].Next(), uri)
			}
			time.Sleep(time.Minute)
			for _, uri := range []string{"ui://page/big", "ui://page/secret/x", "ui://page/%73ecret", "ui://page/open", "ui://page"} {
				if err := s.servers["b"].Updated(uri); err != nil {
					s.T.Fatal(err)
				}
				time.Sleep(time.Minute)
			}
			for what, stream := range streams {
				if !strings.HasSuffix(what, "own") { // there, what no list has is no resource to a caller with a policy
					wantIn(s.T, what+" to "+behind, stream.Next(), `page/open"`)
				}
				wantIn(s.T, what+" to "+behind, stream.Next(), `page"`)
			}
		})
	}
}

// Methods with ids that the gateway replaces reach no server, also where extensions pass, and the server gets
// no token of a client.
func TestPassOfMethodsLikeKnownOnes(t *testing.T) {
	withPassSite(t, nil, func(s *passSite) {
		s.eachEra("pass", func(what string, send func(method, params string) string) {
			before := len(s.server.Seen())
			for _, method := range []string{"tasks/x", "tasks/", "sampling/createMessage", "elicitation/create", "roots/list", "notifications/x", "notifications/cancelled", "notifications/progress", "initialize", "notifications/initialized"} {
				if got := send(method, `"taskId":"x","requestId":1,"progressToken":1`); strings.Contains(got, `"result":{"events"`) {
					t.Errorf("%s: %s: %s", what, method, got)
				}
			}
			for _, seen := range s.server.Seen()[before:] {
				if strings.HasPrefix(seen.Method, "tasks/") || strings.HasPrefix(seen.Method, "notifications/x") || seen.Method == "notifications/progress" {
					t.Errorf("%s: the server has received %s %s", what, seen.Method, seen.Body)
				}
			}
			for _, method := range []string{"events/list", strings.Repeat("e", 5000), "Tools/Call"} {
				before = len(s.server.Seen())
				send(method, `"name":"now","requestState":"forged","inputResponses":{}`)
				for _, seen := range s.server.Seen()[before:] {
					if strings.Contains(seen.Body, `"mine"`) {
						t.Errorf("%s: the server has received the token of the client: %s", what, seen.Body)
					}
				}
			}
		})
	})
}

// Clients of several faces and profiles call, list and read while lists change and reloads add and remove
// profiles, for users with lists of their own: each gets an answer, and never an item of another server by
// an own name.
func TestFacesAndReloadsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools := []string{page("show"), appOnly("refresh"), tool("plain", "")}
		a, b := newAppServer(false, tools, tools), newAppServer(true, tools, tools)
		var cfg config.Config
		h := gatewaytest.Backends{"a": a, "b": b}.Open(t, func(c *config.Config) {
			gatewaytest.WithPrincipals(c, "ann", "bob")
			c.Results.Max, c.Filters = 16<<10, []config.Filter{redactFilter("?")}
			c.Profiles = []config.Profile{{Name: "a", Servers: []string{"a"}, Names: config.NamesOwn}, {Name: "find", Servers: []string{"b"}, Names: config.NamesOwn, View: config.ViewSearch}}
			c.Policy = config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{{Name: "r", Deny: `principal.name == "bob"`, On: []string{"*__plain"}}}}
			cfg = *c
		})
		var all sync.WaitGroup
		for _, name := range []string{"ann", "bob"} {
			for _, profile := range []string{"", "a", "find"} {
				for _, version := range []mcp.Version{mcp.V20251125, mcp.V20260728} {
					for _, capabilities := range []string{`{}`, rendering} {
						c := openAs(h.At(profile), version, capabilities, gatewaytest.WithToken(name))
						all.Go(func() {
							for range 4 {
								for _, method := range []string{"tools/list", "resources/list", "skills/list"} {
									c.request(method, "", "")
								}
								for _, tool := range []string{"show", "refresh", "plain", "a__plain"} {
									got := c.call(tool)
									if profile == "a" && strings.Contains(got, "of b") || name == "bob" && strings.Contains(got, "plain of") {
										t.Errorf("%s at %q: %s", name, profile, got)
									}
								}
								c.request("tools/call", "read_result", `"arguments":{"id":"x"}`)
								time.Sleep(time.Second)
							}
						})
					}
				}
			}
		}
		all.Go(func() {
			for i := range 6 {
				next := cfg
				next.Profiles = cfg.Profiles[:i%3]
				if i%2 == 0 {
					next.Filters = nil
				}
				if err := h.G.Reload(t.Context(), next); err != nil {
					t.Error(err)
				}
				a.set(page("show"), tool("plain", ""), page(fmt.Sprint("t", i)))
				time.Sleep(700 * time.Millisecond)
			}
		})
		all.Wait()
	})
}
