// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/redact"
)

// output is the gateway's end of a pipe that a child writes to. It has one reader.
type output struct {
	file     *os.File
	deadline time.Time // when to stop reading what was left after the child's exit
}

// leftoverTime limits how long the output of an exited child is read: another process
// that holds the pipe may write without end.
const leftoverTime = time.Second

// stopAtEnd makes the reader stop after what has been written so far, even if a process
// that the child has left behind still holds the other end. It is called after the
// child's exit. A file without deadlines is read to its end.
func (o *output) stopAtEnd() {
	if err := o.file.SetReadDeadline(time.Now()); err != nil {
		return
	}
}

// Read reads from the pipe. After the deadline of stopAtEnd even a read that need not
// wait fails, so that it fetches the buffered rest without the deadline.
func (o *output) Read(p []byte) (int, error) {
	n, err := o.file.Read(p)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	now := time.Now()
	if o.deadline.IsZero() {
		o.deadline = now.Add(leftoverTime)
	}
	if now.After(o.deadline) {
		return 0, io.EOF
	}
	return readBuffered(o.file, p)
}

// Limits of what is kept and logged of a child's standard error.
const (
	stderrKept   = 20      // last lines, for errors
	stderrShown  = 200     // bytes of each in an error
	stderrRaw    = 1 << 10 // bytes of each before redaction
	stderrPerSec = 50      // lines logged per second
)

// stderrTail reads a child's standard error, so that the child never blocks on it. It
// keeps the last lines, logs as many as the limits allow, and counts the rest. The zero
// value is ready.
type stderrTail struct {
	mu   sync.Mutex
	last []stderrLine
}

// stderrLine is a line as the child wrote it, or the beginning of one.
type stderrLine struct {
	raw string
	cut bool
}

// text returns the line for display, without control characters and configured secrets.
func (w stderrLine) text(secrets *redact.Redactor) string {
	if w.cut {
		return call.Sanitize(secrets.CutText(w.raw))
	}
	return call.Sanitize(secrets.Text(w.raw))
}

// drain reads until the end, however long lines are: a child that cannot write its
// standard error stops in the middle of a call. A line longer than maxLine is logged up
// to that length, with the number of bytes cut off. Lines that are not shown are not
// converted, because some programs write without end.
func (t *stderrTail) drain(r io.Reader, maxLine int, secrets *redact.Redactor, logger *slog.Logger, level slog.Level) {
	lines := frame.NewLineReader(r, maxLine)
	var quota lineQuota
	for {
		line, cut, err := lines.NextCut()
		if err != nil {
			logSkipped(quota.skipped, logger)
			return
		}
		entry := stderrLine{string(line), cut > 0}
		t.add(entry)
		if !logger.Enabled(context.Background(), level) {
			continue
		}
		skipped, ok := quota.take(time.Now())
		logSkipped(skipped, logger)
		if ok {
			attrs := []slog.Attr{slog.String("line", entry.text(secrets))}
			if cut > 0 {
				attrs = append(attrs, slog.Int("cut", cut))
			}
			logger.LogAttrs(context.Background(), level, "backend stderr", attrs...)
		}
	}
}

// logSkipped logs how many lines were not logged.
func logSkipped(n int, logger *slog.Logger) {
	if n > 0 {
		logger.LogAttrs(context.Background(), slog.LevelWarn, "backend stderr lines not logged", slog.Int("count", n))
	}
}

// add keeps a line. Its raw length is limited to more than is shown, because redaction
// may shorten it.
func (t *stderrTail) add(entry stderrLine) {
	if len(entry.raw) > stderrRaw {
		entry = stderrLine{strings.Clone(entry.raw[:stderrRaw]), true}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.last) == stderrKept {
		t.last = append(t.last[:0], t.last[1:]...)
	}
	t.last = append(t.last, entry)
}

// lines returns the last lines, each short enough for twenty of them to fit into one
// error.
func (t *stderrTail) lines(secrets *redact.Redactor) []string {
	t.mu.Lock()
	last := slices.Clone(t.last)
	t.mu.Unlock()
	lines := make([]string, len(last))
	for i, entry := range last {
		text := entry.text(secrets)
		// Cut between characters, because the text becomes part of a message.
		lines[i] = strings.ToValidUTF8(text[:min(len(text), stderrShown)], "")
	}
	return lines
}

// lineQuota allows a number of lines per second.
type lineQuota struct {
	since   time.Time
	passed  int
	skipped int
}

// take reports whether a line may be logged, and how many were skipped in the second
// that has ended.
func (q *lineQuota) take(now time.Time) (skipped int, ok bool) {
	if now.Sub(q.since) >= time.Second {
		skipped = q.skipped
		*q = lineQuota{since: now}
	}
	if q.passed >= stderrPerSec {
		q.skipped++
		return skipped, false
	}
	q.passed++
	return skipped, true
}
