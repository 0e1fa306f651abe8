// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// eventsResult is an answer with members that have a meaning in results that the gateway knows, and with
// white space of its own.
const eventsResult = `{ "ttlMs":5,  "cacheScope":"ours", "events":[{"uri":"ui://page"}] }`

// eventsServer returns a server with an extension of its own.
func eventsServer(era string) *faultyserver.HTTP {
	s := &faultyserver.HTTP{Modern: era == "modern", Sessions: true, Capabilities: `{"tools":{},"extensions":{"com.example/events":{"version":3}}}`}
	s.On = map[string]func(*faultyserver.Exchange){
		"tools/list":  gatewaytest.ResultHandler(gatewaytest.ToolList("now", "later")),
		"events/list": func(x *faultyserver.Exchange) { x.Result(eventsResult) },
		"events/fail": func(x *faultyserver.Exchange) { x.Error(-31999, "no events today") },
		"events/watch": func(x *faultyserver.Exchange) {
			meta := struct {
				Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
			}{}
			_ = json.Unmarshal(x.Msg.Params.Bytes(), &meta)
			x.Event("", `{"jsonrpc":"2.0","method":"notifications/events/item","params":{ "n":1}}`)
			x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/events/item","params":{"progressToken":%s}}`, meta.Meta.ProgressToken))
			x.Response(`{"watched":true}`)
		},
		"events/break": func(x *faultyserver.Exchange) { x.Abort() },
		"events/hang":  func(x *faultyserver.Exchange) { x.Begin(); x.Hold() },
	}
	return s
}

// passSite is a gateway in front of one server, with a profile that passes all extensions.
type passSite struct {
	*profileSite

	server *faultyserver.HTTP
	behind string
}

func withPassSite(t *testing.T, change func(*config.Config, *faultyserver.HTTP), f func(*passSite)) {
	t.Helper()
	for _, era := range []string{"legacy", "modern"} {
		synctest.Test(t, func(t *testing.T) {
			s := &passSite{&profileSite{}, eventsServer(era), era}
			s.Gateway = gatewaytest.Backends{"a": s.server}.Open(t, func(cfg *config.Config) {
				cfg.Servers[0].Era = era
				cfg.Profiles = []config.Profile{
					{Name: "pass", Servers: []string{"a"}, Names: config.NamesOwn, Extensions: config.ExtensionsPass},
					{Name: "own", Servers: []string{"a"}, Names: config.NamesOwn},
				}
				if change != nil {
					change(cfg, s.server)
				}
				s.cfg = *cfg
			})
			f(s)
		})
	}
}

const eventsClient = `{"extensions":{"com.example/events":{"client":1}}}`

// sessionFor returns a session of a client that declares the extension.
func (s *passSite) sessionFor(at *gatewaytest.Gateway) (gatewaytest.Header, string) {
	r := at.Post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":` + eventsClient + `,"clientInfo":{"name":"c","version":"1"}}}`)
	sess := gatewaytest.Header{"Mcp-Session-Id": r.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": "2025-06-18"}
	at.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, sess)
	return sess, r.Body
}

