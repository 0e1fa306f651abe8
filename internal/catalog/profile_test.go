// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// profiled returns two backends with items of all kinds.
func profiled() []Backend {
	a := backend("a").with(Tools, tools("read", "delete")...).with(Prompts, prompt("delete")).
		with(Resources, resource("x:1")).with(Templates, template("x:{any}"))
	b := backend("b").with(Tools, tools("read")...).with(Resources, resource("x:1"), resource("y:1")).with(Templates, template("y:{any}"))
	a.Instructions, b.Instructions = "Use a.", "Use b."
	a.Capabilities, b.Capabilities = []byte(`{"tools":{},"prompts":{},"resources":{}}`), []byte(`{"tools":{},"resources":{"subscribe":true}}`)
	return []Backend{a, b}
}

func TestProfileSelectsBackendsAndNames(t *testing.T) {
	c := Build(profiled(), Options{})
	for _, tt := range []struct {
		profile Profile
		want    []string // tools, prompts, resources, templates
	}{
		{Profile{}, []string{"a__read a__delete b__read", "a__delete", "x:1 y:1", "x:{any} y:{any}"}},
		{Profile{Backends: []string{"a"}}, []string{"a__read a__delete", "a__delete", "x:1", "x:{any}"}},
		{Profile{Backends: []string{"b"}}, []string{"b__read", "", "y:1", "y:{any}"}},
		{Profile{Exclude: []string{"*delete*"}}, []string{"a__read b__read", "", "x:1 y:1", "x:{any} y:{any}"}},
		{Profile{Backends: []string{"a"}, Include: []string{"*read", "b__*"}}, []string{"a__read", "", "x:1", "x:{any}"}},
		{Profile{Backends: []string{"a", "none"}, Exclude: []string{"*"}}, []string{"", "", "x:1", "x:{any}"}},
		{Profile{Backends: []string{}}, []string{"", "", "", ""}},
	} {
		v := c.Profile(&tt.profile)
		if diff := cmp.Diff([]string{names(v, Tools), names(v, Prompts), names(v, Resources), names(v, Templates)}, tt.want); diff != "" {
			t.Errorf("%+v (-got +want):\n%s", tt.profile, diff)
		}
	}
}

// A profile declares and describes only its backends, whatever the others are.
func TestProfileIsOfItsBackends(t *testing.T) {
	in := profiled()
	whole := Build(in, Options{})
	for i, name := range []string{"a", "b"} {
		got := whole.Profile(&Profile{Backends: []string{name}})
		alone := Build(in[i:i+1], Options{})
		if string(got.Capabilities()) != string(alone.Capabilities()) || got.Instructions() != alone.Instructions() {
			t.Errorf("%s: %s, %q; want %s, %q", name, got.Capabilities(), got.Instructions(), alone.Capabilities(), alone.Instructions())
		}
	}
	// A backend that was never reached declares everything, and makes lists stale.
	with := append(slices.Clone(in), Backend{Name: "c"})
	if got := Build(with, Options{}).Profile(&Profile{Backends: []string{"b"}}); string(got.Capabilities()) != string(Build(in[1:], Options{}).Capabilities()) || *readPage(t, got, Tools, "").TTL != 60_000 {
		t.Errorf("a missing backend of another profile is in it: %s, %+v", got.Capabilities(), readPage(t, got, Tools, ""))
	}
	if got := Build(in, Options{Instructions: "Be kind."}).Profile(&Profile{Backends: []string{"b"}}).Instructions(); got != "Be kind." {
		t.Errorf("the configured instructions became %q", got)
	}
}

// The only backend with resources is asked for those that it does not list, if it is in the
// profile.
func TestProfileKeepsTheOnlyBackendWithResources(t *testing.T) {
	a, b := backend("a").with(Resources, resource("x:1")), backend("b").with(Tools, tool("t"))
	a.Capabilities, b.Capabilities = []byte(`{"resources":{}}`), []byte(`{"tools":{}}`)
	c := Build([]Backend{a, b}, Options{})
	if e, ok := c.Profile(&Profile{Backends: []string{"a"}}).Resource("z:1"); !ok || e.BackendName != "a" {
		t.Errorf("an unlisted resource is not found: %v", e)
	}
	if e, ok := c.Profile(&Profile{Backends: []string{"b"}}).Resource("z:1"); ok {
		t.Errorf("an unlisted resource is found in a profile without its backend: %v", e)
	}
}

func TestProfileRulesThatMatchNothing(t *testing.T) {
	in := profiled()
	in[1].Lists[Resources] = List{} // no conflict
	opt := Options{Profiles: []Profile{
		{Name: "fine", Backends: []string{"a"}, Include: []string{"a__read"}, Exclude: []string{"*delete*"}},
		{Name: "idle", Backends: []string{"b"}, Include: []string{"a__read", "b__read"}, Exclude: []string{"*delete*"}},
	}}
	const want = `profile "idle": include "a__read" matches none of its tools and prompts [SB_NAME_UNUSED_RULE]
profile "idle": exclude "*delete*" matches none of its tools and prompts [SB_NAME_UNUSED_RULE]
`
	if got := problems(Build(in, opt)); got != want {
		t.Errorf("problems:\n%swant:\n%s", got, want)
	}
	in[1].State = Stale // what it offers now is unknown
	if got := problems(Build(in, opt)); got != "" {
		t.Errorf("problems of a profile with a stale backend:\n%s", got)
	}
}

