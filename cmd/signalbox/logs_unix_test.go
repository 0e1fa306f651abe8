// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
)

// withState gives an env a folder for state.
func withState(t *testing.T, e *testEnv) (state string) {
	t.Helper()
	state, err := os.MkdirTemp("", "s") //nolint:usetesting // shorter: the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	e.LookupEnv = func(name string) (string, bool) { return state, name == stateVariable }
	return state
}

// awaitText waits until a buffer has a text some times.
func awaitText(t *testing.T, b *lockedBuffer, text string, times int) {
	t.Helper()
	for start := time.Now(); strings.Count(b.String(), text) < times; {
		if time.Since(start) > patience {
			t.Fatalf("no %d times %q:\n%s", times, text, b)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// logs --follow continues over the restart of a gateway, with each record once, also if the
// gateway was killed.
func TestLogsFollow(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, "")
	state := withState(t, e)
	file := filepath.Join(e.Dir, "signalbox.yaml")
	write(t, file, "listen: 127.0.0.1:0\nmcpServers: {kid: {command: mcpchild, idle: none}}\n")
	code := make(chan int)
	go func() { code <- e.run(t.Context(), "logs", "--follow", "--config", file) }()
	awaitText(t, e.err, "no gateway is running; waiting for one", 1)
	for i := range 2 {
		gateway, err := startProcess(e.Dir, append(os.Environ(), stateVariable+"="+state), "signalbox", "serve")
		if err != nil {
			t.Fatal(err)
		}
		defer gateway.kill()
		awaitText(t, e.out, `line="child is up"`, i+1)
		if i == 0 {
			_ = gateway.cmd.Process.Signal(syscall.SIGTERM)
			if _, err := gateway.finish(); err != nil {
				t.Fatal(err)
			}
			awaitText(t, e.out, "shutting down", 1)
		}
		gateway.kill()
		awaitText(t, e.err, "no gateway is running; waiting for one", i+2)
	}
	e.signals <- syscall.SIGINT
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d: %s", got, e.err)
	}
	if got := strings.Count(e.out.String(), `msg="backend process started"`); got != 2 {
		t.Errorf("%d starts, want 2:\n%s", got, e.out)
	}
	if !regexp.MustCompile(`continuing with the log of process [0-9]+\n`).MatchString(e.err.String()) {
		t.Errorf("standard error has %q", e.err)
	}
}

// A gateway on a terminal keeps its log in memory only. Text of servers is escaped on a
// terminal, and only there.
func TestLogsOfAGatewayOnATerminal(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, "")
	state := withState(t, e)
	file := filepath.Join(e.Dir, "signalbox.yaml")
	write(t, file, "listen: 127.0.0.1:0\nmcpServers: {}\n")
	s := &service{env: e.env, terminal: true, source: e.source(""), id: newGatewayName()}
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		s.endLog()
		s.control.close()
		_ = s.gateway.Close()
		s.http.close(t.Context())
	}()
	s.log.Info(stderrMessage, slog.String("backend", "kid"), slog.String("line", "\u202eup"), slog.Int("cut", 7))
	s.log.Warn("slow", slog.Duration("late", 1500*time.Millisecond), slog.String("call", "7k3m9-q2xfa"), slog.Group("at", slog.Int("line", 3)))
	for _, tt := range []struct {
		terminal bool
		args     []string
		want     string
	}{
		{false, []string{"kid"}, `  ` + "\u202eup (7 more bytes)\n"},
		{true, []string{"kid"}, `  \u202eup (7 more bytes)` + "\n"},
		{false, []string{"--call", "7k3m9-q2xfa"}, ` level=WARN msg=slow late=1.5s call=7k3m9-q2xfa at.line=3` + "\n"},
		{false, []string{"--level", "WARN", "--json"}, `,"level":"WARN","msg":"slow","late":"1.5s","call":"7k3m9-q2xfa","at":{"line":3}}` + "\n"},
		{false, []string{"--level", "error"}, ""},
	} {
		reader := newTestEnv(t, "")
		reader.LookupEnv = e.LookupEnv
		reader.Terminal = func(any) bool { return tt.terminal }
		// The file may have lost the server by now.
		write(t, file, "mcpServers: {kid: {comand: x}}\n")
		if err := reader.execute(t.Context(), newLogs(reader.env), append([]string{"--config", file}, tt.args...)...); err != nil {
			t.Errorf("%q: %v", tt.args, err)
		}
		got := reader.out.String()
		if !strings.HasSuffix(got, tt.want) || strings.Count(got, "\n") != strings.Count(tt.want, "\n") {
			t.Errorf("%q: got %q, want a line that ends with %q", tt.args, got, tt.want)
		}
	}
	if logs, _ := filepath.Glob(filepath.Join(state, "*", "*", logFolder)); logs != nil {
		t.Errorf("there are files: %q", logs)
	}
}

// The log that is kept has what the servers of a client on stdio write, which the log itself
// has not, and nothing else besides the log.
func TestKeptLogHasProcesses(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, "")
	write(t, filepath.Join(e.Dir, "signalbox.yaml"), "mcpServers: {}\n")
	s := &service{env: e.env, flags: serveFlags{stdio: true}, terminal: true, source: e.source(""), cfg: new(config.Config)}
	s.openLog(t.Context())
	defer s.endLog()
	log := s.log.With(slog.String("backend", "kid"))
	log.Debug(stderrMessage, slog.String("line", "up"))
	log.Debug("detail")
	log.Info("fact")
	var kept lockedBuffer
	if err := s.journal.Read(&kept, false, func() {}, nil); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text        string
		shown, kept bool
	}{{"backend stderr", false, true}, {"detail", false, false}, {"fact", true, true}} {
		if shown, kept := strings.Contains(e.err.String(), tt.text), strings.Contains(kept.String(), tt.text); shown != tt.shown || kept != tt.kept {
			t.Errorf("%q: shown %t, kept %t", tt.text, shown, kept)
		}
	}
}

// A start removes the logs of all but the last gateways that have ended. Those of running
// gateways, and of others that are starting, remain.
func TestOldLogsAreRemoved(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	folder := filepath.Join(state, logFolder)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	add := func(name string, age time.Duration) {
		path := filepath.Join(folder, name)
		write(t, path, "{}\n")
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		add(fmt.Sprintf("ended%d.log", i), time.Duration(i+1)*time.Hour)
		add(fmt.Sprintf("ended%d.log.1", i), time.Duration(i+1)*time.Hour)
		add(fmt.Sprintf("new%d.log", i), 0)
	}
	add("running.log", 100*time.Hour)
	write(t, filepath.Join(state, "running"+socketSuffix), "")
	removeOldLogs(state)
	left, _ := filepath.Glob(filepath.Join(folder, "*"))
	var names []string
	for _, path := range left {
		names = append(names, filepath.Base(path))
	}
	want := "ended0.log ended0.log.1 ended1.log ended1.log.1 ended2.log ended2.log.1 new0.log new1.log new2.log new3.log new4.log running.log"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("left %s, want %s", got, want)
	}
}
