// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// withTools returns the view that a change of the tools of its only backend leads to.
func (g *Gateway) withTools(old *view, tools []json.RawMessage) *view {
	offer := *old.offered[0]
	offer.Lists[catalog.Tools].Items = tools
	offers := []*backend.Offer{&offer}
	next := &view{cfg: old.cfg, policy: old.policy, backends: old.backends, offered: offers, catalog: old.build(offers), built: true, replaced: make(chan struct{})}
	g.derive(next, old)
	return next
}

// otherTool returns the tools of a view with another description of one of them.
func otherTool(v *view, n int) []json.RawMessage {
	tools := slices.Clone(v.offered[0].Lists[catalog.Tools].Items)
	i := n % len(tools)
	tools[i] = fmt.Appendf(nil, `{"title":"change %d","name":"tool%d","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":%t}}`, n, i, i%2 == 1)
	return tools
}

// readyGateway is benchGateway with known lists.
func readyGateway(tb testing.TB, p config.Policy, tools int) *Gateway {
	tb.Helper()
	g := benchGateway(tb, p, tools)
	if _, err := g.Serve(tb.Context(), benchRequest(tb, benchIdentity("ready"), "tools/list", `{}`), nil); err != nil {
		tb.Fatal(err)
	}
	return g
}

// BenchmarkOneToolChanges measures what a class of principals with an open listen costs when
// one of 2,000 tools has changed: its view, and whether its lists differ.
func BenchmarkOneToolChanges(b *testing.B) {
	const classes = 100
	g := readyGateway(b, manyRules(20), 2000)
	v := g.view.Load()
	subjects := make([]*policy.Subject, classes)
	for i := range subjects {
		subjects[i] = v.policy.Subject(benchIdentity(fmt.Sprint("p", i)), nil) // a rule reads the name
		v.classes.of(subjects[i])
	}
	var spent time.Duration
	for n := 0; b.Loop(); n++ {
		next := g.withTools(v, otherTool(v, 2*n+1)) // one that none of the rules hides
		began := time.Now()
		for _, s := range subjects {
			if next.classes.of(s).view.version() == v.classes.of(s).view.version() {
				b.Fatal("the change is not seen")
			}
		}
		spent += time.Since(began)
		v = next
	}
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N*classes), "µs/class")
}

// A change of one tool among many has its verdict decided, and no other. Its cost for each class
// does not depend on the rules.
func TestUnchangedItemsKeepTheirVerdict(t *testing.T) {
	rules := config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{{Name: "fails", Allow: `principal.claims.missing`}}}
	g := readyGateway(t, rules, 2000)
	decided := 0 // by a rule that fails for each item
	p, err := rules.Compile(func(string, policy.Failure) { decided++ })
	if err != nil {
		t.Fatal(err)
	}
	first := *g.view.Load()
	first.policy, first.items = &policyInUse{Policy: p}, nil
	g.derive(&first, nil)
	ann, bob := p.Subject(benchIdentity("ann"), nil), p.Subject(benchIdentity("bob"), nil)
	v := &first
	see := func(what string, s *policy.Subject, want int) {
		t.Helper()
		decided = 0
		v.classes.of(s)
		if decided != want {
			t.Errorf("%s: %d items are decided, want %d", what, decided, want)
		}
	}
	if ann.Class() != bob.Class() {
		t.Fatal("two classes")
	}
	see("at first", ann, 2000)
	see("another principal of the class", bob, 0)
	v = g.withTools(v, otherTool(v, 1234))
	see("one tool has changed", ann, 1)
	tools := v.offered[0].Lists[catalog.Tools].Items
	v = g.withTools(v, slices.Delete(slices.Clone(tools), 100, 110))
	see("ten are gone", ann, 0)
	shuffled := slices.Clone(tools)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	v = g.withTools(v, shuffled)
	see("they are back, and all in another order", ann, 10)
	for range 5 {
		v = g.withTools(v, otherTool(v, 7))
		v = g.withTools(v, otherTool(v, 2008))
	}
	see("several changes later", ann, 2)
}