// The patterns of the tools that a short list always has are rules, too. A rule about a backend that is
// disabled is not one that matches nothing.
func TestRulesAboutAbsentBackends(t *testing.T) {
	in := profiled()
	in[1].Lists[Resources] = List{} // no conflict
	opt := Options{
		Profiles: []Profile{{
			Name: "short", Include: []string{"a__*", "b__*", "off__*"}, Exclude: []string{"a__delete*"},
			Finder: &Finder{Always: []string{"a__read", "a__delete", "off__x", "none"}},
		}},
		Patterns: []PlacedPattern{{Place: "here", Pattern: "off__x"}, {Place: "there", Pattern: "renamed"}},
	}
	const always = `profile "short": always "a__delete" matches none of its tools and prompts [SB_NAME_UNUSED_RULE]
`
	const absent = `profile "short": include "off__*" matches none of its tools and prompts [SB_NAME_UNUSED_RULE]
` + always + `profile "short": always "off__x" matches none of its tools and prompts [SB_NAME_UNUSED_RULE]
profile "short": always "none" matches none of its tools and prompts [SB_NAME_UNUSED_RULE]
here: "off__x" matches no tool, prompt or resource [SB_NAME_UNUSED_RULE]
there: "renamed" matches no tool, prompt or resource [SB_NAME_UNUSED_RULE]
`
	if diff := cmp.Diff(problems(Build(in, opt)), absent); diff != "" {
		t.Errorf("without absent backends (-got +want):\n%s", diff)
	}
	opt.Absent = []string{"off__*", "renamed", "none"}
	if diff := cmp.Diff(problems(Build(in, opt)), always); diff != "" {
		t.Errorf("with absent backends (-got +want):\n%s", diff)
	}
}

func TestToolBytesOfAProfile(t *testing.T) {
	c := Build(profiled(), Options{})
	p := Profile{Exclude: []string{"*delete*"}}
	n, bytes := c.ToolBytesOf(&p)
	if want := len(tool("a__read") + tool("b__read")); n != 2 || bytes != want {
		t.Errorf("%d tools, %d bytes; want 2, %d", n, bytes, want)
	}
}

// TestProfileIsAFilter checks for random profiles that a list of the profile is that of the
// whole catalog without what the profile does not admit, that exactly the listed items are
// found, and that each is the item of the whole catalog.
func TestProfileIsAFilter(t *testing.T) {
	patterns := []string{"*", "a*", "*x", "b__*", "*__x", "x", "y", "*y*", "c__y"}
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		in := randomBackends(r)
		for i := range in {
			in[i] = in[i].with(Resources, resource(fmt.Sprint("r:", r.IntN(4)))).with(Templates, template(fmt.Sprintf("t%d:{x}", r.IntN(3))))
		}
		c := Build(in, Options{FirstWins: seed%2 == 0, PageItems: 1 + r.IntN(3)})
		p := Profile{Name: "p", Include: someOf(r, patterns, 2), Exclude: someOf(r, patterns, 2)}
		if r.IntN(2) == 0 {
			p.Backends = make([]string, 0)
			for _, b := range in {
				if r.IntN(2) == 0 {
					p.Backends = append(p.Backends, b.Name)
				}
			}
		}
		v := c.Profile(&p)
		for k := range NumKinds {
			var want, got []string
			for e := range c.Entries(k) {
				admitted := p.Backends == nil || slices.Contains(p.Backends, e.BackendName)
				if k == Tools || k == Prompts {
					rules := Rules{Include: p.Include, Exclude: p.Exclude}
					admitted = admitted && admits(&rules, e.Name)
				}
				found, ok := find(v, k, e.Name)
				if ok != admitted || ok && found != e {
					t.Errorf("seed %d: %s %s found: %t, admitted: %t (%+v)", seed, k, e.Name, ok, admitted, p)
				}
				if hides := v.Hides(k, e.Name); hides == admitted {
					t.Errorf("seed %d: %s %s hidden: %t, admitted: %t", seed, k, e.Name, hides, admitted)
				}
				if admitted {
					want = append(want, string(e.JSON()))
				}
			}
			for _, page := range readAll(t, v, k) {
				for _, item := range page.items(k) {
					got = append(got, string(item))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("seed %d: %s of %+v: %q, want %q", seed, k.Method(), p, got, want)
			}
		}
		for uri := range strings.SplitSeq("r:0 r:1 r:2 r:3 t0:1 t1:1 t2:1 z:1", " ") {
			e, ok := v.Resource(uri)
			if _, exists := c.Resource(uri); ok && (!exists || !p.Has(e.BackendName)) {
				t.Errorf("seed %d: %s is found at %s (%+v)", seed, uri, e.BackendName, p)
			}
		}
	}
}

// find returns the listed item of a name.
func find(c *Catalog, k Kind, name string) (*Entry, bool) { return c.sections[k].find(name) }

func someOf(r *rand.Rand, all []string, most int) []string {
	var some []string
	for _, i := range r.Perm(len(all))[:r.IntN(most+1)] {
		some = append(some, all[i])
	}
	return some
}
