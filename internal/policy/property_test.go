// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// node is an expression of a random policy: its text, and how a naive evaluator computes it.
type node struct {
	text string
	eval func(w *world) tri
	arg  string // the argument that it reads, or ""
}

// tri is true, false or an error.
type tri int8

const (
	no tri = iota
	yes
	bad
)

func triOf(b bool) tri {
	if b {
		return yes
	}
	return no
}

// world is what a rule is evaluated for.
type world struct {
	groups      []string // nil: the claim is missing
	name        string
	scopes      []string
	item        string
	annotations map[string]bool
	args        map[string]string
}

var (
	groupNames = []string{"staff", "sre", "guest"}
	itemNames  = []string{"a__get", "a__set", "b__get", "b__run"}
	argNames   = []string{"x", "y", "z"}
	argValues  = []string{"0", "1"}
	scopeNames = []string{"read", "write"}
	hints      = []string{"ro", "idem"}
)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// atom returns a comparison. used are the arguments that the policy has read: each is read
// once, so that no value of one excludes a value of another.
func atom(r *rand.Rand, used map[string]bool) node {
	switch r.IntN(6) {
	case 0:
		g := pick(r, groupNames)
		return node{fmt.Sprintf("%q in principal.claims.groups", g), func(w *world) tri {
			if w.groups == nil {
				return bad
			}
			return triOf(slices.Contains(w.groups, g))
		}, ""}
	case 1:
		n := pick(r, []string{"ann", "bob"})
		return node{fmt.Sprintf("principal.name == %q", n), func(w *world) tri { return triOf(w.name == n) }, ""}
	case 2:
		h := pick(r, hints)
		return node{"item.annotations." + h, func(w *world) tri {
			v, ok := w.annotations[h]
			if !ok {
				return bad
			}
			return triOf(v)
		}, ""}
	case 3:
		return node{`has(principal.claims.groups)`, func(w *world) tri { return triOf(w.groups != nil) }, ""}
	default:
		a, v := pick(r, argNames), pick(r, argValues)
		if used[a] {
			return node{"true", func(*world) tri { return yes }, ""}
		}
		used[a] = true
		return node{fmt.Sprintf("args.%s == %q", a, v), func(w *world) tri {
			got, ok := w.args[a]
			if !ok {
				return bad
			}
			return triOf(got == v)
		}, a}
	}
}

// expression returns a formula over atoms.
func expression(r *rand.Rand, depth int, used map[string]bool) node {
	if depth == 0 || r.IntN(3) == 0 {
		return atom(r, used)
	}
	if r.IntN(4) == 0 {
		n := expression(r, depth-1, used)
		return node{"!(" + n.text + ")", func(w *world) tri {
			switch n.eval(w) {
			case yes:
				return no
			case no:
				return yes
			default:
				return bad
			}
		}, n.arg}
	}
	a, b := expression(r, depth-1, used), expression(r, depth-1, used)
	decides, op := no, "&&"
	if r.IntN(2) == 0 {
		decides, op = yes, "||"
	}
	return node{"(" + a.text + " " + op + " " + b.text + ")", func(w *world) tri {
		x, y := a.eval(w), b.eval(w)
		switch {
		case x == decides || y == decides:
			return decides
		case x == bad || y == bad:
			return bad
		default:
			return x
		}
	}, a.arg + b.arg}
}

// randomRule is a rule with its naive form.
type randomRule struct {
	policy.Rule

	expr, when *node
}

func randomRules(r *rand.Rand) []randomRule {
	used := make(map[string]bool)
	rules := make([]randomRule, 1+r.IntN(5))
	for i := range rules {
		rule := &rules[i]
		rule.Name = fmt.Sprintf("r%d", i)
		if r.IntN(2) == 0 {
			rule.On = []string{pick(r, []string{"a__*", "*__get", "b__run", "*"})}
		}
		if r.IntN(3) == 0 {
			n := expression(r, 1, used)
			rule.when, rule.When = &n, n.text
		}
		n := expression(r, 2, used)
		switch r.IntN(4) {
		case 0:
			rule.Allow, rule.expr = n.text, &n
		case 1:
			rule.Deny, rule.expr = n.text, &n
		case 2:
			rule.Confirm, rule.expr = n.text, &n
		default:
			rule.Needs = []string{pick(r, scopeNames)}
			if r.IntN(3) == 0 {
				rule.Needs = scopeNames
			}
		}
	}
	return rules
}

