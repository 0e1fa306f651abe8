// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
)

// terminalHandler writes records for a person who watches: the time of day, the level if
// it is not info, and the message with its attributes. A call is one short line.
type terminalHandler struct {
	level  slog.Level
	prefix string      // of the attributes' keys: the groups
	attrs  []slog.Attr // of the logger

	mu *sync.Mutex // guards to
	to io.Writer
}

func newTerminalHandler(to io.Writer, level slog.Level) *terminalHandler {
	return &terminalHandler{level: level, mu: new(sync.Mutex), to: to}
}

func (h *terminalHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h *terminalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = slices.Clip(slices.Clone(h.attrs))
	for _, a := range attrs {
		next.attrs = append(next.attrs, slog.Attr{Key: h.prefix + a.Key, Value: a.Value})
	}
	return &next
}

func (h *terminalHandler) WithGroup(name string) slog.Handler {
	next := *h
	next.prefix += name + "."
	return &next
}

// Handle writes the record with one write.
func (h *terminalHandler) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clone(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, slog.Attr{Key: h.prefix + a.Key, Value: a.Value})
		return true
	})
	var b bytes.Buffer
	b.WriteString(r.Time.Format(time.TimeOnly))
	if r.Level != slog.LevelInfo {
		fmt.Fprintf(&b, " %s", r.Level)
	}
	if r.Message == signalbox.CallMessage && r.Level == slog.LevelInfo {
		b.WriteString(" " + callLine(attrs))
	} else {
		b.WriteString(" " + output.VisibleLine(r.Message))
		for _, a := range attrs {
			b.WriteString(" " + output.VisibleLine(a.Key) + "=" + attrText(a.Value.Resolve()))
		}
	}
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.to.Write(b.Bytes())
	return err
}

// attrText formats a value. Text with a space is quoted.
func attrText(v slog.Value) string {
	text := v.String()
	if v.Kind() == slog.KindTime {
		text = v.Time().Format(time.RFC3339)
	}
	if text == "" || strings.ContainsAny(text, " \"=") || output.VisibleLine(text) != text {
		return strconv.Quote(text)
	}
	return text
}

// callLine formats the record of a call: "call everything__echo 14ms ok  cursor  7k3m9-q2xfa".
func callLine(attrs []slog.Attr) string {
	value := func(key string) string {
		if i := slices.IndexFunc(attrs, func(a slog.Attr) bool { return a.Key == key }); i >= 0 {
			return attrs[i].Value.String()
		}
		return ""
	}
	ms, _ := strconv.ParseFloat(value("durationMs"), 64)
	line := []string{"call", cmp.Or(value("name"), value("method")), output.ShortTime(ms), value("outcome")}
	if code := value("code"); code != "" {
		line = append(line, code)
	}
	return strings.Join(output.NonEmpty(output.VisibleLine(strings.Join(line, " ")), output.VisibleLine(withoutVersion(value("client"))), value("call")), "  ")
}

// withoutVersion returns the name of a client without the version that follows it.
func withoutVersion(client string) string {
	i := strings.LastIndexByte(client, ' ')
	if i > 0 && strings.ContainsAny(client[i+1:i+2], "0123456789v") {
		return client[:i]
	}
	return client
}
