// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/internal/journal"
)

// A gateway with a file keeps the last records of its log for 'signalbox logs': in memory and,
// unless a person sees them on a terminal, in files of the state folder. Each gateway has
// files of its own.

// Folder is the folder of the logs in the state folder of a configuration file.
const Folder = "log"

// endedLogs is how many logs of gateways that have ended are kept.
const endedLogs = 3

// RemoveOld removes all but the newest logs of the gateways that have ended.
func RemoveOld(state string) {
	ended := 0
	for _, saved := range journal.List(filepath.Join(state, Folder)) {
		_, err := os.Lstat(filepath.Join(state, saved.Name+control.SocketSuffix))
		// A gateway that is starting has no socket yet.
		if err == nil || time.Since(saved.Modified) < control.StaleAfter {
			continue
		}
		if ended++; ended > endedLogs {
			saved.Remove()
		}
	}
}

// NewKept returns the handler of the log that is kept: it writes to w what shown handles, too,
// and the records about processes from a level.
func NewKept(w io.Writer, shown slog.Handler, level slog.Level) slog.Handler {
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
