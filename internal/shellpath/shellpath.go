// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shellpath finds programs in the PATH of the user's login shell. A process that a
// desktop, a service manager or a graphical client starts has a shorter PATH than the user's
// terminal, without the folders that nvm, uv or Homebrew add in the files of the shell.
package shellpath

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// shellTime bounds the start of the shell, which runs the user's own files.
const shellTime = 5 * time.Second

// Shell is the login shell of the user. Its methods may be called concurrently.
type Shell struct {
	program string
	turn    chan struct{} // capacity 1: held while the shell runs

	// The fields below are used by the holder of turn.
	known bool
	path  string
}

// New returns the Shell of a program, which is the value of SHELL. One that is not an
// absolute path means that there is no shell.
func New(program string) *Shell {
	return &Shell{program: program, turn: make(chan struct{}, 1)}
}

// Path returns the PATH of the shell, or "". The first call starts the shell
// and waits for it, 5 seconds at most; the later ones return the same value. If ctx ends, Path
// returns "", and the next call starts the shell again.
func (s *Shell) Path(ctx context.Context) string {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ""
	}
	defer func() { <-s.turn }()
	if s.known {
		return s.path
	}
	path := ""
	if filepath.IsAbs(s.program) {
		path = ask(ctx, s.program)
	}
	if path == "" && ctx.Err() != nil {
		return ""
	}
	s.path, s.known = path, true
	return path
}

// Find returns the file of a program in a PATH, or "". Folders that are relative are skipped.
func Find(path, program string) string {
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(folder, program)); err == nil {
			return found
		}
	}
	return ""
}

// Join returns a PATH with the folders of first and then those of second, each once.
func Join(first, second string) string {
	var all []string
	for _, folder := range append(filepath.SplitList(first), filepath.SplitList(second)...) {
		if folder != "" && !slices.Contains(all, folder) {
			all = append(all, folder)
		}
	}
	return strings.Join(all, string(filepath.ListSeparator))
}
