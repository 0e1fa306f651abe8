// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Exposure determines which backends and users besides the operator may be able to write a
// file. Backends are never removed from it, as a process that a reload has removed may still
// run. The zero value has no backends.
type Exposure struct {
	all []grant
}

// grant is a path below which a backend may write.
type grant struct {
	server, path, how string
}

// Add adds the backends of c that are processes. Relative paths are relative to the working
// directory of this process, as they are for the backends.
func (e *Exposure) Add(c *Config) {
	for i := range c.Servers {
		s := &c.Servers[i]
		if s.Disabled || s.Transport() != TypeStdio {
			continue
		}
		for _, r := range grantsOf(s) {
			if !slices.Contains(e.all, r) {
				e.all = append(e.all, r)
			}
		}
	}
}

// grantsOf returns the working directory of a server, and every path that its arguments and
// variables may contain.
func grantsOf(s *Backend) []grant {
	here, err := filepath.Abs(s.Cwd)
	if err != nil {
		here = s.Cwd
	}
	list := []grant{{s.Name, here, "works in"}}
	add := func(text, how string) {
		for _, path := range pathsIn(text) {
			if !filepath.IsAbs(path) {
				path = filepath.Join(here, path)
			}
			list = append(list, grant{s.Name, path, how})
		}
	}
	for _, arg := range s.Args {
		add(arg, "is given")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		add(s.Env[name].Reveal(), "is given")
	}
	return list
}

// pathsIn returns the possible paths in an argument, such as the folder in --root=/srv,
// /srv:/data, type=bind,src=/srv, {"roots":["/srv"]} or, for a shell, cd ~/srv && server .
// It splits the argument in several ways, because each separator may be part of a path.
func pathsIn(text string) []string {
	home, err := os.UserHomeDir()
	if err == nil {
		text = strings.NewReplacer("${HOME}", home, "$HOME", home).Replace(text)
	}
	paths := []string{text}
	const quotes, brackets, shell = "\"'`", "(){}[]", "<>|&;"
	for _, separators := range []string{"=", "=,;", "=,;:", quotes, " \t\n=,:" + quotes + brackets + shell} {
		paths = append(paths, strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(separators, r) })...)
	}
	for i, path := range paths {
		if below, ok := strings.CutPrefix(path, "~"); ok && err == nil && (below == "" || below[0] == '/') {
			paths[i] = home + below
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	return slices.DeleteFunc(paths, func(path string) bool { return path == "" || strings.ContainsRune(path, 0) })
}

// Of describes, in a sentence each, the backends and users besides the operator that may be
// able to write a file. A backend may if the file is in its working directory or in a folder
// that it is given; another user may if the mode or owner of the file, or of a folder on its
// path, permits it. On Windows, which has no such modes, only backends are described.
func (e *Exposure) Of(path string) []string {
	way, err := stepsTo(path)
	if err != nil || len(way) == 0 {
		return []string{fmt.Sprintf("the path of the file cannot be checked (%v)", err)}
	}
	return append(e.backends(way), otherUsers(way)...)
}

// backends describes the backends that may write a file with these steps.
func (e *Exposure) backends(way []step) []string {
	root, _ := splitRoot(way[0].path)
	way = append([]step{{path: root, info: way[0].folder}}, way...)
	found := make(map[string][]string)
	seen := make(map[string]bool)
	for _, r := range e.all {
		info, err := os.Stat(r.path)
		if err != nil || seen[r.server] {
			continue // a missing path contains nothing
		}
		// Files are compared instead of names, so that links, other spellings and mounts are
		// recognized.
		if i := slices.IndexFunc(way, func(s step) bool { return os.SameFile(s.info, info) }); i >= 0 {
			seen[r.server] = true
			what := r.how + " " + way[i].path
			found[what] = append(found[what], r.server)
		}
	}
	var told []string
	for _, what := range slices.Sorted(maps.Keys(found)) {
		text := fmt.Sprintf("backend %q %s", found[what][0], what)
		switch more := len(found[what]) - 1; more {
		case 0:
		case 1:
			text += ", and so does another one"
		default:
			text += fmt.Sprintf(", and so do %d more", more)
		}
		told = append(told, text)
	}
	return told
}

// step is one directory entry on the path to a file: a folder, a symbolic link, or the file
// itself.
type step struct {
	path   string      // without links, except for the last element
	info   fs.FileInfo // of the entry itself, even if it is a link
	folder fs.FileInfo
}

// maxSteps bounds the number of steps. Systems permit far fewer links.
const maxSteps = 1000

var errManyLinks = errors.New("too many links")

// stepsTo returns every directory entry that leads to a file, the file last. Replacing any
// of them replaces the file.
func stepsTo(path string) ([]step, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	var way []step
	folder, rest := splitRoot(path)
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			folder = filepath.Dir(folder) // folder has no links
			continue
		}
		s := step{path: filepath.Join(folder, name)}
		if s.folder, err = os.Lstat(folder); err != nil {
			return nil, err
		}
		if s.info, err = os.Lstat(s.path); err != nil {
			return nil, err
		}
		if way = append(way, s); len(way) > maxSteps {
			return nil, errManyLinks
		}
		if s.info.Mode()&fs.ModeSymlink == 0 {
			folder = s.path
			continue
		}
		target, err := os.Readlink(s.path)
		if err != nil {
			return nil, err
		}
		next := names(target)
		if filepath.IsAbs(target) {
			folder, next = splitRoot(target)
		}
		rest = slices.Concat(next, rest)
	}
	return way, nil
}

// splitRoot splits an absolute path into its root and the names below it.
func splitRoot(path string) (root string, below []string) {
	volume := filepath.VolumeName(path)
	return volume + string(filepath.Separator), names(path[len(volume):])
}

// names returns the elements of a path. A ".." is kept: after a link it leads elsewhere than
// to the parent of the previous element.
func names(path string) []string {
	elements := strings.FieldsFunc(path, func(r rune) bool { return r < 0x80 && os.IsPathSeparator(byte(r)) })
	return slices.DeleteFunc(elements, func(name string) bool { return name == "." })
}
