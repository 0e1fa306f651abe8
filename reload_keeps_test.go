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
		all := backends{}
		for i := range 12 {
			all[fmt.Sprintf("b%d", i)] = late(serverWithTools(true, "x"))
		}
		h := all.open(t, nil)
		answered := map[string]bool{}
		for time.Since(began) < 10*time.Second {
			for _, b := range h.g.Status().Backends {
				name := b.Name
				got := h.postModern("1", "tools/call", name+"__x", "")
				switch {
				case strings.Contains(got.body, `"content"`):
					answered[name] = true
				case strings.Contains(got.body, "not_dispatched") && b.State != "live":
				default:
					t.Fatalf("after %v: %s", time.Since(began), got.body)
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
				s := serverWithTools(false, "x")
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
				h := backends{"b": slow}.open(t, nil)
				session := h.legacy()
				lists := func() string { return h.post(legacyRequest("1", "tools/list", "{}"), session).body }
				if got := lists(); !strings.Contains(got, `"b__x"`) {
					t.Fatal(got)
				}
				stream := h.listen(session)
				time.Sleep(2 * time.Second)
				if err := h.g.Reload(t.Context(), tt.next); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Millisecond)
				if !tt.keeps {
					if b := h.g.Status().Backends[0]; b.Tools != 0 || b.State == "stale" {
						t.Errorf("another server has the list: %+v", b)
					}
					return
				}
				if b := h.g.Status().Backends[0]; b.State != "stale" || b.Reason == "" || b.Tools != 1 {
					t.Errorf("after the reload: %+v", b)
				}
				for range 40 {
					if got := lists(); !strings.Contains(got, `"b__x"`) {
						t.Fatal(got)
					}
					time.Sleep(100 * time.Millisecond)
				}
				if got := h.post(legacyRequest("2", "tools/call", `{"name":"b__x"}`), session); !strings.Contains(got.body, `"content"`) {
					t.Error(got.body)
				}
				stream.wantSilence(10 * time.Second)
				if b := h.g.Status().Backends[0]; b.State != "live" || b.Tools != 1 {
					t.Errorf("in the end: %+v", b)
				}
			})
		})
	}
}

// A tool is not unknown because its backend could not list its tools.
func TestToolOfAListThatFailedIsNotUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serverWithTools(true)
		s.Capabilities = `{"tools":{},"prompts":{}}`
		s.On["tools/list"] = func(x *faultyserver.Exchange) { x.Error(-32603, "the database is away") }
		s.On["prompts/list"] = resultHandler(`{"prompts":[{"name":"p"}]}`)
		h := backends{"b": s}.open(t, nil)
		got := h.postModern("1", "tools/call", "b__x", "")
		if !strings.Contains(got.body, "not_dispatched") || !strings.Contains(got.body, "its tools are not known: tools/list: ") {
			t.Error(got.body)
		}
		if got := h.postModern("2", "prompts/get", "b__nope", ""); !strings.Contains(got.body, `unknown prompt: \"b__nope\"`) {
			t.Error(got.body)
		}
	})
}
