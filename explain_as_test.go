// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// somePolicies compiles policies that decide about the names of randomView in different ways.
func somePolicies(t *testing.T) []*policyInUse {
	t.Helper()
	isAnn := `principal.name == "ann"`
	on := func(patterns ...string) []string { return patterns }
	var all []*policyInUse
	for _, otherwise := range []config.PolicyOutcome{config.PolicyAllow, config.PolicyDeny} {
		for _, rules := range [][]config.PolicyRule{
			{},
			{{Name: "r", Allow: isAnn}},
			{{Name: "r", Allow: isAnn, On: on("*x")}, {Name: "s", Deny: "true", On: on("a__*", "u:*")}},
			{{Name: "r", Deny: isAnn, On: on("*y", "u:x")}, {Name: "s", Allow: "true", On: on("*")}},
			{{Name: "r", Deny: `args.q == "1"`}, {Name: "s", Allow: "true"}},
			{{Name: "r", Needs: []string{"write"}, On: on("*x")}, {Name: "s", Allow: "true"}},
			{{Name: "r", Confirm: "true", On: on("*")}, {Name: "s", Allow: `item.kind == "tool"`}},
		} {
			cfg := config.Policy{Otherwise: otherwise, Rules: rules}
			p, err := cfg.Compile(func(string, policy.Failure) {})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, &policyInUse{Policy: p})
		}
	}
	return all
}

// For random configurations, policies and callers, a name is explained to a caller as offered if
// and only if the lists of the caller have it.
func TestExplainAsAgreesWithLists(t *testing.T) {
	t.Parallel()
	policies := somePolicies(t)
	callers := []*mcp.Identity{nil, {Principal: "ann", Via: mcp.ViaToken}, {Principal: "bob", Via: mcp.ViaToken, Scopes: []string{"write"}}}
	seeds, parts := uint64(2000), uint64(8)
	if testing.Short() {
		seeds, parts = 200, 1
	}
	for part := range parts {
		t.Run(strconv.FormatUint(part, 10), func(t *testing.T) {
			t.Parallel()
			for seed := part; seed < seeds; seed += parts {
				r := rand.New(rand.NewPCG(seed, 7))
				v := randomView(r)
				v.policy = policies[r.IntN(len(policies))]
				g := new(Gateway)
				g.derive(v, nil)
				g.view.Store(v)
				q := PolicyQuestion{Identity: callers[r.IntN(len(callers))], Profile: []string{"", "p"}[r.IntN(2)]}
				seen := v.at(q.Profile).classes.of(v.policy.Subject(q.Identity, nil)).view
				explainAsAgrees(t, seed, g, seen, &q)
			}
		})
	}
}

// explainAsAgrees compares explanations to a caller with what the caller sees.
func explainAsAgrees(t *testing.T, seed uint64, g *Gateway, seen *view, q *PolicyQuestion) {
	t.Helper()
	for _, q.Name = range []string{"x", "y", "a__x", "b__x", "a__y", "b__y__x", "p.x", "u:x", "u:y", "u:{x}", "nothing"} {
		x := g.ExplainAs(q)
		var explained, listed []string
		for _, it := range x.Items {
			if it.Offered && it.Name == q.Name {
				explained = append(explained, it.Kind+" "+it.Own+" of "+it.Backend.Name)
			}
		}
		for k := range catalog.NumKinds {
			for e := range seen.catalog.Entries(k) {
				if e.Name == q.Name {
					listed = append(listed, k.String()+" "+e.Own+" of "+e.BackendName)
				}
			}
		}
		// A URI may be read although it is in no list.
		_, routed := seen.catalog.Resource(q.Name)
		reads := routed && strings.HasPrefix(q.Name, "u:")
		slices.Sort(explained)
		slices.Sort(listed)
		if diff := cmp.Diff(explained, listed); diff != "" || x.Offered != (len(listed) > 0 || reads) {
			t.Fatalf("seed %d: %s at %q to %v is offered %v (-explained +listed):\n%s", seed, q.Name, q.Profile, q.Identity, x.Offered, diff)
		}
	}
}
