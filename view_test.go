// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// A tool is never unknown because its backend became ready a moment after another one,
// which was just announced.
func TestToolOfABackendThatComesUpIsNeverUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		late := func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if time.Since(began) < 3*time.Second {
					http.Error(w, "not yet", http.StatusServiceUnavailable)
					return
				}
				h.ServeHTTP(w, r)
			})
		}
		all := gatewaytest.Backends{}
		for i := range 12 {
			all[fmt.Sprintf("b%d", i)] = late(gatewaytest.ServerWithTools(true, "x"))
		}
		h := all.Open(t, nil)
		answered := map[string]bool{}
		for time.Since(began) < 10*time.Second {
			for _, b := range h.G.Status().Backends {
				name := b.Name
				got := h.PostModern("1", "tools/call", name+"__x", "")
				switch {
				case strings.Contains(got.Body, `"content"`):
					answered[name] = true
				case strings.Contains(got.Body, "not_dispatched") && b.State != "live":
				default:
					t.Fatalf("after %v: %s", time.Since(began), got.Body)
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
		if len(answered) != len(all) {
			t.Errorf("%d of %d backends have answered", len(answered), len(all))
		}
	})
}

// An entry that changes how its server is reached, and not which server it is, keeps
// the lists of the server until they are fetched again.
func TestChangedEntryKeepsItsList(t *testing.T) {
	entry := func(change func(*config.Backend)) config.Config {
		b := config.Backend{Name: "b", URL: "http://b/mcp"}
		change(&b)
		return config.Config{Servers: []config.Backend{b}}
	}
	for name, tt := range map[string]struct {
		next  config.Config
		keeps bool
	}{
		"timeout": {entry(func(b *config.Backend) { b.Timeout = time.Minute }), true},
		"headers": {entry(func(b *config.Backend) {
			b.Headers = map[string]config.Secret{"Authorization": config.NewSecret("Bearer rotated")}
		}), true},
		"era":     {entry(func(b *config.Backend) { b.Era = "legacy" }), true},
		"address": {entry(func(b *config.Backend) { b.URL = "http://b/other" }), false},
		"command": {entry(func(b *config.Backend) { b.URL, b.Command = "", "/no/such/program" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := gatewaytest.ServerWithTools(false, "x")
				var sessions atomic.Int64
				slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					if r.Body = io.NopCloser(bytes.NewReader(body)); strings.Contains(string(body), `"initialize"`) {
						if sessions.Add(1) > 1 {
							select {
							case <-time.After(3 * time.Second):
							case <-r.Context().Done():
								return
							}
						}
					}
					s.ServeHTTP(w, r)
				})
				h := gatewaytest.Backends{"b": slow}.Open(t, nil)
				session := h.Legacy()
				lists := func() string { return h.Post(gatewaytest.LegacyRequest("1", "tools/list", "{}"), session).Body }
				if got := lists(); !strings.Contains(got, `"b__x"`) {
					t.Fatal(got)
				}
				stream := h.Listen(session)
				time.Sleep(2 * time.Second)
				if err := h.G.Reload(t.Context(), tt.next); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Millisecond)
				if !tt.keeps {
					if b := h.G.Status().Backends[0]; b.Tools != 0 || b.State == "stale" {
						t.Errorf("another server has the list: %+v", b)
					}
					return
				}
				if b := h.G.Status().Backends[0]; b.State != "stale" || b.Reason == "" || b.Tools != 1 {
					t.Errorf("after the reload: %+v", b)
				}
				for range 40 {
					if got := lists(); !strings.Contains(got, `"b__x"`) {
						t.Fatal(got)
					}
					time.Sleep(100 * time.Millisecond)
				}
				if got := h.Post(gatewaytest.LegacyRequest("2", "tools/call", `{"name":"b__x"}`), session); !strings.Contains(got.Body, `"content"`) {
					t.Error(got.Body)
				}
				stream.WantSilence(10 * time.Second)
				if b := h.G.Status().Backends[0]; b.State != "live" || b.Tools != 1 {
					t.Errorf("in the end: %+v", b)
				}
			})
		})
	}
}

// A tool is not unknown because its backend could not list its tools.
func TestToolOfAListThatFailedIsNotUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gatewaytest.ServerWithTools(true)
		s.Capabilities = `{"tools":{},"prompts":{}}`
		s.On["tools/list"] = func(x *faultyserver.Exchange) { x.Error(-32603, "the database is away") }
		s.On["prompts/list"] = gatewaytest.ResultHandler(`{"prompts":[{"name":"p"}]}`)
		h := gatewaytest.Backends{"b": s}.Open(t, nil)
		got := h.PostModern("1", "tools/call", "b__x", "")
		if !strings.Contains(got.Body, "not_dispatched") || !strings.Contains(got.Body, "its tools are not known: tools/list: ") {
			t.Error(got.Body)
		}
		if got := h.PostModern("2", "prompts/get", "b__nope", ""); !strings.Contains(got.Body, `unknown prompt: \"b__nope\"`) {
			t.Error(got.Body)
		}
	})
}

