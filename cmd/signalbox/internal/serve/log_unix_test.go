// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package serve

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/logs"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
)

// A gateway on a terminal keeps its log in memory only. Text of servers is escaped on a
// terminal, and only there.
func TestLogsOfAGatewayOnATerminal(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	state := commandtest.WithState(t, e)
	file := filepath.Join(e.Dir, "signalbox.yaml")
	commandtest.Write(t, file, "listen: 127.0.0.1:0\nmcpServers: {}\n")
	s := &service{Env: e.Env, terminal: true, source: source.Find(e.Env, ""), id: newGatewayName()}
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		s.endLog()
		s.control.close()
		_ = s.gateway.Close()
		s.http.close(t.Context())
	}()
	s.log.Info("backend stderr", slog.String("backend", "kid"), slog.String("line", "\u202eup"), slog.Int("cut", 7))
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
		reader := commandtest.New(t, "")
		reader.LookupEnv = e.LookupEnv
		reader.Terminal = func(any) bool { return tt.terminal }
		// The file may have lost the server by now.
		commandtest.Write(t, file, "mcpServers: {kid: {comand: x}}\n")
		if err := reader.Execute(t.Context(), logs.New(reader.Env), append([]string{"--config", file}, tt.args...)...); err != nil {
			t.Errorf("%q: %v", tt.args, err)
		}
		got := reader.Out.String()
		if !strings.HasSuffix(got, tt.want) || strings.Count(got, "\n") != strings.Count(tt.want, "\n") {
			t.Errorf("%q: got %q, want a line that ends with %q", tt.args, got, tt.want)
		}
	}
	if logs, _ := filepath.Glob(filepath.Join(state, "*", "*", logs.Folder)); logs != nil {
		t.Errorf("there are files: %q", logs)
	}
}

// The log that is kept has what the servers of a client on stdio write, which the log itself
// has not, and nothing else besides the log.
func TestKeptLogHasProcesses(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	commandtest.Write(t, filepath.Join(e.Dir, "signalbox.yaml"), "mcpServers: {}\n")
	s := &service{Env: e.Env, flags: serveFlags{stdio: true}, terminal: true, source: source.Find(e.Env, ""), cfg: new(config.Config)}
	s.openLog(t.Context())
	defer s.endLog()
	log := s.log.With(slog.String("backend", "kid"))
	log.Debug("backend stderr", slog.String("line", "up"))
	log.Debug("detail")
	log.Info("fact")
	var kept commandtest.Buffer
	if err := s.journal.Read(&kept, false, func() {}, nil); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text        string
		shown, kept bool
	}{{"backend stderr", false, true}, {"detail", false, false}, {"fact", true, true}} {
		if shown, kept := strings.Contains(e.Err.String(), tt.text), strings.Contains(kept.String(), tt.text); shown != tt.shown || kept != tt.kept {
			t.Errorf("%q: shown %t, kept %t", tt.text, shown, kept)
		}
	}
}
