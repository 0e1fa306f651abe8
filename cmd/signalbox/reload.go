// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
)

// reload reloads the configuration because the operator asked for it. An invalid
// configuration is rejected: all problems are logged, and nothing changes.
func (s *service) reload(ctx context.Context) (*config.Config, error) {
	// Logged even in the demo: silence would read as success.
	if s.source.isDemo() {
		s.log.InfoContext(ctx, "nothing to reload: the demo has no configuration file")
		return nil, errDemo
	}
	return s.reloadBy(ctx, s.gateway.Reload)
}

// errDemo is returned if there is no file to reload.
var errDemo = errors.New("the gateway serves the demo and has no file to reload")

// reloadChange reloads a file that has changed, as far as the configuration permits this
// without the operator.
func (s *service) reloadChange(ctx context.Context) {
	_, _ = s.reloadBy(ctx, func(ctx context.Context, cfg config.Config) error {
		exposed := s.exposure.Of(s.source.path)
		for _, file := range s.running.NewEnvFiles(&cfg) {
			exposed = append(exposed, s.exposure.Of(file)...)
		}
		return s.gateway.ReloadChange(ctx, cfg, exposed)
	}) // the log and the status have the error
}

// reloadBy reads the file and passes it to reload, one of the Gateway's two methods.
func (s *service) reloadBy(ctx context.Context, reload func(context.Context, config.Config) error) (*config.Config, error) {
	// Always read: the signal may mean a change of something that the file refers to.
	cfg, err := s.load()
	if err != nil {
		// The gateway does not see this error otherwise, and its status has to show it.
		s.gateway.RefuseReload(err) //nolint:contextcheck // it keeps the error, and waits for nothing
	} else {
		err = reload(ctx, *cfg)
	}
	if err != nil {
		s.refuse(ctx, err)
		return nil, err
	}
	s.running = cfg
	s.exposure.Add(cfg)
	s.log.InfoContext(ctx, "configuration reloaded", slog.String("file", s.source.path), slog.Int("backends", len(cfg.Servers)))
	return cfg, nil
}

// refuse logs why a reload was rejected, one record for each problem.
func (s *service) refuse(ctx context.Context, err error) {
	var problems config.Problems
	switch {
	case !errors.As(err, &problems):
		s.log.ErrorContext(ctx, "reload refused: the file cannot be read", slog.Any("error", err))
		return
	case errors.Is(err, signalbox.ErrWaits):
		for _, p := range problems {
			s.log.WarnContext(ctx, "reload waits: the old configuration stays in effect", slog.String("change", p.String()))
		}
		return
	}
	for _, p := range problems {
		s.log.ErrorContext(ctx, "reload refused: the old configuration stays in effect", slog.String("problem", p.String()))
	}
}

// settleTime is how long the watcher waits after the last event: editors write in several
// steps, and a half-written file is invalid.
const settleTime = 100 * time.Millisecond

// watcher notices when the content of a file changes. A nil watcher notices nothing.
//
// It watches the folder and not the file, because editors and orchestrators replace the
// file, or a link to a folder. Any event of the folder can thus mean a change, and the
// file's content decides.
type watcher struct {
	path    string
	fs      *fsnotify.Watcher
	changes chan struct{} // capacity 1
	done    chan struct{} // closed when run has returned
	last    [sha256.Size]byte
}

// watch starts watching a file. It returns a nil watcher for an empty path.
func watch(path string) (*watcher, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // the methods accept a nil watcher
	}
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	// Both folders, as the link may be replaced, or the file that it refers to.
	for _, dir := range foldersOf(path) {
		if err := fs.Add(dir); err != nil {
			_ = fs.Close() // err is the cause
			return nil, fmt.Errorf("watch %s: %w", dir, err)
		}
	}
	w := &watcher{path: path, fs: fs, changes: make(chan struct{}, 1), done: make(chan struct{})}
	w.last, _ = digest(path) // a file that cannot be read is a change when it can
	go w.run()               // ends when close has closed fs; close waits for it
	return w, nil
}

// foldersOf returns the folder of a file, and that of the file that it links to.
func foldersOf(path string) []string {
	dirs := []string{filepath.Dir(path)}
	if target, err := filepath.EvalSymlinks(path); err == nil && filepath.Dir(target) != dirs[0] {
		dirs = append(dirs, filepath.Dir(target))
	}
	return dirs
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

// differs reports whether the content of the file has changed since the last call. A file
// that cannot be read any more has changed, too: editors remove a file for less than
// settleTime, so one that is missing is gone, and the operator should learn of it before the
// next start fails.
func (w *watcher) differs() bool {
	now, _ := digest(w.path) // the error has a digest of its own
	if now == w.last {
		return false
	}
	w.last = now
	return true
}

// close returns when run has ended.
func (w *watcher) close() {
	if w == nil {
		return
	}
	_ = w.fs.Close() // the error is of no use here
	<-w.done
}

// digest identifies the content of a file. The modification time would not do: its
// resolution is that of the file system, and two writes may be closer.
func digest(path string) ([sha256.Size]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	return sha256.Sum256(data), nil
}
