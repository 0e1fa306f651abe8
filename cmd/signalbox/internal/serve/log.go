// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/logs"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/journal"
)

// openLog sets log, and keeps its records if there is a file.
func (s *service) openLog(ctx context.Context) {
	shown := logs.NewServeLogger(s.Stderr, s.terminal, s.cfg)
	s.log = shown
	if !s.source.HasFile() {
		return
	}
	s.journal = journal.New()
	s.log = slog.New(slog.NewMultiHandler(shown.Handler(), logs.NewKept(s.journal, shown.Handler(), s.processLevel())))
	if s.terminal {
		return
	}
	if err := s.saveLog(); err != nil {
		s.log.InfoContext(ctx, "the log is not kept in a file", slog.String("code", code.StateReadonly), slog.Any("error", err))
	}
}

// saveLog begins to write the log to files, and removes those of gateways that have ended.
func (s *service) saveLog() error {
	state, err := source.MakeStateFolder(s.Env, s.source.Path)
	if err != nil {
		return err
	}
	folder := filepath.Join(state, logs.Folder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	logs.RemoveOld(state)
	return s.journal.Save(folder, s.id)
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
