// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"log/slog"
	"regexp"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/config"
)

// On a terminal a record is short, and a call is a line without keys.
func TestTerminalHandler(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	h := newTerminalHandler(&out, slog.LevelInfo)
	at := time.Date(2026, 11, 26, 18, 24, 52, 0, time.Local)
	say := func(h slog.Handler, level slog.Level, message string, attrs ...slog.Attr) {
		if !h.Enabled(t.Context(), level) {
			return
		}
		r := slog.NewRecord(at, level, message, 0)
		r.AddAttrs(attrs...)
		if err := h.Handle(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	say(h, slog.LevelDebug, "unseen")
	say(h, slog.LevelInfo, "call", slog.String("call", "7k3m9-q2xfa"), slog.String("method", "tools/call"), slog.String("name", "everything__echo"),
		slog.String("backend", "everything"), slog.String("client", "cursor 2.3"), slog.String("outcome", "ok"), slog.Float64("durationMs", 14.2))
	say(h, slog.LevelInfo, "call", slog.String("call", "7k3m9-q2xfb"), slog.String("name", "a\x1b[2J"), slog.String("client", "Claude Code"),
		slog.String("outcome", "failed"), slog.String("code", "SB_SOME_CODE"), slog.Float64("durationMs", 3210))
	say(h.WithAttrs([]slog.Attr{slog.String("backend", "a")}), slog.LevelWarn, "backend not reachable", slog.String("reason", "no \x1b[2J route"), slog.Int("count", 2))
	say(h.WithGroup("g").WithAttrs([]slog.Attr{slog.Bool("on", true)}), slog.LevelInfo, "grouped", slog.Duration("late", time.Second))
	want := `18:24:52 call everything__echo 14ms ok  cursor  7k3m9-q2xfa
18:24:52 call a\x1b[2J 3.2s failed SB_SOME_CODE  Claude Code  7k3m9-q2xfb
18:24:52 WARN backend not reachable backend=a reason="no \x1b[2J route" count=2
18:24:52 grouped g.on=true g.late=1s
`
	if got := out.String(); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// The short form is for a terminal, unless the configuration names a format.
func TestServeLoggerForm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		terminal bool
		format   string
		want     string
	}{
		{true, "", `^\d\d:\d\d:\d\d hello a=1\n$`},
		{true, "text", `^time=\S+ level=INFO msg=hello a=1\n$`},
		{true, "json", `^\{"time":"\S+","level":"INFO","msg":"hello","a":1\}\n$`},
		{false, "", `^time=\S+ level=INFO msg=hello a=1\n$`},
	} {
		var out bytes.Buffer
		NewServeLogger(&out, tt.terminal, &config.Config{Log: config.Log{Format: tt.format}}).Info("hello", slog.Int("a", 1))
		if !regexp.MustCompile(tt.want).MatchString(out.String()) {
			t.Errorf("%+v: %q", tt, out.String())
		}
	}
}

func TestShortTime(t *testing.T) {
	t.Parallel()
	for ms, want := range map[float64]string{
		0: "0ms", 0.0123: "0.012ms", 0.5: "0.5ms", 1.25: "1.2ms", 14.2: "14ms", 999.4: "999ms", 1000: "1.0s", 59_940: "59.9s", 61_000: "1m1s", 3_600_000: "1h0m0s",
	} {
		if got := output.ShortTime(ms); got != want {
			t.Errorf("%v: %q, want %q", ms, got, want)
		}
	}
}
