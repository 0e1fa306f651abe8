// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/frame"
	"github.com/signalbox-mcp/signalbox/internal/redact"
)

// The bounds of what is kept and logged of a child's standard error.
const (
	stderrKept   = 20  // last lines, for errors
	stderrShown  = 200 // bytes of each of them in an error
	stderrPerSec = 50  // lines that are logged
)

// tail reads a child's standard error, so that the child never waits for a
// reader: the last lines are kept, as many as the limits allow are logged, the
// rest is counted. The zero value is ready.
type tail struct {
	mu   sync.Mutex
	last []string
}

// drain reads until the end, whatever the line is and however long: a child that
// cannot write its standard error stops in the middle of a call. What is
// logged and kept is a text without control characters and without the secrets that
// the configuration gave to the child. A line that is longer than maxLine is logged so
// far, with how many bytes were cut off.
func (t *tail) drain(r io.Reader, maxLine int, secrets *redact.Redactor, logger *slog.Logger) {
	lines := frame.NewLineReader(r, maxLine)
	var quota quota
	for {
		line, cut, err := lines.NextCut()
		if err != nil {
			return
		}
		text := string(line)
		if cut > 0 {
			text = secrets.CutText(text)
		}
		text = visible(secrets.Text(text))
		t.add(text)
		skipped, ok := quota.take(time.Now())
		if skipped > 0 {
			logger.LogAttrs(context.Background(), slog.LevelWarn, "backend stderr lines not logged", slog.Int("count", skipped))
		}
		if ok {
			logger.LogAttrs(context.Background(), slog.LevelInfo, "backend stderr", lineAttrs(text, cut)...)
		}
	}
}

func lineAttrs(text string, cut int) []slog.Attr {
	attrs := []slog.Attr{slog.String("line", text)}
	if cut > 0 {
		attrs = append(attrs, slog.Int("cut", cut))
	}
	return attrs
}

// add bounds each line here, because twenty of them stand in one error that a client
// may show on one line.
func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Cut between two characters: it will stand in a message.
	t.last = append(t.last, strings.ToValidUTF8(line[:min(len(line), stderrShown)], ""))
	if len(t.last) > stderrKept {
		t.last = t.last[1:]
	}
}

// lines returns the last lines.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.last...)
}

// quota lets so many lines pass in each second.
type quota struct {
	since   time.Time
	passed  int
	skipped int
}

// take reports whether a line may pass, and how many did not in the second that
// is over.
func (q *quota) take(now time.Time) (skipped int, ok bool) {
	if now.Sub(q.since) >= time.Second {
		skipped = q.skipped
		*q = quota{since: now}
	}
	if q.passed >= stderrPerSec {
		q.skipped++
		return skipped, false
	}
	q.passed++
	return skipped, true
}
