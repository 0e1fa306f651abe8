// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logtest records what a test logs.
package logtest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// Log records what is logged.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write adds a record.
func (b *Log) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// Lines returns the records as text, without their times.
func (b *Log) Lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Split(strings.TrimSuffix(b.buf.String(), "\n"), "\n")
}

// Count returns the number of records that contain part.
func (b *Log) Count(part string) int {
	n := 0
	for _, line := range b.Lines() {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// Handler returns a handler that writes to the log.
func (b *Log) Handler() slog.Handler {
	return slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
}
