// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
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

// quotaServer is a server with items of all kinds.
func quotaServer() *faultyserver.HTTP {
	s := gatewaytest.ServerWithTools(false, "ask", "read")
	s.Capabilities = `{"tools":{},"prompts":{},"resources":{},"completions":{}}`
	s.On["prompts/list"] = gatewaytest.ResultHandler(`{"prompts":[{"name":"plan"}]}`)
	s.On["resources/list"] = gatewaytest.ResultHandler(`{"resources":[{"name":"r","uri":"note:///a"}]}`)
	s.On["resources/templates/list"] = gatewaytest.ResultHandler(`{"resourceTemplates":[]}`)
	s.On["tools/call"] = gatewaytest.ResultHandler(`{"content":[]}`)
	s.On["prompts/get"] = gatewaytest.ResultHandler(`{"messages":[]}`)
	s.On["resources/read"] = gatewaytest.ResultHandler(`{"contents":[]}`)
	s.On["completion/complete"] = gatewaytest.ResultHandler(`{"completion":{"values":[]}}`)
	return s
}

func perPrincipal(calls int, every time.Duration, on ...string) config.Quota {
	return config.Quota{Per: config.QuotaPerPrincipal, Calls: config.Rate{Calls: calls, Every: every}, On: on}
}

// withQuotas returns a gateway in front of a quotaServer "b", for ann and bob.
func withQuotas(t *testing.T, change func(*config.Config), quotas ...config.Quota) (*gatewaytest.Gateway, *faultyserver.HTTP) {
	t.Helper()
	s := quotaServer()
	g := gatewaytest.Backends{"b": s}.Open(t, func(cfg *config.Config) {
		gatewaytest.WithPrincipals(cfg, "ann", "bob")
		cfg.Quotas = quotas
		if change != nil {
			change(cfg)
		}
	})
	time.Sleep(time.Minute) // the lists are known
	return g, s
}

