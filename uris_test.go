// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// newPageServer returns a server with an app. All of them have the same names and URIs.
func newPageServer(name string) *mux.Mux {
	read := func(_ context.Context, call *mux.Call) ([]mux.Contents, error) {
		uri, _ := call.Request.Params.Text(mcp.FieldURI)
		text := uri + " of " + name
		if strings.HasSuffix(uri, "/big") {
			text += strings.Repeat(".", 200<<10)
		}
		return []mux.Contents{mux.TextContents(uri, "text/html;profile=mcp-app", text)}, nil
	}
	shown := func() *mux.Result {
		res := mux.Show(mux.Link("ui://page", "page"), mux.Embed(mux.TextContents("skill://s/SKILL.md", "", "ui://page of "+name)), mux.Text("ui://page"), mux.Link("file:///shared", "shared"))
		res.Meta = `{"ui":{"resourceUri":"ui://page"},"openai/outputTemplate":"ui://page"}`
		return res
	}
	city := func(context.Context, string, map[string]string) ([]string, error) { return []string{name}, nil }
	m := mux.New(
		mux.Tool{Name: "show", Meta: `{"ui":{"resourceUri":"ui://page"},"ui/resourceUri":"ui://page"}`,
			Call: func(context.Context, *mux.Call) (*mux.Result, error) { return shown(), nil }},
		mux.Tool{Name: "later", Task: mux.TaskOptional, Call: func(ctx context.Context, call *mux.Call) (*mux.Result, error) {
			return call.Background(ctx, func(context.Context, *mux.Call) (*mux.Result, error) { return shown(), nil })
		}},
		mux.Tool{Name: "big", Call: func(context.Context, *mux.Call) (*mux.Result, error) {
			return mux.Show(mux.Link("ui://page", "page"), mux.Text(strings.Repeat(".", 200<<10))), nil
		}},
		mux.Prompt{Name: "ask", Get: func(context.Context, *mux.Call) ([]mux.Message, error) {
			return []mux.Message{mux.User(mux.Link("ui://page", "page")), mux.Assistant(mux.Embed(mux.TextContents("ui://page", "", "p")))}, nil
		}},
		mux.Resource{URI: "ui://page", Name: "page", Read: read},
		mux.Resource{URI: "ui://page/big", Name: "big", Read: read},
		mux.Resource{URI: "ui://only-" + name, Name: "only", Read: read},
		mux.Resource{URI: "file:///shared", Name: "shared", Read: read},
		mux.Template{URI: "ui://at/{city}", Name: "at", Read: read, Complete: map[string]mux.Completer{"city": city}},
	)
	m.Name, m.Version = name, "1"
	return m
}

// pageSite is a gateway in front of the servers a and b, which are equal but for one resource.
type pageSite struct {
	*gatewaytest.Gateway

	servers map[string]*mux.Mux
}

func withPageSite(t *testing.T, era string, change func(*config.Config), f func(*pageSite)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &pageSite{servers: make(map[string]*mux.Mux)}
		backends := make(gatewaytest.Backends)
		for _, name := range []string{"a", "b"} {
			s.servers[name] = newPageServer(name)
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
			cfg.Profiles = []config.Profile{{Name: "of-b", Servers: []string{"b"}}}
			if change != nil {
				change(cfg)
			}
		})
		f(s)
	})
}

// peers returns a client of each era of a profile.
func (s *pageSite) peers(profile string) map[string]peer {
	at := s.At(profile)
	return map[string]peer{"modern": {at, nil}, "session": {at, at.Legacy()}}
}

// eachPagePeer calls f for each pair of eras, which what names.
func eachPagePeer(t *testing.T, change func(*config.Config), f func(what string, s *pageSite, c peer)) {
	t.Helper()
	for _, behind := range []string{"legacy", "modern"} {
		withPageSite(t, behind, change, func(s *pageSite) {
			for era, c := range s.peers("") {
				f(era+" to "+behind, s, c)
			}
		})
	}
}

