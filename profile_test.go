// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
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

// profileServer is a server with items of all kinds, which records the requests for them.
type profileServer struct {
	*mux.Mux

	name string
	more string // that the tools say
	mu   sync.Mutex
	seen []string
}

func newProfileServer(name string) *profileServer {
	s := &profileServer{name: name}
	tool := func(own string) mux.Tool {
		return mux.Tool{Name: own, Call: func(context.Context, *mux.Call) (*mux.Result, error) {
			return mux.Say("%s of %s%s", own, name, s.more), nil
		}}
	}
	slow := mux.Tool{Name: "slow", Task: mux.TaskOptional, Call: func(ctx context.Context, call *mux.Call) (*mux.Result, error) {
		return call.Background(ctx, func(ctx context.Context, _ *mux.Call) (*mux.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	}}
	s.Mux = mux.New(tool("read"), tool("delete"), slow,
		mux.Prompt{Name: "ask", Arguments: []mux.Argument{{Name: "x", Complete: func(context.Context, string, map[string]string) ([]string, error) { return []string{name}, nil }}},
			Get: func(context.Context, *mux.Call) ([]mux.Message, error) { return nil, nil }},
		mux.Resource{URI: name + ":1", Name: "r", Read: s.read},
		mux.Template{URI: name + ":t/{x}", Name: "t", Read: s.read},
	)
	s.Name, s.Version, s.Instructions = name, "1", "Use "+name+"."
	return s
}

func (s *profileServer) read(_ context.Context, call *mux.Call) ([]mux.Contents, error) {
	uri, _ := call.Request.Params.Text(mcp.FieldURI)
	return []mux.Contents{mux.TextContents(uri, "", "of "+s.name)}, nil
}

func (s *profileServer) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	s.note(req.Method)
	return s.Mux.Serve(ctx, req, caller)
}

func (s *profileServer) note(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if method != "server/discover" && method != "subscriptions/listen" && !strings.HasSuffix(method, "/list") {
		s.seen = append(s.seen, method)
	}
}

// took returns the requests received since the last call, except those of the gateway itself.
func (s *profileServer) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

// profileSite is a gateway in front of the servers files, github and wiki, with the profiles
// coding (files and github, without what deletes) and research (wiki).
type profileSite struct {
	*gatewaytest.Gateway

	servers map[string]*profileServer
	cfg     config.Config
}

func withProfileSite(t *testing.T, era string, change func(*config.Config), f func(*profileSite)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &profileSite{servers: make(map[string]*profileServer)}
		backends := make(gatewaytest.Backends)
		for _, name := range []string{"files", "github", "wiki"} {
			s.servers[name] = newProfileServer(name)
			edge := server.New(s.servers[name], server.Config{AllowedHosts: []string{"*"}})
			t.Cleanup(func() {
				edge.Close()
				s.servers[name].Close()
			})
			backends[name] = edge
		}
		s.Gateway = backends.Open(t, func(cfg *config.Config) {
			for i := range cfg.Servers {
				cfg.Servers[i].Era = era
			}
			cfg.Profiles = []config.Profile{
				{Name: "coding", Servers: []string{"files", "github"}, Exclude: []string{"*delete*"}},
				{Name: "research", Servers: []string{"wiki"}},
			}
			if change != nil {
				change(cfg)
			}
			s.cfg = *cfg
		})
		f(s)
	})
}

// peer sends requests of one era to a profile.
type peer struct {
	*gatewaytest.Gateway

	sess gatewaytest.Header // nil for a modern client
}

// ask returns the body of the answer without the id.
func (p peer) ask(method, name, params string) string {
	p.T.Helper()
	if p.sess == nil {
		return p.PostModern("1", method, name, params).Body
	}
	if name != "" {
		params = `"name":"` + name + `"` + strings.TrimSuffix(","+params, ",")
	}
	return p.Post(gatewaytest.LegacyRequest("1", method, "{"+params+"}"), p.sess).Body
}

// peers returns a client of each era of a profile.
func (s *profileSite) peers(profile string) map[string]peer {
	at := s.At(profile)
	return map[string]peer{"modern": {at, nil}, "session": {at, at.Legacy()}}
}

