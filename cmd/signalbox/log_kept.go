// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/journal"
)

// A gateway with a file keeps the last records of its log for 'signalbox logs': in memory and,
// unless a person sees them on a terminal, in files of the state folder. Each gateway has
// files of its own.

// logFolder is the folder of the logs in the state folder of a configuration file.
const logFolder = "log"

// endedLogs is how many logs of gateways that have ended are kept.
const endedLogs = 3

// openLog sets log, and keeps its records if there is a file.
func (s *service) openLog(ctx context.Context) {
	shown := newServeLogger(s.Stderr, s.terminal, s.cfg)
	s.log = shown
	if !s.source.hasFile() {
		return
	}
	s.journal = journal.New()
	s.log = slog.New(slog.NewMultiHandler(shown.Handler(), newKept(s.journal, shown.Handler(), s.processLevel())))
	if s.terminal {
		return
	}
	if err := s.saveLog(); err != nil {
		s.log.InfoContext(ctx, "the log is not kept in a file", slog.Any("error", err))
	}
}

// saveLog begins to write the log to files, and removes those of gateways that have ended.
func (s *service) saveLog() error {
	state, err := s.makeStateFolder(s.source.path)
	if err != nil {
		return err
	}
	folder := filepath.Join(state, logFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	removeOldLogs(state)
	return s.journal.Save(folder, s.id)
}

// removeOldLogs removes all but the newest logs of the gateways that have ended.
func removeOldLogs(state string) {
	ended := 0
	for _, saved := range journal.List(filepath.Join(state, logFolder)) {
		_, err := os.Lstat(filepath.Join(state, saved.Name+socketSuffix))
		// A gateway that is starting has no socket yet.
		if err == nil || time.Since(saved.Modified) < staleAfter {
			continue
		}
		if ended++; ended > endedLogs {
			saved.Remove()
		}
	}
}

// endLog ends what openLog began.
func (s *service) endLog() {
	if s.journal != nil {
		s.journal.End()
	}
}

// serveLog responds with the records of the log.
func (s *service) serveLog(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush := func() { _ = http.NewResponseController(w).Flush() }                           // a client that has left is seen by Write
	_ = s.journal.Read(w, r.URL.Query().Get("follow") == "true", flush, r.Context().Done()) // as above
}

// newKept returns the handler of the log that is kept: it writes to w what shown handles, too,
// and the records about processes from a level.
func newKept(w io.Writer, shown slog.Handler, level slog.Level) slog.Handler {
	return withProcesses{slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: durationsAsText}), shown, level}
}

// durationsAsText is a ReplaceAttr: durations are as in the log, and not numbers.
func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// The messages of records about the process of a backend.
const (
	stderrMessage  = "backend stderr"
	skippedMessage = "backend stderr lines not logged"
	startedMessage = "backend process started"
	endedMessage   = "backend process ended"
)

// withProcesses handles the records that shown handles, too, and besides those about processes:
// 'signalbox logs NAME' has them also where the log has not.
type withProcesses struct {
	slog.Handler

	shown slog.Handler
	level slog.Level // of the records about processes
}

func (h withProcesses) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level || h.shown.Enabled(ctx, level)
}

func (h withProcesses) Handle(ctx context.Context, r slog.Record) error {
	switch r.Message {
	case stderrMessage, skippedMessage, startedMessage, endedMessage:
	default:
		if !h.shown.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h withProcesses) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withProcesses{h.Handler.WithAttrs(attrs), h.shown, h.level}
}

func (h withProcesses) WithGroup(name string) slog.Handler {
	return withProcesses{h.Handler.WithGroup(name), h.shown, h.level}
}
