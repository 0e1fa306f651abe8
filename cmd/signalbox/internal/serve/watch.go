// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/signalbox-mcp/signalbox/config"
)

// settleTime is how long the watcher waits after the last event: editors write in several
// steps, and a half-written file is invalid.
const settleTime = 100 * time.Millisecond

// watcher notices when the content of a configuration file changes, or that of the file with
// its secrets or of its lock file. A nil watcher notices nothing.
//
// It watches the folder and not the files, because editors and orchestrators replace the
// file, or a link to a folder. Any event of the folder can thus mean a change, and the
// file's content decides.
type watcher struct {
	files   [watchedFiles]string // the configuration is the first
	fs      *fsnotify.Watcher
	changes chan struct{} // capacity 1
	done    chan struct{} // closed when run has returned
	last    [watchedFiles][sha256.Size]byte
}

const watchedFiles = 3

// watch starts watching a configuration file. It returns a nil watcher for an empty path.
func watch(path string) (*watcher, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // the methods accept a nil watcher
	}
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	// The folders of a link and of the file that it refers to: both may be replaced.
	files := [watchedFiles]string{path, config.SecretsFile(path), config.LockFile(path)}
	dirs := []string{filepath.Dir(path)}
	for _, name := range files {
		if target, err := filepath.EvalSymlinks(name); err == nil && !slices.Contains(dirs, filepath.Dir(target)) {
			dirs = append(dirs, filepath.Dir(target))
		}
	}
	for _, dir := range dirs {
		if err := fs.Add(dir); err != nil {
			_ = fs.Close() // err is the cause
			return nil, fmt.Errorf("watch %s: %w", dir, err)
		}
	}
	w := &watcher{files: files, fs: fs, changes: make(chan struct{}, 1), done: make(chan struct{})}
	w.last = w.digest()
	go w.run() // ends when close has closed fs; close waits for it
	return w, nil
}

// run merges bursts of events into single sends on changes.
func (w *watcher) run() {
	defer close(w.done)
	quiet := time.NewTimer(0)
	quiet.Stop()
	defer quiet.Stop()
	for {
		select {
		case _, ok := <-w.fs.Events:
			if !ok {
				return
			}
			quiet.Reset(settleTime) // each event restarts the timer
		case _, ok := <-w.fs.Errors:
			if !ok {
				return
			}
			quiet.Reset(settleTime) // events may have been lost
		case <-quiet.C:
			select {
			case w.changes <- struct{}{}:
			default: // already sent
			}
		}
	}
}

// changed returns a channel that receives after events in the folder.
func (w *watcher) changed() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.changes
}

// differs reports whether the content of a file has changed since the last call. A file that cannot be
// read any more has changed, too: editors remove a file for less than settleTime, so one that
// is missing is gone, and the operator should learn of it before the next start fails.
func (w *watcher) differs() bool {
	now := w.digest()
	if now == w.last {
		return false
	}
	w.last = now
	return true
}

// note takes the content of the files as known. What is written from then on is a change.
func (w *watcher) note() {
	if w != nil {
		w.last = w.digest()
	}
}

// close returns when run has ended.
func (w *watcher) close() {
	if w == nil {
		return
	}
	_ = w.fs.Close() // the error is of no use here
	<-w.done
}

// digest identifies the content of the files. The modification time would not do: its
// resolution is that of the file system, and two writes may be closer. A file that cannot be
// read has a digest of its own.
func (w *watcher) digest() (all [watchedFiles][sha256.Size]byte) {
	for i, path := range w.files {
		// A pipe may have the name of another file than the configuration, and is not to be opened.
		if info, err := os.Stat(path); i > 0 && (err != nil || !info.Mode().IsRegular()) {
			continue
		}
		if data, err := os.ReadFile(path); err == nil {
			all[i] = sha256.Sum256(data)
		}
	}
	return all
}
