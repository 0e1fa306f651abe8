// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "cel.dev/cel-go/common/types"

// Unlisted is what is known of the items of a backend before it has listed them.
type Unlisted struct {
	Kind, Backend string

	// Prefix begins the names of all items but those in Renamed, which has names by the own
	// names of the items. Both are for tools and prompts only.
	Prefix  string
	Renamed map[string]string
}

// MayAllow reports whether a subject may see some item of a backend, whatever the backend will
// list. It calls no function of Options.
func (p *Policy) MayAllow(s *Subject, u *Unlisted) bool {
	quiet := p.quiet()
	if quiet.mayAllow(s, NewItem(u.Kind, u.Backend, u.Prefix, "", nil), readsItem) {
		return true
	}
	for own, name := range u.Renamed {
		if quiet.mayAllow(s, NewItem(u.Kind, u.Backend, name, own, nil), readsItem&^(readsName|readsOwn)) {
			return true
		}
	}
	return false
}

func (p *Policy) mayAllow(s *Subject, it *Item, unknown reads) bool {
	in := newInput(s, it)
	defer in.release()
	in.method, in.unknown = types.String(Method(it.kind)), unknown
	values := make([]Value, 0, len(p.rules))
	for i := range p.rules {
		values = append(values, p.evaluateSome(&p.rules[i], in))
	}
	return p.combine(s, values).Effect != Denied
}
