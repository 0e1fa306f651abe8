// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/glob"
)

func TestRulesName(t *testing.T) {
	empty, other := "", "gh."
	rename := map[string]string{"search": "find"}
	tests := []struct {
		rules     Rules
		own, want string
	}{
		{Rules{}, "search", "github__search"},
		{Rules{}, "github__search", "github__github__search"},
		{Rules{}, "a b", "github__a b"},
		{Rules{Prefix: &empty}, "search", "search"},
		{Rules{Prefix: &other}, "search", "gh.search"},
		{Rules{Rename: rename}, "search", "find"},
		{Rules{Rename: rename, Prefix: &other}, "search", "find"},
		{Rules{Rename: rename}, "Search", "github__Search"},
	}
	for _, tt := range tests {
		if got := tt.rules.name("github", tt.own); got != tt.want {
			t.Errorf("%+v: %q is offered as %q, want %q", tt.rules, tt.own, got, tt.want)
		}
	}
}

func admits(r *Rules, own string) bool {
	v, _ := r.judge(own)
	return v == Offered
}

func TestRulesJudge(t *testing.T) {
	tests := []struct {
		rules   Rules
		visible string // of the names below
	}{
		{Rules{}, "read read_all write write_all"},
		{Rules{Include: []string{"read"}}, "read"},
		{Rules{Include: []string{"read*"}}, "read read_all"},
		{Rules{Include: []string{"read", "write"}}, "read write"},
		{Rules{Exclude: []string{"*_all"}}, "read write"},
		{Rules{Include: []string{"read*"}, Exclude: []string{"*_all"}}, "read"},
		{Rules{Include: []string{"read"}, Exclude: []string{"*"}}, ""},
		{Rules{Include: []string{"READ"}}, ""},
	}
	for _, tt := range tests {
		var visible []string
		for _, name := range []string{"read", "read_all", "write", "write_all"} {
			if admits(&tt.rules, name) {
				visible = append(visible, name)
			}
		}
		if got := strings.Join(visible, " "); got != tt.visible {
			t.Errorf("%+v leaves %q visible, want %q", tt.rules, got, tt.visible)
		}
	}
}

// Every pattern and name of up to four of the letters below, compared with an
// equivalent regular expression.
func TestMatchAll(t *testing.T) {
	pattern := words("ab*", 4)
	name := words("ab", 4)
	for _, p := range pattern {
		re := regexp.MustCompile("^" + strings.ReplaceAll(p, "*", ".*") + "$")
		for _, n := range name {
			if got, want := glob.Match(p, n), re.MatchString(n); got != want {
				t.Errorf("Match(%q, %q) = %v", p, n, got)
			}
		}
	}
}

func words(letters string, most int) []string {
	all := []string{""}
	for from := 0; most > 0; most-- {
		last := all[from:]
		from = len(all)
		for _, w := range last {
			for _, l := range letters {
				all = append(all, w+string(l))
			}
		}
	}
	return all
}

// Names of tools may contain the syntax of other kinds of patterns.
func TestMatchIsNoOtherSyntax(t *testing.T) {
	for _, name := range []string{"a.b", "a?", "[ab]", `a\*`, "a/b", "{a}"} {
		if !glob.Match(name, name) && !strings.Contains(name, "*") {
			t.Errorf("%q does not match itself", name)
		}
		if glob.Match(name, "ab") {
			t.Errorf("%q matches ab", name)
		}
	}
	if !glob.Match("a/*", "a/b/c") {
		t.Error("* does not match a slash")
	}
}

