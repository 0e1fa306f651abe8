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
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/code"
)

// noteEnvironment adds notes on the environment of a valid file: on others that may read or
// write it or its secrets, and on missing programs. It starts nothing.
func (r *reader) noteEnvironment(c *Config) {
	if info, err := os.Stat(r.file); err == nil && info.Mode().IsRegular() {
		r.noteReaders(info)
		r.noteWriters(c, place{}, r.file)
	}
	r.noteSecrets(c)
	r.noteReferenced(c)
	for i := range c.Servers {
		if s := &c.Servers[i]; !s.Disabled && s.Transport() == TypeStdio {
			r.noteProgram(s)
			r.noteArgs(s)
			r.noteEnvFile(c, s)
			r.noteMemory(s, runtime.GOOS)
		}
	}
}

// noteMemory adds a note on a limit that a system does not hold.
func (r *reader) noteMemory(s *Backend, system string) {
	if s.Memory > 0 && system == "windows" {
		p := s.place().key("memory")
		r.note(p, "limit the memory of the gateway and all that it starts by a container or a job", "%q has no effect on Windows, where the memory of processes is not measured", p.name)
	}
}

// noteEnvFile adds notes on others that can read or may be able to write the file with a
// server's variables.
func (r *reader) noteEnvFile(c *Config, s *Backend) {
	info, err := os.Stat(s.EnvFile)
	if s.EnvFile == "" || err != nil {
		return
	}
	p := s.place().key("envFile")
	if isReadableByAll(info) {
		r.note(p, "chmod 600 it", "%q holds variables, and all users of this machine can read %s (mode %04o)", p.name, s.EnvFile, info.Mode().Perm())
	}
	r.noteWriters(c, p, s.EnvFile)
}

func isReadableByAll(info fs.FileInfo) bool {
	// Windows has no such bits.
	return runtime.GOOS != "windows" && info.Mode().Perm()&0o004 != 0
}

// noteReaders adds notes on credentials in a file that all users of the machine can read.
func (r *reader) noteReaders(info fs.FileInfo) {
	if !isReadableByAll(info) {
		return
	}
	for _, p := range r.literals {
		r.note(p, "write ${NAME} and set that variable, or chmod 600 the file",
			"%q looks like a credential, and all users of this machine can read this file (mode %04o)", p.name, info.Mode().Perm())
	}
}

// literal records a credential that is written into the file.
func (r *reader) literal(text string, p place) {
	if !r.formOnly && text != "" && !strings.Contains(text, "${") && !isTemplate(text) {
		r.literals = append(r.literals, place{path: p.path, name: p.name}) // at its key
	}
}

// noteWriters adds notes on others that may be able to write a file, and so run anything.
func (r *reader) noteWriters(c *Config, p place, file string) {
	if c.Reload == ReloadManual {
		return
	}
	var e Exposure
	e.Add(c)
	name := "this file"
	switch {
	case file == r.secrets.path:
		name = file
	case p.name != "":
		name = fmt.Sprintf("the file of %q", p.name)
	}
	for _, who := range e.Of(file) {
		if c.Reload == ReloadAuto {
			r.note(p, `remove "reload: auto"`,
				`others may be able to write %s, and "reload: auto" runs what they write: %s`, name, who)
		} else {
			r.note(p, "keep it in a folder that neither a server nor another user can write",
				"others may be able to write %s, so changes that run something new wait for 'signalbox reload': %s", name, who)
		}
	}
}

// noteProgram adds a note on a program that cannot be found. Only what is known to be the
// name of a program is shown: the rest may come from a variable with a secret.
func (r *reader) noteProgram(s *Backend) {
	p := s.place().key("command")
	err := findProgram(s.Command, s.Cwd)
	first, rest, spaced := strings.Cut(strings.TrimSpace(s.Command), " ")
	isLine := err != nil && spaced && rest != "" && findProgram(first, s.Cwd) == nil
	// The form of the command was noted without a look at the programs.
	noted := slices.IndexFunc(r.notes, func(n Problem) bool { return n.Path == p.path && n.Code == code.StartOneString })
	if noted >= 0 && (err == nil || isLine) {
		r.notes = slices.Delete(r.notes, noted, noted+1)
	}
	if err == nil || errors.Is(err, exec.ErrDot) {
		return
	}
	if isLine {
		r.note(p.as(code.StartOneString), fmt.Sprintf(`write "command": %q, and each word after it as one of "args"`, first),
			"%q is one string with spaces in it, and no program has that name", p.name)
		return
	}
	if noted >= 0 {
		return
	}
	if strings.ContainsAny(s.Command, `/\`) {
		r.note(p.as(code.StartNotFound), "", "the program of %q does not exist or cannot be executed", s.Name)
		return
	}
	r.note(p.as(code.StartNotFound), "install it, or write its whole path", "the program of %q was not found in PATH", s.Name)
}

// findProgram looks up a program in the same way as starting it does.
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
