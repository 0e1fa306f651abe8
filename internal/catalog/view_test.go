// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func viewed() *Catalog {
	a := backend("a").
		with(Tools, tools("read", "write")...).
		with(Prompts, prompt("read"), prompt("write")).
		with(Resources, resource("x:read"), resource("x:write")).
		with(Templates, template("x:{any}"), template("y:write/{any}")).
		with(Skills, skill("x:read"), skill("skill://write/SKILL.md"))
	return Build([]Backend{a}, Options{PageItems: 1})
}

func notWrite(e *Entry) bool { return !strings.Contains(e.Own, "write") }

// Exactly the listed items may be called.
func TestViewListsWhatMayBeCalled(t *testing.T) {
	base := viewed()
	v := base.View(notWrite)
	if diff := cmp.Diff(
		[]string{names(v, Tools), names(v, Prompts), names(v, Resources), names(v, Templates), names(v, Skills)},
		[]string{"a__read", "a__read", "x:read", "x:{any}", "x:read"}); diff != "" {
		t.Errorf("listed (-got +want):\n%s", diff)
	}
	for k := range NumKinds {
		if p := readPage(t, v, k, ""); len(p.items(k)) != 1 || p.NextCursor != nil || p.CacheScope != "private" || *p.TTL != 60_000 {
			t.Errorf("%s: %+v", k.Method(), p)
		}
	}
	if _, ok := v.Tool("a__write"); ok {
		t.Error("a hidden tool may be called")
	}
	if _, ok := v.Prompt("a__write"); ok {
		t.Error("a hidden prompt may be got")
	}
	if _, ok := v.Tool("a__read"); !ok {
		t.Error("a listed tool may not be called")
	}
	if base.sections[Tools].len != 2 || len(readAll(t, base, Tools)) != 2 {
		t.Error("the view changed what it is a view of")
	}
}

// The size of a backend's tools is that of the items in the list.
func TestToolBytes(t *testing.T) {
	a := backend("a").with(Tools, tools("read", "write", "excluded")...).rules(Rules{Rename: map[string]string{"write": "w"}, Exclude: []string{"excluded"}})
	b := backend("b").with(Tools, tools("read")...).with(Prompts, prompt("p"))
	c := Build([]Backend{a, b, backend("none")}, Options{})
	for name, want := range map[string]int{"a": len(tool("a__read") + tool("w")), "b": len(tool("b__read")), "none": 0} {
		if got := c.ToolBytes(name); got != want {
			t.Errorf("%s: %d bytes, want %d", name, got, want)
		}
	}
	if got, want := c.View(notWrite).ToolBytes("a"), len(tool("a__read")); got != want {
		t.Errorf("a view: %d bytes, want %d", got, want)
	}
}

// A hidden resource is not found through a template, or through the rule for unlisted
// resources.
func TestViewHidesResources(t *testing.T) {
	tests := []struct {
		uri  string
		want bool
	}{
		{"x:read", true},
		{"x:write", false},
		{"x:other", true}, // by the template
		{"y:write/1", false},
		{"z:1", false},
	}
	base := viewed()
	once := base.View(notWrite)
	twice := once.View(func(*Entry) bool { return true })
	for _, tt := range tests {
		if _, ok := base.Resource(tt.uri); !ok {
			t.Errorf("%s is not found without a view", tt.uri)
		}
		for name, v := range map[string]*Catalog{"view": once, "view of it": twice} {
			if _, ok := v.Resource(tt.uri); ok != tt.want {
				t.Errorf("%s: %s found: %v, want %v", name, tt.uri, ok, tt.want)
			}
		}
	}
}

func TestViewAsksOnce(t *testing.T) {
	asked := make(map[*Entry]int)
	viewed().View(func(e *Entry) bool {
		asked[e]++
		return len(asked)%2 == 0
	})
	if len(asked) != 10 {
		t.Errorf("asked for %d entries, want 10", len(asked))
	}
	for e, n := range asked {
		if n != 1 {
			t.Errorf("asked %d times for %s", n, e.Name)
		}
	}
}

// Problems are for the operator: they name hidden items.
func TestViewHasNoProblems(t *testing.T) {
	c := Build([]Backend{backend("a").with(Tools, `null`, tool("x"))}, Options{})
	if len(c.Problems()) != 1 || len(c.View(notWrite).Problems()) != 0 {
		t.Errorf("problems: %v, in the view: %v", c.Problems(), c.View(notWrite).Problems())
	}
}