var mirroredName = regexp.MustCompile(`^"(?:uri|name)":"([^"]*)"`)

// send returns the body of the answer to a request. Its name or URI is the first of the parameters.
func (p peer) send(method, params string, headers ...gatewaytest.Header) string {
	p.T.Helper()
	if p.sess != nil {
		return p.Post(gatewaytest.LegacyRequest("1", method, "{"+params+"}"), append(headers, p.sess)...).Body
	}
	body, hs := gatewaytest.ModernRequest("1", method, "", params)
	if m := mirroredName.FindStringSubmatch(params); m != nil && method != "resources/subscribe" {
		hs["Mcp-Name"] = m[1]
	}
	return p.Post(body, append(headers, hs)...).Body
}

// wantIn reports texts that are not in a body, and those with an exclamation mark that are.
func wantIn(t *testing.T, what, body string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		bare, not := strings.CutPrefix(text, "!")
		if strings.Contains(body, bare) == not {
			t.Errorf("%s: %.2000s\nwant %s", what, body, text)
		}
	}
}

// Two servers with equal URIs are both listed and read, each by its own (row 2, C9).
func TestURIsOfTwoServers(t *testing.T) {
	eachPagePeer(t, nil, func(what string, s *pageSite, c peer) {
		for method, texts := range map[string][]string{
			"resources/list": {
				`"uri":"ui://a/page"`, `"uri":"ui://b/page"`, `"uri":"ui://a/page/big"`, `"uri":"ui://b/only-b"`, `"uri":"file:///shared"`, `!"ui://page`,
			},
			"resources/templates/list": {`"uriTemplate":"ui://a/at/{city}"`, `"uriTemplate":"ui://b/at/{city}"`, `!"ui://at`},
			"tools/list":               {`{"ui":{"resourceUri":"ui://a/page"},"ui/resourceUri":"ui://a/page"}`, `{"ui":{"resourceUri":"ui://b/page"},"ui/resourceUri":"ui://b/page"}`, `!"ui://page`},
		} {
			wantIn(s.T, what+" "+method, c.send(method, ""), texts...)
		}
		for uri, texts := range map[string][]string{
			"ui://a/page":     {`"uri":"ui://a/page"`, `"text":"ui://page of a"`},
			"ui://b/page":     {`"uri":"ui://b/page"`, `"text":"ui://page of b"`},
			"ui://b/page/big": {`"uri":"ui://b/page/big"`, `"text":"ui://page/big of b`}, // larger than a first part
			"ui://a/at/Bern":  {`"uri":"ui://a/at/Bern"`, `"text":"ui://at/Bern of a"`},
			"ui://b/at/Bern":  {`"uri":"ui://b/at/Bern"`, `"text":"ui://at/Bern of b"`},
			"file:///shared":  {`"uri":"file:///shared"`, `"text":"file:///shared of a"`},
			// As its server writes it, if it is of one alone, and so is the answer.
			"ui://only-b":   {`"uri":"ui://only-b"`, `"text":"ui://only-b of b"`},
			"ui://page":     {`"error"`, `unknown resource`},
			"ui://at/Bern":  {`"error"`, `unknown resource`},
			"ui://c/page":   {`"error"`, `unknown resource`},
			"skill://a/x":   {`"error"`},
			"ui://a/only-b": {`"error"`}, // of its server
		} {
			wantIn(s.T, what+" reads "+uri, c.send("resources/read", fmt.Sprintf(`"uri":%q`, uri)), texts...)
		}
		for method, name := range map[string]string{"tools/call": "show", "prompts/get": "ask"} {
			texts := []string{`"uri":"ui://b/page"`, `!"ui://page"`}
			if method == "tools/call" {
				texts = []string{
					`"uri":"ui://b/page"`, `"uri":"skill://b/s/SKILL.md"`, `"text":"ui://page of b"`, `"text":"ui://page"`, `"uri":"file:///shared"`,
					`"ui":{"resourceUri":"ui://b/page"}`, `"openai/outputTemplate":"ui://b/page"`,
				}
			}
			wantIn(s.T, what+" "+method, c.send(method, `"name":"b__`+name+`"`), texts...)
		}
		for ref, want := range map[string]string{"ui://a/at/{city}": `"values":["a"]`, "ui://b/at/{city}": `"values":["b"]`, "ui://at/{city}": `"error"`} {
			wantIn(s.T, what+" completes "+ref, c.send("completion/complete", `"ref":{"type":"ref/resource","uri":"`+ref+`"},"argument":{"name":"city","value":""}`), want)
		}
		// A large result passes while it arrives, with or without the label.
		wantIn(s.T, what+" big", c.send("tools/call", `"name":"b__big"`), `page","name":"page"}`, `..."}]`)
	})
}

