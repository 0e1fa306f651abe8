// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// transcriptLog is the log of the gateway of a transcript. It shows the records that
// the transcript selects.
type transcriptLog struct {
	w *world

	mu    sync.Mutex
	shown map[string][]string // attributes to show, by message
	seen  map[string]int      // records, by message
}

func (l *transcriptLog) show(message string, attrs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown[message] = attrs
}

func (l *transcriptLog) count(message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[message]
}

// note counts a record and returns the attributes to show.
func (l *transcriptLog) note(message string) (attrs []string, shown bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[message]++
	attrs, shown = l.shown[message]
	return attrs, shown
}

// transcriptHandler is the slog.Handler of a transcriptLog.
type transcriptHandler struct {
	log  *transcriptLog
	with []slog.Attr
}

func (h transcriptHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h transcriptHandler) Handle(_ context.Context, r slog.Record) error {
	names, shown := h.log.note(r.Message)
	if !shown {
		return nil
	}
	text := fmt.Sprintf("log %s %q", r.Level, r.Message)
	show := func(a slog.Attr) bool {
		if slices.Contains(names, a.Key) {
			text += fmt.Sprintf(" %s=%q", a.Key, a.Value.String())
		}
		return true
	}
	for _, a := range h.with {
		show(a)
	}
	r.Attrs(show)
	h.log.w.show(2, "gateway", "", text)
	return nil
}

func (h transcriptHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return transcriptHandler{h.log, slices.Concat(h.with, attrs)}
}

func (h transcriptHandler) WithGroup(string) slog.Handler { return h }

// unquoted returns a word of a command, which is quoted if it has blanks.
func unquoted(word string) string {
	if text, err := strconv.Unquote(word); err == nil && strings.HasPrefix(word, `"`) {
		return text
	}
	return word
}