// modernRequest returns a request of a client that declares the extension.
func (s *passSite) modernRequest(method, params string, extra ...gatewaytest.Header) (string, []gatewaytest.Header) {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + eventsClient + `,"progressToken":"mine"}`
	if params != "" {
		params += ","
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s}}`, method, params, meta),
		append([]gatewaytest.Header{{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}}, extra...)
}

// eachEra calls f with a function that sends a request to the profile and returns the whole answer, for a
// client of each era.
func (s *passSite) eachEra(profile string, f func(what string, send func(method, params string) string)) {
	at := s.At(profile)
	f("modern in front of "+s.behind, func(method, params string) string {
		name := ""
		if method == "tools/call" {
			name = "now"
		}
		body, hs := s.modernRequest(method, params, gatewaytest.Header{"Mcp-Name": name})
		return at.Post(body, hs...).Body
	})
	sess, _ := s.sessionFor(at)
	f("session in front of "+s.behind, func(method, params string) string {
		if params != "" {
			params += ","
		}
		return at.Post(gatewaytest.LegacyRequest("1", method, `{`+params+`"_meta":{"progressToken":"mine"}}`), sess).Body
	})
}

// The extensions that server and client declare are shown to each other, for each pair of eras.
func TestPassShowsExtensions(t *testing.T) {
	withPassSite(t, nil, func(s *passSite) {
		const declared = `"com.example/events":{"version":3}`
		for profile, want := range map[string]bool{"pass": true, "own": false, "": false} {
			at := s.At(profile)
			body, hs := s.modernRequest("server/discover", "")
			_, initialized := s.sessionFor(at)
			for era, got := range map[string]string{"modern": at.Post(body, hs...).Body, "session": initialized} {
				if strings.Contains(got, declared) != want {
					t.Errorf("%s at %q in front of %s: %s, want the extension: %t", era, profile, s.behind, got, want)
				}
			}
		}
		const shown = `"com.example/events":{"client":1}`
		seen := func() string {
			var all []string
			for _, r := range s.server.Seen() {
				if r.Method == "initialize" || r.Method == "tools/call" {
					all = append(all, r.Body)
				}
			}
			return strings.Join(all, "\n")
		}
		if strings.Contains(seen(), shown) {
			t.Errorf("in front of %s: shown before any request of the profile: %s", s.behind, seen())
		}
		if s.behind == "legacy" { // a modern client's extensions are shown to modern servers in any profile
			s.eachEra("own", func(what string, send func(method, params string) string) {
				if send("tools/call", `"name":"now"`); strings.Contains(seen(), shown) {
					t.Errorf("%s: shown without the profile: %s", what, seen())
				}
			})
		}
		s.eachEra("pass", func(what string, send func(method, params string) string) {
			before := len(seen())
			send("tools/call", `"name":"now"`)
			if !strings.Contains(seen()[before:], shown) {
				t.Errorf("%s: not shown: %s", what, seen()[before:])
			}
		})
	})
}

// Methods of no revision reach the server with their bytes, and so do the answers.
func TestPassForwardsUnknownMethods(t *testing.T) {
	withPassSite(t, nil, func(s *passSite) {
		s.eachEra("pass", func(what string, send func(method, params string) string) {
			if got := send("events/list", `"filter" : {"requestState":1},"task":{"a":1},"requestState":"x"`); !strings.Contains(got, strings.Trim(eventsResult, "{ }")) {
				t.Errorf("%s: %s, want %s", what, got, eventsResult)
			}
			all := s.server.Seen()
			last := all[len(all)-1]
			if last.Method != "events/list" || !strings.Contains(last.Body, `"filter" : {"requestState":1},"task":{"a":1},"requestState":"x"`) {
				t.Errorf("%s: the server received %s", what, last.Body)
			}
			if s.behind == "modern" && last.Header.Get("Mcp-Method") != "events/list" {
				t.Errorf("%s: Mcp-Method is %q", what, last.Header.Get("Mcp-Method"))
			}
			if got := send("events/fail", ""); !strings.Contains(got, `"code":-31999,"message":"no events today"`) {
				t.Errorf("%s: %s, want the error of the server", what, got)
			}
			if got := send("events/none", ""); !strings.Contains(got, `"code":-32601`) {
				t.Errorf("%s: %s, want the error of the server", what, got)
			}
		})
		body, hs := s.modernRequest("events/list", "", gatewaytest.Header{"Mcp-Name": "of-the-extension"})
		s.At("pass").Post(body, hs...)
		all := s.server.Seen()
		if got := all[len(all)-1].Header.Get("Mcp-Name"); s.behind == "modern" && got != "of-the-extension" {
			t.Errorf("Mcp-Name is %q", got)
		}
	})
}

// Elsewhere they are unknown, and reach no server; so are methods that are reserved at such a profile.
func TestUnknownMethodsElsewhere(t *testing.T) {
	withPassSite(t, nil, func(s *passSite) {
		for _, profile := range []string{"", "own"} {
			s.eachEra(profile, func(what string, send func(method, params string) string) {
				if got := send("events/list", ""); !strings.Contains(got, `"code":-32601`) {
					t.Errorf("%s at %q: %s, want -32601", what, profile, got)
				}
			})
		}
		s.eachEra("pass", func(what string, send func(method, params string) string) {
			for _, method := range []string{"tasks/unknown", "notifications/events/seen"} {
				if got := send(method, ""); !strings.Contains(got, `"code":-32601`) {
					t.Errorf("%s: %s: %s, want -32601", what, method, got)
				}
			}
		})
		for _, method := range []string{"events/list", "tasks/unknown", "notifications/events/seen"} {
			if n := s.server.Count(method); n != 0 {
				t.Errorf("in front of %s: the server received %s", s.behind, method)
			}
		}
	})
}

// Notifications on the stream of a request reach its client, with its own progress token.
func TestPassForwardsRelatedNotifications(t *testing.T) {
	withPassSite(t, nil, func(s *passSite) {
		s.eachEra("pass", func(what string, send func(method, params string) string) {
			got := send("events/watch", "")
			for _, want := range []string{`"method":"notifications/events/item","params":{ "n":1}`, `"method":"notifications/events/item","params":{"progressToken":"mine"}`, `"watched":true`} {
				if !strings.Contains(got, want) {
					t.Errorf("%s: %s, want %s", what, got, want)
				}
			}
		})
	})
}

// Notifications that belong to no request pass between legacy peers, in both directions and in order.
func TestPassForwardsUnrelatedNotifications(t *testing.T) {
	withPassSite(t, func(_ *config.Config, server *faultyserver.HTTP) {
		server.On["GET"] = func(x *faultyserver.Exchange) {
			x.Event("", `{"jsonrpc":"2.0","method":"notifications/events/changed","params":{"all":[1,2]}}`)
			x.Hold()
		}
	}, func(s *passSite) {
		for _, profile := range []string{"pass", "own"} {
			at := s.At(profile)
			sess, _ := s.sessionFor(at)
			before := len(s.server.Seen())
			for i := range 5 {
				at.Post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/events/seen","params":{"n":%d}}`, i), sess)
			}
			synctest.Wait()
			var got []string
			for _, r := range s.server.Seen()[before:] {
				if r.Method == "notifications/events/seen" {
					got = append(got, r.Body)
				}
			}
			want := 0
			if profile == "pass" && s.behind == "legacy" {
				want = 5
			}
			if len(got) != want {
				t.Errorf("%s in front of %s: the server received %q, want %d", profile, s.behind, got, want)
			}
			for i, body := range got {
				if !strings.Contains(body, fmt.Sprintf(`"params":{"n":%d}`, i)) {
					t.Errorf("%s in front of %s: number %d is %s", profile, s.behind, i, body)
				}
			}
			if want > 0 {
				if got := at.Listen(sess).Next(); !strings.Contains(got, `"method":"notifications/events/changed","params":{"all":[1,2]}`) {
					t.Errorf("in front of %s: %s", s.behind, got)
				}
			}
		}
	})
}

