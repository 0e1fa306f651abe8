// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "strings"

// glob is a pattern in which * matches any number of characters.
type glob string

// matches compares from the left, and the part after the last * from the right.
func (g glob) matches(name string) bool {
	head, rest, wild := strings.Cut(string(g), "*")
	if !wild {
		return string(g) == name
	}
	name, ok := strings.CutPrefix(name, head)
	for ok {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(name, part)
		}
		_, name, ok = strings.Cut(name, part)
		rest = after
	}
	return false
}

// matchesAll reports whether the pattern matches the URIs of a template (RFC 6570): all of
// them, none of them, or neither is certain.
func (g glob) matchesAll(template string) Value {
	fixed, _, open := strings.Cut(template, "{")
	if !open {
		return valueOf(g.matches(template))
	}
	head, rest, wild := strings.Cut(string(g), "*")
	switch {
	case wild && rest == "" && strings.HasPrefix(fixed, head):
		return True
	case wild && !strings.HasPrefix(fixed, head) && !strings.HasPrefix(head, fixed), !wild && !strings.HasPrefix(head, fixed):
		return False
	default:
		return Unknown
	}
}

// matchAny returns whether one of the patterns matches the item.
func matchAny(on []glob, it *Item, uri string, known bool) Value {
	if len(on) == 0 {
		return True
	}
	found := False
	for _, g := range on {
		var v Value
		switch {
		case it.kind != Template:
			v = valueOf(g.matches(it.name))
		case known:
			v = valueOf(g.matches(uri))
		default:
			v = g.matchesAll(it.name)
		}
		if v == True {
			return True
		}
		if v == Unknown {
			found = Unknown
		}
	}
	return found
}
