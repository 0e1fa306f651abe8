// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/config"
)

// NewServeLogger returns the log of a gateway. On a terminal it is short.
func NewServeLogger(w io.Writer, terminal bool, cfg *config.Config) *slog.Logger {
	if terminal && cfg.Log.Format == "" {
		return slog.New(newTerminalHandler(w, logLevel(cfg)))
	}
	return NewLogger(w, cfg)
}

// logLevel returns the configured level.
func logLevel(cfg *config.Config) (level slog.Level) {
	_ = level.UnmarshalText([]byte(cfg.Effective().Log.Level)) // the configuration has been validated
	return level
}

// NewLogger returns a logger with the configured level and format.
func NewLogger(w io.Writer, cfg *config.Config) *slog.Logger {
	form := cfg.Effective().Log
	// No source and no stack: a record is for the operator of the gateway, and its
	// attributes name what it is about.
	opt := &slog.HandlerOptions{Level: logLevel(cfg)}
	if form.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opt))
	}
	return slog.New(slog.NewTextHandler(w, opt))
}

const (
	// logBufferSize bounds the text waiting to be written: a burst of records.
	logBufferSize = 256 << 10

	// logFlushTimeout bounds how long close waits for the last records to be written.
	logFlushTimeout = time.Second
)

// AsyncWriter writes to standard error while a gateway serves. A reader of standard error
// may stop reading, such as a paused terminal, or exit: a write would then block, or end
// the process. So only one goroutine writes; Write only enqueues, and drops and counts
// text for which there is no space.
type AsyncWriter struct {
	to    io.Writer
	more  chan struct{} // capacity 1: there is text to write
	ended chan struct{} // closed when run has returned

	mu      sync.Mutex
	waiting bytes.Buffer // whole records, at most logBufferSize
	dropped int          // the number of records dropped since the last one enqueued
	closing bool         // close was called
}

// NewAsyncWriter returns an AsyncWriter that writes to w. It must be closed.
func NewAsyncWriter(to io.Writer) *AsyncWriter {
	j := &AsyncWriter{to: to, more: make(chan struct{}, 1), ended: make(chan struct{})}
	// Ends after close, when all is written. close waits for it at most logFlushTimeout: a
	// write that blocks cannot be canceled, and ends with the process.
	go j.run()
	return j
}

// Write enqueues text completely or not at all: half a record would be read as another. It
// does not block and never fails: there is nothing left to report an error to.
func (j *AsyncWriter) Write(text []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.waiting.Len()+len(text) > logBufferSize {
		j.dropped++
	} else {
		j.noteDroppedLocked()
		j.waiting.Write(text)
	}
	j.wake()
	return len(text), nil
}

// noteDroppedLocked appends how many records are missing at this place.
func (j *AsyncWriter) noteDroppedLocked() {
	if j.dropped > 0 {
		fmt.Fprintf(&j.waiting, "signalbox: %s of the log dropped, because standard error was not read\n", output.Plural(j.dropped, "record"))
		j.dropped = 0
	}
}

// wake wakes run. Several calls may be merged into one: run takes all that is waiting.
func (j *AsyncWriter) wake() {
	select {
	case j.more <- struct{}{}:
	default: // already awake
	}
}

// next returns the waiting text, and whether more may follow.
func (j *AsyncWriter) next() (text []byte, more bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.noteDroppedLocked() // there may be no later record
	text = bytes.Clone(j.waiting.Bytes())
	j.waiting.Reset()
	return text, !j.closing
}

// run writes the waiting text until the writer is closed and all is written. It writes
// without the lock, so that a blocked write blocks no other goroutine.
func (j *AsyncWriter) run() {
	defer close(j.ended)
	for range j.more {
		text, more := j.next()
		_, _ = j.to.Write(text) // nothing is left to report the error to
		if !more {
			return
		}
	}
}

// Close returns when all is written, or after logFlushTimeout.
func (j *AsyncWriter) Close() {
	j.mu.Lock()
	j.closing = true // the next call of next is the last one
	j.mu.Unlock()
	j.wake()
	select {
	case <-j.ended:
	case <-time.After(logFlushTimeout):
	}
}
