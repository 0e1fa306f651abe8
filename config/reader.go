// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/configpath"
)

// place identifies a value by its path from the root. name is the end of the path, which is
// used in messages. at is its position if that is known and differs from the recorded one.
// code is that of what is reported there, if it has one.
type place struct {
	path, name string
	at         configfile.Position
	code       string
}

// key returns the place of a member. A key with characters of the path syntax is quoted, so
// that places have unique paths.
func (p place) key(key string) place {
	return place{path: configpath.Key(p.path, key), name: key}
}

func (p place) item(i int) place {
	index := "[" + strconv.Itoa(i) + "]"
	return place{path: p.path + index, name: p.name + index}
}

func (p place) withAt(at configfile.Position) place {
	p.at = at
	return p
}

func (p place) as(code string) place {
	p.code = code
	return p
}

// parent removes the last element of a path.
func parent(path string) string {
	end := len(path) - 1
	for end > 0 && path[end] != '.' && path[end] != '[' {
		end--
	}
	return path[:max(end, 0)]
}

// reader reads a file into a Config, or checks a Config that is not from a file. It collects
// problems and notes, and is used once.
type reader struct {
	file   string
	lookup func(name string) (value string, ok bool) // as os.LookupEnv; nil if no variable is set

	// formOnly is set while the entry of a disabled server is read: variables are not
	// looked up, so that a server can be disabled because they are missing.
	formOnly bool

	source string // the text of the file, or "" without one

	// positions are those of the file by path; nil if there is no file.
	positions map[string]configfile.Position
	// rejected has the paths of values that are not in the Config, or not as written, and
	// meant those of keys that an unknown key may mean. With them a Config is validated in
	// spite of problems, so that one does not hide others, and does not cause further ones.
	rejected, meant map[string]bool

	secrets         secrets
	files           []referenced     // by ${file:}
	entries         map[string]entry // of the keyring
	literals        []place          // credentials written into the file
	problems, notes Problems
	omitted         int // the number of problems beyond maxProblems
}

// maxProblems bounds the number of problems and of notes that are reported for one file. A
// file with more is generated, or not a configuration.
const maxProblems = 1000

// report adds a problem. Its message may contain a value only if that cannot be a secret.
func (r *reader) report(p place, hint, format string, args ...any) {
	r.add(r.problem(p, hint, fmt.Sprintf(format, args...)))
}

// add adds a problem, which may be of another file.
func (r *reader) add(p Problem) {
	if r.positions != nil && len(r.problems) == maxProblems {
		r.omitted++
		return
	}
	r.problems = append(r.problems, p)
}

// reject reports a problem with a value. The Config has the zero value or only a part of it
// there.
func (r *reader) reject(p place, hint, format string, args ...any) {
	r.markRejected(p.path)
	r.report(p, hint, format, args...)
}

func (r *reader) markRejected(path string) {
	if r.rejected == nil {
		r.rejected = make(map[string]bool)
	}
	r.rejected[path] = true
}

// wrongKind rejects a value of the wrong kind. The value is not shown, as it may be a
// misplaced secret.
func (r *reader) wrongKind(n configfile.Node, p place, want, hint string) {
	r.reject(p.withAt(n.At), hint, "%q must be %s, not %s", p.name, want, n.Kind)
}

func (r *reader) note(p place, hint, format string, args ...any) {
	if r.positions == nil || len(r.notes) < maxProblems {
		r.notes = append(r.notes, r.problem(p, hint, fmt.Sprintf(format, args...)))
	}
}

func (r *reader) problem(p place, hint, message string) Problem {
	at := p.at
	if r.positions != nil && at == (configfile.Position{}) {
		at = r.nearestPosition(p.path)
	}
	return Problem{File: r.file, Line: at.Line, Column: at.Column, Path: p.path, Message: message, Hint: hint, Code: p.code}
}

// nearestPosition returns the position of a path, or of its nearest parent.
func (r *reader) nearestPosition(path string) configfile.Position {
	// A missing value has no position, but what it is missing from has one.
	for ; path != ""; path = parent(path) {
		if at, ok := r.positions[path]; ok {
			return at
		}
	}
	return configfile.Position{Line: 1, Column: 1}
}

// result returns all problems in file order, and one with the number of omitted ones.
func (r *reader) result() Problems {
	all := r.problems.sorted()
	if r.omitted == 0 {
		return all
	}
	last := all[len(all)-1]
	return append(all, Problem{
		File: last.File, Line: last.Line, Column: last.Column,
		Message: fmt.Sprintf("%d more problems", r.omitted), Hint: "fix these first",
	})
}

// has reports whether the value at a place was rejected: it is not missing, but unknown.
func (r *reader) has(p place) bool { return r.rejected[p.path] }

// hasOrMeant reports whether the value at one of the places was rejected, or an unknown key
// seems to mean the place.
func (r *reader) hasOrMeant(places ...place) bool {
	return slices.ContainsFunc(places, func(p place) bool { return r.rejected[p.path] || r.meant[p.path] })
}

// hasItem reports whether one of the first n elements of a list was rejected.
func (r *reader) hasItem(list place, n int) bool {
	for i := range n {
		if r.has(list.item(i)) {
			return true
		}
	}
	return false
}

// eachMember calls f for the members of a mapping in file order, with the positions of their
// values. It records the positions of keys, and reports repeated ones. hint is for a value
// that is not a mapping.
func (r *reader) eachMember(n configfile.Node, p place, hint string, f func(name string, n configfile.Node, at place)) {
	if n.Kind != configfile.Mapping {
		r.wrongKind(n, p, "a mapping", hint)
		return
	}
	// Not r.positions, which has keys of other mappings and of an earlier pass.
	seen := make(map[string]configfile.Position)
	for _, m := range n.Members {
		at := p.key(m.Key)
		if first, twice := seen[m.Key]; twice {
			r.report(at.withAt(m.At), "", "duplicate key %q, first on line %d", m.Key, first.Line)
			continue
		}
		seen[m.Key], r.positions[at.path] = m.At, m.At
		f(m.Key, m.Value, at.withAt(m.Value.At))
	}
}
