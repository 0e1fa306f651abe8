// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/policy"
)

// The tool that takes the place of the tools of a backend is allowed if a tool of the backend may
// be, unless a rule is about it by its name.
func TestGate(t *testing.T) {
	gate := policy.NewGate("jira", "jira__", "jira__sign_in", "sign_in", []byte(`{"annotations": {"readOnlyHint": true}}`))
	ann := identity(t, "ann", `{"groups": ["staff"]}`)
	const staff = `"staff" in principal.claims.groups`
	for name, tt := range map[string]struct {
		rules  []policy.Rule
		effect policy.Effect
		rule   string
	}{
		"no rule":               {nil, policy.Denied, policy.Otherwise},
		"a tool":                {[]policy.Rule{{Name: "a", Allow: staff, On: []string{"jira__get"}}}, policy.Allowed, "a"},
		"a pattern":             {[]policy.Rule{{Name: "a", Allow: staff, On: []string{"jira__get_*"}}}, policy.Allowed, "a"},
		"a pattern before":      {[]policy.Rule{{Name: "a", Allow: staff, On: []string{"ji*_list"}}}, policy.Allowed, "a"},
		"its end":               {[]policy.Rule{{Name: "a", Allow: staff, On: []string{"*_get"}}}, policy.Allowed, "a"},
		"another backend":       {[]policy.Rule{{Name: "a", Allow: staff, On: []string{"wiki__*", "jira2__get", "jir"}}}, policy.Denied, policy.Otherwise},
		"another principal":     {[]policy.Rule{{Name: "a", Allow: `principal.name == "bob"`, On: []string{"jira__get"}}}, policy.Denied, policy.Otherwise},
		"by a name":             {[]policy.Rule{{Name: "a", Allow: `item.name == "jira__get" && ` + staff}}, policy.Allowed, "a"},
		"by the own name":       {[]policy.Rule{{Name: "a", Allow: `item.own.startsWith("get")`}}, policy.Allowed, "a"},
		"by a tag":              {[]policy.Rule{{Name: "a", Allow: `"public" in item.tags`}}, policy.Allowed, "a"},
		"by annotations":        {[]policy.Rule{{Name: "a", Allow: `item.annotations.destructiveHint`, When: staff}}, policy.Allowed, "a"},
		"by arguments":          {[]policy.Rule{{Name: "a", Allow: `args.project == "x"`, On: []string{"jira__get"}}}, policy.Allowed, "a"},
		"by the backend":        {[]policy.Rule{{Name: "a", Allow: `item.backend == "wiki" && item.name == "x"`}}, policy.Denied, policy.Otherwise},
		"not a resource":        {[]policy.Rule{{Name: "a", Allow: `item.kind == "resource"`}}, policy.Denied, policy.Otherwise},
		"its own rule":          {[]policy.Rule{{Name: "a", Allow: staff, On: []string{"jira__sign_in"}}}, policy.Allowed, "a"},
		"denied by name":        {[]policy.Rule{{Name: "a", Allow: staff, On: []string{"jira__get"}}, {Name: "d", Deny: "true", On: []string{"jira__sign_in"}}}, policy.Denied, "d"},
		"all denied":            {[]policy.Rule{{Name: "a", Allow: staff, On: []string{"jira__get"}}, {Name: "d", Deny: staff, On: []string{"jira__*"}}}, policy.Denied, "d"},
		"another tool denied":   {[]policy.Rule{{Name: "a", Allow: staff, On: []string{"jira__get"}}, {Name: "d", Deny: "true", On: []string{"jira__delete"}}}, policy.Allowed, "a"},
		"scopes for all":        {[]policy.Rule{{Name: "a", Allow: staff, On: []string{"jira__get"}}, {Name: "n", Needs: []string{"x"}}}, policy.Needs, "n"},
		"scopes for some":       {[]policy.Rule{{Name: "a", Allow: staff, On: []string{"jira__get"}}, {Name: "n", Needs: []string{"x"}, On: []string{"jira__set"}}}, policy.Allowed, "a"},
		"the first of several":  {[]policy.Rule{{Name: "b", Allow: `principal.name == "bob"`}, {Name: "a", Allow: staff, On: []string{"jira__get"}}, {Name: "c", Allow: staff, On: []string{"jira__set"}}}, policy.Allowed, "a"},
		"a rule that cannot be": {[]policy.Rule{{Name: "a", Allow: `principal.claims.absent == "x"`, On: []string{"jira__get"}}}, policy.Denied, policy.Otherwise},
	} {
		p := mustCompile(t, false, tt.rules...)
		s := p.Subject(ann, nil)
		list := p.List(s, gate)
		if list.Effect != tt.effect || list.Rule != tt.rule {
			t.Errorf("%s: listed: %v by %s, want %v by %s", name, list.Effect, list.Rule, tt.effect, tt.rule)
		}
		for what, known := range map[string]*policy.Verdict{"called": nil, "called after the list": &list} {
			if d := p.Decide(s, gate, call("{}"), known); d.Effect != tt.effect || d.Rule != tt.rule {
				t.Errorf("%s: %s: %v by %s, want %v by %s", name, what, d.Effect, d.Rule, tt.effect, tt.rule)
			}
		}
		if _, d := p.Explain(s, gate, call("{}")); d.Effect != tt.effect {
			t.Errorf("%s: explained: %v", name, d.Effect)
		}
	}
}
