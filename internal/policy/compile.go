// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// The names of the variables.
const (
	varName          = "principal.name"
	varIssuer        = "principal.issuer"
	varSubject       = "principal.subject"
	varVia           = "principal.via"
	varScopes        = "principal.scopes"
	varClaims        = "principal.claims"
	varKind          = "item.kind"
	varBackend       = "item.backend"
	varItemName      = "item.name"
	varOwn           = "item.own"
	varURI           = "item.uri"
	varAnnotations   = "item.annotations"
	varTags          = "item.tags"
	varArgs          = "args"
	varMethod        = "request.method"
	varEra           = "request.era"
	varClientName    = "request.client.name"
	varClientVersion = "request.client.version"
)

// newEnv returns the language of the rules. Each member of a variable is a variable of its own,
// so that a misspelt one is a mistake when the rules are compiled.
func newEnv() (*cel.Env, error) {
	env, err := cel.NewEnv(languageOptions(
		[]string{varName, varIssuer, varSubject, varVia, varKind, varBackend, varItemName, varOwn, varURI, varMethod, varEra, varClientName, varClientVersion},
		[]string{varScopes, varTags},
		[]string{varClaims, varAnnotations, varArgs})...)
	if err != nil {
		return nil, fmt.Errorf("CEL: %w", err)
	}
	return env, nil
}

// languageOptions returns the language with variables that are texts, lists of texts, and maps.
func languageOptions(texts, lists, maps []string) []cel.EnvOption {
	options := []cel.EnvOption{
		cel.ClearMacros(),
		// Not map and filter, which make lists of their own.
		cel.Macros(cel.HasMacro, cel.AllMacro, cel.ExistsMacro, cel.ExistsOneMacro),
		cel.ParserExpressionSizeLimit(MaxExpression),
		cel.ParserRecursionLimit(50),
	}
	add := func(names []string, of *cel.Type) {
		for _, name := range names {
			options = append(options, cel.Variable(name, of))
		}
	}
	add(texts, cel.StringType)
	add(lists, cel.ListType(cel.StringType))
	add(maps, cel.MapType(cel.StringType, cel.DynType))
	return options
}

// Compile compiles rules. If there are mistakes, the error is [Errors].
func Compile(rules []Rule, opt Options) (*Policy, error) {
	env, err := newEnv()
	if err != nil {
		return nil, err
	}
	c := &compiler{env: env}
	p := &Policy{otherwise: opt.Allow, failed: opt.Failed}
	var problems Errors
	for i := range rules {
		r, found := c.rule(i, &rules[i])
		if slices.ContainsFunc(rules[:i], func(before Rule) bool { return before.Name == rules[i].Name }) {
			found = append(found, &Error{Rule: i, Field: "name", Index: -1, Text: fmt.Sprintf("%q is the name of a rule before it", rules[i].Name)})
		}
		problems = append(problems, found...)
		p.rules = append(p.rules, r)
		if r.reads&readsMethod != 0 {
			p.byMethod = true
		}
		p.scopes = append(p.scopes, r.scopes...)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	slices.Sort(p.scopes)
	p.scopes = slices.Compact(p.scopes)
	p.setPaths(c.paths.all())
	return p, nil
}

// compileOne compiles a Policy of one rule.
func compileOne(env *cel.Env, name string, kind kind, text string) (*Policy, *Error) {
	c := &compiler{env: env}
	t, problem := c.term("", text)
	if problem != nil {
		problem.Rule, problem.Index = -1, -1
		return nil, problem
	}
	p := &Policy{rules: []rule{{name: name, kind: kind, terms: []term{t}, reads: t.reads}}}
	p.setPaths(c.paths.all())
	return p, nil
}

func (p *Policy) setPaths(all []path) {
	p.paths = all
	p.byClient = slices.ContainsFunc(all, func(path path) bool { return strings.HasPrefix(path[0], "request.") })
}

// compiler is one run of Compile.
type compiler struct {
	env   *cel.Env
	paths paths
}

// rule compiles one rule.
func (c *compiler) rule(i int, from *Rule) (rule, Errors) {
	var problems Errors
	report := func(field, text string, args ...any) {
		problems = append(problems, &Error{Rule: i, Field: field, Index: -1, Text: fmt.Sprintf(text, args...)})
	}
	r := rule{name: from.Name}
	switch {
	case from.Name == "":
		report("", "it has no name; clients that it refuses are shown the name")
	case from.Name == Otherwise:
		report("name", "%q stands for what no rule decides; choose another name", Otherwise)
	case !isName(from.Name):
		report("name", "use letters, digits, '.', '_' and '-', at most 64")
	}
	given := 0
	expression, field := "", ""
	if from.Allow != "" {
		given, r.kind, expression, field = given+1, allow, from.Allow, "allow"
	}
	if from.Deny != "" {
		given, r.kind, expression, field = given+1, deny, from.Deny, "deny"
	}
	if from.Needs != nil {
		given, r.kind = given+1, needs
	}
	if from.Confirm != "" {
		given, r.kind, expression, field = given+1, confirm, from.Confirm, "confirm"
	}
	if given != 1 {
		report("", "a rule has exactly one of allow, deny, needs and confirm; this one has %d", given)
		return r, problems
	}
	if r.kind == needs && len(from.Needs) == 0 {
		report("needs", "it has no scopes")
	}
	for n, scope := range from.Needs {
		if !isScope(scope) {
			problems = append(problems, &Error{Rule: i, Field: "needs", Index: n, Text: fmt.Sprintf("%q is not a scope (RFC 6749, section 3.3)", scope)})
		}
	}
	r.scopes = from.Needs
	if from.On != nil && len(from.On) == 0 {
		report("on", "it has no patterns, so that the rule is about nothing; leave it out for all items")
	}
	for n, pattern := range from.On {
		if pattern == "" {
			problems = append(problems, &Error{Rule: i, Field: "on", Index: n, Text: "it is empty"})
		}
		r.on = append(r.on, pattern)
	}
	for _, e := range [...]struct{ field, text string }{{"when", from.When}, {field, expression}} {
		if e.text == "" {
			continue
		}
		t, err := c.term(e.field, e.text)
		if err != nil {
			err.Rule = i
			problems = append(problems, err)
			continue
		}
		r.terms = append(r.terms, t)
		r.reads |= t.reads
	}
	return r, problems
}

func isName(s string) bool {
	bad := func(c rune) bool {
		return (c < 'a' || 'z' < c) && (c < 'A' || 'Z' < c) && (c < '0' || '9' < c) && c != '_' && c != '-' && c != '.'
	}
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, bad)
}