// wantRefused checks that a response refuses a call because of a quota.
func wantRefused(t *testing.T, got, place, retry string) {
	t.Helper()
	for _, want := range []string{
		`"code":1006`, "(" + place + ")", "retry in " + retry + ";", "the request was not sent", `"source":"gateway","outcome":"not_dispatched"`, `"call":"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nhas no %s", got, want)
		}
	}
}

// A call without a token is refused before its backend is asked, in both eras of a client, and
// concerns neither other principals nor lists. After the time in the error it is admitted.
func TestQuotaRefusesBeforeDispatch(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, s := withQuotas(t, nil, perPrincipal(2, time.Minute))
				headers := make(map[string]gatewaytest.Header)
				for _, who := range []string{"ann", "bob"} {
					headers[who] = gatewaytest.WithToken(who)
					if era == "legacy" {
						headers[who] = g.Legacy(headers[who])
					}
				}
				call := func(who, method, name string) gatewaytest.Response {
					if era == "modern" {
						return g.PostModern("1", method, name, "", headers[who])
					}
					return g.Post(gatewaytest.LegacyRequest("1", method, `{"name":"`+name+`"}`), headers[who])
				}
				admitted := func(who string) {
					t.Helper()
					if got := call(who, "tools/call", "b__ask"); !strings.Contains(got.Body, `"result"`) {
						t.Errorf("%s is refused: %s", who, got.Body)
					}
				}
				want429 := func(got gatewaytest.Response, seconds string) {
					t.Helper()
					if retry := got.Header.Get("Retry-After"); got.Status != 429 || retry != seconds {
						t.Errorf("status %d, Retry-After %q", got.Status, retry)
					}
					if json.Valid([]byte(got.Body)) {
						wantRefused(t, got.Body, "quotas[0]", seconds+"s")
					} else {
						t.Errorf("not one object: %s", got.Body)
					}
				}
				admitted("ann")
				call("ann", "tools/call", "b__unknown") // not charged
				admitted("ann")
				want429(call("ann", "tools/call", "b__ask"), "30")
				want429(call("ann", "prompts/get", "b__plan"), "30")
				admitted("bob")
				if got := call("ann", "tools/list", ""); !strings.Contains(got.Body, "b__ask") {
					t.Errorf("a list: %s", got.Body)
				}
				if n := s.Count("tools/call") + s.Count("prompts/get"); n != 3 {
					t.Errorf("%d requests were sent to the backend, want 3", n)
				}
				time.Sleep(29*time.Second + 900*time.Millisecond)
				if got := call("ann", "tools/call", "b__ask"); got.Header.Get("Retry-After") != "1" || !strings.Contains(got.Body, "retry in 100ms;") {
					t.Errorf("Retry-After %q: %s", got.Header.Get("Retry-After"), got.Body)
				}
				time.Sleep(100 * time.Millisecond)
				admitted("ann")
				want429(call("ann", "tools/call", "b__ask"), "30")

				values := metricsOf(t, g.G, "Authorization", headers["ann"]["Authorization"])
				if n := values[`signalbox_quota_refusals_total{quota="quotas[0]"}`]; n != 4 {
					t.Errorf("%v refusals are counted, want 4", n)
				}
				if n := values[`signalbox_events_total{kind="limited"}`]; n != 4 {
					t.Errorf("%v events are counted, want 4", n)
				}
				if c := latest(t, g.G); c.Outcome != "error" || c.Code != mcp.CodeLimit || c.Delivery != "not_dispatched" || c.Backend != "" || c.Name != "b__ask" {
					t.Errorf("%+v", c)
				}
			})
		})
	}
}

// All requests that are work for a backend are charged: calls, prompts, resources by their
// URIs, and completions. An item that no pattern matches is not charged.
func TestQuotaChargesWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quotas := []config.Quota{
			perPrincipal(1, time.Hour, "b__ask"), perPrincipal(1, time.Hour, "b__plan"), perPrincipal(1, time.Hour, "note://*"),
		}
		g, s := withQuotas(t, func(cfg *config.Config) {
			cfg.Quotas = append(cfg.Quotas, config.Quota{Per: config.QuotaPerAll, Calls: config.Rate{Calls: 9, Every: time.Hour}, Burst: 7})
		}, quotas...)
		ann := g.Legacy(gatewaytest.WithToken("ann"))
		do := func(method, params string) string {
			return g.Post(gatewaytest.LegacyRequest("1", method, params), ann).Body
		}
		const complete = `{"ref":{"type":"ref/prompt","name":"b__plan"},"argument":{"name":"a","value":"b"}}`
		for _, tt := range []struct{ method, params, place string }{
			{"tools/call", `{"name":"b__ask"}`, "quotas[0]"},
			{"completion/complete", complete, "quotas[1]"},
			{"resources/read", `{"uri":"note:///a"}`, "quotas[2]"},
		} {
			if got := do(tt.method, tt.params); !strings.Contains(got, `"result"`) {
				t.Errorf("%s: %s", tt.method, got)
			}
			wantRefused(t, do(tt.method, tt.params), tt.place, "1h")
		}
		wantRefused(t, do("prompts/get", `{"name":"b__plan"}`), "quotas[1]", "1h")
		for range 4 { // 3 of the 7 for all items are used
			if got := do("tools/call", `{"name":"b__read"}`); !strings.Contains(got, `"result"`) {
				t.Errorf("an item without a quota of its own: %s", got)
			}
		}
		wantRefused(t, do("tools/call", `{"name":"b__read"}`), "quotas[3]", "6m40s")
		if n := s.Count("tools/call") + s.Count("completion/complete") + s.Count("resources/read") + s.Count("prompts/get"); n != 7 {
			t.Errorf("%d requests were sent to the backend, want 7", n)
		}
	})
}

// On a pipe and in a batch the refusal is the error alone, and in a batch that of the element.
func TestQuotaOnAPipeAndInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := withQuotas(t, nil, perPrincipal(2, time.Minute))
		hello := strings.Replace(initializeMessage, "2025-11-25", "2025-03-26", 1)
		opened := g.Post(hello, gatewaytest.WithToken("ann"))
		ann := gatewaytest.WithToken("ann")
		ann["Mcp-Session-Id"] = opened.Header.Get("Mcp-Session-Id")
		ann["Mcp-Protocol-Version"] = "2025-03-26"
		g.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, ann)
		var calls []string
		for i := range 4 {
			calls = append(calls, gatewaytest.LegacyRequest(fmt.Sprint(i), "tools/call", `{"name":"b__ask"}`))
		}
		got := g.Post("["+strings.Join(calls, ",")+"]", ann)
		if got.Status != 200 || strings.Count(got.Body, `"result"`) != 2 || strings.Count(got.Body, `(quotas[0])`) != 2 {
			t.Errorf("batch: %d %s", got.Status, got.Body)
		}

		toGateway, in := io.Pipe()
		out, fromGateway := io.Pipe()
		served := make(chan error, 1)
		go func() { served <- g.G.ServeStdio(t.Context(), toGateway, fromGateway) }() // ends with the pipe
		lines := bufio.NewScanner(out)
		say := func(message string) {
			if _, err := io.WriteString(in, message+"\n"); err != nil {
				t.Error(err)
			}
		}
		next := func() string {
			if !lines.Scan() {
				t.Fatal(lines.Err())
			}
			return lines.Text()
		}
		say(initializeMessage)
		next()
		say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		for i := range 3 {
			say(calls[i])
			if line := next(); i < 2 != strings.Contains(line, `"result"`) {
				t.Errorf("call %d: %s", i, line)
			} else if i == 2 {
				wantRefused(t, line, "quotas[0]", "30s")
			}
		}
		in.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		out.Close()
	})
}

// A reload keeps what was charged to the quotas that it does not change. The status says
// that a restart does not.
func TestQuotasAfterAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running config.Config
		g, _ := withQuotas(t, func(cfg *config.Config) { running = *cfg }, perPrincipal(1, time.Hour, "b__ask"), perPrincipal(1, time.Hour, "b__read"))
		ann := g.Legacy(gatewaytest.WithToken("ann"))
		call := func(tool string) bool {
			return strings.Contains(g.Post(gatewaytest.LegacyRequest("1", "tools/call", `{"name":"`+tool+`"}`), ann).Body, `"result"`)
		}
		if !call("b__ask") || !call("b__read") || call("b__ask") || call("b__read") {
			t.Fatal("the quotas are not in force")
		}
		if got := g.G.Status().Promise; !strings.HasSuffix(got, "; what was charged to quotas is forgotten") {
			t.Errorf("promise %q", got)
		}
		next := running
		next.Quotas = []config.Quota{perPrincipal(2, time.Hour, "b__ask"), running.Quotas[1]}
		if err := g.G.Reload(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if call("b__ask") != (i < 2) {
				t.Errorf("call %d: the changed quota is not in force", i)
			}
		}
		if call("b__read") {
			t.Error("the other quota has lost what was charged")
		}
		next.Quotas = nil
		if err := g.G.Reload(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		if !call("b__ask") || !call("b__read") {
			t.Error("a removed quota is in force")
		}
		if got := g.G.Status().Promise; strings.Contains(got, "quota") {
			t.Errorf("promise without quotas: %q", got)
		}
	})
}

// The record of a refused call says that it was not sent.
func TestAuditOfAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		g, _ := withQuotas(t, func(cfg *config.Config) { cfg.Audit.File = path }, perPrincipal(1, time.Hour))
		for range 2 {
			g.PostModern("1", "tools/call", "b__ask", "", gatewaytest.WithToken("ann"))
		}
		if err := g.G.Close(); err != nil {
			t.Fatal(err)
		}
		got := recordOf(t, path, "principal", "name", "backend", "outcome", "code", "delivery")
		want := []string{"ann b__ask b ok", "ann b__ask  error 1006 not_dispatched"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A call with quotas allocates no more than one without.
func TestQuotaAllocations(t *testing.T) {
	measure := func(quotas ...config.Quota) float64 {
		g := gatewaytest.New(t, config.Config{Quotas: quotas}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "b", Handler: cannedServer()}}})
		req, err := mcp.NewRequest("tools/call", []byte(`{"name":"b__add"}`))
		if err != nil {
			t.Fatal(err)
		}
		return leastAllocs(func() {
			own := *req
			if _, err := g.Serve(t.Context(), &own, nil); err != nil {
				t.Fatal(err)
			}
		})
	}
	all := config.Quota{Per: config.QuotaPerAll, Calls: config.Rate{Calls: 1e6, Every: time.Second}, On: []string{"b__*"}}
	if without, with := measure(), measure(perPrincipal(1e6, time.Second), all); with > without {
		t.Errorf("%v allocations, %v without quotas", with, without)
	}
}

// A completion is charged by the member that its ref is of, whatever else is in the ref.
func TestQuotaOfACompletion(t *testing.T) {
	g, o := withPolicy(t, config.Policy{}, func(cfg *config.Config) {
		cfg.Quotas = []config.Quota{{Per: config.QuotaPerPrincipal, On: []string{"note:*"}, Calls: config.Rate{Calls: 1, Every: time.Hour}}}
	})
	answerTo(t, g, requestOf(t, nil, "resources/templates/list", `{}`)) // which waits for the templates
	for i, want := range []int{1, 0} {
		answerTo(t, g, requestOf(t, nil, "completion/complete", `{"ref":{"type":"ref/resource","uri":"note:///{id}","name":"x"},"argument":{"name":"id","value":"d"}}`))
		if sent := o.arrived(); len(sent) != want {
			t.Errorf("completion %d: sent %q", i, sent)
		}
	}
}

// The quota of a resource cannot be avoided with another spelling of its URI.
func TestQuotaOfSpelledURIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := withQuotas(t, nil, perPrincipal(1, time.Hour, "note:///a"))
		ann := g.Legacy(gatewaytest.WithToken("ann"))
		read := func(uri string) string {
			return g.Post(gatewaytest.LegacyRequest("1", "resources/read", `{"uri":"`+uri+`"}`), ann).Body
		}
		if got := read("note:///a"); !strings.Contains(got, `"result"`) {
			t.Fatal(got)
		}
		for _, uri := range []string{"note:///%61", "NOTE:///a", "note:///b/../a"} {
			wantRefused(t, read(uri), "quotas[0]", "1h")
		}
		if n := s.Count("resources/read"); n != 1 {
			t.Errorf("%d requests have arrived", n)
		}
	})
}
