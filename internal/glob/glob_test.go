// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package glob

import "testing"

// MatchBegin agrees with Match about names that begin so, as far as there are enough of them.
func TestMatchBegin(t *testing.T) {
	ends := wordsOf("abc", 4) // c is in no pattern
	for _, p := range wordsOf("ab*", 3) {
		for _, begin := range wordsOf("ab", 3) {
			matched := 0
			for _, end := range ends {
				if Match(p, begin+end) {
					matched++
				}
			}
			all, some := MatchBegin(p, begin)
			if all != (matched == len(ends)) || some != (matched > 0) {
				t.Errorf("MatchBegin(%q, %q) = %t, %t; %d of %d match", p, begin, all, some, matched, len(ends))
			}
		}
	}
}

func TestMatchURI(t *testing.T) {
	for _, tt := range []struct {
		pattern, uri string
		want         bool
	}{
		{"file:///a/*", "file:///a/b", true},
		{"file:///a/*", "FILE:///%61/b", true},
		{"file:///a/*", "file:///x/../a/b", true},
		{"file:///a/*", "file:///a/../x", true}, // as it is written
		{"file:///a%20b", "file:///a%20b", true},
		{"file:///a b", "file:///a%20b", true},
		{"file:///a/*", "file:///b/a", false},
	} {
		if got := MatchURI(tt.pattern, tt.uri, PlainURI(tt.uri)); got != tt.want {
			t.Errorf("MatchURI(%q, %q) = %t", tt.pattern, tt.uri, got)
		}
	}
}
