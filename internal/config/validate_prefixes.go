// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
)

// checkPrefixes refuses two prefixes that let what one server offers take a name of the
// other. The empty prefix is a choice that several may make, and a remark says what it costs.
func checkPrefixes(c *Config, j *judge) {
	owner := make(map[string]int) // of the first server with a prefix
	for i := range c.Servers {
		s := &c.Servers[i]
		if s.Disabled || j.someMeant(s.place(), s.place().key("prefix")) {
			continue
		}
		first, taken := owner[s.NamePrefix()]
		switch {
		case !taken || c.Servers[first].Name == s.Name:
			owner[s.NamePrefix()] = i
		case s.NamePrefix() == "":
			const hint = "a prefix of its own keeps the names of each where they are"
			j.note(s.place().key("prefix"), hint, `%q and %q share their names: who gets one that both offer is decided by "conflict", and only once both were heard of`, c.Servers[first].Name, s.Name)
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

// checkShorter compares a server with those whose prefix its own begins with.
func checkShorter(c *Config, i int, owner map[string]int, j *judge) {
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

func (s *Server) place() place { return place{}.key(serversKey).key(s.Name) }

// SharedNames reports whether one server could offer a name that begins with the prefix
// of the other and that the other could offer, too. The problem is the one of the second
// server. Two that have the empty prefix share all names, and that is no problem.
func SharedNames(first, second *Server) (Problem, bool) {
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
		Hint: fmt.Sprintf("give one of them another, or add %q to \"exclude\" of %q", rest+anything, short.Name),
	}, true
}

func samePrefix(first, second *Server) Problem {
	return Problem{
		Path:    second.place().key("prefix").path,
		Message: fmt.Sprintf("%q and %q have the same prefix %q", first.Name, second.Name, second.NamePrefix()),
		Hint:    "give one of them another",
	}
}

// reaches reports whether the server may offer a tool whose name is the rest and then the
// name of a tool that another server may offer.
func (s *Server) reaches(rest string, other *Server) bool {
	for _, theirs := range other.included() {
		for _, ours := range s.included() {
			if meet(ours, rest+theirs) && !excludes(s.Exclude, "", ours, rest+theirs) && !excludes(other.Exclude, rest, ours, rest+theirs) {
				return true
			}
		}
	}
	return false
}

// included are the patterns of what the server may offer, but for what it excludes.
func (s *Server) included() []string {
	if len(s.Include) == 0 {
		return []string{anything}
	}
	return s.Include
}

// excludes reports whether a pattern, with something before it, covers one of two that a
// name has to have the form of.
func excludes(patterns []string, before, one, two string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return covers(before+pattern, one) || covers(before+pattern, two)
	})
}
