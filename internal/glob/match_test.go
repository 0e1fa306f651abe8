// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package glob

import (
	"regexp"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"read", "read", true},
		{"read", "reads", false},
		{"*", "", true},
		{"*", "any/thing", true},
		{"read_*", "read_file", true},
		{"read_*", "read_", true},
		{"read_*", "unread_", false},
		{"*_file", "read_file", true},
		{"*_file", "read_files", false},
		{"r*d", "read", true},
		{"a*a", "a", false}, // needs two letters
		{"a*b*c", "a-b-c", true},
		{"a*b*c", "a-c-b", false},
		{"*b*b*", "abab", true},
		{"*b*b*", "ab", false},
		{"**", "x", true},
		{"[a]?", "[a]?", true}, // only the asterisk is special
		{"[a]?", "ab", false},
	}
	for _, tt := range tests {
		if got := Match(tt.pattern, tt.name); got != tt.want {
			t.Errorf("Match(%q, %q) = %t, want %t", tt.pattern, tt.name, got, tt.want)
		}
	}
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

// byForce compares two patterns on all short names. The names have a letter, c, that the
// patterns do not have, as for all real patterns; and they are long enough to show any
// difference between two patterns.
type byForce struct {
	names []string
	fits  map[string][]bool // for each pattern, whether it matches each name
}

func newByForce(patterns []string, longest int) *byForce {
	b := &byForce{names: wordsOf("abc", longest), fits: make(map[string][]bool)}
	for _, pattern := range patterns {
		b.fits[pattern] = b.fitting(pattern)
	}
	return b
}

// fitting uses another implementation of match than the tested one.
func (b *byForce) fitting(pattern string) []bool {
	expr := regexp.MustCompile(`\A` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `\z`)
	fits := make([]bool, len(b.names))
	for i, name := range b.names {
		fits[i] = expr.MatchString(name)
	}
	return fits
}

func (b *byForce) covers(wide, narrow string) bool {
	w := b.fits[wide]
	for i, fits := range b.fits[narrow] {
		if fits && !w[i] {
			return false
		}
	}
	return true
}

func (b *byForce) meet(one, other string) bool {
	o := b.fits[other]
	for i, fits := range b.fits[one] {
		if fits && o[i] {
			return true
		}
	}
	return false
}

// TestPatternsByForce checks match, covers and overlaps with all names of up to six letters,
// for all pairs of patterns of up to three characters.
func TestPatternsByForce(t *testing.T) {
	patterns := wordsOf("ab*", 3)
	force := newByForce(patterns, 6)
	for _, a := range patterns {
		for i, name := range force.names {
			if got, want := Match(a, name), force.fits[a][i]; got != want {
				t.Fatalf("Match(%q, %q) = %t", a, name, got)
			}
		}
		for _, b := range patterns {
			if got, want := Covers(a, b), force.covers(a, b); got != want {
				t.Errorf("Covers(%q, %q) = %t, want %t", a, b, got, want)
			}
			if got, want := Overlap(a, b), force.meet(a, b); got != want {
				t.Errorf("meet(%q, %q) = %t, want %t", a, b, got, want)
			}
		}
	}
}

// TestPatternsTogether checks that no two patterns together cover a third one that neither
// covers, so that comparing pairs is sufficient.
func TestPatternsTogether(t *testing.T) {
	patterns := wordsOf("a*", 3)
	force := newByForce(patterns, 6)
	for _, one := range patterns {
		for _, two := range patterns {
			for _, narrow := range patterns {
				together := true
				for i, fits := range force.fits[narrow] {
					together = together && (!fits || force.fits[one][i] || force.fits[two][i])
				}
				if together && !Covers(one, narrow) && !Covers(two, narrow) {
					t.Errorf("%q and %q cover %q together, and neither does alone", one, two, narrow)
				}
			}
		}
	}
}

func TestCovers(t *testing.T) {
	tests := []struct {
		wide, narrow string
		want         bool
	}{
		{"*", "read", true},
		{"*", "**", true},
		{"**", "*", true},
		{"read", "read", true},
		{"read", "*", false},
		{"a*", "ab*", true},
		{"ab*", "a*", false},
		{"*_file", "read_*", false},
		{"read_*", "read_*_file", true},
		{"*a*", "ba*", true},
		{"a*a", "a", false}, // two ends, one letter
		{"a*a", "a*a*a", true},
		{"a*a*a", "a*a", false},
		{"", "*", false},
		{"*", "", true},
		{"Read*", "read_file", false},
		{"größ*", "größe", true},
	}
	for _, tt := range tests {
		if got := Covers(tt.wide, tt.narrow); got != tt.want {
			t.Errorf("Covers(%q, %q) = %t, want %t", tt.wide, tt.narrow, got, tt.want)
		}
	}
}

func TestOverlaps(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{"read", "read", true},
		{"read", "write", false},
		{"read_*", "write_*", false},
		{"read_*", "*_file", true},
		{"*_file", "*_files", false},
		{"ab*", "a*", true},
		{"a*", "*b", true},
		{"a*b", "a*c", false},
		{"*x*", "*y*", true}, // xy
		{"a*a", "a", false},
		{"", "*", true},
		{"", "a*", false},
	}
	for _, tt := range tests {
		if Overlap(tt.a, tt.b) != tt.want || Overlap(tt.b, tt.a) != tt.want {
			t.Errorf("meet(%q, %q) is %t, and the other way round %t; want %t", tt.a, tt.b, Overlap(tt.a, tt.b), Overlap(tt.b, tt.a), tt.want)
		}
	}
}

// FuzzPatterns checks that the three functions are consistent for longer texts.
func FuzzPatterns(f *testing.F) {
	for _, seed := range [][3]string{{"a*", "ab*", "abc"}, {"*", "", ""}, {"a*a", "aa*", "aa"}, {"*é*", "é", "é"}, {"**a", "*a*", "a*"}} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, a, b, name string) {
		fitsA, fitsB := Match(a, name), Match(b, name)
		switch {
		case Covers(a, b) && fitsB && !fitsA:
			t.Errorf("%q covers %q, and %q fits only the second", a, b, name)
		case Covers(a, b) && !Overlap(a, b):
			t.Errorf("%q covers %q, and they do not meet", a, b)
		case fitsA && fitsB && !Overlap(a, b):
			t.Errorf("%q fits %q and %q, and they do not meet", name, a, b)
		case Overlap(a, b) != Overlap(b, a):
			t.Errorf("whether %q and %q meet depends on the order", a, b)
		case !Covers(a, a) || !Covers(wildcard, a):
			t.Errorf("%q is not covered by itself or by everything", a)
		}
	})
}
