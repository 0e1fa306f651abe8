// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strconv"
)

// A Problem is the reason why a listed item is not offered, or not as intended.
// Problems are comparable, so that new ones can be detected.
type Problem struct {
	Backend string // the configured name, or "" if it is a profile's
	Kind    Kind   // of the item, if any
	Item    string // its own name in the backend, or its place in the list, or ""
	Text    string
	Code    string // of the cause, or ""
	Profile string // the configured name, or ""
	Place   string // of the configuration, or "" if it is a backend's or a profile's

	// Withheld reports that clients do not get the item although no rule leaves it out, and no
	// other item in its place. What is invalid is not withheld.
	Withheld bool

	// Rule is the rule of the backend or of the profile that it is about, or the zero value.
	Rule Rule
}

// A Rule is a pattern or a name in the rules of a backend or of a profile.
type Rule struct {
	Setting string // include, exclude, rename or always
	Of      string // the pattern, or the own name that is renamed
}

// String returns the problem in one line, with the place before it and the code at its end.
func (p Problem) String() string {
	text := p.Message()
	if p.Place != "" {
		text = p.Place + ": " + text
	}
	if p.Code != "" {
		text += " [" + p.Code + "]"
	}
	return text
}

// Message returns the problem in one line, with the name of its backend or profile.
func (p Problem) Message() string {
	text := p.Text
	if p.Item != "" {
		text = fmt.Sprintf("%s %s: %s", p.Kind, quote(p.Item), p.Text)
	}
	switch {
	case p.Place != "":
		return text
	case p.Profile != "":
		return fmt.Sprintf("profile %q: %s", p.Profile, text)
	default:
		return fmt.Sprintf("backend %q: %s", p.Backend, text)
	}
}

// maxProblems bounds the problems reported for one list; a list of a million nulls is
// one mistake.
const maxProblems = 100

// report collects the problems of one build.
type report struct {
	problems []Problem
	listed   map[listKey]int
}

type listKey struct {
	backend string
	kind    Kind
}

// item reports a problem with one item of a list. code may be empty.
func (r *report) item(code, backend string, k Kind, item, text string) {
	r.add(Problem{Backend: backend, Kind: k, Item: item, Text: text, Code: code})
}

// withheld is item for one that is withheld.
func (r *report) withheld(code, backend string, k Kind, item, text string) {
	r.add(Problem{Backend: backend, Kind: k, Item: item, Text: text, Code: code, Withheld: true})
}

// add adds a problem with one item of a list.
func (r *report) add(p Problem) {
	if r.listed == nil {
		r.listed = make(map[listKey]int)
	}
	key := listKey{p.Backend, p.Kind}
	r.listed[key]++
	switch n := r.listed[key]; {
	case n <= maxProblems:
		r.problems = append(r.problems, p)
	case n == maxProblems+1:
		r.whole("", p.Backend, fmt.Sprintf("more of its %ss have problems; only the first %d are reported", p.Kind, maxProblems))
	}
}

// whole reports a problem that concerns no single item of a backend. code may be empty.
func (r *report) whole(code, backend, text string) {
	r.problems = append(r.problems, Problem{Backend: backend, Text: text, Code: code})
}

// maxQuoted bounds the part of a backend's text that is quoted.
const maxQuoted = 200

// quote quotes a backend's text, of any length and content, in one line.
func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(s[:maxQuoted]) + "..."
	}
	return strconv.Quote(s)
}