// namesIn returns the values of a member of all items of a list.
func namesIn(t *testing.T, body, list, member string) []string {
	t.Helper()
	var answer struct {
		Result map[string]json.RawMessage `json:"result"`
	}
	var items []map[string]any
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if err := json.Unmarshal(answer.Result[list], &items); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var names []string
	for _, it := range items {
		names = append(names, fmt.Sprint(it[member]))
	}
	return names
}

// A profile lists what it selects, and calls of that reach its servers, for each pair of eras.
func TestProfileInEachEra(t *testing.T) {
	for _, behind := range []string{"legacy", "modern"} {
		t.Run("in front of "+behind, func(t *testing.T) {
			withProfileSite(t, behind, nil, func(s *profileSite) {
				for era, c := range s.peers("coding") {
					for list, want := range map[string]string{
						"tools/list tools name":                                  "files__read files__slow github__read github__slow",
						"prompts/list prompts name":                              "files__ask github__ask",
						"resources/list resources uri":                           "files:1 github:1",
						"resources/templates/list resourceTemplates uriTemplate": "files:t/{x} github:t/{x}",
					} {
						of := strings.Fields(list)
						got := strings.Join(namesIn(t, c.ask(of[0], "", ""), of[1], of[2]), " ")
						gatewaytest.WantEqual(t, era+" "+of[0], got, want)
					}
					for _, tt := range []struct{ method, name, params, want string }{
						{"tools/call", "github__read", "", "read of github"},
						{"prompts/get", "files__ask", "", `"messages":[]`},
						{"resources/read", "", `"uri":"files:1"`, "of files"},
						{"resources/read", "", `"uri":"github:t/7"`, "of github"},
						{"completion/complete", "", `"ref":{"type":"ref/prompt","name":"github__ask"},"argument":{"name":"x","value":""}`, `"values":["github"]`},
					} {
						got := s.askAs(c, tt.method, tt.name, tt.params)
						if !strings.Contains(got, tt.want) {
							t.Errorf("%s: %s %s%s: %s, want %s", era, tt.method, tt.name, tt.params, got, tt.want)
						}
					}
				}
			})
		})
	}
}

// askAs is ask, with the header that mirrors a URI.
func (s *profileSite) askAs(c peer, method, name, params string) string {
	if c.sess != nil || name != "" || !strings.HasPrefix(params, `"uri":"`) {
		return c.ask(method, name, params)
	}
	body, hs := gatewaytest.ModernRequest("1", method, "", params)
	uri, _, _ := strings.Cut(strings.TrimPrefix(params, `"uri":"`), `"`)
	hs["Mcp-Name"] = uri
	return c.Post(body, hs).Body
}

// callID matches the id of a call in an error.
var callID = regexp.MustCompile(`[0-9a-z]{5}-[0-9a-z]{5}`)

// withoutCall removes the ids of calls.
func withoutCall(body string) string { return callID.ReplaceAllString(body, "CALL") }

