// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
		s, err := stepIn(folder, name)
		if err != nil {
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

func stepIn(folder, name string) (step, error) {
	in, err := os.Lstat(folder)
	if err != nil {
		return step{}, err
	}
	path := filepath.Join(folder, name)
	info, err := os.Lstat(path)
	return step{path: path, info: info, folder: in}, err
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
