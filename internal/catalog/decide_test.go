// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// randomLists makes backends in all states, with items of all kinds, invalid and repeated ones,
// and rules that are likely to conflict.
func randomLists(r *rand.Rand) []Backend {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	all := randomBackends(r)
	for i := range all {
		b := &all[i]
		b.State = []State{Live, Live, Live, Stale, Missing}[r.IntN(5)]
		b.Capabilities = []byte(pick(`{"tools":{},"prompts":{},"resources":{}}`, `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`))
		for range r.IntN(3) {
			*b = b.with(Tools, pick(
				`{"name":"bad"}`, `{"description":"no name"}`, `[]`, tool("x"), tool(pick("long", "y", "w")),
				`{"name":"w","inputSchema":{"type":"object","description":"`+strings.Repeat("x", 200)+`"}}`,
			))
		}
		for range r.IntN(4) {
			*b = b.with(Prompts, prompt(pick("x", "y", "z", "a__x"))).
				with(Resources, resource("x:"+pick("1", "2", "3"))).
				with(Templates, template("x:{"+pick("a", "b")+"}"))
		}
		if r.IntN(4) == 0 {
			b.Rules.Include = []string{pick("x*", "*y", "z", "w"), pick("a*", "bad", "*")}
		}
	}
	return all
}

// For random configurations and lists, an item is offered according to Explain if and only if
// the catalog lists it, under that name and for that backend, and each listed item has one
// decision. The same holds for a view.
func TestExplainAgreesWithLists(t *testing.T) {
	seeds := uint64(10_000)
	if testing.Short() {
		seeds = 2_000
	}
	verdicts := make(map[Verdict]int)
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 5))
		in := randomLists(r)
		opt := Options{FirstWins: r.IntN(2) == 0, MaxItems: []int{0, 0, 3}[r.IntN(3)], MaxSchema: []int{0, 100}[r.IntN(2)], PageItems: []int{0, 2}[r.IntN(2)]}
		if r.IntN(4) == 0 {
			opt.Pin = func(_ string, _ Kind, item json.RawMessage) Pin {
				if bytes.Contains(item, []byte("y")) {
					return Pin{Item: item, Held: true, Problem: "held"}
				}
				return Pin{Item: item}
			}
		}
		c := Build(in, opt)
		if r.IntN(2) == 0 {
			checkExplained(t, c, Explain(in, opt, nil, everything), in, verdicts)
		} else {
			allow := func(e *Entry) bool { return len(e.Name)%2 == 0 }
			checkExplained(t, c.View(allow), Explain(in, opt, allow, everything), in, verdicts)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for v := range Held + 1 {
		if verdicts[v] == 0 {
			t.Errorf("no item had the verdict %d: the inputs are too simple", v)
		}
	}
}

func everything(*Decision) bool { return true }

func checkExplained(t *testing.T, c *Catalog, decisions []Decision, in []Backend, verdicts map[Verdict]int) {
	t.Helper()
	var offered []string
	count := 0
	for i := range decisions {
		d := &decisions[i]
		verdicts[d.Verdict]++
		count++
		if d.Verdict == Offered {
			offered = append(offered, fmt.Sprint(d.Kind, " ", d.Name, " is ", d.Own, " of ", d.BackendName))
		}
	}
	var listed []string
	for k := range NumKinds {
		for _, p := range readAll(t, c, k) {
			for _, raw := range p.items(k) {
				e := entryOf(t, c, k, raw)
				listed = append(listed, fmt.Sprint(k, " ", e.Name, " is ", e.Own, " of ", e.BackendName))
			}
		}
	}
	slices.Sort(offered)
	slices.Sort(listed)
	if !slices.Equal(offered, listed) {
		t.Errorf("explained and listed differ (-explained +listed):\n%s", cmp.Diff(offered, listed))
	}
	items := 0
	for i := range in {
		for k := range NumKinds {
			if in[i].State != Missing {
				items += len(in[i].Lists[k].Items)
			}
		}
	}
	if count != items {
		t.Errorf("%d decisions about %d items", count, items)
	}
}

// entryOf returns the entry by which an item of a list is called or read.
func entryOf(t *testing.T, c *Catalog, k Kind, raw json.RawMessage) *Entry {
	t.Helper()
	var item struct{ Name, URI, URITemplate string }
	if err := json.Unmarshal(raw, &item); err != nil {
		t.Fatal(err)
	}
	name := map[Kind]string{Tools: item.Name, Prompts: item.Name, Resources: item.URI, Templates: item.URITemplate}[k]
	e, ok := c.sections[k].find(name)
	if !ok {
		t.Fatalf("the listed %s %q is not found", k, name)
	}
	return e
}

// Each decision has what led to it. Those that depend on one backend alone come first.
func TestDecisions(t *testing.T) {
	empty := ""
	a := backend("a").with(Tools, append(tools("read", "write_file", "read", "echo"), `{"name":"bad"}`, `{}`)...).
		with(Resources, resource("x:1")).
		rules(Rules{Prefix: &empty, Exclude: []string{"drop", "write_*"}, Rename: map[string]string{"read": "look"}})
	b := backend("b").with(Tools, tools("echo", "get", "other", "last")...).
		with(Resources, resource("x:1")).
		rules(Rules{Prefix: &empty, Include: []string{"echo", "g*"}})
	missing := backend("c").with(Tools, tools("read")...)
	missing.State = Missing
	var got []string
	for _, d := range Explain([]Backend{a, b, missing}, Options{MaxItems: 2}, nil, everything) {
		text := fmt.Sprintf("%s %s %q of %s: %d", d.Kind, d.Name, d.Own, d.BackendName, d.Verdict)
		if d.Pattern >= 0 {
			text += fmt.Sprint(", pattern ", d.Pattern)
		}
		for _, e := range d.Group {
			text += ", " + e.BackendName
		}
		got = append(got, strings.TrimSpace(text+" "+d.Problem))
	}
	want := []string{
		`tool write_file "write_file" of a: 4, pattern 1`,
		`tool look "read" of a: 3`,
		`tool bad "bad" of a: 1 it has no inputSchema`,
		`tool  "" of a: 1 it has no name`,
		`tool other "other" of b: 1`,
		`tool last "last" of b: 1`,
		`tool look "read" of a: 0`,
		`tool echo "echo" of a: 7, a, b`,
		`tool echo "echo" of b: 7, pattern 0, a, b`,
		`tool get "get" of b: 0, pattern 1`,
		`resource x:1 "x:1" of a: 0, a, b`,
		`resource x:1 "x:1" of b: 8, a, b`,
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("decisions (-got +want):\n%s", diff)
	}
}