// What is outside of a profile is answered like what does not exist, byte for byte, and no
// server receives the request.
func TestProfileHidesTheRest(t *testing.T) {
	for _, behind := range []string{"legacy", "modern"} {
		withProfileSite(t, behind, nil, func(s *profileSite) {
			for era, c := range s.peers("coding") {
				for _, server := range s.servers {
					server.took()
				}
				for _, tt := range []struct{ method, params, hidden, unknown string }{
					{"tools/call", `"name":"NAME"`, "wiki__read", "wiki__none"},
					{"tools/call", `"name":"NAME"`, "files__delete", "files__nonono"},
					{"prompts/get", `"name":"NAME"`, "wiki__ask", "wiki__non"},
					{"resources/read", `"uri":"NAME"`, "wiki:1", "wiki:0"},
					{"resources/read", `"uri":"NAME"`, "wiki:t/1", "none:t/1"},
					{"completion/complete", `"ref":{"type":"ref/prompt","name":"NAME"},"argument":{"name":"x","value":""}`, "wiki__ask", "wiki__non"},
				} {
					send := func(name string) string {
						params := strings.ReplaceAll(tt.params, "NAME", name)
						if c.sess != nil {
							return c.Post(gatewaytest.LegacyRequest("1", tt.method, "{"+params+"}"), c.sess).Body
						}
						body, hs := gatewaytest.ModernRequest("1", tt.method, "", params)
						if tt.method != "completion/complete" {
							hs["Mcp-Name"] = name
						}
						return c.Post(body, hs).Body
					}
					hidden, unknown := withoutCall(send(tt.hidden)), withoutCall(send(tt.unknown))
					if want := strings.ReplaceAll(unknown, tt.unknown, tt.hidden); hidden != want || !strings.Contains(hidden, `"error"`) {
						t.Errorf("%s in front of %s: %s %s: %s\nwant %s", era, behind, tt.method, tt.hidden, hidden, want)
					}
				}
				if c.sess != nil {
					subscribe := func(uri string) string {
						return c.Post(gatewaytest.LegacyRequest("1", "resources/subscribe", `{"uri":"`+uri+`"}`), c.sess).Body
					}
					hidden, unknown := withoutCall(subscribe("wiki:1")), withoutCall(subscribe("wiki:0"))
					gatewaytest.WantEqual(t, "subscribed", hidden, strings.ReplaceAll(unknown, "wiki:0", "wiki:1"))
					c.Post(gatewaytest.LegacyRequest("1", "logging/setLevel", `{"level":"debug"}`), c.sess)
					c.Post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, c.sess)
				}
				synctest.Wait()
				if got := s.servers["wiki"].took(); len(got) > 0 {
					t.Errorf("%s in front of %s: a server outside of the profile received %q", era, behind, got)
				}
				if got := s.servers["files"].took(); slices.Contains(got, "tools/call") {
					t.Errorf("%s in front of %s: an excluded tool was called", era, behind)
				}
			}
		})
	}
}

// Capabilities and instructions are those of the servers of a profile.
func TestProfileDescribesItself(t *testing.T) {
	withProfileSite(t, "modern", nil, func(s *profileSite) {
		for profile, want := range map[string]string{
			"":         `"# files\n\nUse files.\n\n# github\n\nUse github.\n\n# wiki\n\nUse wiki."`,
			"coding":   `"# files\n\nUse files.\n\n# github\n\nUse github."`,
			"research": `"# wiki\n\nUse wiki."`,
		} {
			at := s.At(profile)
			discovered := at.PostModern("1", "server/discover", "", "").Body
			initialized := at.Post(initializeMessage).Body
			for _, got := range []string{discovered, initialized} {
				if !strings.Contains(got, `"instructions":`+want) {
					t.Errorf("%q: %s, want %s", profile, got, want)
				}
			}
		}
	})
}

// Clients of a profile are notified of changes of its servers only, also if the server
// announces a change that does not show, and with a policy.
func TestProfileIsNotifiedOfItsOwnChanges(t *testing.T) {
	withRule := func(cfg *config.Config) {
		cfg.Policy = config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{{Name: "none", Deny: "true", On: []string{"none__*"}}}}
	}
	for _, behind := range []string{"legacy", "modern"} {
		t.Run(behind, func(t *testing.T) { profileIsNotified(t, behind, nil) })
		t.Run(behind+", with a policy", func(t *testing.T) { profileIsNotified(t, behind, withRule) })
	}
}