func TestCollisions(t *testing.T) {
	empty := ""
	bare := Rules{Prefix: &empty}
	a := backend("a").with(Tools, tools("search", "one")...).rules(bare)
	b := backend("b").with(Tools, tools("search", "two")...).rules(bare)
	tests := []struct {
		name     string
		in       []Backend
		opt      Options
		want     string
		problems string
	}{
		{
			"none", []Backend{backend("a").with(Tools, tool("search")), backend("b").with(Tools, tool("search"))}, Options{},
			"a__search b__search", "",
		},
		{
			"neither is offered", []Backend{a, b}, Options{}, "one two",
			"backend \"a\": tool \"search\": left out: backend \"b\" would also be tool \"search\"; rename one of them, or set conflict: first [SB_NAME_CONFLICT]\n" +
				"backend \"b\": tool \"search\": left out: backend \"a\" would also be tool \"search\"; rename one of them, or set conflict: first [SB_NAME_CONFLICT]\n",
		},
		{
			"the first wins", []Backend{a, b}, Options{FirstWins: true}, "search one two",
			"backend \"b\": tool \"search\": left out: backend \"a\" offers tool \"search\" first [SB_NAME_CONFLICT]\n",
		},
		{
			"file order says who is the first", []Backend{b, a}, Options{FirstWins: true}, "search two one",
			"backend \"a\": tool \"search\": left out: backend \"b\" offers tool \"search\" first [SB_NAME_CONFLICT]\n",
		},
		{
			"within one backend, by a rename",
			[]Backend{backend("a").with(Tools, tools("x", "y", "z")...).rules(Rules{Rename: map[string]string{"x": "a__y"}})}, Options{}, "a__z",
			"backend \"a\": tool \"x\": left out: \"y\" of backend \"a\" would also be tool \"a__y\"; rename one of them, or set conflict: first [SB_NAME_CONFLICT]\n" +
				"backend \"a\": tool \"y\": left out: \"x\" of backend \"a\" would also be tool \"a__y\"; rename one of them, or set conflict: first [SB_NAME_CONFLICT]\n",
		},
		{
			"cured by exclude",
			[]Backend{a, b.rules(Rules{Prefix: &empty, Exclude: []string{"search"}})}, Options{}, "search one two", "",
		},
		{
			"a prefix that makes two names one",
			[]Backend{backend("a").with(Tools, tool("b__c")), backend("a__b").with(Tools, tool("c"))}, Options{}, "",
			"backend \"a\": tool \"b__c\": left out: \"c\" of backend \"a__b\" would also be tool \"a__b__c\"; rename one of them, or set conflict: first [SB_NAME_CONFLICT]\n" +
				"backend \"a__b\": tool \"c\": left out: \"b__c\" of backend \"a\" would also be tool \"a__b__c\"; rename one of them, or set conflict: first [SB_NAME_CONFLICT]\n",
		},
		{
			"a stale backend keeps its names",
			[]Backend{a, func() Backend { s := b; s.State = Stale; return s }()}, Options{FirstWins: true}, "search one two",
			"backend \"b\": tool \"search\": left out: backend \"a\" offers tool \"search\" first [SB_NAME_CONFLICT]\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := Build(tt.in, tt.opt)
			if got := names(c, Tools); got != tt.want {
				t.Errorf("offered: %s, want %s", got, tt.want)
			}
			if diff := cmp.Diff(problems(c), tt.problems); diff != "" {
				t.Errorf("problems (-got +want):\n%s", diff)
			}
		})
	}
}

// Two servers with the same items have one problem with each other, not one for each
// item.
func TestCollisionsOfTwoAreOneProblem(t *testing.T) {
	empty := ""
	bare := Rules{Prefix: &empty}
	same := func(name string) Backend {
		return backend(name).with(Tools, tools("search", "read", "write")...).
			with(Resources, resource("x:1"), resource("x:2"), resource("x:3")).rules(bare)
	}
	c := Build([]Backend{same("a"), same("b"), backend("c").with(Tools, tool("read")).rules(bare)}, Options{})
	want := "backend \"a\": left out: 2 tools, such as \"search\", that backend \"b\" would also offer; set a prefix, rename them, or set conflict: first [SB_NAME_CONFLICT]\n" +
		"backend \"a\": tool \"read\": left out: backend \"b\", backend \"c\" would also be tool \"read\"; rename one of them, or set conflict: first [SB_NAME_CONFLICT]\n" +
		"backend \"b\": left out: 2 tools, such as \"search\", that backend \"a\" would also offer; set a prefix, rename them, or set conflict: first [SB_NAME_CONFLICT]\n" +
		"backend \"b\": tool \"read\": left out: backend \"a\", backend \"c\" would also be tool \"read\"; rename one of them, or set conflict: first [SB_NAME_CONFLICT]\n" +
		"backend \"c\": tool \"read\": left out: backend \"a\", backend \"b\" would also be tool \"read\"; rename one of them, or set conflict: first [SB_NAME_CONFLICT]\n" +
		"backend \"b\": left out: 3 resources, such as \"x:1\", that backend \"a\" offers first [SB_NAME_CONFLICT]\n"
	if diff := cmp.Diff(problems(c), want); diff != "" {
		t.Errorf("problems (-got +want):\n%s", diff)
	}
}

