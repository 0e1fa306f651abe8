// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package glob matches the patterns that a configuration has for items: for the names of tools
// and prompts, and for URIs.
//
// In a pattern an asterisk matches any characters, including none, and all others match
// themselves. There is no other syntax, unlike for path.Match, since names of tools may contain
// it.
//
// A URI may be written in several ways. [PlainURI] returns one of them.
package glob

import "strings"

const wildcard = "*"

// Match reports whether a name matches a pattern. It does not allocate.
func Match(pattern, name string) bool {
	head, rest, wild := strings.Cut(pattern, wildcard)
	if !wild {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	for ok {
		part, after, more := strings.Cut(rest, wildcard)
		if !more {
			return strings.HasSuffix(name, part)
		}
		_, name, ok = strings.Cut(name, part)
		rest = after
	}
	return false
}

// Covers reports whether every name that matches narrow also matches wide.
//
// It is exact, although it is only Match. Seen as a name, narrow has an asterisk wherever
// its names differ, and only an asterisk of wide can match that: it also matches whatever a
// name has there. Conversely, one name that matches narrow has a character at each of these
// places that does not occur in wide, because there are more characters than a pattern has;
// if wide matches this name, it does so with an asterisk there.
//
// For the same reason several patterns together cover a pattern only if one of them does.
func Covers(wide, narrow string) bool { return Match(wide, narrow) }

// Overlap reports whether some name matches both patterns. Two patterns with an asterisk
// only have to agree on the beginning and the end of such a name: the rest of both can occur
// in between, one after the other.
func Overlap(a, b string) bool {
	firstA, _, wildA := strings.Cut(a, wildcard)
	firstB, _, wildB := strings.Cut(b, wildcard)
	switch {
	case !wildA:
		return Match(b, a)
	case !wildB:
		return Match(a, b)
	}
	lastA, lastB := a[strings.LastIndex(a, wildcard)+1:], b[strings.LastIndex(b, wildcard)+1:]
	begin := strings.HasPrefix(firstA, firstB) || strings.HasPrefix(firstB, firstA)
	end := strings.HasSuffix(lastA, lastB) || strings.HasSuffix(lastB, lastA)
	return begin && end
}

// MatchBegin reports whether a pattern matches all names that begin with a text, and whether it
// matches some of them. If the text has an asterisk, all may be false, and some true, in error.
func MatchBegin(pattern, begin string) (all, some bool) {
	return Covers(pattern, begin+wildcard), Overlap(pattern, begin+wildcard)
}

// MatchURI reports whether a URI, or its plain form, matches a pattern. plain is PlainURI(uri).
func MatchURI(pattern, uri, plain string) bool {
	return Match(pattern, uri) || plain != uri && Match(pattern, plain)
}
