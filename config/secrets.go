// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/signalbox-mcp/signalbox/internal/envfile"
)

// SecretsName is the name of the file with secrets, which is in the folder of the
// configuration.
const SecretsName = "secrets.env"

// SecretsFile returns the path of the file with secrets for the configuration at path.
func SecretsFile(path string) string { return filepath.Join(filepath.Dir(path), SecretsName) }

// SecretsFile returns the path of the file with secrets if it exists and was read for the
// configuration, or "".
func (c *Config) SecretsFile() string {
	if c.source == nil {
		return ""
	}
	return c.source.secrets
}

// CheckSecrets returns why a file with secrets must not be used, and a hint, or "": other
// users can read or write it, or one of them owns it. Links are followed. A file that does
// not exist may be used.
func CheckSecrets(path string) (problem, hint string) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", ""
	case err != nil:
		return err.Error(), ""
	case !info.Mode().IsRegular():
		return fmt.Sprintf("it is not a regular file (mode %v)", info.Mode()), ""
	}
	return privacyProblem(path, info)
}

// secrets is the file with secrets of a configuration. It is read when the first variable
// is not in the environment.
type secrets struct {
	path   string
	exists bool
	values map[string]string
	// faults is why the file is not used, or its mistakes.
	faults Problems
	used   []Secret // by the server that is being read
}

// secret returns a variable of the file with secrets.
func (r *reader) secret(name string) (value string, found bool) {
	if r.secrets.path == "" {
		r.readSecrets()
	}
	if value, found = r.secrets.values[name]; !found {
		return "", false
	}
	r.useSecret(value)
	return value, true
}

func (r *reader) readSecrets() {
	s := &r.secrets
	s.path = SecretsFile(r.file)
	if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
		return
	}
	s.exists = true
	problem, hint := CheckSecrets(s.path)
	text := ""
	if problem == "" {
		text, problem, hint = readEnvFile(s.path)
	}
	if problem != "" {
		s.faults = Problems{{File: s.path, Line: 1, Column: 1, Message: "the file is not used: " + problem, Hint: hint}}
		return
	}
	vars, mistakes := envfile.Parse(text)
	s.values = make(map[string]string)
	for _, v := range vars {
		s.values[v.Name] = v.Value
	}
	for _, m := range mistakes {
		s.faults = append(s.faults, Problem{File: s.path, Line: m.Line, Column: m.Column, Message: "the line " + m.Message, Hint: m.Hint})
	}
}

// reportSecrets reports what is wrong with the file with secrets, once. It returns whether
// anything is. It is called if a value is from the file, or may be: the file of another
// program that has its name is no problem until then.
func (r *reader) reportSecrets() bool {
	s := &r.secrets
	if len(s.faults) == 0 {
		return false
	}
	if !r.rejected[s.path] {
		r.markRejected(s.path)
		for _, fault := range s.faults {
			r.add(fault)
		}
	}
	return true
}

// noteSecrets adds notes on the file with secrets: why it is not used, and others that may
// be able to write it.
func (r *reader) noteSecrets(c *Config) {
	if !r.secrets.exists {
		return
	}
	r.notes = append(r.notes, r.secrets.faults...)
	r.noteWriters(c, place{name: SecretsName}, r.secrets.path)
}