func profileIsNotified(t *testing.T, behind string, change func(*config.Config)) {
	t.Helper()
	withProfileSite(t, behind, change, func(s *profileSite) {
		time.Sleep(time.Minute)
		streams := make(map[string]*gatewaytest.EventStream)
		for _, profile := range []string{"coding", "research"} {
			at := s.At(profile)
			sess := at.Legacy()
			at.Post(gatewaytest.LegacyRequest("1", "tools/list", "{}"), sess)
			at.Post(gatewaytest.LegacyRequest("2", "resources/subscribe", fmt.Sprintf(`{"uri":%q}`, map[string]string{"coding": "files:1", "research": "wiki:1"}[profile])), sess)
			streams[profile+" session"] = at.Listen(sess)
			body, hs := gatewaytest.ModernRequest("1", "subscriptions/listen", "", `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["files:1","wiki:1"]}`)
			listen := at.Stream(at.Request(s.T.Context(), http.MethodPost, body, hs))
			ack := listen.Next()
			if strings.Contains(ack, "files:1") != (profile == "coding") || strings.Contains(ack, "wiki:1") != (profile == "research") {
				t.Errorf("%s: agreed to %s", profile, ack)
			}
			streams[profile+" listen"] = listen
		}
		synctest.Wait()
		last := make(map[string]string)
		hear := func(what, concerned string) {
			t.Helper()
			for name, st := range streams {
				if !strings.HasPrefix(name, concerned) {
					continue
				}
				got := st.Next()
				// A server may announce a change in several of its sessions.
				for last[name] != "" && strings.Contains(got, last[name]) {
					got = st.Next()
				}
				if last[name] = what; !strings.Contains(got, what) {
					t.Errorf("%s in front of %s heard %s, want %s", name, behind, got, what)
				}
			}
		}
		// If another profile heard of a change, that would come before its own.
		s.servers["wiki"].MustAdd(mux.Tool{Name: "more", Call: func(context.Context, *mux.Call) (*mux.Result, error) { return mux.Say("x"), nil }})
		hear("tools/list_changed", "research")
		time.Sleep(time.Minute)
		if err := s.servers["wiki"].Updated("wiki:1"); err != nil {
			t.Fatal(err)
		}
		hear("resources/updated", "research")
		time.Sleep(time.Minute)
		if err := s.servers["files"].Updated("files:1"); err != nil {
			t.Fatal(err)
		}
		hear("resources/updated", "coding")
		time.Sleep(time.Minute)
		// An excluded tool: the server announces it, and the list stays the same.
		s.servers["github"].MustAdd(mux.Tool{Name: "delete_all", Call: func(context.Context, *mux.Call) (*mux.Result, error) { return mux.Say("x"), nil }})
		hear("tools/list_changed", "coding")
		for name, st := range streams {
			if strings.HasPrefix(name, "research") {
				st.WantSilence(time.Minute)
			}
		}
	})
}

// A server that does not answer delays only the profiles that it is in.
func TestProfileDoesNotWaitForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := server.New(newProfileServer("files"), server.Config{AllowedHosts: []string{"*"}})
		defer files.Close()
		hangs := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // otherwise the end of the connection is not noticed
			<-r.Context().Done()
		})
		h := gatewaytest.Backends{"files": files, "wiki": hangs}.Open(t, func(cfg *config.Config) {
			cfg.Profiles = []config.Profile{{Name: "coding", Servers: []string{"files"}}, {Name: "research", Servers: []string{"wiki"}}}
		})
		began := time.Now()
		at := h.At("coding")
		at.PostModern("1", "tools/list", "", "")
		at.PostModern("1", "server/discover", "", "")
		at.Legacy()
		// The name may be that of the server that does not answer; here it is unknown.
		if got := at.PostModern("1", "tools/call", "wiki__read", "").Body; !strings.Contains(got, `unknown tool: \"wiki__read\"`) {
			t.Errorf("a call outside of the profile: %s", got)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
		h.At("research").PostModern("1", "tools/list", "", "")
		if took := time.Since(began); took == 0 {
			t.Error("the profile with the server did not wait for it")
		}
	})
}

