// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
)

// randomView makes the view of a random configuration, with lists of all kinds.
func randomView(r *rand.Rand) *view {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	v := &view{cfg: new(config.Config), built: true}
	v.cfg.Limits.ToolsPerBackend = []int{0, 3}[r.IntN(2)]
	v.cfg.Conflict = []config.Conflict{config.ConflictHide, config.ConflictFirst}[r.IntN(2)]
	for i := range 1 + r.IntN(4) {
		srv := config.Backend{Name: string(rune('a' + i))}
		if r.IntN(2) == 0 {
			prefix := pick("", "", "p.", "b__")
			srv.Prefix = &prefix
		}
		if r.IntN(3) == 0 {
			srv.Rename = map[string]string{pick("x", "y"): pick("x", "q", "a__y")}
		}
		if r.IntN(3) == 0 {
			srv.Exclude = []string{pick("x*", "*y", "z")}
		}
		if r.IntN(3) == 0 {
			srv.Include = []string{pick("x*", "*y", "z"), pick("a__*", "y")}
		}
		o := &backend.Offer{State: []backend.State{backend.Live, backend.Live, backend.Stale, backend.Starting, backend.Down}[r.IntN(5)]}
		o.Server.Capabilities = []byte(pick(`{}`, `{"resources":{}}`))
		for range r.IntN(5) {
			name := pick("x", "y", "z", "a__x", "y__x")
			add := func(k catalog.Kind, format, value string) {
				o.Lists[k].Items = append(o.Lists[k].Items, json.RawMessage(fmt.Sprintf(format, value)))
			}
			add(catalog.Tools, pick(`{"name":%q,"inputSchema":{"type":"object"}}`, `{"name":%q,"inputSchema":{}}`, `{"name":%q}`), name)
			add(catalog.Prompts, `{"name":%q}`, pick("x", "y"))
			add(catalog.Resources, `{"name":"r","uri":%q}`, "u:"+name)
			add(catalog.Templates, `{"name":"t","uriTemplate":%q}`, "u:{"+name[:1]+"}")
		}
		v.backends = append(v.backends, &activeBackend{Backend: backend.New(backend.Config{Name: srv.Name}), srv: srv})
		v.offered = append(v.offered, o)
	}
	profile := config.Profile{Name: "p"}
	if r.IntN(2) == 0 {
		profile.Servers = []string{pick("a", "b"), pick("c", "d")}
	}
	if r.IntN(2) == 0 {
		profile.Include = []string{pick("a__*", "*x"), pick("*y", "q")}
	}
	if r.IntN(2) == 0 {
		profile.Exclude = []string{pick("x", "*__x", "p.*")}
	}
	v.cfg.Profiles = []config.Profile{profile}
	v.catalog = v.build(v.offered)
	return v
}

// For random configurations and lists, a name is explained as offered if and only if clients
// find it, and then as the items that they find.
func TestExplainAgreesWithLookups(t *testing.T) {
	t.Parallel()
	seeds, parts := uint64(10_000), uint64(8)
	if testing.Short() {
		seeds, parts = 200, 1
	}
	for part := range parts {
		t.Run(strconv.FormatUint(part, 10), func(t *testing.T) {
			t.Parallel()
			for seed := part; seed < seeds; seed += parts {
				explainAgrees(t, seed)
			}
		})
	}
}

// explainAgrees compares explanations with lookups in one configuration.
func explainAgrees(t *testing.T, seed uint64) {
	t.Helper()
	names := []string{"x", "y", "q", "a__x", "b__x", "a__y", "b__y__x", "p.x", "p.a__x", "a", "u:x", "u:y", "u:{x}", "u:other", "nothing", "b__a__x"}
	r := rand.New(rand.NewPCG(seed, 6))
	v := randomView(r)
	g := new(Gateway)
	g.derive(v, nil)
	g.view.Store(v)
	profile := []string{"", "p"}[r.IntN(2)]
	seen := v.at(profile)
	for _, name := range names {
		x := g.Explain(name, profile)
		var explained, found []string
		for _, it := range x.Items {
			if it.Offered && it.Name == name {
				explained = append(explained, it.Kind+" "+it.Own+" of "+it.Backend.Name)
			}
		}
		for k := range catalog.NumKinds {
			for e := range seen.catalog.Entries(k) {
				if e.Name == name {
					found = append(found, k.String()+" "+e.Own+" of "+e.BackendName)
				}
			}
		}
		// A URI may be served although it is in no list.
		e, routed := seen.catalog.Resource(name)
		if routed && found == nil && strings.HasPrefix(name, "u:") {
			found = append(found, "resource "+name+" of "+e.BackendName)
		}
		if x.Route != nil {
			explained = append(explained, "resource "+name+" of "+x.Route.Backend)
		}
		slices.Sort(explained)
		slices.Sort(found)
		if diff := cmp.Diff(explained, found); diff != "" || x.Offered != (len(found) > 0) {
			t.Fatalf("seed %d: %s at %q is offered %v (-explained +found):\n%s", seed, name, profile, x.Offered, diff)
		}
	}
}