func compiled(t *testing.T, allow bool, rules []randomRule) *policy.Policy {
	t.Helper()
	plain := make([]policy.Rule, len(rules))
	for i := range rules {
		plain[i] = rules[i].Rule
	}
	return mustCompile(t, allow, plain...)
}

// globOf matches the patterns of randomRules.
func globOf(pattern, name string) bool {
	switch {
	case pattern == "*":
		return true
	case strings.HasPrefix(pattern, "*"):
		return strings.HasSuffix(name, pattern[1:])
	case strings.HasSuffix(pattern, "*"):
		return strings.HasPrefix(name, pattern[:len(pattern)-1])
	default:
		return pattern == name
	}
}

func (rule *randomRule) value(w *world) tri {
	if rule.On != nil && !globOf(rule.On[0], w.item) {
		return no
	}
	v := yes
	for _, n := range []*node{rule.when, rule.expr} {
		if n == nil {
			continue
		}
		switch n.eval(w) {
		case no:
			return no
		case bad:
			v = bad
		case yes:
		}
	}
	return v
}

// naive is the policy as its documentation says it.
func naive(allow bool, rules []randomRule, w *world) (policy.Effect, []string) {
	var missing []string
	asks := false
	for i := range rules {
		v := rules[i].value(w)
		switch {
		case rules[i].Deny != "" && v != no:
			return policy.Denied, nil
		case rules[i].Allow != "" && v == yes:
			allow = true
		case rules[i].Confirm != "" && v != no:
			asks = true
		case rules[i].Needs != nil && v != no:
			for _, s := range rules[i].Needs {
				if !slices.Contains(w.scopes, s) && !slices.Contains(missing, s) {
					missing = append(missing, s)
				}
			}
		}
	}
	slices.Sort(missing)
	switch {
	case !allow:
		return policy.Denied, nil
	case missing != nil:
		return policy.Needs, missing
	case asks:
		return policy.Confirm, nil
	default:
		return policy.Allowed, nil
	}
}

func randomWorld(r *rand.Rand) *world {
	w := &world{name: pick(r, []string{"ann", "bob", "cat"}), item: pick(r, itemNames), annotations: map[string]bool{}}
	if r.IntN(4) > 0 {
		w.groups = []string{}
		for _, g := range groupNames {
			if r.IntN(2) == 0 {
				w.groups = append(w.groups, g)
			}
		}
	}
	for _, s := range scopeNames {
		if r.IntN(2) == 0 {
			w.scopes = append(w.scopes, s)
		}
	}
	for _, h := range hints {
		if n := r.IntN(3); n < 2 {
			w.annotations[h] = n == 1
		}
	}
	return w
}

func (w *world) identity() *mcp.Identity {
	id := &mcp.Identity{Principal: w.name, Scopes: w.scopes}
	if w.groups != nil {
		groups := make([]any, len(w.groups))
		for i, g := range w.groups {
			groups[i] = g
		}
		id.Claims = map[string]any{"groups": groups}
	}
	return id
}

func (w *world) asItem(t *testing.T) *policy.Item {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"annotations": w.annotations})
	if err != nil {
		t.Fatal(err)
	}
	return policy.NewItem(policy.Tool, "b", w.item, w.item, raw)
}

// allArguments returns every assignment of values to the arguments, absent ones included.
func allArguments() []map[string]string {
	all := []map[string]string{{}}
	for _, name := range argNames {
		var next []map[string]string
		for _, before := range all {
			next = append(next, before)
			for _, value := range argValues {
				with := map[string]string{name: value}
				maps.Copy(with, before)
				next = append(next, with)
			}
		}
		all = next
	}
	return all
}