func TestCollisionOfMany(t *testing.T) {
	empty := ""
	var in []Backend
	for i := range 6 {
		in = append(in, backend(fmt.Sprint("b", i)).with(Prompts, prompt("p")).rules(Rules{Prefix: &empty}))
	}
	got := Build(in, Options{}).Problems()
	want := `left out: backend "b0", backend "b1", backend "b2", 2 more would also be prompt "p"; rename one of them, or set conflict: first`
	if len(got) != 6 || got[5].Text != want || got[5].Code != code.NameConflict {
		t.Errorf("got %d problems, the last of them %q, want %q", len(got), got[len(got)-1].Text, want)
	}
}

func TestToolsAndPromptsDoNotCollide(t *testing.T) {
	c := Build([]Backend{backend("a").with(Tools, tool("x")).with(Prompts, prompt("x"))}, Options{})
	if names(c, Tools) != "a__x" || names(c, Prompts) != "a__x" {
		t.Errorf("tools %q, prompts %q, problems %q", names(c, Tools), names(c, Prompts), problems(c))
	}
}

func TestResourcesGoToTheFirst(t *testing.T) {
	a := backend("a").with(Resources, resource("x:1"), resource("x:2")).with(Templates, template("x:{a}"))
	b := backend("b").with(Resources, resource("x:2"), resource("x:3")).with(Templates, template("x:{a}"), template("x:{b}"))
	c := Build([]Backend{a, b}, Options{})
	if got, want := names(c, Resources), "x:1 x:2 x:3"; got != want {
		t.Errorf("resources: %s, want %s", got, want)
	}
	if got, want := names(c, Templates), "x:{a} x:{b}"; got != want {
		t.Errorf("templates: %s, want %s", got, want)
	}
	if e, _ := c.Resource("x:2"); e.BackendName != "a" {
		t.Errorf("x:2 belongs to %s", e.BackendName)
	}
	want := "backend \"b\": resource \"x:2\": left out: backend \"a\" offers resource \"x:2\" first [SB_NAME_CONFLICT]\n" +
		"backend \"b\": resource template \"x:{a}\": left out: backend \"a\" offers resource template \"x:{a}\" first [SB_NAME_CONFLICT]\n"
	if diff := cmp.Diff(problems(c), want); diff != "" {
		t.Errorf("problems (-got +want):\n%s", diff)
	}
}

// randomBackends makes backends with names that are likely to conflict.
func randomBackends(r *rand.Rand) []Backend {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	all := make([]Backend, 1+r.IntN(5))
	for i := range all {
		b := backend(string(rune('a' + i)))
		var own []string
		for range r.IntN(6) {
			own = append(own, pick("x", "y", "z", "a__x", "x__y"))
		}
		b = b.with(Tools, tools(own...)...)
		if r.IntN(2) == 0 {
			prefix := pick("", "", "a__", "p.")
			b.Rules.Prefix = &prefix
		}
		if r.IntN(3) == 0 {
			b.Rules.Rename = map[string]string{pick("x", "y"): pick("x", "q", "a__y")}
		}
		if r.IntN(4) == 0 {
			b.Rules.Exclude = []string{pick("x*", "*y", "z")}
		}
		all[i] = b
	}
	return all
}

// model implements Build's naming once more, by counting: for each backend and own
// name, the offered name, if any.
func model(in []Backend, firstWins bool) map[[2]string]string {
	type item struct{ backend, own, name string }
	var all []item
	for _, b := range in {
		var seen []string
		for _, raw := range b.Lists[Tools].Items {
			own := regexp.MustCompile(`"name":"([^"]*)"`).FindStringSubmatch(string(raw))[1]
			if slices.Contains(seen, own) || !admits(&b.Rules, own) {
				continue
			}
			seen = append(seen, own)
			all = append(all, item{b.Name, own, b.Rules.name(b.Name, own)})
		}
	}
	out := make(map[[2]string]string)
	for i, it := range all {
		same := func(other item) bool { return other.name == it.name }
		if firstWins && slices.IndexFunc(all, same) == i ||
			slices.IndexFunc(all, same) == i && !slices.ContainsFunc(all[i+1:], same) {
			out[[2]string{it.backend, it.own}] = it.name
		}
	}
	return out
}

func offered(c *Catalog) map[[2]string]string {
	out := make(map[[2]string]string)
	for e := range c.Entries(Tools) {
		out[[2]string{e.BackendName, e.Own}] = e.Name
	}
	return out
}

