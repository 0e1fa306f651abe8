// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
)

// readsTools is what is unknown of the tools that a gate takes the place of: everything but their
// backend.
const readsTools = readsArgs | readsAnnotations | readsTags | 1<<7

// NewGate is NewItem for a tool that takes the place of all tools of a backend, whose names are not
// known and begin with a prefix. Rules decide about it as about any tool. If none of them allows it,
// those about the tools do: it is allowed if some tool may be.
func NewGate(backend, prefix, name, own string, raw []byte) *Item {
	it := NewItem(Tool, backend, name, own, raw)
	it.isGate, it.prefix = true, prefix
	return it
}

// forTools returns the decision about an item, which for a gate that no rule allows is that about
// the tools.
func (p *Policy) forTools(s *Subject, it *Item, d Decision) Decision {
	if !it.isGate || d.Effect != Denied || d.Rule != Otherwise {
		return d
	}
	in := newInput(s, it)
	defer in.release()
	in.setCall(&Call{Method: Method(Tool)})
	in.unknown = readsTools
	quiet := &Policy{rules: p.rules, otherwise: p.otherwise} // failures were reported
	values := make([]Value, 0, len(p.rules))
	allowedBy, neededBy := "", ""
	var scopes, missing []string
	for i := range p.rules {
		r := &p.rules[i]
		v, _ := quiet.evaluate(r, in)
		values = append(values, v)
		switch {
		case r.kind == allow && (v == True || v == Unknown) && allowedBy == "":
			allowedBy = r.name
		case r.kind == needs && (v == True || v == Failed) && s.lacks(r.scopes):
			if neededBy == "" {
				neededBy = r.name
			}
			scopes, missing = append(scopes, r.scopes...), s.appendLacking(missing, r.scopes)
		}
	}
	switch {
	case quiet.combine(s, values).Effect == Denied:
		return d
	case neededBy != "":
		slices.Sort(scopes)
		slices.Sort(missing)
		return Decision{Effect: Needs, Rule: neededBy, Scopes: slices.Compact(scopes), Missing: slices.Compact(missing)}
	default:
		return Decision{Effect: Allowed, Rule: allowedBy}
	}
}

// unknownTools returns the variables of the tools of a gate.
func unknownTools() []*cel.AttributePatternType {
	var all []*cel.AttributePatternType
	for _, name := range []string{varArgs, varItemName, varOwn, varAnnotations, varTags} {
		all = append(all, cel.AttributePattern(name))
	}
	return all
}

// matchTools returns whether one of the patterns of a rule may match a tool of the gate. That is
// enough for a rule that allows; to deny, or to need scopes, a rule has to be about all.
func matchTools(r *rule, it *Item) Value {
	switch {
	case len(r.on) == 0:
		return True
	case !slices.ContainsFunc(r.on, func(g glob) bool { return g.mayMatch(it.prefix) }):
		return False
	case r.kind == allow:
		return True
	default:
		return Unknown
	}
}

// mayMatch reports whether the pattern matches a name that begins with a prefix.
func (g glob) mayMatch(prefix string) bool {
	head, _, wild := strings.Cut(string(g), "*")
	return strings.HasPrefix(head, prefix) || wild && strings.HasPrefix(prefix, head)
}
