// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"reflect"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/policy"
)

// Policy decides which callers may use which item, and see it. The zero value is no policy: all
// may use everything.
type Policy struct {
	// Otherwise is the outcome for what no rule decides. A policy has one.
	Otherwise PolicyOutcome `json:"otherwise"`
	// Rules are the rules; their order makes no difference.
	Rules []PolicyRule `json:"rules"`
	// DryRun records what the policy would refuse, and refuses nothing.
	DryRun bool `json:"dryRun"`
}

// PolicyOutcome is an outcome of a policy.
type PolicyOutcome string

const (
	// PolicyAllow allows.
	PolicyAllow PolicyOutcome = "allow"
	// PolicyDeny denies.
	PolicyDeny PolicyOutcome = "deny"
)

// PolicyRule is a rule of a policy. It has exactly one of Allow, Deny, Needs and Confirm. Expressions are
// CEL; docs/identity.md lists the variables.
type PolicyRule struct {
	// Name is shown to clients that the rule refuses.
	Name string `json:"name"`
	// Allow and Deny are the expressions of rules that allow and that deny.
	Allow string `json:"allow"`
	Deny  string `json:"deny"`
	// Needs are the scopes that a caller needs.
	Needs []string `json:"needs"`
	// Confirm is the expression of a rule that asks the user before the call.
	Confirm string `json:"confirm"`
	// When is a condition of the rule.
	When string `json:"when"`
	// On are patterns of the items that the rule is about, by the names that clients see, or
	// by URI. Nil is all.
	On []string `json:"on"`
}

// IsZero reports whether there is no policy.
func (p *Policy) IsZero() bool { return p.Otherwise == "" && p.Rules == nil && !p.DryRun }

// policyKey is the key of the policy.
const policyKey = "policy"

func policyKeys() []key {
	return []key{
		// Required, so that a file states what it leaves open.
		{"otherwise", oneOf(string(PolicyAllow), string(PolicyDeny)), "", "What holds for what no rule decides: allow or deny. A policy must have it."},
		{"rules", listOf(object(policyRuleKeys(), nil)), "", "The rules. Their order makes no difference."},
		// A policy for a team is tried on its calls first.
		{"dryRun", boolean(), "", "Decide and record what would be refused, but refuse and hide nothing."},
	}
}

func policyRuleKeys() []key {
	return []key{
		{"name", text(), "", "The name of the rule, which clients that it refuses are shown."},
		// Not expanded: a variable of the environment must not become a part of an expression.
		{"allow", text(), "", "A CEL expression. If it is true, the call is allowed, unless another rule denies it or needs more scopes."},
		{"deny", text(), "", "A CEL expression. If it is true or fails, the call is denied, whatever the other rules are."},
		{"needs", listOf(text()), "", "Scopes that the caller must have. A call that would be allowed with them is answered with a challenge for them."},
		{"confirm", text(), "", "A CEL expression. If it is true or fails, a call that is allowed is sent only after the user has agreed to it."},
		{"when", text(), "", "A CEL expression, the condition of the rule."},
		{"on", listOf(text()), "", "The items that the rule is about: tools and prompts by the names that clients see, resources by URI. An asterisk matches any characters. Without it, the rule is about all items."},
	}
}

// policyForm is the form of policy. It requires "otherwise".
func policyForm() form {
	return object(policyKeys(), nil).then(func(r *reader, n configfile.Node, p place, _ reflect.Value) {
		if _, found := n.Member("otherwise"); !found && n.Kind == configfile.Mapping && !r.hasOrMeant(p, p.key("otherwise")) {
			r.report(p, `write "otherwise: deny", or allow`, `%q does not specify what holds for what no rule decides`, p.name)
			r.meant[p.key("otherwise").path] = true
		}
	})
}

// Compile compiles the rules. failed is called for each rule that fails when it is evaluated,
// and may be nil.
func (p *Policy) Compile(failed func(rule string, why policy.Failure)) (*policy.Policy, error) {
	rules := make([]policy.Rule, len(p.Rules))
	for i, rule := range p.Rules {
		rules[i] = policy.Rule(rule)
	}
	return policy.Compile(rules, policy.Options{Allow: p.Otherwise == PolicyAllow, Failed: failed})
}