// A request of the server in an unknown method reaches a client with a session. To a modern client nothing
// could carry it, and elsewhere it is refused, too.
func TestPassForwardsRequestsOfServers(t *testing.T) {
	withPassSite(t, func(_ *config.Config, server *faultyserver.HTTP) {
		answered := make(chan string, 4)
		server.On["events/ask"] = func(x *faultyserver.Exchange) {
			x.Event("", `{"jsonrpc":"2.0","id":"q","method":"events/confirm","params":{"task":{"a":1}}}`)
			x.Response(`{"got":` + <-answered + `}`)
		}
		server.On["tools/call"] = server.On["events/ask"]
		server.On[""] = func(x *faultyserver.Exchange) { // the answer
			raw, _ := json.Marshal(string(x.Msg.Raw))
			answered <- string(raw)
			x.W.WriteHeader(http.StatusAccepted)
		}
	}, func(s *passSite) {
		if s.behind == "modern" {
			return // a modern server sends no requests
		}
		at := s.At("pass")
		body, hs := s.modernRequest("events/ask", "")
		if got := at.Post(body, hs...).Body; !strings.Contains(got, `\"code\":-32601`) {
			t.Errorf("modern: the server got %s, want -32601", got)
		}
		body, hs = s.modernRequest("tools/call", `"name":"now"`, gatewaytest.Header{"Mcp-Name": "now"})
		if got := at.Post(body, hs...).Body; !strings.Contains(got, `\"code\":-32601`) {
			t.Errorf("modern: the server got %s, want -32601", got)
		}
		for profile, method := range map[string]string{"pass": "events/ask", "own": "tools/call"} {
			at := s.At(profile)
			sess, _ := s.sessionFor(at)
			call := gatewaytest.LegacyRequest("1", method, `{"name":"now"}`)
			if profile == "own" {
				if got := at.Post(call, sess).Body; !strings.Contains(got, `\"code\":-32601`) {
					t.Errorf("%s: the server got %s, want -32601", profile, got)
				}
				continue
			}
			stream := at.Stream(at.Request(s.T.Context(), http.MethodPost, call, sess))
			asked := stream.Next()
			if !strings.Contains(asked, `"method":"events/confirm","params":{"task":{"a":1}}`) {
				t.Fatalf("%s: %s, want the request of the server", profile, asked)
			}
			var question struct{ ID json.RawMessage }
			if err := json.Unmarshal([]byte(asked), &question); err != nil {
				t.Fatal(err)
			}
			at.Post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{ "yes":true}}`, question.ID), sess)
			if got := stream.Next(); !strings.Contains(got, `{ \"yes\":true}`) {
				t.Errorf("%s: the server got %s", profile, got)
			}
		}
	})
}