// Tasks belong to the profile at which they were started, in both eras: elsewhere their ids are
// unknown, and no list has them.
func TestTasksOfAProfile(t *testing.T) {
	withProfileSite(t, "legacy", func(cfg *config.Config) { gatewaytest.WithPrincipals(cfg, "ann") }, func(s *profileSite) {
		ann := gatewaytest.WithToken("ann")
		sessions := make(map[string]gatewaytest.Header)
		for _, profile := range []string{"", "coding", "research"} {
			sessions[profile] = s.At(profile).Legacy(ann)
		}
		ask := func(profile, method, params string) string {
			return s.At(profile).Post(gatewaytest.LegacyRequest("1", method, params), sessions[profile]).Body
		}
		begun := ask("coding", "tools/call", `{"name":"files__slow","task":{}}`)
		_, rest, _ := strings.Cut(begun, `"taskId":"`)
		id, _, ok := strings.Cut(rest, `"`)
		if !ok {
			t.Fatalf("no task: %s", begun)
		}
		for _, profile := range []string{"", "research"} {
			for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
				got, want := withoutCall(ask(profile, method, `{"taskId":"`+id+`"}`)), withoutCall(ask(profile, method, `{"taskId":"none"}`))
				if got != want || !strings.Contains(got, "unknown task") {
					t.Errorf("%s at %q: %s, want %s", method, profile, got, want)
				}
			}
			gatewaytest.WantEqual(t, "tasks at "+profile, ask(profile, "tasks/list", "{}"), `{"jsonrpc":"2.0","id":1,"result":{"tasks":[]}}`)
			body, hs := gatewaytest.ModernRequest("1", "tasks/get", "", `"taskId":"`+id+`"`)
			body = strings.Replace(body, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
			hs["Mcp-Name"] = id
			if got := s.At(profile).Post(body, hs, ann).Body; !strings.Contains(got, "unknown task") {
				t.Errorf("modern tasks/get at %q: %s", profile, got)
			}
			if got := s.At("coding").Post(body, hs, ann).Body; !strings.Contains(got, `"status":"working"`) {
				t.Errorf("modern tasks/get at its own profile: %s", got)
			}
		}
		if got := ask("coding", "tasks/list", "{}"); !strings.Contains(got, id) {
			t.Errorf("tasks of its own profile: %s", got)
		}
		if got := ask("coding", "tasks/cancel", `{"taskId":"`+id+`"}`); !strings.Contains(got, `"status":"cancelled"`) {
			t.Errorf("cancelled at its own profile: %s", got)
		}
	})
}

// A reload adds profiles, changes them with a notification to their clients, and removes them
// with their sessions. Everything else stays.
func TestReloadOfProfiles(t *testing.T) {
	withProfileSite(t, "modern", nil, func(s *profileSite) {
		if got := s.At("new").PostModern("1", "tools/list", "", ""); got.Status != 404 {
			t.Errorf("a profile that does not exist: %d %s", got.Status, got.Body)
		}
		coding, research := s.At("coding"), s.At("research")
		codingSession, researchSession, whole := coding.Legacy(), research.Legacy(), s.At("").Legacy()
		coding.Post(gatewaytest.LegacyRequest("1", "tools/list", "{}"), codingSession)
		codingStream, researchStream := coding.Listen(codingSession), research.Listen(researchSession)
		next := s.cfg
		next.Profiles = []config.Profile{{Name: "coding", Servers: []string{"github"}}, {Name: "new", Include: []string{"*read"}}}
		if err := s.G.Reload(s.T.Context(), next); err != nil {
			t.Fatal(err)
		}
		if got := codingStream.Next(); !strings.Contains(got, "tools/list_changed") {
			t.Errorf("clients of a changed profile heard %s", got)
		}
		gatewaytest.WantEqual(t, "the changed profile", strings.Join(namesIn(t, coding.Post(gatewaytest.LegacyRequest("2", "tools/list", "{}"), codingSession).Body, "tools", "name"), " "), "github__read github__delete github__slow")
		gatewaytest.WantEqual(t, "the new profile", strings.Join(namesIn(t, s.At("new").PostModern("1", "tools/list", "", "").Body, "tools", "name"), " "), "files__read github__read wiki__read")
		researchStream.WantSilence(time.Second) // it has ended
		for _, hs := range []gatewaytest.Header{researchSession, nil} {
			if got := research.Post(gatewaytest.LegacyRequest("3", "tools/list", "{}"), hs); got.Status != 404 || got.Body != "404 page not found\n" {
				t.Errorf("the removed profile: %d %s", got.Status, got.Body)
			}
		}
		if got := s.At("").Post(gatewaytest.LegacyRequest("4", "tools/list", "{}"), whole); got.Status != 200 {
			t.Errorf("a session of everything: %d %s", got.Status, got.Body)
		}
		// The session does not come back with the profile.
		if err := s.G.Reload(s.T.Context(), s.cfg); err != nil {
			t.Fatal(err)
		}
		if got := research.Post(gatewaytest.LegacyRequest("5", "tools/list", "{}"), researchSession); got.Status != 404 || !strings.Contains(got.Body, "session not found") {
			t.Errorf("the session of a profile that was removed: %d %s", got.Status, got.Body)
		}
	})
}