// I17: 10,000 random policies decide as a naive evaluator does, in any order of their rules,
// and list what is not refused for all arguments. An item is never hidden that could be called.
func TestRandomPolicies(t *testing.T) {
	policies := 10_000
	if testing.Short() {
		policies = 500
	}
	arguments := allArguments()
	effects := make(map[policy.Effect]int)
	hidden, open := 0, 0
	for seed := range uint64(policies) {
		r := rand.New(rand.NewPCG(seed, 1))
		rules, allow := randomRules(r), r.IntN(2) == 0
		p := compiled(t, allow, rules)
		shuffled := slices.Clone(rules)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		q := compiled(t, allow, shuffled)

		w := randomWorld(r)
		id, it := w.identity(), w.asItem(t)
		v, v2 := p.List(p.Subject(id, nil), it), q.List(q.Subject(id, nil), it)
		if v.Effect != v2.Effect {
			t.Fatalf("seed %d: listed as %v, and as %v in another order", seed, v.Effect, v2.Effect)
		}
		refusedForAll := true
		for _, args := range arguments {
			w.args = args
			raw, err := json.Marshal(args)
			if err != nil {
				t.Fatal(err)
			}
			c := call(string(raw))
			effect, scopes := naive(allow, rules, w)
			for _, got := range []policy.Decision{p.Decide(p.Subject(id, nil), it, c, nil), p.Decide(p.Subject(id, nil), it, c, &v), q.Decide(q.Subject(id, nil), it, c, nil)} {
				if got.Effect != effect || !slices.Equal(got.Missing, scopes) {
					t.Fatalf("seed %d: %+v\nfor %+v: %v %v, want %v %v", seed, rules, w, got.Effect, got.Missing, effect, scopes)
				}
			}
			if v.Effect != policy.Open && v.Effect != effect {
				t.Fatalf("seed %d: %+v\nfor %+v: listed as %v, called as %v", seed, rules, w, v.Effect, effect)
			}
			refusedForAll = refusedForAll && effect == policy.Denied
			effects[effect]++
		}
		// Where something fails, what is unknown may still decide, although both refuse: such an
		// item is listed.
		fails := w.groups == nil || len(w.annotations) < len(hints)
		if v.Hidden() && !refusedForAll || !v.Hidden() && refusedForAll && !fails {
			t.Fatalf("seed %d: %+v\nfor %+v: hidden: %v, refused for all arguments: %v", seed, rules, w, v.Hidden(), refusedForAll)
		}
		if v.Hidden() {
			hidden++
		}
		if v.Effect == policy.Open {
			open++
		}
	}
	for what, n := range map[string]int{"denied": effects[policy.Denied], "needs": effects[policy.Needs], "allowed": effects[policy.Allowed], "confirm": effects[policy.Confirm], "hidden": hidden, "open": open} {
		if n < policies/20 {
			t.Errorf("only %d of the policies and arguments were %s", n, what)
		}
	}
}

// Subjects of one class are decided about equally: what a rule reads is in the class.
func TestClassesDecide(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		rules := randomRules(r)
		p := compiled(t, r.IntN(2) == 0, rules)
		type key struct {
			class policy.Class
			item  string
		}
		seen := make(map[key]string)
		for range 30 {
			w := randomWorld(r)
			w.annotations = map[string]bool{"ro": true, "idem": false}
			s := p.Subject(w.identity(), nil)
			v := p.List(s, w.asItem(t))
			got, k := fmt.Sprint(v), key{s.Class(), w.item}
			if before, ok := seen[k]; ok && before != got {
				t.Fatalf("seed %d: %+v: %s and %s for one class", seed, rules, before, got)
			}
			seen[k] = got
		}
	}
}

// What MayAllow says of a backend before it has listed anything holds for all that it lists: if it
// is false, each item is hidden.
func TestMayAllowAgainstLists(t *testing.T) {
	nothing := 0
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 3))
		p := compiled(t, r.IntN(4) == 0, randomRules(r))
		w := randomWorld(r)
		s := p.Subject(w.identity(), nil)
		prefix := w.item[:r.IntN(len(w.item))]
		if p.MayAllow(s, &policy.Unlisted{Kind: policy.Tool, Backend: "b", Prefix: prefix}) {
			continue
		}
		nothing++
		for range 20 {
			next := randomWorld(r)
			next.name, next.groups, next.scopes = w.name, w.groups, w.scopes
			if v := p.List(s, next.asItem(t)); strings.HasPrefix(next.item, prefix) && !v.Hidden() {
				t.Fatalf("seed %d: nothing may be allowed of %q, and %q is listed", seed, prefix, next.item)
			}
		}
	}
	if nothing < 100 {
		t.Errorf("only %d backends of which nothing may be allowed", nothing)
	}
}
