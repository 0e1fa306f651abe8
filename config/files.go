// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/signalbox-mcp/signalbox/internal/envfile"
)

// readAtMost reads up to most+1 bytes of a file.
//
// A pipe can be read, because a shell can substitute one for a configuration. It is opened
// without blocking, as otherwise opening waits for a writer.
func readAtMost(path string, most int64) ([]byte, error) {
	flag := os.O_RDONLY
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		flag |= syscall.O_NONBLOCK
	}
	file, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// One more byte shows the caller that the file is larger.
	return io.ReadAll(io.LimitReader(file, most+1))
}

// readRegular reads a regular file of at most most bytes, or returns what is wrong with it. what
// describes it in messages, which have none of the content. Only its owner and group may have
// access to a private file.
func readRegular(what, path string, most int64, isPrivate bool) (data []byte, problem, hint string) {
	// Checked before it is opened: opening a pipe may block, and a device may have effects.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("the %s cannot be read: %v", what, err), ""
	case !info.Mode().IsRegular():
		return nil, fmt.Sprintf("the %s %s is not a regular file (mode %v)", what, path, info.Mode()), ""
	// Windows has no such bits.
	case isPrivate && runtime.GOOS != "windows" && info.Mode().Perm()&0o007 != 0:
		problem = fmt.Sprintf("all users of this machine can open the %s %s (mode %04o)", what, path, info.Mode().Perm())
		return nil, problem, "chmod 600, or mount it with mode 0400"
	}
	// The mode may have changed since. Only a user that could have placed another file there
	// anyway gains by that.
	data, err = readAtMost(path, most)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("the %s cannot be read: %v", what, err), ""
	case int64(len(data)) > most:
		return nil, fmt.Sprintf("the %s %s is larger than %s", what, path, formatBytes(most)), ""
	}
	return data, "", ""
}

// checkAppendable reports why a file cannot be appended to, as far as this is known without
// opening it, or "".
func checkAppendable(path string) (problem, hint string) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Sprintf("%s is a folder", path), "write the path of a file in it"
	}
	folder := filepath.Dir(path)
	switch info, err := os.Stat(folder); {
	case err != nil:
		return "the folder of the record cannot be read: " + err.Error(), "create it first"
	case !info.IsDir():
		return fmt.Sprintf("%s is not a folder", folder), ""
	}
	return "", ""
}

// maxEnvFile bounds the size of a file of variables.
const maxEnvFile = 1 << 20

// withEnvFile adds the variables of a server's envFile to its Env, which has precedence.
func (r *reader) withEnvFile(s *Backend, p place) {
	p = p.key("envFile")
	if s.EnvFile == "" || r.formOnly || r.has(p) {
		return
	}
	text, problem, hint := readEnvFile(s.EnvFile)
	if problem != "" {
		r.reject(p, hint, "%q: %s", p.name, problem)
		return
	}
	found, mistakes := envfile.Parse(text)
	for _, m := range mistakes {
		r.reject(p, m.Hint, "%q: line %d of %s %s", p.name, m.Line, s.EnvFile, m.Message)
	}
	vars := make(map[string]Secret)
	for _, v := range found {
		vars[v.Name] = NewSecret(v.Value)
	}
	maps.Copy(vars, s.Env)
	// With a URL the key is reported as unused, and "env" must not appear as well.
	if s.URL == "" && len(vars) > 0 {
		s.Env = vars
	}
}

// readEnvFile returns the content of a file of variables, or what is wrong with it. No
// message has any of the content.
func readEnvFile(path string) (text, problem, hint string) {
	// Checked before it is opened: opening a pipe may block, and a device may have effects.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", "the file cannot be read: " + err.Error(), "create it, or remove the key"
	case !info.Mode().IsRegular():
		return "", fmt.Sprintf("%s is not a regular file (mode %v)", path, info.Mode()), ""
	}
	data, err := readAtMost(path, maxEnvFile)
	switch {
	case err != nil:
		return "", "the file cannot be read: " + err.Error(), ""
	case len(data) > maxEnvFile:
		return "", fmt.Sprintf("the file %s is larger than %s", path, formatBytes(maxEnvFile)), ""
	}
	return string(data), "", ""
}
