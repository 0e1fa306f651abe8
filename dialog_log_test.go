// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// dialogLog is the log of the gateway of a dialogue. It shows what the dialogue
// wants to see of it.
type dialogLog struct {
	w *world

	mu    sync.Mutex
	shown map[string][]string // attributes to show, by message
	seen  map[string]int      // records, by message
}

func (l *dialogLog) show(message string, attrs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown[message] = attrs
}

func (l *dialogLog) count(message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[message]
}

// note counts a record and returns what to show of it.
func (l *dialogLog) note(message string) (attrs []string, shown bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[message]++
	attrs, shown = l.shown[message]
	return attrs, shown
}

// dialogHandler is what a logger writes to.
type dialogHandler struct {
	log  *dialogLog
	with []slog.Attr
}

func (h dialogHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h dialogHandler) Handle(_ context.Context, r slog.Record) error {
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
	h.log.w.say(2, "gateway", "", text)
	return nil
}

func (h dialogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return dialogHandler{h.log, slices.Concat(h.with, attrs)}
}

func (h dialogHandler) WithGroup(string) slog.Handler { return h }

// unquoted returns a word of a command, which is quoted where it has blanks.
func unquoted(word string) string {
	if text, err := strconv.Unquote(word); err == nil && strings.HasPrefix(word, `"`) {
		return text
	}
	return word
}
