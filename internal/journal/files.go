// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The files of a Journal are NAME.log and, from the newest to the oldest, NAME.log.1 to
// NAME.log.3. When NAME.log is full, each is renamed to the next.
const (
	maxFile = 1 << 20 // bytes of each file
	maxOld  = 3       // number of the files besides NAME.log
	suffix  = ".log"
)

// saver writes the records of a Journal to files.
type saver struct {
	path string // of the newest file
	file *os.File
	size int64 // of file; guarded by the mutex of the Journal
	done chan struct{}
}

// Save begins to write the records to the files of a name in a folder, which must exist. It
// is called once at most. End must be called then.
func (j *Journal) Save(folder, name string) error {
	s := &saver{path: filepath.Join(folder, name+suffix), done: make(chan struct{})}
	if err := s.create(); err != nil {
		return err
	}
	j.use(s)
	go j.save(s) // ends with End, which waits for it
	return nil
}

func (j *Journal) use(s *saver) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.saver = s
}

func (s *saver) create() error {
	file, err := os.OpenFile(s.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	s.file = file
	return err
}

// save writes records until the Journal has ended.
func (j *Journal) save(s *saver) {
	defer close(s.done)
	defer func() { _ = s.file.Close() }() // there is no other log
	at := position(0)
	for {
		lines, next, changed, ended := j.after(at)
		if len(lines) > 0 {
			j.write(s, lines, next)
			at = next
			continue
		}
		if ended {
			return
		}
		<-changed
	}
}

// write appends lines to the files, and begins another one where the newest is full. A disk
// that refuses them is no reason to stop: there may be space again later.
func (j *Journal) write(s *saver, lines []byte, next position) {
	for len(lines) > 0 {
		n := int64(fitting(lines, maxFile-s.size))
		if n == 0 {
			j.rotate(s)
			continue
		}
		_, _ = s.file.Write(lines[:n])
		lines = lines[n:]
		j.noteSaved(s, n, next-position(bytes.Count(lines, []byte("\n"))))
	}
}

// fitting returns the length of the whole lines that fit into a space, or of the first one if
// it fits into no file.
func fitting(lines []byte, space int64) int {
	if int64(len(lines)) <= space {
		return len(lines)
	}
	if i := bytes.LastIndexByte(lines[:max(space, 0)], '\n'); i >= 0 {
		return i + 1
	}
	if space < maxFile {
		return 0
	}
	return bytes.IndexByte(lines, '\n') + 1
}

func (j *Journal) noteSaved(s *saver, n int64, next position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s.size += n
	j.saved = next
}

// rotate renames the files and begins a new one.
func (j *Journal) rotate(s *saver) {
	_ = s.file.Close() // what it lacks was lost before
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := maxOld; i > 0; i-- {
		// A file that a reader holds cannot be renamed on Windows. It is written over then:
		// the bound matters more than old records.
		_ = os.Rename(oldPath(s.path, i-1), oldPath(s.path, i))
	}
	s.size = 0
	if file, err := os.OpenFile(s.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err == nil {
		s.file = file
	}
}

// oldPath returns the path of the i-th file, counted from the newest one.
func oldPath(path string, i int) string {
	if i == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, i)
}

// Read writes the records to w: those of the files, and then those in memory. With follow, it
// continues with each later one until the Journal ends or done is closed, and calls flush
// when it has to wait.
func (j *Journal) Read(w io.Writer, follow bool, flush func(), done <-chan struct{}) error {
	files, at := j.open()
	err := copyAll(w, files)
	for err == nil {
		lines, next, changed, ended := j.after(at)
		if len(lines) > 0 {
			_, err = w.Write(lines)
			at = next
			continue
		}
		flush()
		if ended || !follow {
			return nil
		}
		select {
		case <-changed:
		case <-done:
			return nil
		}
	}
	return err
}

// open opens the files, oldest first, each up to what has been written, and returns the
// position after them.
func (j *Journal) open() ([]io.ReadCloser, position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.saver == nil {
		return nil, j.first
	}
	files := openFiles(j.saver.path)
	if n := len(files); n > 0 {
		files[n-1] = limited{io.LimitReader(files[n-1], j.saver.size), files[n-1]}
	}
	return files, j.saved
}

// limited is a file up to some length.
type limited struct {
	io.Reader
	io.Closer
}

// openFiles opens those files of a path that exist, oldest first.
func openFiles(path string) []io.ReadCloser {
	var files []io.ReadCloser
	for i := maxOld; i >= 0; i-- {
		if f, err := os.Open(oldPath(path, i)); err == nil {
			files = append(files, f)
		}
	}
	return files
}

// copyAll copies files and closes them.
func copyAll(w io.Writer, files []io.ReadCloser) error {
	var err error
	for _, f := range files {
		if err == nil {
			_, err = io.Copy(w, f)
		}
		_ = f.Close() // it was only read
	}
	return err
}

// Saved are the files of a Journal, perhaps of a process that has ended.
type Saved struct {
	Name     string
	Modified time.Time
	path     string
}

// Copy writes the records to w.
func (s Saved) Copy(w io.Writer) error { return copyAll(w, openFiles(s.path)) }

// List returns the Journals that have files in a folder, newest first.
func List(folder string) []Saved {
	paths, _ := filepath.Glob(filepath.Join(folder, "*"+suffix)) // the pattern is valid
	var all []Saved
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			all = append(all, Saved{strings.TrimSuffix(filepath.Base(path), suffix), info.ModTime(), path})
		}
	}
	slices.SortFunc(all, func(a, b Saved) int { return b.Modified.Compare(a.Modified) })
	return all
}

// Remove removes the files.
func (s Saved) Remove() {
	for i := range maxOld + 1 {
		_ = os.Remove(oldPath(s.path, i)) // another process may have removed it
	}
}