// partlyFailing returns a gateway before a backend "b" with a tool. The handler
// resources answers its list of resources.
func partlyFailing(t *testing.T, era string, resources func(*faultyserver.Exchange)) *signalbox.Gateway {
	t.Helper()
	const capabilities = `"capabilities":{"tools":{"listChanged":true},"resources":{}}`
	s := gatewaytest.ServerWithTools(false, "x")
	s.On["initialize"] = gatewaytest.ResultHandler(`{"protocolVersion":"2025-11-25",` + capabilities + `,"serverInfo":{"name":"s","version":"1"}}`)
	if era == "modern" {
		s.On["server/discover"] = gatewaytest.ResultHandler(`{"supportedVersions":["2026-07-28"],` + capabilities + `}`)
	}
	s.On["tools/call"] = gatewaytest.ResultHandler(`{"content":[],"by":"x"}`)
	s.On["resources/templates/list"] = gatewaytest.ResultHandler(`{"resourceTemplates":[]}`)
	s.On["resources/list"] = resources
	way := gatewaytest.ServeBackends(t, http.HandlerFunc(s.ServeHTTP))
	cfg := config.Config{Servers: []config.Backend{{Name: "b", URL: "http://backends.test/b", Era: era}}}
	return gatewaytest.New(t, cfg, signalbox.Options{Transport: way})
}

// A server with one failed list offers its other lists, and the status reports the
// failure as a problem.
func TestFailedListIsAProblem(t *testing.T) {
	for name, tt := range map[string]struct {
		resources func(*faultyserver.Exchange)
		late      time.Duration // of the list of tools, at most
		want      string
	}{
		"error":    {func(x *faultyserver.Exchange) { x.Error(-32603, "no database") }, 0, "no database"},
		"nonsense": {func(x *faultyserver.Exchange) { x.Result(`{"resources":7}`) }, 0, "resources: json"},
		"broken":   {func(x *faultyserver.Exchange) { x.Status(200, "application/json", `{"jsonrpc":`) }, 200 * time.Millisecond, "its answer ended without a response"},
		"too long": {func(x *faultyserver.Exchange) { x.Result(`{"x":"` + strings.Repeat("x", 17<<20) + `"}`) }, 0, "limits.backendMessage"},
		"refused":  {func(x *faultyserver.Exchange) { x.Status(403, "", "") }, 0, "HTTP status 403"},
		"hangs":    {func(x *faultyserver.Exchange) { x.Hold() }, 3 * time.Second, "no response or progress for 1m0s (limits.callIdle)"},
	} {
		for _, era := range []string{"legacy", "modern"} {
			t.Run(name+" "+era, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := partlyFailing(t, era, tt.resources)
					if list, took := answered(t, g, "tools/list", ""); !strings.Contains(list, `"b__x"`) || took > tt.late {
						t.Errorf("tools after %v: %s", took, list)
					}
					if res, took := answered(t, g, "tools/call", `{"name":"b__x"}`); !strings.Contains(res, `"by":"x"`) || took != 0 {
						t.Errorf("a call after %v: %s", took, res)
					}
					time.Sleep(61 * time.Second)
					s := g.Status()
					if s.Backends[0].State != "live" || !slices.ContainsFunc(s.Problems, func(p string) bool {
						return strings.HasPrefix(p, `backend "b": resources/list: `) && strings.Contains(p, tt.want)
					}) {
						t.Errorf("state %s (%s), problems %q; want live, and %q", s.Backends[0].State, s.Backends[0].Reason, s.Problems, tt.want)
					}
				})
			})
		}
	}
}

// ServeNow returns a list once the first lists are known, and until the gateway closes.
// It returns nothing that must wait, be refused, or be sent to a backend.
func TestListsAreServedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 10 * time.Second
		g := starting(t, slow, nil)
		has := func(method, params string) *mcp.Result {
			t.Helper()
			req, err := mcp.NewRequest(method, []byte(params))
			if err != nil {
				t.Fatal(err)
			}
			res, ok := g.ServeNow(req)
			if ok != (res != nil) {
				t.Errorf("%s %s: %v, %v", method, params, res, ok)
			}
			return res
		}
		if has("tools/list", `{}`) != nil {
			t.Error("the first list was at hand before all were heard of")
		}
		time.Sleep(4*slow + time.Second)
		synctest.Wait()
		for _, method := range []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
			first := has(method, `{}`)
			if first == nil || has(method, `{"cursor":""}`) != first {
				t.Errorf("%s is not at hand, or is made anew each time", method)
			}
			for _, params := range []string{`{"cursor":"nope"}`, `{"cursor":1}`} {
				if has(method, params) != nil {
					t.Errorf("%s: %s has an answer", method, params)
				}
			}
		}
		for _, method := range []string{"tools/call", "server/discover", "tasks/list", "roots/list", ""} {
			if has(method, `{"name":"quick__x"}`) != nil {
				t.Errorf("%q is at hand", method)
			}
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if has("tools/list", `{}`) != nil {
			t.Error("a list was at hand after the end")
		}
	})
}
