// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strconv"
)

// Problem says why something that a backend lists is not offered, or not as it
// was meant. Problems are comparable, so that those can be told that are new.
type Problem struct {
	Backend string // the configured name
	Kind    Kind   // of the item, if there is one
	Item    string // the backend's own name of it, or its place in the list, or ""
	Text    string
}

// String returns the problem in one line.
func (p Problem) String() string {
	if p.Item == "" {
		return fmt.Sprintf("backend %q: %s", p.Backend, p.Text)
	}
	return fmt.Sprintf("backend %q: %s %s: %s", p.Backend, p.Kind, quote(p.Item), p.Text)
}

// maxProblems bounds what is said of one list; a list of a million nulls is one
// mistake and not a million.
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

// item notes what is wrong with one item of a list.
func (r *report) item(backend string, k Kind, item, text string) {
	if r.listed == nil {
		r.listed = make(map[listKey]int)
	}
	key := listKey{backend, k}
	r.listed[key]++
	switch n := r.listed[key]; {
	case n <= maxProblems:
		r.problems = append(r.problems, Problem{backend, k, item, text})
	case n == maxProblems+1:
		r.whole(backend, fmt.Sprintf("more of its %ss have problems than the first %d", k, maxProblems))
	}
}

// whole notes what is wrong with a backend's lists as such.
func (r *report) whole(backend, text string) {
	r.problems = append(r.problems, Problem{Backend: backend, Text: text})
}

// maxQuoted is how much of a backend's text is shown in a message of ours.
const maxQuoted = 200

// quote shows a text of a backend, of whatever length and content, in one line.
func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(s[:maxQuoted]) + "..."
	}
	return strconv.Quote(s)
}