// A token that is tied to profiles is for these only. All else is as an unknown path.
func TestTokenOfProfiles(t *testing.T) {
	cfg, path := auditedConfig(t)
	synctest.Test(t, func(t *testing.T) {
		cfg.Profiles = []config.Profile{{Name: "coding"}, {Name: "research"}}
		cfg.Auth.Tokens[0].Profiles = []string{"coding"}
		opt := signalbox.Options{NotFound: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "nothing", http.StatusNotFound) })}
		h := gatewaytest.Open(t, cfg, opt)
		ann, bob := gatewaytest.Header{"Authorization": "Bearer token-of-ann"}, gatewaytest.Header{"Authorization": "Bearer token-of-bob"}
		for _, tt := range []struct {
			profile string
			token   gatewaytest.Header
			status  int
		}{
			{"coding", ann, 200}, {"research", ann, 404}, {"", ann, 404}, {"none", ann, 404},
			{"coding", bob, 200}, {"research", bob, 200}, {"", bob, 200}, {"none", bob, 404},
			{"coding", nil, 401}, {"none", nil, 401},
		} {
			got := h.At(tt.profile).PostModern("1", "tools/list", "", "", tt.token)
			if got.Status != tt.status || tt.status == 404 && got.Body != "nothing\n" {
				t.Errorf("%v at %q: %d %s, want %d", tt.token, tt.profile, got.Status, got.Body, tt.status)
			}
		}
	})
	got := slices.DeleteFunc(auditOf(t, path), func(line string) bool { return !strings.HasPrefix(line, "foreign_profile") })
	if want := []string{"foreign_profile ann research", "foreign_profile ann everything", "foreign_profile ann none"}; !slices.Equal(got, want) {
		t.Errorf("audited: %q, want %q", got, want)
	}
}

// The audit record has calls of items that are outside of the profile.
func TestAuditOfAProfile(t *testing.T) {
	cfg, path := auditedConfig(t)
	cfg.Profiles = []config.Profile{{Name: "coding", Exclude: []string{"*delete*"}}}
	synctest.Test(t, func(t *testing.T) {
		h := gatewaytest.Open(t, cfg, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "files", Handler: newProfileServer("files")}}})
		token := gatewaytest.Header{"Authorization": "Bearer token-of-bob"}
		h.At("coding").PostModern("1", "tools/call", "files__delete", "", token)
		h.At("coding").PostModern("1", "tools/call", "files__none", "", token)
		h.At("").PostModern("1", "tools/call", "files__delete", "", token)
		synctest.Wait()
	})
	got := slices.DeleteFunc(auditOf(t, path), func(line string) bool { return !strings.HasPrefix(line, "hidden_item") })
	if want := []string{`hidden_item bob tool "files__delete"`}; !slices.Equal(got, want) {
		t.Errorf("audited: %q, want %q", got, want)
	}
}