// Names are a pure function of the configuration and of (backend, name): compared with
// a model, and with a backend removed, which does not change other names. A name may
// only appear, if it had a conflict with one that is gone.
func TestNamesArePure(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		in := randomBackends(r)
		opt := Options{FirstWins: r.IntN(2) == 0}
		full := Build(in, opt)
		if diff := cmp.Diff(offered(full), model(in, opt.FirstWins)); diff != "" {
			t.Fatalf("seed %d (-got +want):\n%s", seed, diff)
		}
		without := slices.Delete(slices.Clone(in), len(in)/2, len(in)/2+1)
		less := offered(Build(without, opt))
		for pair, name := range offered(full) {
			if now, ok := less[pair]; pair[0] != in[len(in)/2].Name && (!ok || now != name) {
				t.Fatalf("seed %d: %v was %q and is %q when backend %q is gone", seed, pair, name, now, in[len(in)/2].Name)
			}
		}
		for e := range full.Entries(Tools) {
			if found, ok := full.Tool(e.Name); !ok || found != e || in[e.Backend].Name != e.BackendName {
				t.Fatalf("seed %d: %q is listed and not found", seed, e.Name)
			}
		}
	}
}

func TestRulesThatMatchNothing(t *testing.T) {
	rules := Rules{
		Include: []string{"a*", "nothing"},
		Exclude: []string{"none*", "b"},
		Rename:  map[string]string{"zzz": "x", "yyy": "y", "ab": "c"},
	}
	b := backend("s").with(Tools, tools("ab", "b")...).with(Prompts, prompt("ac")).rules(rules)
	want := `backend "s": include "nothing" matches none of its tools and prompts [SB_NAME_UNUSED_RULE]
backend "s": exclude "none*" matches none of its tools and prompts [SB_NAME_UNUSED_RULE]
backend "s": rename "yyy" matches none of its tools and prompts [SB_NAME_UNUSED_RULE]
backend "s": rename "zzz" matches none of its tools and prompts [SB_NAME_UNUSED_RULE]
`
	if diff := cmp.Diff(problems(Build([]Backend{b}, Options{})), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	unknown := map[string]func(*Backend){
		"missing":   func(b *Backend) { b.State = Missing },
		"stale":     func(b *Backend) { b.State = Stale },
		"truncated": func(b *Backend) { b.Lists[Tools].Problem = "cut" },
	}
	for name, change := range unknown {
		b := b
		change(&b)
		if got := problems(Build([]Backend{b}, Options{})); strings.Contains(got, "matches none") {
			t.Errorf("%s: what it has is not known, but: %s", name, got)
		}
	}
}

// Model providers accept fewer names than the protocol: each backend has one problem
// for all of its tools. Prompts, which are not passed to providers, have none.
func TestToolNamesThatProvidersRefuse(t *testing.T) {
	const dotted = "com.example.everything-server-for-the-whole-team"
	longest := strings.Repeat("x", 64-len("fine__"))
	in := []Backend{
		backend("fine").with(Tools, tools("a-z_AZ09", longest)...).with(Prompts, prompt("a.b")),
		backend(dotted).with(Tools, tools("echo", "add", "hidden")...).with(Prompts, prompt("p")).rules(Rules{Exclude: []string{"hidden"}}),
		backend("own").with(Tools, tools("good", "ends.badly", "käse", "a b", "a/b", longest+"1234")...),
		backend("cured").with(Tools, tools("a.b", "c.d")...).rules(Rules{Rename: map[string]string{"a.b": "a_b"}, Exclude: []string{"c.d"}}),
		backend("long").with(Tools, tools(longest+"1")...),
	}
	const refused = "tool names that model providers reject (longer than 64 characters, or with characters other than letters, digits, _ and -): "
	const cure = "; set a short prefix, or rename the tools [SB_NAME_LONG]\n"
	want := `backend "` + dotted + `": ` + refused + `2, first "` + dotted + `__echo"` + cure +
		`backend "own": ` + refused + `5, first "own__ends.badly"` + cure +
		`backend "long": ` + refused + `1, first "long__` + longest + `1"` + cure
	c := Build(in, Options{})
	if diff := cmp.Diff(problems(c), want); diff != "" {
		t.Errorf("problems (-got +want):\n%s", diff)
	}
	if _, ok := c.Tool(dotted + "__echo"); !ok {
		t.Error("a tool with such a name is not offered")
	}
	// A tool that is not offered has no name to reject.
	empty := ""
	twice := backend("one").with(Tools, tools("a.b")...).rules(Rules{Prefix: &empty})
	other := backend("two").with(Tools, tools("a.b")...).rules(Rules{Prefix: &empty})
	if got := problems(Build([]Backend{twice, other}, Options{})); strings.Contains(got, "providers") {
		t.Errorf("about tools that are not offered: %s", got)
	}
}