// INVARIANTS I33: a change is one that a client can see.
func TestVersion(t *testing.T) {
	base := func() Backend {
		return backend("a").with(Tools, tools("x", "y")...).with(Prompts, prompt("p")).
			with(Resources, resource("r:1")).with(Templates, template("r:{x}"))
	}
	tests := []struct {
		name   string
		before []Backend
		after  []Backend
		want   []Kind
	}{
		{"nothing", []Backend{base()}, []Backend{base()}, nil},
		{"a new tool", []Backend{base()}, []Backend{base().with(Tools, tool("z"))}, []Kind{Tools}},
		{"another order", []Backend{base()}, []Backend{backend("a").with(Tools, tools("y", "x")...).with(Prompts, prompt("p")).with(Resources, resource("r:1")).with(Templates, template("r:{x}"))}, []Kind{Tools}},
		{"a new prompt", []Backend{base()}, []Backend{base().with(Prompts, prompt("q"))}, []Kind{Prompts}},
		{"a new resource", []Backend{base()}, []Backend{base().with(Resources, resource("r:2"))}, []Kind{Resources}},
		{"a new template", []Backend{base()}, []Backend{base().with(Templates, template("q:{x}"))}, []Kind{Templates}},
		{"another prefix", []Backend{base()}, []Backend{base().rules(Rules{Rename: map[string]string{"x": "z"}})}, []Kind{Tools}},
		{"the whole backend", []Backend{base()}, nil, []Kind{Tools, Resources, Templates, Prompts}},
		{"an item that is not offered", []Backend{base()}, []Backend{base().with(Tools, "null")}, nil},
		{"a rule that changes nothing", []Backend{base()}, []Backend{base().rules(Rules{Exclude: []string{"other"}})}, nil},
		{"a backend that offers nothing", []Backend{base()}, []Backend{base(), {Name: "z"}}, nil},
		{"it became stale", []Backend{base()}, []Backend{func() Backend { b := base(); b.State = Stale; return b }()}, nil},
	}
	for _, tt := range tests {
		before, after := Build(tt.before, Options{}), Build(tt.after, Options{})
		if got := changed(before, after); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// changed returns the kinds of the lists that differ.
func changed(before, after *Catalog) (kinds []Kind) {
	then, now := before.Version(), after.Version()
	for k := range NumKinds {
		if then[k] != now[k] {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// Lists with different items have different versions, even if their items concatenated
// are the same bytes.
func TestDigestIncludesItemBoundaries(t *testing.T) {
	of := func(items ...string) Digest {
		var entries []*Entry
		for _, item := range items {
			entries = append(entries, &Entry{item: []byte(item)})
		}
		t := newTable(Tools, entries, Options{})
		return (&encodedList{part: part{table: t}}).version()
	}
	one, two := of("ab", "c"), of("a", "bc")
	if one == two || one == (Digest{}) {
		t.Errorf("digests %x and %x", one, two)
	}
}

// Other page boundaries are not a change.
func TestVersionIgnoresPages(t *testing.T) {
	in := []Backend{backend("a").with(Tools, numbered(10, tool)...)}
	if got := changed(Build(in, Options{}), Build(in, Options{PageItems: 3})); got != nil {
		t.Errorf("got %v", got)
	}
}

// Lists that no view has are dropped, and lists in use are not looked through for each further one.
func TestSharedListsAreDropped(t *testing.T) {
	s, all := new(sharedLists), &table{kind: Tools}
	var kept []*encodedList
	add := func(from, n int) (lists []*encodedList) {
		for i := range n {
			lists = append(lists, s.of(part{all, places{uint64(from + i)}}, listFreshness{}))
		}
		return lists
	}
	for i := range 5 {
		kept = append(kept, add(i*minShared, minShared)...)
		if most := max(s.most, minShared); most < len(s.known) {
			t.Fatalf("with %d lists in use, those above %d are looked through each time", len(s.known), most)
		}
	}
	if again := add(0, 1)[0]; again != kept[0] || len(s.known) != len(kept) {
		t.Errorf("%d lists of %d", len(s.known), len(kept))
	}
	runtime.KeepAlive(kept)
	runtime.GC()
	add(5*minShared, 4*minShared)
	if len(s.known) > 4*minShared {
		t.Errorf("%d lists are kept", len(s.known))
	}
}