// The result of a task has the URIs of the result of a call.
func TestURIsInResultsOfTasks(t *testing.T) {
	for _, behind := range []string{"legacy", "modern"} {
		withPageSite(t, behind, nil, func(s *pageSite) {
			want := []string{`"uri":"ui://b/page"`, `"resourceUri":"ui://b/page"`, `!"uri":"ui://page"`}
			sess := s.peers("")["session"]
			begun := sess.send("tools/call", `"name":"b__later","task":{}`)
			id := taskIDIn(s.T, begun)
			time.Sleep(time.Second)
			wantIn(s.T, "session to "+behind, sess.send("tasks/result", `"taskId":"`+id+`"`), want...)

			const tasks = `"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
			ask := func(method, name, params string) string {
				body, hs := gatewaytest.ModernRequest("1", method, "", params)
				hs["Mcp-Name"] = name
				return s.Post(strings.Replace(body, `"io.modelcontextprotocol/clientCapabilities":{}`, tasks, 1), hs).Body
			}
			id = taskIDIn(s.T, ask("tools/call", "b__later", `"name":"b__later"`))
			time.Sleep(time.Second)
			got := ask("tasks/get", id, `"taskId":"`+id+`"`)
			wantIn(s.T, "modern to "+behind, got, append(want, `"completed"`)...)
		})
	}
}

func taskIDIn(t *testing.T, body string) string {
	t.Helper()
	m := regexp.MustCompile(`"taskId":"([^"]+)"`).FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("no task: %s", body)
	}
	return m[1]
}

// Updates have the URI by which the client has subscribed, and come from its server alone.
func TestUpdatesOfURIs(t *testing.T) {
	for _, behind := range []string{"legacy", "modern"} {
		withPageSite(t, behind, nil, func(s *pageSite) {
			uris := []string{"ui://b/page", "ui://a/at/Bern", "ui://only-a", "ui://page"} // the last one is of two
			sess := s.peers("")["session"]
			for _, uri := range uris {
				body := sess.send("resources/subscribe", fmt.Sprintf(`"uri":%q`, uri))
				if strings.Contains(body, `"error"`) != (uri == "ui://page") {
					s.T.Errorf("subscribing to %s: %s", uri, body)
				}
			}
			streams := map[string]*gatewaytest.EventStream{"session": sess.Listen(sess.sess)}
			quoted, _ := json.Marshal(uris)
			body, hs := gatewaytest.ModernRequest("1", "subscriptions/listen", "", `"notifications":{"resourceSubscriptions":`+string(quoted)+`}`)
			streams["modern"] = s.Stream(s.Request(s.T.Context(), http.MethodPost, body, hs))
			wantIn(s.T, "agreed", streams["modern"].Next(), `["ui://b/page","ui://a/at/Bern","ui://only-a"]`)
			time.Sleep(time.Minute)
			synctest.Wait()
			for _, step := range []struct{ server, uri, want string }{
				{"b", "ui://page", `"uri":"ui://b/page"`},
				{"a", "ui://page", ""},
				{"a", "ui://at/Bern", `"uri":"ui://a/at/Bern"`},
				{"a", "ui://only-a", `"uri":"ui://only-a"`},
				{"b", "ui://page/big", `"uri":"ui://b/page/big"`}, // it is within ui://page
			} {
				if err := s.servers[step.server].Updated(step.uri); err != nil {
					s.T.Fatal(err)
				}
				time.Sleep(time.Minute)
				for era, st := range streams {
					if step.want != "" { // an update without one would come before the next
						wantIn(s.T, fmt.Sprintf("%s to %s: %s of %s", era, behind, step.uri, step.server), st.Next(), step.want)
					}
				}
			}
			for _, st := range streams {
				st.WantSilence(time.Minute)
			}
		})
	}
}

