// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"regexp"
	"testing"
	"time"

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
		newServeLogger(&out, tt.terminal, &config.Config{Log: config.Log{Format: tt.format}}).Info("hello", slog.Int("a", 1))
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
		if got := shortTime(ms); got != want {
			t.Errorf("%v: %q, want %q", ms, got, want)
		}
	}
}

// Calls are logged on a terminal, and elsewhere if the configuration says so.
func TestServeLogsCalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		terminal bool
		log      string
		want     string // the record of the call, or nothing
	}{
		{"terminal", true, "{}", `(?m)^\d\d:\d\d:\d\d call demo__echo [0-9.]+ms ok  tester  [0-9a-z]{5}-[0-9a-z]{5}$`},
		{"terminal, off", true, "{calls: false}", ""},
		{"file", false, "{}", ""},
		{"file, on", false, "{calls: true}", `(?m)^time=\S+ level=INFO msg=call call=\S{11} method=tools/call name=demo__echo backend=demo client="tester 1" outcome=ok durationMs=[0-9.]+ trace_id=0af7651916cd43dd8448eb211c80319c span_id=b7ad6b7169203331$`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"demo__echo","arguments":{"text":"x"},"_meta":{`+
				`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"tester","version":"1"},`+
				`"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}`+"\n")
			e.Terminal = func(any) bool { return tt.terminal }
			file := filepath.Join(e.Dir, "signalbox.yaml")
			write(t, file, "log: "+tt.log+"\nmcpServers: {demo: {command: signalbox, args: [serve, --stdio, --demo]}}\n")
			if code := e.run(t.Context(), "serve", "--stdio", "--config", file); code != exitOK {
				t.Fatalf("exit code %d: %s", code, e.err)
			}
			got := e.err.String()
			if logged := regexp.MustCompile(`\bcall demo__echo|msg=call`).MatchString(got); logged != (tt.want != "") || tt.want != "" && !regexp.MustCompile(tt.want).MatchString(got) {
				t.Errorf("want %q, got:\n%s\nanswer: %s", tt.want, got, e.out)
			}
		})
	}
}
