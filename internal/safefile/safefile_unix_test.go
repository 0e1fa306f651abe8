// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package safefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestLinksAndMode checks that a link stays a link, and the file behind it keeps its mode.
func TestLinksAndMode(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "dotfiles"), 0o700); err != nil {
		t.Fatal(err)
	}
	path, target := filepath.Join(dir, "a"), filepath.Join(dir, "dotfiles", "b")
	write(t, target, "one")
	if err := os.Chmod(target, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join("dotfiles", "b"), path); err != nil {
		t.Fatal(err)
	}
	f := mustRead(t, path)
	if err := f.Replace(t.Context(), []byte("two"), ""); err != nil {
		t.Fatal(err)
	}
	checkFolder(t, target, "two", 1)
	if link, err := os.Readlink(path); err != nil || link != filepath.Join("dotfiles", "b") {
		t.Errorf("the link is %q, %v", link, err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode() != 0o640 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}

	// The link may refer to another file with the same content.
	f = mustRead(t, path)
	other := filepath.Join(dir, "c")
	write(t, other, "two")
	if err := errors.Join(os.Remove(path), os.Symlink(other, path)); err != nil {
		t.Fatal(err)
	}
	if err := f.Replace(t.Context(), []byte("three"), ""); !errors.Is(err, ErrChanged) {
		t.Errorf("the link was changed: %v", err)
	}

	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link to nothing: %v", err)
	}

	// The errors of the system do not name the file.
	if err := errors.Join(os.Remove(path), os.Symlink("a", path)); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path, 10); err == nil || !strings.HasPrefix(err.Error(), path+" is a link that leads nowhere: ") {
		t.Errorf("a link to itself: %v", err)
	}
}

// TestReadOnly checks that a file that may not be written is left, although its folder permits
// to replace it.
func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	write(t, path, "one")
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	err := mustRead(t, path).Replace(t.Context(), []byte("two"), "")
	if want := os.Geteuid() != 0; errors.Is(err, fs.ErrPermission) != want { // root may
		t.Errorf("got %v, want an error %t", err, want)
	}
}

func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path, 10); err == nil || !strings.HasSuffix(err.Error(), "is not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
}