// A request that may have run is not sent again, however it fails.
func TestPassSendsOnce(t *testing.T) {
	withPassSite(t, func(cfg *config.Config, _ *faultyserver.HTTP) { cfg.Limits.CallMax = 30 * time.Second }, func(s *passSite) {
		sent := 0
		s.eachEra("pass", func(what string, send func(method, params string) string) {
			sent++
			if got := send("events/break", ""); !strings.Contains(got, `"outcome":"unknown"`) {
				t.Errorf("%s: %s, want the outcome to be unknown", what, got)
			}
			if n := s.server.Count("events/break"); n != sent {
				t.Errorf("%s: sent %d times, want %d", what, n, sent)
			}
			began := time.Now()
			if got := send("events/hang", ""); !strings.Contains(got, "limits.callMax") || time.Since(began) != 30*time.Second {
				t.Errorf("%s: %s after %v, want limits.callMax", what, got, time.Since(began))
			}
			if n := s.server.Count("events/hang"); n != sent {
				t.Errorf("%s: sent %d times, want %d", what, n, sent)
			}
		})
	})
}

// The cancellation of a client reaches the server.
func TestPassIsCancelled(t *testing.T) {
	var ended chan struct{}
	withPassSite(t, func(_ *config.Config, server *faultyserver.HTTP) {
		ended = make(chan struct{}, 2)
		server.On["events/hang"] = func(x *faultyserver.Exchange) {
			x.Begin()
			x.Hold()
			ended <- struct{}{}
		}
	}, func(s *passSite) {
		at := s.At("pass")
		ctx, cancel := context.WithCancel(s.T.Context())
		body, hs := s.modernRequest("events/hang", "")
		go func() { // ends with ctx
			r, err := at.HTTP.Do(at.Request(ctx, http.MethodPost, body, hs...))
			if err == nil {
				r.Body.Close()
			}
		}()
		synctest.Wait()
		cancel()
		<-ended
		sess, _ := s.sessionFor(at)
		at.Async(gatewaytest.LegacyRequest("7", "events/hang", "{}"), sess)
		synctest.Wait()
		at.Post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, sess)
		synctest.Wait()
		if s.behind == "legacy" && s.server.Count("notifications/cancelled") != 2 {
			t.Errorf("the server received %d cancellations, want 2", s.server.Count("notifications/cancelled"))
		}
		<-ended
	})
}

// Quotas count unknown methods, by the prefix of the server and the method.
func TestPassIsCharged(t *testing.T) {
	withPassSite(t, func(cfg *config.Config, _ *faultyserver.HTTP) {
		cfg.Quotas = []config.Quota{{Per: config.QuotaPerAll, On: []string{"a__events/l*"}, Calls: config.Rate{Calls: 1, Every: time.Hour}}}
	}, func(s *passSite) {
		first := true
		s.eachEra("pass", func(what string, send func(method, params string) string) {
			if got := send("events/list", ""); strings.Contains(got, "quotas[0]") == first {
				t.Errorf("%s: %s, want it to be refused: %t", what, got, !first)
			}
			first = false
			if got := send("events/watch", ""); !strings.Contains(got, "watched") {
				t.Errorf("%s: %s", what, got)
			}
		})
	})
}

