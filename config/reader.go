// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

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

// place identifies a value by its path from the root. name is the end of the path, which is
// used in messages.
type place struct{ path, name string }

// key returns the place of a member. A key with characters of the path syntax is quoted, so
// that places have unique paths.
func (p place) key(key string) place {
	switch {
	// The empty key is quoted, too, or it would not change the path.
	case key == "" || strings.ContainsAny(key, `.[]"`):
		return place{path: p.path + "[" + strconv.Quote(key) + "]", name: key}
	case p.path == "":
		return place{path: key, name: key}
	default:
		return place{path: p.path + "." + key, name: key}
	}
}

// item returns the place of an element.
func (p place) item(i int) place {
	index := "[" + strconv.Itoa(i) + "]"
	return place{path: p.path + index, name: p.name + index}
}

// rejected records the values of a file that are not in the Config, or not as written, because
// they were rejected. It lets the Config be validated in spite of that, so that a problem
// does not hide others, and does not cause further ones. The zero value is that of a Config
// read without problems, or made by a program.
type rejected struct {
	values    map[string]bool // paths of rejected values
	meantKeys map[string]bool // paths of keys that an unknown key may mean
}

func (u *rejected) add(p place)      { addTo(&u.values, p) }
func (u *rejected) addMeant(p place) { addTo(&u.meantKeys, p) }

func addTo(set *map[string]bool, p place) {
	if *set == nil {
		*set = make(map[string]bool)
	}
	(*set)[p.path] = true
}

// has reports whether the value at a place was rejected: it is not missing, but unknown.
func (u *rejected) has(p place) bool { return u.values[p.path] }

// hasOrMeant reports whether the value was rejected, or an unknown key seems to mean the
// place.
func (u *rejected) hasOrMeant(p place) bool { return u.has(p) || u.meantKeys[p.path] }

// hasAnyOrMeant reports whether hasOrMeant is true for one of the places.
func (u *rejected) hasAnyOrMeant(places ...place) bool {
	return slices.ContainsFunc(places, u.hasOrMeant)
}

// hasItem reports whether one of the first n elements of a list was rejected.
func (u *rejected) hasItem(list place, n int) bool {
	for i := range n {
		if u.has(list.item(i)) {
			return true
		}
	}
	return false
}

// parent removes the last element of a path.
func parent(path string) string {
	end := len(path) - 1
	for end > 0 && path[end] != '.' && path[end] != '[' {
		end--
	}
	return path[:max(end, 0)]
}
