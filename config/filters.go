// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/signalbox-mcp/signalbox/internal/glob"
)

// wildcard matches any sequence of characters in a pattern, including none.
const wildcard = "*"

// A rule without any effect is most often a mistake: a tool that should be hidden is not, or
// the other way round. Rules are compared with each other when the file is read; whether a
// rule matches what the server offers is known only when the server has been listed.
//
// Contradicting rules are a problem. A superfluous rule does not change what is offered, and
// is noted. Notes are shown only if there is no problem, so they can ignore cases that are
// problems: empty and repeated patterns.

// maxCompared is the length up to which lists of patterns are compared, in quadratic time.
// Longer lists are generated.
const maxCompared = 1000

func checkPatternLists(include, exclude []string, p place, r *reader) {
	checkPatternList(include, p.key("include"), r)
	checkPatternList(exclude, p.key("exclude"), r)
}

func checkPatternList(patterns []string, list place, r *reader) {
	seen := make(map[string]bool, len(patterns))
	for i, pattern := range patterns {
		switch at := list.item(i); {
		case r.has(at):
		case seen[pattern] && pattern != "":
			r.report(at, "remove one of them", "%.80q is in the list twice", pattern)
		case checkPattern(pattern, at, false, `write what must not be offered in "exclude"`, r) && pattern == ".*":
			r.note(at, `write "*" for any name`, "%q matches only names that begin with a dot", pattern)
		}
		seen[pattern] = true
	}
}

// foreignSigns are special in shell patterns and in regular expressions, and occur in no
// known names. Matching them literally would leave tools visible that the author meant to
// hide.
const foreignSigns = `?[]{}|^$\,`

// checkPattern rejects a pattern that means nothing, or not what its author has meant. A URI may
// have any of foreignSigns. positive is the cure for one that begins with an exclamation mark.
func checkPattern(pattern string, at place, isURI bool, positive string, r *reader) (valid bool) {
	sign := strings.IndexAny(pattern, foreignSigns)
	switch {
	case pattern == "":
		r.report(at, "remove it", "%q is empty", at.name)
	case strings.TrimSpace(pattern) != pattern:
		r.report(at, "remove it", "%.80q begins or ends with a space, which no name does", pattern)
	case strings.ContainsFunc(pattern, unicode.IsControl):
		r.report(at, "remove it", "%.80q has a control character in it, which no name has", pattern)
	case isURI:
		return true
	case pattern[0] == '!':
		r.report(at, positive, "%.80q begins with !, which has no meaning here", pattern)
	case sign >= 0 && pattern[sign] == ',':
		r.report(at, "write each as an item of its own", "%.80q is several patterns in one", pattern)
	case sign >= 0:
		r.report(at, "only * is special: it matches any characters", "%.80q has a %s in it, which matches only itself", pattern, pattern[sign:sign+1])
	default:
		return true
	}
	return false
}

// checkFilters checks the patterns of a server, and finds those without an effect.
func checkFilters(s *Backend, p place, r *reader) {
	checkPatternLists(s.Include, s.Exclude, p, r)
	checkEffects(s.Include, s.Exclude, p, r, func(i int) bool {
		// Without other rules this is the way to offer only resources, which rules do not
		// affect. With others it is a problem, because they have no effect. They are named,
		// because the exclude is most often right and they are left over.
		include, exclude, rename := p.key("include"), p.key("exclude"), p.key("rename")
		var idle []string
		if len(s.Include) > 0 || r.has(include) {
			idle = append(idle, `"include"`)
		}
		if len(s.Rename) > 0 || r.has(rename) {
			idle = append(idle, `"rename"`)
		}
		if len(idle) == 0 {
			r.note(exclude.item(i), `write "disabled: true" to leave the server out`, "%.80q excludes every tool and prompt of %q; only resources are left", s.Exclude[i], s.Name)
		} else {
			r.report(exclude.item(i), `remove it, or write "disabled: true" to leave the server out`,
				"%.80q excludes every tool and prompt of %q, so that %s has no effect", s.Exclude[i], s.Name, strings.Join(idle, " and "))
		}
		return true
	})
}

// checkEffects finds patterns that have no effect because of others. It calls nothingLeft with
// the index of a pattern that excludes all tools and prompts, which reports whether to compare
// both lists all the same.
func checkEffects(include, exclude []string, p place, r *reader, nothingLeft func(i int) bool) {
	// Problems of single patterns have been reported; only notes are omitted.
	if len(include) > maxCompared || len(exclude) > maxCompared {
		return
	}
	checkWithin(include, p.key("include"), r)
	checkWithin(exclude, p.key("exclude"), r)
	everything := func(pattern string) bool { return glob.Covers(pattern, wildcard) }
	// With several patterns, the others are noted as adding nothing.
	if len(include) == 1 && everything(include[0]) {
		r.note(p.key("include").item(0), "", `%.80q includes everything, as it would be without "include"`, include[0])
	}
	if i := slices.IndexFunc(exclude, everything); i >= 0 && !nothingLeft(i) {
		return
	}
	checkContradictions(include, exclude, p, r)
}