// With a policy, an unknown method needs a caller that may use it and all that the server offers.
func TestPassNeedsThePolicy(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy config.Policy
		passes bool
	}{
		{"all are allowed", config.Policy{Otherwise: config.PolicyAllow}, true},
		{"nothing is allowed", config.Policy{Otherwise: config.PolicyDeny}, false},
		{"the server", config.Policy{Otherwise: config.PolicyDeny, Rules: []config.PolicyRule{{Name: "r", Allow: "true", On: []string{"a__*"}}}}, true},
		{"tools alone", config.Policy{Otherwise: config.PolicyDeny, Rules: []config.PolicyRule{{Name: "r", Allow: "item.kind == 'tool'"}}}, false},
		{"a tool is denied", config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{{Name: "r", Deny: "true", On: []string{"a__later"}}}}, false},
		{"a tool is confirmed", config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{{Name: "r", Confirm: "true", On: []string{"a__later"}}}}, false},
		{"the method is denied", config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{{Name: "r", Deny: "request.method == 'events/list'"}}}, false},
		{"the item is denied", config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{{Name: "r", Deny: "item.kind == 'method'"}}}, false},
		{"a dry run", config.Policy{Otherwise: config.PolicyDeny, DryRun: true}, true},
	} {
		withPassSite(t, func(cfg *config.Config, _ *faultyserver.HTTP) { cfg.Policy = tt.policy }, func(s *passSite) {
			s.eachEra("pass", func(what string, send func(method, params string) string) {
				want := `"code":-32601`
				if tt.passes {
					want = `"events":`
				}
				if got := send("events/list", ""); !strings.Contains(got, want) {
					t.Errorf("%s, %s: %s, want %s", tt.name, what, got, want)
				}
			})
			if n := s.server.Count("events/list"); n != 0 && !tt.passes {
				t.Errorf("%s: the server received it", tt.name)
			}
		})
	}
}

// The record has the method, and that nothing else was read.
func TestRecordOfPassedRequests(t *testing.T) {
	dir := t.TempDir()
	withPassSite(t, func(cfg *config.Config, _ *faultyserver.HTTP) {
		cfg.Audit.File = filepath.Join(dir, cfg.Servers[0].Era)
	}, func(s *passSite) {
		s.eachEra("pass", func(_ string, send func(method, params string) string) {
			send("events/list", `"secret":"x"`)
			send("events/"+strings.Repeat("é", 300), "")
		})
	})
	for _, era := range []string{"legacy", "modern"} {
		raw := readFile(t, filepath.Join(dir, era))
		var got []string
		for line := range strings.Lines(raw) {
			var entry struct{ Method, Name, Backend, Outcome, Passed string }
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%.19s %q %s %s %s", entry.Method, entry.Name, entry.Backend, entry.Outcome, entry.Passed))
		}
		const both = `events/list "" a ok unread` + "\n" + `events/\u00e9\u00e9 "" a error unread`
		gatewaytest.WantEqual(t, era, strings.Join(got, "\n"), both+"\n"+both)
		if strings.Contains(raw, "secret") || len(raw) > 4000 {
			t.Errorf("%s: %d bytes: %s", era, len(raw), raw)
		}
	}
}

// A profile that no longer passes extensions does not, also for clients that are connected.
func TestPassEndsWithAReload(t *testing.T) {
	withPassSite(t, nil, func(s *passSite) {
		at := s.At("pass")
		sess, _ := s.sessionFor(at)
		list := gatewaytest.LegacyRequest("1", "events/list", "{}")
		if got := at.Post(list, sess).Body; !strings.Contains(got, `"events"`) {
			t.Fatal(got)
		}
		next := s.cfg
		next.Profiles[0].Extensions = ""
		if err := s.G.Reload(s.T.Context(), next); err != nil {
			t.Fatal(err)
		}
		if got := at.Post(list, sess).Body; !strings.Contains(got, `-32601`) {
			t.Errorf("in front of %s: %s, want -32601", s.behind, got)
		}
	})
}
