// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package safefile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mustRead(t *testing.T, path string) *File {
	t.Helper()
	f, err := Read(path, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// checkFolder checks the content of a file, and that nothing is left beside it.
func checkFolder(t *testing.T, path, want string, entries int) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s has %q, %v, want %q", path, got, err, want)
	}
	if found, err := os.ReadDir(filepath.Dir(path)); err != nil || len(found) != entries {
		t.Errorf("the folder has %v, %v, want %d", found, err, entries)
	}
}

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	f := mustRead(t, path)
	if f.Exists || len(f.Text) > 0 {
		t.Fatalf("read %+v of a file that does not exist", f)
	}
	if err := f.Replace(t.Context(), []byte("one"), ""); err != nil {
		t.Fatal(err)
	}
	checkFolder(t, path, "one", 1)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 && os.PathSeparator == '/' {
		t.Errorf("a new file has mode %v, %v", info.Mode(), err)
	}
	if f = mustRead(t, path); !f.Exists || string(f.Text) != "one" {
		t.Fatalf("read %+v", f)
	}
	if err := f.Replace(t.Context(), []byte("two"), ""); err != nil {
		t.Fatal(err)
	}
	checkFolder(t, path, "two", 1)
	// The File is that of the old content.
	if err := f.Replace(t.Context(), []byte("three"), ""); !errors.Is(err, ErrChanged) {
		t.Errorf("replaced again: %v, want ErrChanged", err)
	}
	checkFolder(t, path, "two", 1)
}

// TestChanged checks that a file that was changed, made or removed is left.
func TestChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	f := mustRead(t, path)
	write(t, path, "made")
	if err := f.Replace(t.Context(), []byte("x"), ""); !errors.Is(err, ErrChanged) || !strings.HasPrefix(err.Error(), path+": changed meanwhile") {
		t.Errorf("the file was made: %v", err)
	}
	checkFolder(t, path, "made", 1)
	f = mustRead(t, path)
	write(t, path, "maad") // of the same length, and perhaps at the same time
	if err := f.Replace(t.Context(), []byte("x"), ""); !errors.Is(err, ErrChanged) {
		t.Errorf("the file was changed: %v", err)
	}
	checkFolder(t, path, "maad", 1)
	f = mustRead(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Replace(t.Context(), []byte("x"), ""); !errors.Is(err, ErrChanged) {
		t.Errorf("the file was removed: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is there again: %v", err)
	}
}

func TestWrongFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(dir, 10); err == nil || !strings.HasSuffix(err.Error(), "is not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	path := filepath.Join(dir, "large")
	write(t, path, "0123456789")
	if _, err := Read(path, 9); err == nil || !strings.HasSuffix(err.Error(), "is larger than 9 bytes") {
		t.Errorf("a large file: %v", err)
	}
	if _, err := Read(path, 10); err != nil {
		t.Error(err)
	}
	if _, err := Read(filepath.Join(dir, "none", "a"), 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that does not exist: %v", err)
	}
}

// TestLock checks that of concurrent changes each is made or refused, and none is lost.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	path, lock := filepath.Join(dir, "a"), filepath.Join(dir, "state", "lock")
	write(t, path, "0")
	var wg sync.WaitGroup
	const writers = 8
	for range writers {
		wg.Go(func() {
			for {
				f, err := Read(path, 1<<10)
				if err != nil {
					t.Error(err)
					return
				}
				n, err := strconv.Atoi(string(f.Text))
				if err != nil {
					t.Error(err)
					return
				}
				err = f.Replace(t.Context(), []byte(strconv.Itoa(n+1)), lock)
				if errors.Is(err, ErrChanged) {
					continue
				}
				if err != nil {
					t.Error(err)
				}
				return
			}
		})
	}
	wg.Wait()
	checkFolder(t, path, strconv.Itoa(writers), 2)
}

func TestLockIsTaken(t *testing.T) {
	dir := t.TempDir()
	path, lock := filepath.Join(dir, "a"), filepath.Join(dir, "lock")
	write(t, path, "0")
	unlock, err := Lock(t.Context(), lock)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = mustRead(t, path).Replace(ctx, []byte("1"), lock)
	if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "write "+path+": another process has the lock "+lock) {
		t.Errorf("got %v", err)
	}
	checkFolder(t, path, "0", 2)
}

// Remove removes the file that was read, and no other.
func TestRemove(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	f, err := Read(path, 10)
	if err != nil {
		t.Fatal(err)
	}
	write("two")
	if err := f.Remove(); !errors.Is(err, ErrChanged) {
		t.Errorf("a changed file: %v", err)
	}
	write("one")
	if err := f.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}

// Two holders of a lock wait for each other.
func TestLockForSeveralCalls(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "folder", "lock")
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Lock(ctx, path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a second lock: %v", err)
	}
	unlock()
	if unlock, err = Lock(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	unlock()
}
