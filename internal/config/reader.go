// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"path/filepath"
)

// Lookup finds the value of an environment variable, as os.LookupEnv does.
type Lookup = func(name string) (value string, ok bool)

// reader turns a tree into a Config and collects what is wrong on the way. It is
// used once.
type reader struct {
	file   string
	lookup Lookup

	// formOnly is set inside the entry of a disabled server: what its variables
	// hold does not matter, so that a server can be disabled for lack of them.
	formOnly bool

	// A Config knows no places, so that what is judged later is looked up here.
	where    map[string]position // of each path that was read
	unread   unread
	literals []place // of credentials that are written out
	problems Problems
	notes    Problems
	untold   int // problems beyond maxProblems
}

// maxProblems is how many problems are told of one file, and how many notes. A file
// with more is made by a program, or is none of ours; nobody reads on.
const maxProblems = 1000

// complain adds a problem with what stands at a place, which is zero, or less than
// was meant, in the Config from there on.
func (r *reader) complain(at position, p place, hint, format string, args ...any) {
	r.unread.refuse(p)
	r.tell(at, p, hint, format, args...)
}

// tell adds a problem that leaves what was read as it is.
func (r *reader) tell(at position, p place, hint, format string, args ...any) {
	if len(r.problems) == maxProblems {
		r.untold++
		return
	}
	r.problems = append(r.problems, r.problem(at, p, hint, fmt.Sprintf(format, args...)))
}

// found is how many problems there are so far, told or not.
func (r *reader) found() int { return len(r.problems) + r.untold }

// result is all problems in the order of the file, and how many more there are.
func (r *reader) result() Problems {
	all := r.problems.sorted()
	if r.untold == 0 {
		return all
	}
	last := all[len(all)-1]
	return append(all, Problem{
		File: last.File, Line: last.Line, Column: last.Column,
		Message: fmt.Sprintf("%d more problems", r.untold), Hint: "mend these first",
	})
}

// note adds a remark at a position.
func (r *reader) note(at position, p place, format string, args ...any) {
	r.advise(at, p, "", format, args...)
}

// advise is note with what to write instead.
func (r *reader) advise(at position, p place, hint, format string, args ...any) {
	if len(r.notes) < maxProblems {
		r.notes = append(r.notes, r.problem(at, p, hint, fmt.Sprintf(format, args...)))
	}
}

func (r *reader) problem(at position, p place, hint, message string) Problem {
	return Problem{File: r.file, Line: at.line, Column: at.column, Path: p.path, Message: message, Hint: hint}
}

// wrongKind says that a value is not what its key wants. The value is not
// shown: what stands in the wrong place may be a secret.
func (r *reader) wrongKind(n node, p place, want, hint string) {
	r.complain(n.at, p, hint, "%q wants %s, not %s", p.name, want, n.kind)
}

// resolve makes a path that is relative in the file one that leads to the same
// place from here.
func (r *reader) resolve(path string) string {
	// An empty path says that there is none, and not the folder of the file.
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(r.file), path)
}

// judge adds the problems of the Config as a whole, each at the place of its
// path.
func (r *reader) judge(c *Config) {
	judged := c.judgeRead(r.unread)
	for _, p := range judged.problems {
		if len(r.problems) == maxProblems {
			r.untold++
			continue
		}
		r.problems = append(r.problems, r.placed(p))
	}
	for _, p := range judged.notes[:min(len(judged.notes), maxProblems-len(r.notes))] {
		r.notes = append(r.notes, r.placed(p))
	}
}

// placed gives what was found its position.
func (r *reader) placed(p Problem) Problem {
	at := r.nearestPosition(p.Path)
	p.File, p.Line, p.Column = r.file, at.line, at.column
	return p
}

// nearestPosition is where a path, or what it is nearest below, stands.
func (r *reader) nearestPosition(path string) position {
	// What is missing has no place; what it is missing from has one.
	for ; path != ""; path = parent(path) {
		if at, ok := r.where[path]; ok {
			return at
		}
	}
	return position{1, 1}
}

// parent cuts the last element of a path.
func parent(path string) string {
	end := len(path) - 1
	for end > 0 && path[end] != '.' && path[end] != '[' {
		end--
	}
	return path[:max(end, 0)]
}
