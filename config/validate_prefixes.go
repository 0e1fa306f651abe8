// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
)

// checkPrefixes rejects two prefixes with which one server could offer a name of the other.
// Several servers may have the empty prefix, which is noted.
func checkPrefixes(c *Config, j *validator) {
	owner := make(map[string]int) // the first server with a prefix
	for i := range c.Servers {
		s := &c.Servers[i]
		if s.Disabled || j.hasAnyOrMeant(s.place(), s.place().key("prefix")) {
			continue
		}
		first, taken := owner[s.NamePrefix()]
		switch {
		case !taken || c.Servers[first].Name == s.Name:
			owner[s.NamePrefix()] = i
		case s.NamePrefix() == "":
			const hint = "give one of them a prefix"
			j.note(s.place().key("prefix"), hint, `%q and %q have no prefix: a name that both offer is assigned by "conflict", once both have been listed`, c.Servers[first].Name, s.Name)
		default:
			j.problems = append(j.problems, samePrefix(&c.Servers[first], s))
		}
	}
	for i := range c.Servers {
		if at, ok := owner[c.Servers[i].NamePrefix()]; ok && at == i {
			checkShorter(c, i, owner, j)
		}
	}
}

// checkShorter compares a server with those that have a prefix of its own prefix.
func checkShorter(c *Config, i int, owner map[string]int, j *validator) {
	prefix := c.Servers[i].NamePrefix()
	for end := 1; end < len(prefix); end++ {
		short, ok := owner[prefix[:end]]
		if !ok {
			continue
		}
		if p, meet := SharedNames(&c.Servers[min(short, i)], &c.Servers[max(short, i)]); meet {
			j.problems = append(j.problems, p)
		}
	}
}

func (s *Backend) place() place { return place{}.key(serversKey).key(s.Name) }

// SharedNames reports whether one server could offer a name that begins with the prefix of
// the other and that the other could offer, too. The problem is that of the second server.
// Two servers with the empty prefix share all names, which is no problem.
func SharedNames(first, second *Backend) (Problem, bool) {
	short, long := first, second
	if len(short.NamePrefix()) > len(long.NamePrefix()) {
		short, long = long, short
	}
	rest, begins := strings.CutPrefix(long.NamePrefix(), short.NamePrefix())
	switch {
	case !begins || short.NamePrefix() == "":
		return Problem{}, false
	case rest == "":
		return samePrefix(first, second), true
	case !short.reaches(rest, long):
		return Problem{}, false
	}
	return Problem{
		Path: second.place().key("prefix").path,
		Message: fmt.Sprintf("the prefix %q of %q begins with the prefix %q of %q, which could offer names of it",
			long.NamePrefix(), long.Name, short.NamePrefix(), short.Name),
		Hint: fmt.Sprintf("give one of them another, or add %q to \"exclude\" of %q", rest+wildcard, short.Name),
	}, true
}

func samePrefix(first, second *Backend) Problem {
	return Problem{
		Path:    second.place().key("prefix").path,
		Message: fmt.Sprintf("%q and %q have the same prefix %q", first.Name, second.Name, second.NamePrefix()),
		Hint:    "give one of them another",
	}
}

// reaches reports whether the server may offer a tool named rest followed by the name of a
// tool that other may offer.
func (s *Backend) reaches(rest string, other *Backend) bool {
	for _, theirs := range other.included() {
		for _, ours := range s.included() {
			if overlaps(ours, rest+theirs) && !excludes(s.Exclude, "", ours, rest+theirs) && !excludes(other.Exclude, rest, ours, rest+theirs) {
				return true
			}
		}
	}
	return false
}

// included returns the patterns of what the server may offer, before Exclude.
func (s *Backend) included() []string {
	if len(s.Include) == 0 {
		return []string{wildcard}
	}
	return s.Include
}

// excludes reports whether a pattern, prefixed by before, covers one of two patterns that a
// name has to match.
func excludes(patterns []string, before, one, two string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return covers(before+pattern, one) || covers(before+pattern, two)
	})
}
