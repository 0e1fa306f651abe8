// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "strings"

// anything is what stands for any characters in a pattern, also for none.
const anything = "*"

// match reports whether a name has the form of a pattern, in which an asterisk
// stands for any characters, also none. Every other character is itself: names
// of tools can hold anything that path.Match would take for syntax.
func match(pattern, name string) bool {
	parts := strings.Split(pattern, anything)
	if len(parts) == 1 {
		return pattern == name
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(name, part)
		if !found {
			return false
		}
		name = after
	}
	return true
}

// covers reports whether every name that has the form of one pattern has that of
// another, the wide one.
//
// It is exact, and no more than match. Read as a name, the narrow pattern has an
// asterisk wherever its names differ, and only an asterisk of the wide one can
// take that: so it takes whatever stands there in one of the names. The other way
// round, one of the names has a character there that the wide pattern does not
// spell out, because there are more characters than a pattern has; if the wide
// one takes that name, it does so with an asterisk there.
//
// For the same reason several patterns cover one together only if one of them
// does so alone.
func covers(wide, narrow string) bool { return match(wide, narrow) }

// meet reports whether some name has the form of both patterns. Two that have an
// asterisk need only agree on how such a name begins and ends: what else they
// want of it can stand in between, one after the other.
func meet(a, b string) bool {
	firstA, _, wildA := strings.Cut(a, anything)
	firstB, _, wildB := strings.Cut(b, anything)
	switch {
	case !wildA:
		return match(b, a)
	case !wildB:
		return match(a, b)
	}
	lastA, lastB := a[strings.LastIndex(a, anything)+1:], b[strings.LastIndex(b, anything)+1:]
	begin := strings.HasPrefix(firstA, firstB) || strings.HasPrefix(firstB, firstA)
	end := strings.HasSuffix(lastA, lastB) || strings.HasSuffix(lastB, lastA)
	return begin && end
}
