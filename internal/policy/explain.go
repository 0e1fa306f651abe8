// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

// RuleValue is a rule with its value for one call.
type RuleValue struct {
	Name string
	Kind string // allow, deny, needs or confirm

	// Matches is whether its patterns match the item.
	Matches Value
	Value   Value

	// Error is why it failed, for the operator. It may quote arguments and claims.
	Error string

	// Missing are the scopes that a rule needs and the subject lacks.
	Missing []string
}

// Explain returns each rule with its value, and the decision. With a nil call it is about all
// calls, as List is; then the effect may be Open. It calls no function of Options.
func (p *Policy) Explain(s *Subject, it *Item, call *Call) ([]RuleValue, Decision) {
	in := newInput(s, it)
	defer in.release()
	if call != nil {
		in.setCall(call)
	} else {
		in.setCall(&Call{Method: Method(it.kind)})
		in.unknown |= readsArgs
	}
	quiet := p.quiet()
	all := make([]RuleValue, 0, len(p.rules))
	values := make([]Value, 0, len(p.rules))
	for i := range p.rules {
		r := &p.rules[i]
		v, err := quiet.evaluate(r, in)
		if call != nil && v == Unknown {
			v, err = Failed, errUnknownURI
		}
		one := RuleValue{
			Name: r.name, Kind: r.kind.String(), Value: v,
			Matches: in.match(r.on),
		}
		if v == Failed && err != nil {
			one.Error = err.Error()
		}
		if v != False && r.kind == needs {
			one.Missing = s.appendLacking(nil, r.scopes)
		}
		all, values = append(all, one), append(values, v)
	}
	return all, quiet.forTools(s, it, quiet.combine(s, values))
}
