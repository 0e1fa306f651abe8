// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Folder is a Store of files in a folder of this machine, one for each record. Processes of
// one user can share it. Beside a record there is a file for its lock, which stays.
//
// The folder and its files must belong to the user of the process, and be closed to all
// others; a file that is not is refused, and left as it is. On Windows, where modes do not
// determine access, the folder should be in the user's profile.
type Folder struct {
	path string
	step func(name string) // of a test; called between the steps of a change
}

const (
	lockSuffix  = ".lock"
	newSuffix   = ".new"     // a record that was not completely written
	asideSuffix = ".damaged" // followed by a number

	// header begins each record and precedes its generation.
	header = "signalbox credential 1 "

	// maxFile bounds the size of a record.
	maxFile = 1 << 20
)

// OpenFolder returns the Store in a folder. The folder is made at the first change. The error
// is that of a folder that must not be used.
func OpenFolder(path string) (*Folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f := &Folder{path: path, step: func(string) {}}
	if err := f.check(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return f, nil
}

// Path returns the path of the folder.
func (f *Folder) Path() string { return f.path }

// check returns an error if the folder must not be used.
func (f *Folder) check() error {
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", f.path)
	}
	return checkPrivate(f.path, info, "700")
}

// make makes the folder if it does not exist.
func (f *Folder) make() error {
	err := f.check()
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return err
	}
	if err := syncFolder(filepath.Dir(f.path)); err != nil {
		return err
	}
	return f.check()
}

// isName reports whether a text is a name of a record, which is 64 digits.
func isName(name string) bool {
	return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}

func (f *Folder) file(name string) string { return filepath.Join(f.path, name) }

// Names returns the names of all files of records that begin with prefix.
func (f *Folder) Names(_ context.Context, prefix string) ([]string, error) {
	if err := f.check(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if name := entry.Name(); isName(name) && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Read returns a record.
func (f *Folder) Read(_ context.Context, name string) (Sealed, error) {
	text, err := readPrivate(f.file(name), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Sealed{}, ErrNotFound
	}
	if err != nil {
		return Sealed{}, err
	}
	rest, ok := bytes.CutPrefix(text, []byte(header))
	number, rest, found := bytes.Cut(rest, []byte("\n"))
	generation, err := strconv.ParseUint(string(number), 10, 64)
	// A number has one spelling.
	if !ok || !found || err != nil || generation == 0 || strconv.FormatUint(generation, 10) != string(number) {
		return Sealed{}, fmt.Errorf("%s: %w", f.file(name), ErrDamaged)
	}
	return Sealed{generation, rest}, nil
}

// readPrivate reads a regular file of at most limit bytes that is of the user alone.
func readPrivate(path string, limit int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if err := checkPrivate(path, info, "600"); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes: %w", path, limit, ErrDamaged)
	}
	return text, err
}

// Lease locks the files of the names.
func (f *Folder) Lease(ctx context.Context, names ...string) (Lease, error) {
	for _, name := range names {
		if !isName(name) {
			return nil, fmt.Errorf("%q is not the name of a record", name)
		}
	}
	if err := f.make(); err != nil {
		return nil, err
	}
	l := &folderLease{folder: f}
	// In order, so that two callers never wait for each other.
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		lock, err := acquire(ctx, f.file(name)+lockSuffix)
		if err != nil {
			l.Release()
			return nil, err
		}
		l.locks = append(l.locks, lock)
		l.names = append(l.names, name)
	}
	return l, nil
}

// The system has no call that waits for a lock and for a context.
const (
	firstPoll = time.Millisecond
	maxPoll   = 20 * time.Millisecond
)

// acquire waits for the lock of a file, which it creates.
func acquire(ctx context.Context, path string) (*flock.Flock, error) {
	lock := flock.New(path, flock.SetPermissions(0o600))
	poll := firstPoll
	for {
		taken, err := lock.TryLock()
		switch {
		case err != nil:
			return nil, fmt.Errorf("lock a record: %w", err)
		case taken:
			return lock, nil
		}
		timer := time.NewTimer(poll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("another process has the lock %s: %w", path, ctx.Err())
		case <-timer.C:
			poll = min(2*poll, maxPoll)
		}
	}
}

// folderLease is the locks of files.
type folderLease struct {
	folder *Folder
	names  []string
	locks  []*flock.Flock
}

// Release releases the locks, as the system does when the process ends.
func (l *folderLease) Release() {
	for _, lock := range l.locks {
		_ = lock.Close() // the system releases it in any case
	}
	l.locks, l.names = nil, nil
}

// read returns the generation of a record of the lease, and 0 for no record.
func (l *folderLease) read(ctx context.Context, name string) (uint64, error) {
	if !slices.Contains(l.names, name) {
		return 0, fmt.Errorf("the lease does not have the record %s", name)
	}
	current, err := l.folder.Read(ctx, name)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return 0, err
	}
	return current.Generation, nil
}

// Swap writes another file and renames it. After a kill or a crash the old file or the new
// one is there, and perhaps a part of the new one under another name, which the next Swap
// removes.
func (l *folderLease) Swap(ctx context.Context, name string, old uint64, record Sealed) error {
	switch current, err := l.read(ctx, name); {
	case err != nil:
		return err
	case current != old:
		return ErrConflict
	}
	text := append(fmt.Appendf(nil, "%s%d\n", header, record.Generation), record.Text...)
	if record.Generation == 0 || len(text) > maxFile {
		return fmt.Errorf("a record has %d bytes and the generation %d; at most %d bytes are kept", len(text), record.Generation, maxFile)
	}
	return l.folder.replace(l.folder.file(name), text)
}

// replace writes a file to the disk and gives it the name of another one, or of none.
func (f *Folder) replace(path string, text []byte) error {
	err := f.write(path+newSuffix, text)
	if err == nil {
		err = rename(path+newSuffix, path)
	}
	if err != nil {
		if left := os.Remove(path + newSuffix); !errors.Is(left, fs.ErrNotExist) {
			err = errors.Join(err, left)
		}
		return err
	}
	f.step("renamed")
	err = syncFolder(filepath.Dir(path))
	f.step("folder synced")
	return err
}

// write writes a new file to the disk.
func (f *Folder) write(path string, text []byte) (err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.step("removed")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, file.Close())
		f.step("closed")
	}()
	f.step("created")
	if _, err := file.Write(text); err != nil {
		return err
	}
	f.step("written")
	err = file.Sync()
	f.step("synced")
	return err
}

// Remove removes the file.
func (l *folderLease) Remove(ctx context.Context, name string, old uint64) error {
	current, err := l.read(ctx, name)
	switch {
	case err != nil:
		return err
	case current == 0:
		return nil
	case current != old:
		return ErrConflict
	}
	if err := os.Remove(l.folder.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.folder.step("deleted")
	return syncFolder(l.folder.path)
}

// maxAside bounds the search for a free name.
const maxAside = 10_000

// SetAside renames the file.
func (l *folderLease) SetAside(_ context.Context, name string) (string, error) {
	if !slices.Contains(l.names, name) {
		return "", fmt.Errorf("the lease does not have the record %s", name)
	}
	path := l.folder.file(name)
	for i := range maxAside {
		aside := path + asideSuffix + strconv.Itoa(i+1)
		if _, err := os.Lstat(aside); err == nil {
			continue // never replaced
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err := rename(path, aside); err != nil {
			return "", err
		}
		return aside, syncFolder(l.folder.path)
	}
	return "", fmt.Errorf("there are %d files %s%s*; remove them", maxAside, path, asideSuffix)
}
