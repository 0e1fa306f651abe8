// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package safefile replaces the content of a file of the user, if the file is still the one
// that was read.
package safefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// ErrChanged is returned by Replace if the file is not the one that was read.
var ErrChanged = errors.New("changed meanwhile; look again")

// File is a file as it was read.
type File struct {
	// Text is the content; empty if Exists is false. It must not be modified.
	Text   []byte
	Exists bool

	path   string // without links
	limit  int64
	opened string // the path that Read was called with
}

// Read reads a file of at most limit bytes. A file that does not exist is no error; a link to
// one is.
func Read(path string, limit int64) (*File, error) {
	target, err := resolve(path)
	if err != nil {
		return nil, err
	}
	text, exists, err := read(target, limit)
	if err != nil {
		return nil, err
	}
	return &File{Text: text, Exists: exists, path: target, limit: limit, opened: path}, nil
}

// resolve follows the links of a path.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	target, err := filepath.EvalSymlinks(path)
	if err == nil {
		return target, nil
	}
	if info, failed := os.Lstat(path); failed == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", fmt.Errorf("%s is a link that leads nowhere: %w", path, err)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", &fs.PathError{Op: "read", Path: path, Err: err}
	}
	// The file does not exist, but its folder may be a link.
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(folder, filepath.Base(path)), err
}

func read(path string, limit int64) (text []byte, exists bool, err error) {
	// Before it is opened: opening a pipe waits for a writer.
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case !info.Mode().IsRegular():
		return nil, false, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	text, err = io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return text, true, err
}

// lockTimeout bounds how long Replace waits for another process.
const lockTimeout = 10 * time.Second

// Replace replaces the content. Readers see either the old content or the new one, also
// after a crash, and the file keeps its mode, owner and links to it. A new file can be read
// and written by its user only.
//
// Replace returns ErrChanged if the content is not Text any more, or if a link refers to
// another file. Processes that use the same lock, a file that is created if it is missing,
// do not replace the file at the same time; "" means no lock.
func (f *File) Replace(ctx context.Context, text []byte, lock string) (err error) {
	if lock != "" {
		unlock, err := Lock(ctx, lock)
		if err != nil {
			return fmt.Errorf("write %s: %w", f.opened, err)
		}
		defer unlock()
	}
	if err := f.check(); err != nil {
		return err
	}
	mode, owner := fs.FileMode(0o600), fs.FileInfo(nil)
	if f.Exists {
		// The folder's permissions alone decide about the replacement.
		if err := checkWritable(f.path); err != nil {
			return err
		}
		if owner, err = os.Stat(f.path); err != nil {
			return err
		}
		mode = owner.Mode().Perm()
	}
	temporary, err := f.writeBeside(text, mode, owner)
	if err != nil {
		return fmt.Errorf("write %s: %w", f.opened, err)
	}
	if err = f.check(); err == nil { // again, as late as possible
		err = os.Rename(temporary, f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	syncFolder(filepath.Dir(f.path))
	return nil
}

// Path returns the path of the file without links.
func (f *File) Path() string { return f.path }

// Remove removes the file. It returns ErrChanged as Replace does.
func (f *File) Remove() error {
	if err := f.check(); err != nil {
		return err
	}
	if err := os.Remove(f.path); err != nil {
		return err
	}
	syncFolder(filepath.Dir(f.path))
	return nil
}

// Lock takes a lock as Replace does, for several calls. The returned function gives it back.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	lock := flock.New(path, flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return nil, fmt.Errorf("another process has the lock %s: %w", path, err)
	}
	return func() { _ = lock.Close() }, nil // the system releases it in any case
}

// checkWritable returns an error if the user may not write the file.
func checkWritable(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// writeBeside writes a file into the same folder. owner, if not nil, has its owner.
func (f *File) writeBeside(text []byte, mode fs.FileMode, owner fs.FileInfo) (path string, err error) {
	temporary, err := os.CreateTemp(filepath.Dir(f.path), "."+filepath.Base(f.path)+".*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err = errors.Join(err, temporary.Close()); err != nil {
			_ = os.Remove(temporary.Name()) // err is the cause
		}
	}()
	if owner != nil {
		if err := keepOwner(temporary, owner); err != nil {
			return "", fmt.Errorf("keep its owner: %w", err)
		}
	}
	// After the owner, because a change of the owner may remove permissions.
	if err := temporary.Chmod(mode); err != nil {
		return "", err
	}
	if _, err := temporary.Write(text); err != nil {
		return "", err
	}
	return temporary.Name(), temporary.Sync()
}

// check returns ErrChanged if the file is not as it was read.
func (f *File) check() error {
	target, err := resolve(f.opened)
	if err != nil {
		return err
	}
	text, exists, err := read(target, f.limit)
	if err != nil {
		return err
	}
	if target != f.path || exists != f.Exists || !bytes.Equal(text, f.Text) {
		return fmt.Errorf("%s: %w", f.opened, ErrChanged)
	}
	return nil
}

// syncFolder makes a rename durable, where folders can be synced.
func syncFolder(path string) {
	if folder, err := os.Open(path); err == nil {
		_ = folder.Sync()
		_ = folder.Close()
	}
}
