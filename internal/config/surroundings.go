// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/redact"
)

// noteSurroundings remarks on what is around a file that is in order: who else may
// read or write it, and the programs that it names. It starts nothing.
func (r *reader) noteSurroundings(c *Config) {
	if info, err := os.Stat(r.file); err == nil && info.Mode().IsRegular() {
		r.noteReaders(info)
		r.noteWriters(c)
	}
	for i := range c.Servers {
		if s := &c.Servers[i]; !s.Disabled && s.Transport() == TypeStdio {
			r.noteProgram(s)
		}
	}
}

// noteReaders remarks on credentials in a file that everybody on the machine can read.
func (r *reader) noteReaders(info fs.FileInfo) {
	// Windows has no such bits.
	if runtime.GOOS == "windows" || info.Mode().Perm()&0o004 == 0 {
		return
	}
	for _, p := range r.literals {
		r.advise(r.where[p.path], p, "write ${NAME} and set that variable, or chmod 600 the file",
			"%q looks like a credential, and everybody on this machine can read this file (mode %04o)", p.name, info.Mode().Perm())
	}
}

// literal remembers a credential that is written out in the file.
func (r *reader) literal(text string, p place) {
	isSecret := redact.IsSecretName(p.name) || strings.HasPrefix(p.path, "state.keys[")
	if isSecret && !r.formOnly && text != "" && !strings.Contains(text, "${") {
		r.literals = append(r.literals, p)
	}
}

// noteWriters remarks on others who may be able to write the file, and so have
// anything run.
func (r *reader) noteWriters(c *Config) {
	var e Exposure
	e.Add(c)
	for _, who := range e.Of(r.file) {
		switch c.Reload {
		case ReloadManual:
			return
		case ReloadAuto:
			r.advise(position{1, 1}, place{}, `remove "reload: auto"`,
				`others may be able to write this file, and "reload: auto" runs what they write: %s`, who)
		default:
			r.advise(position{1, 1}, place{}, "keep it in a folder that neither a server nor another user can write",
				"others may be able to write this file, so that what it would run anew waits for 'signalbox reload': %s", who)
		}
	}
}

// noteProgram remarks on a program that cannot be found. Only what is known to be the
// name of a program is shown: any of it may come from a variable that holds a secret.
func (r *reader) noteProgram(s *Server) {
	p := place{}.key(serversKey).key(s.Name).key("command")
	at := r.nearestPosition(p.path)
	err := findProgram(s.Command, s.Cwd)
	if err == nil || errors.Is(err, exec.ErrDot) {
		return
	}
	if first, rest, spaced := strings.Cut(strings.TrimSpace(s.Command), " "); spaced && rest != "" && findProgram(first, s.Cwd) == nil {
		r.advise(at, p, fmt.Sprintf(`write "command": %q, and each word after it as one of "args"`, first),
			"%q is one string with spaces in it, and there is no such program", p.name)
		return
	}
	if strings.ContainsAny(s.Command, `/\`) {
		r.advise(at, p, "", "the program of %q is not there, or cannot be executed", s.Name)
		return
	}
	r.advise(at, p, "install it, or write its whole path", "the program of %q was not found in PATH", s.Name)
}

// findProgram looks for a program as the start of it does.
func findProgram(command, cwd string) error {
	if strings.ContainsRune(command, filepath.Separator) && !filepath.IsAbs(command) {
		command = filepath.Join(cwd, command)
		if !filepath.IsAbs(command) {
			command = "." + string(filepath.Separator) + command
		}
	}
	_, err := exec.LookPath(command)
	return err
}
