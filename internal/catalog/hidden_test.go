// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"math/rand/v2"
	"testing"
)

// Hides distinguishes names hidden by the operator from unknown names, from invalid
// items, and from names that are offered.
func TestHides(t *testing.T) {
	empty := ""
	files := backend("files").
		with(Tools, append(tools("read", "write", "drop", "search"), `{"name":"bad"}`)...).
		with(Prompts, prompt("write"), prompt("greet")).
		with(Resources, resource("x:write")).
		rules(Rules{Exclude: []string{"write", "drop"}, Rename: map[string]string{"drop": "erase", "search": "find"}})
	web := backend("web").
		with(Tools, tools("find", "get", "files__write")...).
		with(Resources, resource("x:write")).
		rules(Rules{Prefix: &empty, Include: []string{"find", "files__write"}})
	gone := backend("gone").with(Tools, tools("x")...).rules(Rules{Exclude: []string{"*"}})
	gone.State = Missing
	stale := backend("old").with(Tools, tools("x")...).rules(Rules{Exclude: []string{"*"}})
	stale.State = Stale
	c := Build([]Backend{files, web, gone, stale}, Options{})

	tests := []struct {
		why  string
		kind Kind
		name string
		want bool
	}{
		{"excluded, and offered by another under this name", Tools, "files__write", false},
		{"excluded", Prompts, "files__write", true},
		{"excluded and renamed", Tools, "erase", true},
		{"excluded, by the name it would have without the rename", Tools, "files__drop", false},
		{"the backend's own name is not the offered one", Tools, "drop", false},
		{"not included", Tools, "get", true},
		{"two would have it", Tools, "find", true},
		{"offered", Tools, "files__read", false},
		{"of no backend", Tools, "files__nothing", false},
		{"left out for its own fault", Tools, "files__bad", false},
		{"a tool is no prompt", Prompts, "erase", false},
		{"a resource that two have is the first one's", Resources, "x:write", false},
		{"of a backend that was never reached", Tools, "gone__x", false},
		{"of a backend that was reached once", Tools, "old__x", true},
		{"no name at all", Tools, "", false},
	}
	for _, tt := range tests {
		if got := c.Hides(tt.kind, tt.name); got != tt.want {
			t.Errorf("%s: Hides(%v, %q) = %t, want %t", tt.why, tt.kind, tt.name, got, tt.want)
		}
	}
}

// The first item gets the name then, and nothing is hidden.
func TestHidesNoConflictThatIsDecided(t *testing.T) {
	empty := ""
	a := backend("a").with(Tools, tools("x")...).rules(Rules{Prefix: &empty})
	b := backend("b").with(Tools, tools("x")...).rules(Rules{Prefix: &empty})
	if !Build([]Backend{a, b}, Options{}).Hides(Tools, "x") {
		t.Error("a name that two would have, and nobody gets, is not hidden")
	}
	if Build([]Backend{a, b}, Options{FirstWins: true}).Hides(Tools, "x") {
		t.Error("a name that is offered is hidden")
	}
}

// A view hides the entries that it removes and those hidden before, for each kind, and
// so does a view of a view; the Catalog itself is not changed.
func TestHidesInViews(t *testing.T) {
	base := viewed()
	once := base.View(notWrite)
	twice := once.View(func(e *Entry) bool { return e.Kind != Prompts })
	tests := []struct {
		kind              Kind
		name              string
		base, once, twice bool
	}{
		{Tools, "a__read", false, false, false},
		{Tools, "a__write", false, true, true},
		{Prompts, "a__read", false, false, true},
		{Prompts, "a__write", false, true, true},
		{Resources, "x:write", false, true, true},
		{Templates, "y:write/{any}", false, true, true},
		{Tools, "a__other", false, false, false},
	}
	for _, tt := range tests {
		if b, o, w := base.Hides(tt.kind, tt.name), once.Hides(tt.kind, tt.name), twice.Hides(tt.kind, tt.name); b != tt.base || o != tt.once || w != tt.twice {
			t.Errorf("%v %q: hidden by the catalog %t, by a view %t, by a view of it %t; want %t, %t, %t",
				tt.kind, tt.name, b, o, w, tt.base, tt.once, tt.twice)
		}
	}
}

// Hides agrees with the rule for every name that some backend could have, with random
// rules and conflicts.
func TestHidesAgainstModel(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 5))
		in := randomBackends(r)
		c := Build(in, Options{FirstWins: r.IntN(2) == 0})
		v := c.View(func(e *Entry) bool { return len(e.Name)%2 == 0 })
		for i := range in {
			for _, own := range []string{"x", "y", "z", "a__x", "x__y", "none"} {
				name := in[i].Rules.name(in[i].Name, own)
				there := hasTool(in, name)
				for what, c := range map[string]*Catalog{"catalog": c, "view": v} {
					_, offered := c.Tool(name)
					if got := c.Hides(Tools, name); got != (there && !offered) {
						t.Fatalf("seed %d: the %s hides %q: %t; there %t, offered %t", seed, what, name, got, there, offered)
					}
				}
			}
		}
	}
}

// hasTool reports whether some backend lists a tool that would have the name.
func hasTool(in []Backend, name string) bool {
	for i := range in {
		all := in[i]
		all.Rules.Include, all.Rules.Exclude = nil, nil
		for _, own := range model([]Backend{all}, true) {
			if own == name {
				return true
			}
		}
	}
	return false
}
