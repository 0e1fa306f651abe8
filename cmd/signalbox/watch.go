// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long a file is left alone after the last sign of a change:
// editors write in several steps, and half a file is a wrong one.
const settle = 100 * time.Millisecond

// watcher notices when a file holds something else. A nil watcher notices
// nothing.
//
// The folder is watched and not the file, because editors and orchestrators put
// another file, or another folder behind a link, in its place; and because then
// any event can mean a change, what decides is the file's content.
type watcher struct {
	path string
	fs   *fsnotify.Watcher
	out  chan struct{} // capacity 1
	done chan struct{} // closed when follow has returned
	last [sha256.Size]byte
}

// watch begins to watch a file; no path gives a nil watcher.
func watch(path string) (*watcher, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // a nil watcher is a watcher
	}
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	// Both, because either may be exchanged: the link in its folder, and the file
	// in the one that it leads to.
	for _, dir := range foldersOf(path) {
		if err := fs.Add(dir); err != nil {
			return nil, errorsOnClose(fs, fmt.Errorf("watch %s: %w", dir, err))
		}
	}
	w := &watcher{path: path, fs: fs, out: make(chan struct{}, 1), done: make(chan struct{})}
	w.last, _ = digest(path) // a file that cannot be read now is a change later
	go w.follow()            // ends when close has closed fs, and close waits for it
	return w, nil
}

// errorsOnClose closes a watcher that is of no use, for the reason that it returns.
func errorsOnClose(fs *fsnotify.Watcher, err error) error {
	_ = fs.Close() // err says more
	return err
}

// foldersOf returns the folder of a file, and that of what it links to.
func foldersOf(path string) []string {
	dirs := []string{filepath.Dir(path)}
	if target, err := filepath.EvalSymlinks(path); err == nil && filepath.Dir(target) != dirs[0] {
		dirs = append(dirs, filepath.Dir(target))
	}
	return dirs
}

// follow turns bursts of events into single words on out.
func (w *watcher) follow() {
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
			quiet.Reset(settle) // each event begins the wait anew: one word for a burst
		case _, ok := <-w.fs.Errors:
			if !ok {
				return
			}
			quiet.Reset(settle) // events were lost; look
		case <-quiet.C:
			select {
			case w.out <- struct{}{}:
			default: // said already
			}
		}
	}
}

// changed delivers a word after something happened in the folder.
func (w *watcher) changed() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.out
}

// differs reports whether the file holds something else than when it was last
// asked. One that cannot be read any more holds something else, too: editors
// take a file away for less than the time to settle, so that one which is gone
// then is gone, and the operator is to know it before the next start does.
func (w *watcher) differs() bool {
	now, _ := digest(w.path) // an error gives the digest of no file at all
	if now == w.last {
		return false
	}
	w.last = now
	return true
}

// close returns after the last goroutine of the watcher.
func (w *watcher) close() {
	if w == nil {
		return
	}
	_ = w.fs.Close() // nothing is left to do about it
	<-w.done
}

// digest is what stands for the content of a file. The time of a change would not
// do: it has the grain of the file system, and two saves can be closer.
func digest(path string) ([sha256.Size]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	return sha256.Sum256(data), nil
}
