// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/browser"
	"github.com/signalbox-mcp/signalbox/test/canary"
	"github.com/signalbox-mcp/signalbox/test/identity/provider"
)

// The clients of other projects sign in again for a scope that one tool needs, and keep what
// they were granted (identity I4).
func TestClientsStepUp(t *testing.T) {
	p, between := watched(t, provider.Settings{})
	keys := trusting(issuer("corp", p.Issuer))
	keys["policy"] = object{"otherwise": "allow", "rules": []object{{"name": "write", "needs": []string{"mcp:write"}, "on": []string{"write"}}}}
	g := startGateway(t, keys)
	t.Run("clients", func(t *testing.T) {
		for _, s := range sdks(t) {
			for _, version := range s.versions {
				t.Run(s.name+"/"+version, func(t *testing.T) {
					t.Parallel()
					j := job{URL: g.URL, Version: version, Redirect: redirect, Calls: []call{{Name: "read"}, {Name: "write"}, {Name: "read"}}}
					r, err := s.play(t.Context(), j, browser.New("ann"))
					if err != nil {
						t.Fatal(err)
					}
					want := []result{{Text: "read with "}, {Text: "write with "}, {Text: "read with "}}
					if r.Error != "" || !slices.Equal(r.Calls, want) {
						t.Fatalf("got %+v\n%s", r, r.Error)
					}
					if len(r.Opened) != 2 {
						t.Fatalf("opened %q", r.Opened)
					}
					scopes := strings.Fields(query(t, r.Opened[1]).Get("scope"))
					if !slices.Contains(scopes, "mcp:use") || !slices.Contains(scopes, "mcp:write") {
						t.Errorf("asked for %q", scopes)
					}
				})
			}
		}
	})
	var set canary.Set
	secrets(t, &set, between)
	for _, leak := range g.leaks(t, &set) {
		t.Error(leak)
	}
}