// TestRandomProfiles checks for random profiles that the list of a profile is that of
// everything without what the profile does not select, and that exactly the listed tools can be
// called.
func TestRandomProfiles(t *testing.T) {
	patterns := []string{"*", "files__*", "*read", "*__delete", "wiki__slow", "*e*", "github__r*"}
	r := rand.New(rand.NewPCG(1, 2))
	some := func(from []string, most int) []string {
		var picked []string
		for _, i := range r.Perm(len(from))[:r.IntN(most+1)] {
			picked = append(picked, from[i])
		}
		return picked
	}
	var all []config.Profile
	for i := range 40 {
		p := config.Profile{Name: fmt.Sprint("p", i), Servers: some([]string{"files", "github", "wiki"}, 3)}
		p.Include, p.Exclude = some(patterns, 2), some(patterns[1:], 2)
		alone := config.Config{Profiles: []config.Profile{p}}
		for _, name := range []string{"files", "github", "wiki"} {
			alone.Servers = append(alone.Servers, config.Backend{Name: name, URL: "http://x"})
		}
		if alone.Validate() == nil { // patterns may contradict each other
			all = append(all, p)
		}
	}
	withProfileSite(t, "modern", func(cfg *config.Config) { cfg.Profiles = all }, func(s *profileSite) {
		whole := namesIn(t, s.PostModern("1", "tools/list", "", "").Body, "tools", "name")
		for _, p := range all {
			at := s.At(p.Name)
			selects := config.Backend{Include: p.Include, Exclude: p.Exclude}
			var want []string
			for _, name := range whole {
				of, _, _ := strings.Cut(name, "__")
				listed := (p.Servers == nil || slices.Contains(p.Servers, of)) && selects.Offers(name)
				if listed {
					want = append(want, name)
				}
				if strings.HasSuffix(name, "slow") {
					continue
				}
				if got := at.PostModern("1", "tools/call", name, "").Body; strings.Contains(got, "of "+of) != listed {
					t.Errorf("%+v: call of %s: %s, listed: %t", p, name, got, listed)
				}
			}
			if got := namesIn(t, at.PostModern("1", "tools/list", "", "").Body, "tools", "name"); !slices.Equal(got, want) {
				t.Errorf("%+v lists %q, want %q", p, got, want)
			}
		}
	})
}

// Notifications of a client, which all backends may receive, do not reach those outside of its
// profile. Nor does the profile itself: a backend may be a gateway with profiles of its own.
func TestProfileOfRequestsInProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := server.New(newProfileServer("files"), server.Config{AllowedHosts: []string{"*"}})
		defer files.Close()
		other := newProfileServer("other")
		cfg := config.Config{Profiles: []config.Profile{{Name: "coding", Servers: []string{"files"}}, {Name: "all"}}}
		cfg.Servers = []config.Backend{{Name: "files", URL: "http://files/mcp"}}
		way := gatewaytest.ServeBackends(t, files)
		inner := gatewaytest.New(t, config.Config{}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "deep", Handler: other}}})
		h := gatewaytest.Open(t, cfg, signalbox.Options{Transport: way, InProcess: []signalbox.InProcess{{Name: "other", Handler: other}, {Name: "inner", Handler: inner}}})
		for profile, want := range map[string][]string{"coding": nil, "all": {"logging/setLevel", "notifications/roots/list_changed"}} {
			other.took()
			at := h.At(profile)
			sess := at.Legacy()
			at.Post(gatewaytest.LegacyRequest("1", "logging/setLevel", `{"level":"debug"}`), sess)
			at.Post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, sess)
			synctest.Wait()
			got := other.took()
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, want) {
				t.Errorf("at %s a backend in the process received %q, want %q", profile, got, want)
			}
		}
		if got := h.At("all").PostModern("1", "tools/call", "inner__deep__read", "").Body; !strings.Contains(got, "read of other") {
			t.Errorf("a call through an inner gateway: %s", got)
		}
	})
}

// BenchmarkListBesideProfiles measures a list of everything, which profiles must not slow down.
func BenchmarkListBesideProfiles(b *testing.B) {
	for _, n := range []int{0, 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var cfg config.Config
			for i := range n {
				cfg.Profiles = append(cfg.Profiles, config.Profile{Name: fmt.Sprint("p", i), Exclude: []string{"*delete*"}})
			}
			g, err := signalbox.New(cfg, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "files", Handler: newProfileServer("files")}}})
			if err != nil {
				b.Fatal(err)
			}
			defer g.Close()
			req, err := mcp.NewRequest("tools/list", nil)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := g.Serve(b.Context(), req, ignoringCaller{}); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := g.ServeNow(req); !ok {
					b.Fatal("the list is not known")
				}
			}
		})
	}
}