// A profile has the URIs of its servers, and knows nothing of others.
func TestURIsInProfiles(t *testing.T) {
	for _, behind := range []string{"legacy", "modern"} {
		withPageSite(t, behind, nil, func(s *pageSite) {
			for era, c := range s.peers("of-b") {
				what := era + " to " + behind
				wantIn(s.T, what, c.send("resources/list", ""), `"ui://b/page"`, `!"ui://a/page"`)
				for uri, text := range map[string]string{
					"ui://b/page": `"text":"ui://page of b"`, "ui://page": `"text":"ui://page of b"`, "ui://at/Bern": `"text":"ui://at/Bern of b"`,
					"ui://a/page": `unknown resource`, "ui://only-a": `"error"`,
				} {
					wantIn(s.T, what+" reads "+uri, c.send("resources/read", fmt.Sprintf(`"uri":%q`, uri)), text)
				}
			}
		})
	}
}

// Rules are about the URIs that clients see, whatever form a client sends.
func TestPolicyOfURIs(t *testing.T) {
	change := func(cfg *config.Config) {
		gatewaytest.WithPrincipals(cfg, "ann", "bob")
		cfg.Policy = config.Policy{Otherwise: "deny", Rules: []config.PolicyRule{
			{Name: "half", Deny: `principal.name == "bob"`, On: []string{"ui://a/only-a", "ui://a/at/*"}},
			{Name: "all", Allow: `principal.name == "ann"`, On: []string{"ui://*", "a__*", "b__*"}},
			{Name: "apps", Allow: "true", On: []string{"ui://a/*"}},
		}}
	}
	for _, behind := range []string{"legacy", "modern"} {
		withPageSite(t, behind, change, func(s *pageSite) {
			ann, bob := gatewaytest.WithToken("ann"), gatewaytest.WithToken("bob")
			for _, sender := range []struct {
				name  string
				token gatewaytest.Header
				reads map[string]string
			}{
				{"ann", ann, map[string]string{
					"ui://a/only-a": "of a", "ui://only-a": "of a", "ui://b/page": "of b", "ui://a/at/Bern": "of a", "ui://page": "unknown resource",
				}},
				{"bob", bob, map[string]string{
					"ui://a/page": "of a", "ui://page": "of a", // he sees nothing of b
					"ui://a/only-a": "unknown resource", "ui://only-a": "unknown resource",
					"ui://a/at/Bern": "unknown resource", "ui://at/Bern": "unknown resource",
					"ui://b/page": "unknown resource", "ui://only-b": "unknown resource", "ui://c/page": "unknown resource",
				}},
			} {
				for era, c := range map[string]peer{"modern": {s.Gateway, nil}, "session": {s.Gateway, s.Legacy(sender.token)}} {
					what := sender.name + ", " + era + " to " + behind
					list := c.send("resources/list", "", sender.token)
					wantIn(s.T, what, list, `"ui://a/page"`)
					if sender.name == "bob" {
						wantIn(s.T, what, list, `!only-a`, `!ui://b`)
					}
					for uri, text := range sender.reads {
						wantIn(s.T, what+" reads "+uri, c.send("resources/read", fmt.Sprintf(`"uri":%q`, uri), sender.token), text)
					}
				}
			}
		})
	}
}