// judged is a policy of rules that read all that an item has.
func judged(t *testing.T) *policyInUse {
	t.Helper()
	rules := config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{
		{Name: "annotations", Deny: `item.annotations.destructiveHint`},
		{Name: "tags", Deny: `"secret" in item.tags && principal.name != "ann"`},
		{Name: "own", Needs: []string{"w"}, When: `item.own.startsWith("a")`},
		{Name: "args", Deny: `args.env == "prod" && item.name.endsWith("d")`},
		{Name: "pattern", Deny: `true`, On: []string{"*__c"}},
		{Name: "backend", Allow: `item.backend == "x" && item.kind == "tool"`},
	}}
	p, err := rules.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &policyInUse{Policy: p}
}

// I17: verdicts that were carried over from other catalogs are those that would be made anew,
// whatever changes.
func TestCarriedVerdictsAreRight(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 60
	}
	p := judged(t)
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 8))
		p.decided = recent[policy.Class, decidedItems]{}
		subjects := []*policy.Subject{
			p.Subject(&mcp.Identity{Principal: "ann"}, nil), p.Subject(&mcp.Identity{Principal: "bob"}, nil),
			p.Subject(&mcp.Identity{Principal: "eve", Scopes: []string{"w"}}, nil),
		}
		var v *view
		for step := range 8 {
			v = randomPolicyView(r, p, v)
			for _, s := range subjects {
				if r.IntN(3) == 0 {
					continue // was not there for this one
				}
				seen := v.classes.of(s)
				for k := range catalog.NumKinds {
					for e := range v.catalog.Entries(k) {
						compareVerdicts(t, fmt.Sprintf("seed %d, step %d", seed, step), p, s, e, seen)
					}
				}
			}
		}
	}
}

// compareVerdicts compares the verdict about an entry, and what follows from it for a call, with
// those that nothing was known for.
func compareVerdicts(t *testing.T, when string, p *policyInUse, s *policy.Subject, e *catalog.Entry, seen *classView) {
	t.Helper()
	item := policy.NewItem(policyKind(e.Kind), e.BackendName, e.Name, e.Own, e.JSON())
	want, got := p.List(s, item), seen.verdicts.of(e)
	if got.Effect != want.Effect || got.Rule != want.Rule || !slices.Equal(got.Missing, want.Missing) {
		t.Fatalf("%s: %s %s is %+v, anew %+v", when, e.Kind, e.Name, got.Decision, want.Decision)
	}
	if _, shown := seen.view.catalog.Find(e.Kind, e.Name); shown == want.Hidden() {
		t.Fatalf("%s: %s is shown: %t", when, e.Name, shown)
	}
	for _, args := range []string{`{"env":"prod"}`, `{}`} {
		call := &policy.Call{Method: policy.Method(policyKind(e.Kind)), Args: []byte(args)}
		if got, want := p.Decide(s, item, call, got), p.Decide(s, item, call, nil); got.Effect != want.Effect || got.Rule != want.Rule {
			t.Fatalf("%s: %s(%s) is %+v, anew %+v", when, e.Name, args, got, want)
		}
	}
}

// randomPolicyView returns a view that follows another one, with some of the same items.
func randomPolicyView(r *rand.Rand, p *policyInUse, before *view) *view {
	item := func(kind catalog.Kind, name string) json.RawMessage {
		rest := `"inputSchema":{"type":"object"},"annotations":{"destructiveHint":` + fmt.Sprint(r.IntN(3) == 0) + `}`
		if r.IntN(4) == 0 {
			rest += `,"_meta":{"tags":["secret"]}`
		}
		switch kind {
		case catalog.Resources:
			return fmt.Appendf(nil, `{"uri":"r:%s","name":"n",%s}`, name, rest)
		case catalog.Templates:
			return fmt.Appendf(nil, `{"uriTemplate":"t:%s/{x}","name":"n",%s}`, name, rest)
		default:
			return fmt.Appendf(nil, `{"name":%q,%s}`, name, rest)
		}
	}
	var in []catalog.Backend
	for _, name := range []string{"x", "y"} {
		b := catalog.Backend{Name: name, State: catalog.Live, Capabilities: []byte(`{"tools":{},"prompts":{},"resources":{}}`)}
		if r.IntN(3) == 0 {
			b.Rules.Rename = map[string]string{"a": "x__c", "b": "a"}
		}
		for k := range catalog.NumKinds {
			for name := range strings.FieldsSeq("a b c d ba bd") {
				if r.IntN(3) > 0 {
					b.Lists[k].Items = append(b.Lists[k].Items, item(k, name))
				}
			}
			if r.IntN(2) == 0 {
				slices.Reverse(b.Lists[k].Items)
			}
		}
		in = append(in, b)
	}
	if r.IntN(2) == 0 {
		slices.Reverse(in)
	}
	v := &view{cfg: (&config.Config{}).Effective(), policy: p, catalog: catalog.Build(in, catalog.Options{Private: true}), built: true}
	new(Gateway).derive(v, before)
	return v
}

