// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	keys := []string{"command", "args", "env", "url", "mcpServers", "era"}
	tests := []struct{ word, want string }{
		{"comand", "command"},
		{"commnad", "command"},
		{"COMMAND", "command"},
		{"mcp_servers", "mcpServers"},
		{"mcp-server", "mcpServers"},
		{"arg", "args"},
		{"uri", "url"},
		{"enr", "env"}, // as near as era, but first
		{"colour", ""},
		{"", ""},
		{"x", ""},
		{strings.Repeat("command", 20), ""},
	}
	for _, tt := range tests {
		if got := Nearest(tt.word, keys); got != tt.want {
			t.Errorf("Nearest(%q) = %q, want %q", tt.word, got, tt.want)
		}
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "abd", 1},
		{"abc", "acb", 1}, {"abc", "ab", 1}, {"abc", "xabc", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3},
	}
	for _, tt := range tests {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

// TestDistanceIsOne checks that every word that one edit makes of another has distance one,
// and that distance is symmetric.
func TestDistanceIsOne(t *testing.T) {
	words := wordsOf("ab", 4)
	for _, a := range words {
		near := oneSlip(a)
		for _, b := range words {
			d := distance(a, b)
			if d != distance(b, a) {
				t.Errorf("from %q to %q it is %d, and back %d", a, b, d, distance(b, a))
			}
			if (d == 1) != near[b] || (d == 0) != (a == b) {
				t.Errorf("distance(%q, %q) = %d, one slip makes one of the other: %t", a, b, d, near[b])
			}
		}
	}
}

// oneSlip returns all other words that one edit makes of a word of a and b.
func oneSlip(word string) map[string]bool {
	made := make(map[string]bool)
	for i := range len(word) + 1 {
		for _, letter := range []string{"a", "b"} {
			made[word[:i]+letter+word[i:]] = true
			if i < len(word) {
				made[word[:i]+letter+word[i+1:]] = true
			}
		}
		if i < len(word) {
			made[word[:i]+word[i+1:]] = true
		}
		if i+1 < len(word) {
			made[word[:i]+word[i+1:i+2]+word[i:i+1]+word[i+2:]] = true
		}
	}
	delete(made, word)
	return made
}

// wordsOf returns all words of some letters up to a length.
func wordsOf(letters string, most int) []string {
	all, last := []string{""}, []string{""}
	for range most {
		var longer []string
		for _, word := range last {
			for _, letter := range letters {
				longer = append(longer, word+string(letter))
			}
		}
		all, last = append(all, longer...), longer
	}
	return all
}

// A candidate that is too long to be close is not compared, since a peer may have written it.
func TestNearestOfALongCandidate(t *testing.T) {
	candidates := []string{strings.Repeat("x", 1000)}
	if n := testing.AllocsPerRun(10, func() { Nearest("xxx", candidates) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzNearest checks that a suggestion is one of the candidates, that a candidate is its own
// suggestion, and that it takes little time.
func FuzzNearest(f *testing.F) {
	for _, seed := range []string{"", "comand", "COMMAND", "mcp_servers", "x", "ünknown", strings.Repeat("a", 1000)} {
		f.Add(seed)
	}
	keys := []string{"mcpServers", "listen", "path", "allowedHosts", "allowedOrigins", "auth", "name", "conflict", "reload", "limits", "type", "command", "args", "env", "envFile", "url", "headers", "era"}
	f.Fuzz(func(t *testing.T, word string) {
		got := Nearest(word, keys)
		isKey := false
		for _, key := range keys {
			isKey = isKey || key == got
			if key == word && got != key {
				t.Errorf("Nearest(%q) = %q", word, got)
			}
		}
		if got != "" && !isKey {
			t.Errorf("Nearest(%q) = %q, which is no key", word, got)
		}
		if got != "" && distance(normalize(word), normalize(got)) > max(1, len(normalize(word))/3) {
			t.Errorf("Nearest(%q) = %q, which is far away", word, got)
		}
	})
}
