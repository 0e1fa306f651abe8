// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"path/filepath"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// reader converts a tree into a Config and collects the problems. It is used once.
type reader struct {
	file   string
	lookup func(name string) (value string, ok bool) // as os.LookupEnv; nil if no variable is set

	// formOnly is set while the entry of a disabled server is read: variables are not
	// looked up, so that a server can be disabled because they are missing.
	formOnly bool

	// Problems of later checks need positions, which a Config does not have.
	positions map[string]configfile.Position // by path
	rejected  rejected
	literals  []place // credentials written into the file
	problems  Problems
	notes     Problems
	omitted   int // the number of problems beyond maxProblems
}

// maxProblems bounds the number of problems and of notes that are reported for one file. A
// file with more is generated, or not a configuration.
const maxProblems = 1000

// reject reports a problem with the value at a place. The Config has the zero value or
// only a part of it there.
func (r *reader) reject(at configfile.Position, p place, hint, format string, args ...any) {
	r.rejected.add(p)
	r.report(at, p, hint, format, args...)
}

// report reports a problem that does not affect the value in the Config.
func (r *reader) report(at configfile.Position, p place, hint, format string, args ...any) {
	if len(r.problems) == maxProblems {
		r.omitted++
		return
	}
	r.problems = append(r.problems, r.problem(at, p, hint, fmt.Sprintf(format, args...)))
}

// problemCount returns the number of problems so far.
func (r *reader) problemCount() int { return len(r.problems) + r.omitted }

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

// note adds a note at a position.
func (r *reader) note(at configfile.Position, p place, format string, args ...any) {
	r.noteHint(at, p, "", format, args...)
}

// noteHint adds a note with a hint.
func (r *reader) noteHint(at configfile.Position, p place, hint, format string, args ...any) {
	if len(r.notes) < maxProblems {
		r.notes = append(r.notes, r.problem(at, p, hint, fmt.Sprintf(format, args...)))
	}
}

func (r *reader) problem(at configfile.Position, p place, hint, message string) Problem {
	return Problem{File: r.file, Line: at.Line, Column: at.Column, Path: p.path, Message: message, Hint: hint}
}

// wrongKind reports a value of the wrong kind. The value is not shown, as it may be a
// misplaced secret.
func (r *reader) wrongKind(n configfile.Node, p place, want, hint string) {
	r.reject(n.At, p, hint, "%q must be %s, not %s", p.name, want, n.Kind)
}

// resolve makes a relative path of the file relative to the working directory.
func (r *reader) resolve(path string) string {
	// An empty path means none, and not the folder of the file.
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(r.file), path)
}

// validate adds the problems of the Config as a whole, with the positions of their paths.
func (r *reader) validate(c *Config) {
	judged := c.checkRead(r.rejected)
	for _, p := range judged.problems {
		if len(r.problems) == maxProblems {
			r.omitted++
			continue
		}
		r.problems = append(r.problems, r.locate(p))
	}
	for _, p := range judged.notes[:min(len(judged.notes), maxProblems-len(r.notes))] {
		r.notes = append(r.notes, r.locate(p))
	}
}

// locate sets the position of a problem.
func (r *reader) locate(p Problem) Problem {
	at := r.nearestPosition(p.Path)
	p.File, p.Line, p.Column = r.file, at.Line, at.Column
	return p
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