// isScope reports whether s is a scope-token (RFC 6749, section 3.3). It can be sent in a quoted
// string without escapes.
func isScope(s string) bool {
	bad := func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }
	return s != "" && len(s) <= 256 && !strings.ContainsFunc(s, bad)
}

// term compiles an expression.
func (c *compiler) term(field, text string) (term, *Error) {
	if len(text) > MaxExpression {
		return term{}, &Error{Field: field, Text: fmt.Sprintf("it has %d bytes; at most %d are allowed", len(text), MaxExpression)}
	}
	checked, issues := c.env.Compile(text)
	if list := issues.Errors(); len(list) > 0 {
		first := list[0]
		return term{}, &Error{Field: field, Line: first.Location.Line(), Column: first.Location.Column() + 1, Text: explainIssue(first.Message)}
	}
	if t := checked.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return term{}, &Error{Field: field, Text: fmt.Sprintf("it is of type %s, not bool", t)}
	}
	w := walker{of: checked.NativeRep()}
	w.walk(w.of.Expr())
	if w.problem != nil {
		w.problem.Field = field
		return term{}, w.problem
	}
	if least, err := c.env.EstimateCost(checked, sizesOf(1)); err == nil && least.Max > CostLimit && least.Max < math.MaxUint64 {
		return term{}, &Error{Field: field, Text: fmt.Sprintf("it may cost %d, even if no list or text that it reads has more than one element; at most %d is allowed", least.Max, CostLimit)}
	}
	t := term{field: field, reads: w.reads}
	optimize := cel.EvalOptions(cel.OptOptimize, cel.OptPartialEval)
	var err error
	if t.program, err = c.env.Program(checked, optimize, cel.CostTracking(sizes{}), cel.CostLimit(CostLimit)); err != nil {
		return term{}, &Error{Field: field, Text: err.Error()}
	}
	if most, err := c.env.EstimateCost(checked, sizesOf(small)); err == nil && most.Max <= CostLimit && !w.grows {
		t.cheap, _ = c.env.Program(checked, optimize) // without it, the cost is counted
	}
	c.paths.add(w.paths...)
	return t, nil
}

// explainIssue adds a cure to messages that do not have one.
func explainIssue(message string) string {
	for _, macro := range []string{"map", "filter"} {
		if strings.HasPrefix(message, "undeclared reference to '"+macro+"'") {
			return macro + " is not available, because it makes lists; use exists, all or exists_one"
		}
	}
	message, _, _ = strings.Cut(message, "\n")
	return message
}

// sizesOf is the estimate that nothing that an expression reads is longer.
type sizesOf uint64

func (s sizesOf) EstimateSize(cost.AstNode) *cost.SizeEstimate {
	return &cost.SizeEstimate{Max: uint64(s)}
}

func (sizesOf) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// sizes counts the cost of functions for which CEL has only a constant one: concatenations of
// lists, and functions of several types whose arguments have none when they are compiled.
type sizes struct{}

func (sizes) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	var of ref.Val
	switch function {
	case operators.Add:
		of = result
	case operators.In, operators.OldIn:
		of = args[len(args)-1]
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		of = args[0]
	default:
		return nil
	}
	switch of := of.(type) {
	case types.String:
		return new(1 + uint64(len(of))/10)
	case types.Bytes:
		return new(1 + uint64(len(of))/10)
	case traits.Lister:
		if n, ok := of.Size().(types.Int); ok {
			return new(1 + uint64(n))
		}
	}
	return nil
}
