// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// A profile with a search view has tools at other places than the whole gateway, and resources at the same ones, with
// gaps where other servers have theirs. The verdicts of a policy are about the items at these places.
func TestPolicyOfASearchViewOfSomeServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backends := make(gatewaytest.Backends)
		for name, uris := range map[string][]string{"a": {"a:1", "a:2", "a:3"}, "b": {"b:1", "b:secret", "b:2"}} {
			m := mux.New()
			for _, uri := range uris {
				if err := m.Add(mux.Resource{URI: uri, Name: "r", Read: func(context.Context, *mux.Call) ([]mux.Contents, error) {
					return []mux.Contents{mux.TextContents(uri, "", "text")}, nil
				}}); err != nil {
					t.Fatal(err)
				}
			}
			m.Name, m.Version = name, "1"
			edge := server.New(m, server.Config{AllowedHosts: []string{"*"}})
			t.Cleanup(func() {
				edge.Close()
				m.Close()
			})
			backends[name] = edge
		}
		h := backends.Open(t, func(cfg *config.Config) {
			cfg.Policy = config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{{Name: "secret", Deny: "true", On: []string{"b:secret"}}}}
			cfg.Profiles = []config.Profile{
				{Name: "plain", Servers: []string{"b"}},
				{Name: "search", Servers: []string{"b"}, View: config.ViewSearch},
			}
		})
		synctest.Wait()
		for _, profile := range []string{"plain", "search"} {
			ask := func(method, params string) string {
				req := requestOf(t, nil, method, params)
				req.Profile = profile
				return answerTo(t, h.G, req)
			}
			var seen []string
			list := ask("resources/list", `{}`)
			for _, uri := range []string{"a:1", "a:2", "a:3", "b:1", "b:secret", "b:2"} {
				if strings.Contains(list, `"`+uri+`"`) {
					seen = append(seen, uri)
				}
			}
			if want := []string{"b:1", "b:2"}; !slices.Equal(seen, want) {
				t.Errorf("%s lists %q, want %q", profile, seen, want)
			}
			for _, uri := range []string{"b:1", "b:secret", "b:2"} {
				got := ask("resources/read", `{"uri":"`+uri+`"}`)
				if want := uri != "b:secret"; strings.Contains(got, `"contents"`) != want {
					t.Errorf("%s: read of %s: %s", profile, uri, got)
				}
			}
			if got := ask("server/discover", `{}`); !strings.Contains(got, `"resources"`) {
				t.Errorf("%s: discovered %s", profile, got)
			}
		}
	})
}
