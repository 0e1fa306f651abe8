// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestLoadFromPipe checks that a config can be read from a pipe, as with <(...) in a shell,
// and that a pipe without a writer does not block.
func TestLoadFromPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path, nil)
	if problems, ok := errors.AsType[Problems](err); !ok || !strings.Contains(problems.Error(), "not nothing") {
		t.Errorf("a pipe that nobody writes to: %v, want an empty file", err)
	}

	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("mcpServers:\n  a: {command: x}\n"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := Load(fmt.Sprintf("/dev/fd/%d", r.Fd()), nil)
	if err != nil || len(c.Servers) != 1 {
		t.Errorf("a pipe that somebody wrote to: %+v, %v", c, err)
	}
}

// TestLoadNoFile checks that the error for a path without a file has the cause and the path.
func TestLoadNoFile(t *testing.T) {
	dir := t.TempDir()
	loop := filepath.Join(dir, "loop.yaml")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	tests := map[string]error{
		dir:                                 syscall.EISDIR,
		loop:                                syscall.ELOOP,
		filepath.Join(dir, "none.yaml"):     fs.ErrNotExist,
		filepath.Join(loop, "x.yaml"):       syscall.ELOOP,
		filepath.Join(dir, "a\x00b.yaml"):   syscall.EINVAL,
		filepath.Join(os.DevNull, "x.yaml"): syscall.ENOTDIR,
	}
	for path, want := range tests {
		if _, err := Load(path, nil); !errors.Is(err, want) || !strings.Contains(err.Error(), path) || !strings.HasPrefix(err.Error(), "read config: ") {
			t.Errorf("%q: %v, want %v and the path", path, err, want)
		}
	}
}
