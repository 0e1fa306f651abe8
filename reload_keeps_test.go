// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
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