func checkPolicy(c *Config, r *reader) {
	p := place{}.key(policyKey)
	if c.Policy.IsZero() || r.has(p) {
		return
	}
	if c.Policy.Otherwise == "" && !r.hasOrMeant(p.key("otherwise")) {
		r.report(p, `set it to "deny" or "allow"`, `%q does not specify what holds for what no rule decides`, p.name)
	}
	checkWord(r, p.key("otherwise"), c.Policy.Otherwise, PolicyAllow, PolicyDeny)
	rules := p.key("rules")
	if r.has(rules) {
		return
	}
	compiled, err := c.Policy.Compile(nil)
	if problems, ok := errors.AsType[policy.Errors](err); ok {
		for _, problem := range problems {
			reportRule(c, problem, rules.item(problem.Rule), r)
		}
		return
	}
	for i := range c.Policy.Rules {
		rule, at := &c.Policy.Rules[i], rules.item(i)
		if compiled != nil && compiled.ReadsClient(i) {
			r.note(at, "", `the rule %q decides by request.client, which a client may set to anything`, rule.Name)
		}
		checkTwice(rule.On, at.key("on"), r)
		for k, pattern := range rule.On {
			c.noteUnmatched(pattern, at.key("on").item(k), r)
		}
	}
}

// reportRule reports a mistake in a rule, in an expression at the place in the file.
func reportRule(c *Config, problem *policy.Error, at place, r *reader) {
	if r.has(at) {
		return
	}
	switch problem.Field {
	case "":
		if r.hasOrMeant(at.key("name"), at.key("allow"), at.key("deny"), at.key("needs"), at.key("confirm")) {
			return
		}
	case "needs", "on":
		if at = at.key(problem.Field); problem.Index >= 0 {
			at = at.item(problem.Index)
		}
	default:
		at = at.key(problem.Field)
	}
	if r.has(at) {
		return
	}
	rule := &c.Policy.Rules[problem.Rule]
	text := map[string]string{"allow": rule.Allow, "deny": rule.Deny, "confirm": rule.Confirm, "when": rule.When}[problem.Field]
	r.reportExpression(at, text, problem.Line, problem.Column, problem.Text)
}

// reportExpression reports a mistake at a line and column of an expression, or in all of it if
// line is 0.
func (r *reader) reportExpression(p place, text string, line, column int, problem string) {
	if line == 0 {
		r.report(p, "", "%q: %s", p.name, problem)
	} else if exact, ok := r.within(p, text, line, column); ok {
		r.report(p.withAt(exact), "", "%q: %s", p.name, problem)
	} else {
		r.report(p, "", "%q, line %d column %d of the expression: %s", p.name, line, column, problem)
	}
}

// within returns the position in the file of a place in a text, if the file has the text as it
// is: without escapes, and not folded.
func (r *reader) within(p place, text string, line, column int) (configfile.Position, bool) {
	at, known := r.positions[p.path]
	lines := strings.Split(r.source, "\n")
	if !known || at.Line > len(lines) {
		return at, false
	}
	parts := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if line > len(parts) {
		return at, false
	}
	if len(parts) == 1 {
		rest := []rune(lines[at.Line-1])
		for _, quote := range []int{0, 1} {
			if from := at.Column - 1 + quote; from <= len(rest) && strings.HasPrefix(string(rest[from:]), parts[0]) {
				return configfile.Position{Line: at.Line, Column: at.Column + quote + column - 1}, true
			}
		}
	}
	// A block: its lines have one indentation.
	for first := at.Line; first < min(len(lines), at.Line+2); first++ {
		indent := -1
		for k, part := range parts {
			if first+k >= len(lines) {
				return at, false
			}
			full := strings.TrimRight(lines[first+k], "\r")
			rest := len(full) - len(part)
			if rest < 0 || full[rest:] != part || strings.TrimLeft(full[:rest], " ") != "" || indent >= 0 && part != "" && rest != indent {
				indent = -1
				break
			}
			if part != "" {
				indent = rest
			}
		}
		if indent >= 0 {
			return configfile.Position{Line: first + line, Column: indent + column}, true
		}
	}
	return at, false
}