// checkContradictions finds included patterns that are excluded, and excluded ones that are
// not included. A pattern that excludes everything has been reported.
func checkContradictions(include, exclude []string, p place, r *reader) {
	for i, pattern := range include {
		if pattern == "" || slices.Contains(include[:i], pattern) {
			continue // reported by checkPatternLists
		}
		at := p.key("include").item(i)
		switch by := slices.IndexFunc(exclude, func(wide string) bool { return glob.Covers(wide, pattern) && !glob.Covers(wide, wildcard) }); {
		case by < 0:
		case exclude[by] == pattern:
			r.report(at, "remove one of them", "%.80q is both included and excluded", pattern)
		default:
			r.report(at, "remove one of them", "%.80q is included, and %.80q excludes all of it", pattern, exclude[by])
		}
	}
	for i, pattern := range exclude {
		included := func(other string) bool { return glob.Overlap(other, pattern) }
		if len(include) > 0 && !slices.ContainsFunc(include, included) {
			r.note(p.key("exclude").item(i), "", "%.80q excludes nothing: no included name matches it", pattern)
		}
	}
}

// checkWithin notes patterns that another one of the list covers.
func checkWithin(patterns []string, at place, r *reader) {
	for i, narrow := range patterns {
		wider := slices.IndexFunc(patterns, func(wide string) bool {
			return wide != narrow && glob.Covers(wide, narrow)
		})
		// Of two equivalent ones, such as * and **, the later one is superfluous.
		if wider < 0 || i < wider && glob.Covers(narrow, patterns[wider]) {
			continue
		}
		r.note(at.item(i), "", "%.80q adds nothing to %.80q", narrow, patterns[wider])
	}
}

// checkRenames requires that renamed items are single names that are offered, and that the
// new names are valid and unique in a server.
func checkRenames(s *Backend, p place, r *reader) {
	owner := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(s.Rename)) {
		at, to := p.key("rename").key(name), s.Rename[name]
		unread := r.has(at)
		// Some clients reject a whole list for one invalid name.
		if !unread && (to == "" || !isName(to, maxToolName)) {
			r.report(at, "letters, digits, _ - . and up to 128 of them", "%.160q cannot be the name of a tool", to)
		}
		// Exclude has precedence over include, and is reported first.
		excluded := slices.IndexFunc(s.Exclude, func(pattern string) bool {
			// A pattern that excludes everything has been reported.
			return glob.Match(pattern, name) && !glob.Covers(pattern, wildcard)
		})
		switch {
		case name == "":
			r.report(at, "write the server's own name for it", "what is renamed has no name")
		case strings.Contains(name, wildcard):
			r.report(at, `write each name in full; "prefix" changes all of them`, `%.80q is renamed, and "rename" takes no patterns`, name)
		case excluded >= 0:
			r.report(at, "remove one of them", "%.80q is renamed, and %.80q excludes it", name, s.Exclude[excluded])
		case r.hasItem(p.key("include"), len(s.Include)):
			// The rejected element may include it.
		case !s.includes(name):
			r.report(at, `add it to "include", or remove it here`, "%.80q is renamed, and not included", name)
		case to == s.NamePrefix()+name:
			r.note(at, "", "%.80q is renamed to the name that it has anyway", name)
		}
		if unread {
			continue
		}
		// Two servers may rename to the same name: Config.Conflict decides about it.
		if other, taken := owner[to]; taken {
			r.report(at, "", "%.80q and %.80q are both renamed to %.160q", other, name, to)
			continue
		}
		owner[to] = name
	}
}

// checkPrefixes rejects two prefixes with which one server could offer a name of the other.
// Several servers may have the empty prefix, which is noted.
func checkPrefixes(c *Config, r *reader) {
	owner := make(map[string]int) // the first server with a prefix
	for i := range c.Servers {
		s := &c.Servers[i]
		if s.Disabled || r.hasOrMeant(s.place(), s.place().key("prefix")) {
			continue
		}
		first, taken := owner[s.NamePrefix()]
		switch {
		case !taken || c.Servers[first].Name == s.Name:
			owner[s.NamePrefix()] = i
		case s.NamePrefix() == "":
			const hint = "give one of them a prefix"
			r.note(s.place().key("prefix"), hint, `%q and %q have no prefix: a name that both offer is assigned by "conflict", once both have been listed`, c.Servers[first].Name, s.Name)
		default:
			p := samePrefix(&c.Servers[first], s)
			r.report(place{path: p.Path}, p.Hint, "%s", p.Message)
		}
	}
	// Compare each of them with those that have a prefix of its own prefix.
	for i := range c.Servers {
		prefix := c.Servers[i].NamePrefix()
		if at, ok := owner[prefix]; !ok || at != i {
			continue
		}
		for end := 1; end < len(prefix); end++ {
			short, ok := owner[prefix[:end]]
			if !ok {
				continue
			}
			if p, meet := SharedNames(&c.Servers[min(short, i)], &c.Servers[max(short, i)]); meet {
				r.report(place{path: p.Path}, p.Hint, "%s", p.Message)
			}
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
			if glob.Overlap(ours, rest+theirs) && !excludes(s.Exclude, "", ours, rest+theirs) && !excludes(other.Exclude, rest, ours, rest+theirs) {
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
		return glob.Covers(before+pattern, one) || glob.Covers(before+pattern, two)
	})
}
