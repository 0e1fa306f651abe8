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
}

// String returns the problem in one line, with the code at its end.
func (p Problem) String() string {
	text := p.Text
	if p.Item != "" {
		text = fmt.Sprintf("%s %s: %s", p.Kind, quote(p.Item), p.Text)
	}
	if p.Code != "" {
		text += " [" + p.Code + "]"
	}
	if p.Place != "" {
		return p.Place + ": " + text
	}
	if p.Profile != "" {
		return fmt.Sprintf("profile %q: %s", p.Profile, text)
	}
	return fmt.Sprintf("backend %q: %s", p.Backend, text)
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
	if r.listed == nil {
		r.listed = make(map[listKey]int)
	}
	key := listKey{backend, k}
	r.listed[key]++
	switch n := r.listed[key]; {
	case n <= maxProblems:
		r.problems = append(r.problems, Problem{Backend: backend, Kind: k, Item: item, Text: text, Code: code})
	case n == maxProblems+1:
		r.whole("", backend, fmt.Sprintf("more of its %ss have problems; only the first %d are reported", k, maxProblems))
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
