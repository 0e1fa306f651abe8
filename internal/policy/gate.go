// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "cel.dev/cel-go/common/types"

// NewGate is NewItem for a tool that takes the place of all tools of a backend, whose names are not
// known and begin with a prefix. Rules decide about it as about any tool. If none of them allows it,
// those about the tools do: it is allowed if some tool may be.
func NewGate(backend, prefix, name, own string, raw []byte) *Item {
	it := NewItem(Tool, backend, name, own, raw)
	it.tools = NewItem(Tool, backend, prefix, "", nil)
	return it
}

// IsGate reports whether the item was made by NewGate.
func (it *Item) IsGate() bool { return it.tools != nil }

// forTools returns the decision about an item, which for a gate that no rule allows is that about
// the tools.
func (p *Policy) forTools(s *Subject, it *Item, d Decision) Decision {
	if it.tools == nil || d.Effect != Denied || d.Rule != Otherwise {
		return d
	}
	in := newInput(s, it.tools)
	defer in.release()
	in.method, in.unknown = types.String(Method(Tool)), readsItem
	quiet := p.quiet() // failures were reported
	values := make([]Value, 0, len(p.rules))
	allowedBy, neededBy := "", ""
	var scopes, missing []string
	for i := range p.rules {
		r := &p.rules[i]
		v := quiet.evaluateSome(r, in)
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
		return needed(neededBy, scopes, missing)
	default:
		return Decision{Effect: Allowed, Rule: allowedBy}
	}
}