// A catalog is not kept for the sake of the decisions about its items.
func TestFormerCatalogsAreDropped(t *testing.T) {
	p := judged(t)
	s := p.Subject(&mcp.Identity{Principal: "ann"}, nil)
	r := rand.New(rand.NewPCG(1, 9))
	first := randomPolicyView(r, p, nil)
	first.classes.of(s)
	gone := weak.Make(first.catalog)
	v := randomPolicyView(r, p, first) // the last use of first
	v.classes.of(s)
	for range 10 {
		runtime.GC()
		if gone.Value() == nil {
			runtime.KeepAlive(v)
			return
		}
	}
	t.Error("the former catalog is in use")
}

// A policy that a reload does not change keeps its decisions.
func TestReloadKeepsDecisions(t *testing.T) {
	g := readyGateway(t, manyRules(5), 10)
	p := g.view.Load().policy
	if err := g.Reload(t.Context(), config.Config{Policy: manyRules(5), Name: "other"}); err == nil {
		t.Fatal("a setting that needs a restart")
	}
	if err := g.Reload(t.Context(), config.Config{Policy: manyRules(5)}); err != nil {
		t.Fatal(err)
	}
	if g.view.Load().policy != p {
		t.Error("the same policy is another one")
	}
	if err := g.Reload(t.Context(), config.Config{Policy: manyRules(6)}); err != nil {
		t.Fatal(err)
	}
	if g.view.Load().policy == p {
		t.Error("another policy is the same one")
	}
}

// What is kept for classes is bounded, and the ones that were used last stay.
func TestRecentClasses(t *testing.T) {
	var r recent[policy.Class, int]
	class := func(n int) policy.Class { return policy.Class{byte(n), byte(n >> 8)} }
	for n := range maxRecent {
		r.set(class(n), n)
	}
	for range 3 {
		r.set(class(1), -1)
	}
	if n := r.getOrAdd(class(2), func() int { return -2 }); n != 2 {
		t.Errorf("the third is %d", n)
	}
	r.set(class(maxRecent), maxRecent) // in place of the first
	for n, want := range map[int]int{1: -1, 2: 2, 3: 3, maxRecent: maxRecent} {
		if got, ok := r.get(class(n)); !ok || got != want {
			t.Errorf("class %d has %d, %t, want %d", n, got, ok, want)
		}
	}
	if _, ok := r.get(class(0)); ok || r.order.Len() != maxRecent || len(r.at) != maxRecent {
		t.Errorf("%d and %d are kept, the oldest: %t", r.order.Len(), len(r.at), ok)
	}
}

// An item with the name and the bytes of another one is another item if its backend has it under
// another name.
func TestItemsDifferByTheirOwnNames(t *testing.T) {
	var v *view
	p := judged(t)
	var items []*policy.Item
	for _, own := range []string{"a", "c", "c"} {
		in := catalog.Backend{Name: "x", State: catalog.Live, Rules: catalog.Rules{Rename: map[string]string{own: "one"}}}
		in.Lists[catalog.Tools].Items = []json.RawMessage{fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object"}}`, own)}
		next := &view{cfg: (&config.Config{}).Effective(), policy: p, catalog: catalog.Build([]catalog.Backend{in}, catalog.Options{}), built: true}
		new(Gateway).derive(next, v)
		v = next
		items = append(items, v.items.all[catalog.Tools][0])
	}
	if items[0] == items[1] || items[1] != items[2] {
		t.Error("the items are not told apart by their own names")
	}
}
