// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/config"
)

func TestPolicy(t *testing.T) {
	c, err := config.Parse("x.yaml", []byte(`
mcpServers: {jira: {command: x}}
policy:
  otherwise: deny
  dryRun: true
  rules:
    - {name: staff, allow: '"staff" in principal.claims.groups', on: ["jira__*"]}
    - {name: write, needs: [mcp:write], when: '!item.annotations.readOnlyHint'}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Policy.Otherwise != config.PolicyDeny || !c.Policy.DryRun || len(c.Policy.Rules) != 2 || c.Policy.Rules[1].Needs[0] != "mcp:write" || c.Notes != nil {
		t.Errorf("got %+v, notes %v", c.Policy, c.Notes)
	}
	if _, err := c.Policy.Compile(nil); err != nil {
		t.Error(err)
	}
}

// Mistakes in expressions have their place in the file, however the expression is written.
func TestPolicyProblems(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"without otherwise", "policy: {rules: []}\n", `x.yaml:2:9: "policy" does not specify what holds for what no rule decides (write "otherwise: deny", or allow)`},
		{"empty", "policy: {}\n", `x.yaml:2:9: "policy" does not specify what holds for what no rule decides (write "otherwise: deny", or allow)`},
		{"another outcome", "policy: {otherwise: maybe}\n", `x.yaml:2:21: "otherwise" must be one of allow, deny`},
		{"a boolean", "policy: {otherwise: deny, rules: [{name: a, allow: true}]}\n", `x.yaml:2:52: "allow" must be a string, not true or false (put it in quotes)`},
		{"single quotes", "policy: {otherwise: deny, rules: [{name: a, allow: 'true && nobody.x'}]}\n", `x.yaml:2:61: "allow": undeclared reference to 'nobody'`},
		{"double quotes", "policy: {otherwise: deny, rules: [{name: a, allow: \"true && nobody.x\"}]}\n", `x.yaml:2:61: "allow": undeclared reference to 'nobody'`},
		{"plain", "policy:\n  otherwise: deny\n  rules:\n    - name: a\n      when: true && nobody.x\n      deny: 'true'\n", `x.yaml:6:21: "when": undeclared reference to 'nobody'`},
		{"escapes", "policy: {otherwise: deny, rules: [{name: a, allow: 'item.name == ''b'' && nobody'}]}\n", `x.yaml:2:52: "allow", line 1 column 21 of the expression: undeclared reference to 'nobody'`},
		{"a block", "policy:\n  otherwise: deny\n  rules:\n    - name: a\n      allow: |\n        true &&\n          nobody.x\n", `x.yaml:8:11: "allow": undeclared reference to 'nobody'`},
		{"a folded block", "policy:\n  otherwise: deny\n  rules:\n    - name: a\n      allow: >\n        true &&\n        nobody.x\n", `x.yaml:6:14: "allow", line 1 column 9 of the expression: undeclared reference to 'nobody'`},
		{"two kinds", "policy: {otherwise: deny, rules: [{name: a, allow: 'true', deny: 'true'}]}\n", `x.yaml:2:35: "rules[0]": a rule has exactly one of allow, deny, needs and confirm; this one has 2`},
		{"no name", "policy: {otherwise: deny, rules: [{allow: 'true'}]}\n", `x.yaml:2:35: "rules[0]": it has no name; clients that it refuses are shown the name`},
		{"no scope", "policy: {otherwise: deny, rules: [{name: a, needs: ['a b']}]}\n", `x.yaml:2:53: "needs[0]": "a b" is not a scope (RFC 6749, section 3.3)`},
		{"an unknown key", "policy: {otherwise: deny, rules: [{name: a, alow: 'true'}]}\n", `x.yaml:2:45: unknown key "alow"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := config.Parse("x.yaml", []byte("mcpServers: {}\n"+tc.text), nil)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got\n%v\nwant\n%s", err, tc.want)
			}
		})
	}
	program := config.Config{Policy: config.Policy{Rules: []config.PolicyRule{{Name: "a", Allow: "nobody"}}}}
	want := `policy: "policy" does not specify what holds for what no rule decides (set it to "deny" or "allow")` + "\n" + `policy.rules[0].allow: "allow", line 1 column 1 of the expression: undeclared reference to 'nobody'`
	if err := program.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("a program: got\n%v\nwant\n%s", err, want)
	}
}

func TestPolicyNotes(t *testing.T) {
	c, err := config.Parse("x.yaml", []byte(`
mcpServers: {jira: {command: x, rename: {a: find}}, none: {command: x, prefix: "wiki_"}}
policy:
  otherwise: deny
  rules:
    - {name: a, allow: 'request.client.name == "x"'}
    - {name: b, deny: 'true', on: ["jira__*", "jira*", "wiki_x", "find", "*__get", "file:///*", "mail__*", "jira_x"]}
    - {name: own, allow: 'true', on: [find_tool, "call_tool*", read_result]}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`x.yaml:6:7: the rule "a" decides by request.client, which a client may set to anything`,
		`x.yaml:7:97: "mail__*" can match no item of the servers (names begin with the prefix of their server)`,
		`x.yaml:7:108: "jira_x" can match no item of the servers (names begin with the prefix of their server)`,
		`x.yaml:8:64: "read_result" can match no item of the servers (names begin with the prefix of their server)`,
	}
	if got := strings.Split(c.Notes.Error(), "\n"); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// A file that others can write must not give them more than the operator has.
func TestPolicyIsGuarded(t *testing.T) {
	parse := func(text string) *config.Config {
		t.Helper()
		c, err := config.Parse("x.yaml", []byte("mcpServers: {}\n"+text), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	with, without := parse("policy: {otherwise: deny}\n"), parse("")
	for _, pair := range [][2]*config.Config{{with, without}, {without, with}, {with, parse("policy: {otherwise: deny, dryRun: true}\n")}} {
		if got := pair[0].RunsNew(pair[1]); !slices.Equal(got, []string{"policy"}) {
			t.Errorf("a change of the policy: %q", got)
		}
		if got := pair[0].Reloads(pair[1]); !slices.Equal(got, []string{"policy changed"}) {
			t.Errorf("a change of the policy: %q", got)
		}
	}
}
