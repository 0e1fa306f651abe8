// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/signalbox-mcp/signalbox/internal/code"
)

// startFailure describes why a command could not be started: what is missing or wrong,
// by name, and the system's error.
func startFailure(cmd *Command, err error) *failure {
	text := "unknown error"
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		text = errno.Error()
	}
	notInPath := errors.Is(err, exec.ErrNotFound)
	switch {
	case !notInPath && cmd.Dir != "" && !isDir(cmd.Dir):
		return &failure{code.StartFolder, fmt.Sprintf("its working directory %q does not exist or is not a directory (%s)", cmd.Dir, text)}
	case (notInPath || errors.Is(err, fs.ErrNotExist)) && isOneString(cmd.Path):
		return &failure{code.StartOneString, fmt.Sprintf("its command %q is one string with spaces, and no program has that name", cmd.Path)}
	case notInPath:
		return &failure{code.StartNotFound, fmt.Sprintf("its program %q was not found in PATH", cmd.Path)}
	case errors.Is(err, fs.ErrNotExist):
		return &failure{code.StartNotFound, missing(cmd, text)}
	case errors.Is(err, fs.ErrPermission):
		return &failure{code.StartForbidden, fmt.Sprintf("its program %q may not be executed (%s)", cmd.Path, text)}
	case errors.Is(err, syscall.ENOEXEC):
		return &failure{code.StartForbidden, fmt.Sprintf("its program %q is a script without a #! line, or is built for another system or processor (%s)", cmd.Path, text)}
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return &failure{code.FilesLimit, fmt.Sprintf("its program %q could not be started (%s)", cmd.Path, text)}
	default:
		return &failure{"", fmt.Sprintf("its program %q could not be started (%s)", cmd.Path, text)}
	}
}

// isOneString reports whether a missing program is most likely a whole command line: its
// first word is not a path, or is the path of a program.
func isOneString(command string) bool {
	first, rest, spaced := strings.Cut(strings.TrimSpace(command), " ")
	if !spaced || rest == "" {
		return false
	}
	if !strings.ContainsAny(first, `/\`) {
		return true
	}
	_, err := exec.LookPath(first)
	return err == nil
}

// missing distinguishes a missing program from a missing interpreter. The system's
// error is the same.
func missing(cmd *Command, text string) string {
	path := cmd.Path
	if filepath.Base(path) == path {
		if found, err := exec.LookPath(path); err == nil {
			path = found
		}
	} else if !filepath.IsAbs(path) {
		path = filepath.Join(cmd.Dir, path)
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Sprintf("its program %q does not exist (%s)", cmd.Path, text)
	}
	defer file.Close()
	front := make([]byte, 256) // as much as Linux reads
	n, _ := file.Read(front)   // an unreadable file is not a script
	line, _, _ := bytes.Cut(front[:n], []byte("\n"))
	if line, ok := bytes.CutPrefix(line, []byte("#!")); ok {
		// A carriage return, of a file with Windows line endings, is part of the name.
		interpreter, _, _ := bytes.Cut(bytes.TrimLeft(line, " \t"), []byte(" "))
		return fmt.Sprintf("the interpreter %q in the first line of its program %q does not exist (%s)", interpreter, cmd.Path, text)
	}
	return fmt.Sprintf("its program %q needs a loader that does not exist here (%s)", cmd.Path, text)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
