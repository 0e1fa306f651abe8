// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/policy"
)

// A hint that is missing is not one that is claimed, and what contradicts itself is destructive.
func TestConfirmByHints(t *testing.T) {
	for _, tc := range []struct{ annotations, destructive, unknown, writes string }{
		{`{"destructiveHint":true}`, "confirm", "allowed", "confirm"},
		{`{"destructiveHint":true,"readOnlyHint":true}`, "confirm", "allowed", "confirm"},
		{`{"destructiveHint":false}`, "allowed", "allowed", "confirm"},
		{`{"readOnlyHint":true}`, "allowed", "allowed", "allowed"},
		{`{"readOnlyHint":false}`, "allowed", "confirm", "confirm"},
		{`{"destructiveHint":"yes"}`, "allowed", "confirm", "confirm"},
		{`{"unknown":false,"title":"x"}`, "allowed", "confirm", "confirm"},
		{`{}`, "allowed", "confirm", "confirm"},
		{`null`, "confirm", "confirm", "confirm"},
		{`{"destructiveHint":false,"destructiveHint":true}`, "confirm", "confirm", "confirm"}, // cannot be read
	} {
		for expression, want := range map[string]string{
			"item.annotations.destructiveHint == true": tc.destructive,
			"item.annotations.unknown":                 tc.unknown,
			"!item.annotations.readOnlyHint":           tc.writes,
		} {
			p := mustCompile(t, true, policy.Rule{Name: "sure", Confirm: expression})
			s, it := p.Subject(identity(t, "ann", ""), nil), tool("crm__x", `{"annotations":`+tc.annotations+`}`)
			v := p.List(s, it)
			if d := p.Decide(s, it, call(`{}`), &v); d.Effect.String() != want || v.Effect != d.Effect {
				t.Errorf("%s, %s: listed as %v, called as %v, want %s", tc.annotations, expression, v.Effect, d.Effect, want)
			}
		}
	}
	p := mustCompile(t, true, policy.Rule{Name: "sure", Confirm: "item.annotations.unknown"})
	if d := p.Decide(p.Subject(nil, nil), policy.NewItem(policy.Prompt, "crm", "crm__p", "p", []byte(`{}`)), call(""), nil); d.Effect != policy.Allowed {
		t.Errorf("a prompt, which has no hints: %v", d.Effect)
	}
	// The other verbs read what the server claims.
	p = mustCompile(t, true, policy.Rule{Name: "sure", Confirm: "true"}, policy.Rule{Name: "no", Deny: "item.annotations.readOnlyHint"})
	if d := p.Decide(p.Subject(nil, nil), tool("crm__x", `{"annotations":{"readOnlyHint":true,"destructiveHint":true}}`), call(""), nil); d.Effect != policy.Denied {
		t.Errorf("a deny by a hint: %v", d.Effect)
	}
}

// What is not allowed, or needs scopes, is not asked about, in any order of the rules.
func TestConfirmIsLast(t *testing.T) {
	sure := policy.Rule{Name: "sure", Confirm: `args.n > 1`}
	for _, tc := range []struct {
		rule       policy.Rule
		args, want string
		scopes     []string
	}{
		{policy.Rule{Name: "r", Deny: `args.n == 2`}, `{"n":2}`, "denied r", nil},
		{policy.Rule{Name: "r", Deny: `args.n == 2`}, `{"n":3}`, "confirm sure", nil},
		{policy.Rule{Name: "r", Needs: []string{"w"}}, `{"n":3}`, "needs r", nil},
		{policy.Rule{Name: "r", Needs: []string{"w"}}, `{"n":3}`, "confirm sure", []string{"w"}},
		{policy.Rule{Name: "r", Allow: `true`}, `{"n":1}`, "allowed otherwise", nil},
		{policy.Rule{Name: "r", Allow: `true`}, `{}`, "confirm sure", nil}, // it fails
		{policy.Rule{Name: "r", Confirm: `false`}, `{"n":2}`, "confirm sure", nil},
	} {
		for _, rules := range [][]policy.Rule{{sure, tc.rule}, {tc.rule, sure}} {
			p := mustCompile(t, true, rules...)
			s, it := p.Subject(identity(t, "ann", "", tc.scopes...), nil), tool("crm__x", `{}`)
			v := p.List(s, it)
			d := p.Decide(s, it, call(tc.args), &v)
			if tc.want == "allowed otherwise" && d.Rule == "r" {
				d.Rule = "otherwise" // both allow
			}
			if got := d.Effect.String() + " " + d.Rule; got != tc.want || v.Hidden() {
				t.Errorf("%+v with %s: %s, hidden: %v; want %s", tc.rule, tc.args, got, v.Hidden(), tc.want)
			}
		}
	}
	// What is hidden stays hidden.
	p := mustCompile(t, false, sure)
	if v := p.List(p.Subject(nil, nil), tool("crm__x", `{}`)); !v.Hidden() {
		t.Error("listed without an allow")
	}
}
