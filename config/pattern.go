// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "strings"

// wildcard matches any sequence of characters in a pattern, including none.
const wildcard = "*"

// match reports whether a name matches a pattern, in which an asterisk matches any
// characters, including none. All other characters match themselves: unlike for path.Match,
// since names of tools may contain its syntax.
func match(pattern, name string) bool {
	parts := strings.Split(pattern, wildcard)
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

// covers reports whether every name that matches narrow also matches wide.
//
// It is exact, although it is only match. Seen as a name, narrow has an asterisk wherever
// its names differ, and only an asterisk of wide can match that: it also matches whatever a
// name has there. Conversely, one name that matches narrow has a character at each of these
// places that does not occur in wide, because there are more characters than a pattern has;
// if wide matches this name, it does so with an asterisk there.
//
// For the same reason several patterns together cover a pattern only if one of them does.
func covers(wide, narrow string) bool { return match(wide, narrow) }

// overlaps reports whether some name matches both patterns. Two patterns with an asterisk
// only have to agree on the beginning and the end of such a name: the rest of both can occur
// in between, one after the other.
func overlaps(a, b string) bool {
	firstA, _, wildA := strings.Cut(a, wildcard)
	firstB, _, wildB := strings.Cut(b, wildcard)
	switch {
	case !wildA:
		return match(b, a)
	case !wildB:
		return match(a, b)
	}
	lastA, lastB := a[strings.LastIndex(a, wildcard)+1:], b[strings.LastIndex(b, wildcard)+1:]
	begin := strings.HasPrefix(firstA, firstB) || strings.HasPrefix(firstB, firstA)
	end := strings.HasSuffix(lastA, lastB) || strings.HasSuffix(lastB, lastA)
	return begin && end
}
