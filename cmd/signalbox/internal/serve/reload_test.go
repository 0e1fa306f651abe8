// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
)

// serviceOf opens a service for a file, without HTTP, which the tests drive themselves.
func serviceOf(t *testing.T, text string) (s *service, e *commandtest.Env, file string) {
	t.Helper()
	e = commandtest.New(t, "")
	file = filepath.Join(e.Dir, "signalbox.yaml")
	commandtest.Write(t, file, text)
	s = &service{Env: e.Env, flags: serveFlags{listen: "127.0.0.1:0"}, source: source.Find(e.Env, "")}
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.gateway.Close(); err != nil {
			t.Error(err)
		}
		s.http.close(t.Context())
	})
	return s, e, file
}

// An invalid file does not change what is served, and the status shows the problem until a
// file is valid (FAULTS, "bad reload while running").
func TestReloadThatIsRefused(t *testing.T) {
	t.Parallel()
	const sound = "mcpServers: {a: {command: no-such-program}}\n"
	for _, tt := range []struct {
		name, text string // without text there is no file
		problems   []string
		said       string
	}{
		{"gone", "", []string{"read config: open FILE: no such file or directory"}, `msg="reload refused: the file cannot be read"`},
		{"a wrong key", "lisen: x\nmcpServers: {}\n", []string{`FILE:1:1: unknown key "lisen" (did you mean "listen"?)`}, `msg="reload refused: the old configuration stays in effect" problem="FILE:1:1: `},
		{"several", "lisen: x\nmcpServers: {a: {comand: x}}\n", []string{
			`FILE:1:1: unknown key "lisen" (did you mean "listen"?)`,
			`FILE:2:18: unknown key "comand" (did you mean "command"?)`,
		}, "FILE:2:18: "},
		{"what only a start can change", "path: /other\n" + sound, []string{"FILE:1:7: path cannot be changed while the gateway runs (restart it)"}, "path cannot be changed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, e, file := serviceOf(t, sound)
			if tt.text == "" {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			} else {
				commandtest.Write(t, file, tt.text)
			}
			_, _ = s.reload(t.Context()) // the status has the error

			status := s.gateway.Status()
			if status.ReloadRefused == nil {
				t.Fatal("status does not say that a reload was refused")
			}
			var got []string
			for _, p := range status.ReloadRefused.Problems {
				got = append(got, strings.ReplaceAll(p, file, "FILE"))
			}
			if diff := cmp.Diff(got, tt.problems); diff != "" {
				t.Errorf("problems (-got +want):\n%s", diff)
			}
			if said := strings.ReplaceAll(e.Err.String(), file, "FILE"); !strings.Contains(strings.ReplaceAll(said, `\"`, `"`), tt.said) {
				t.Errorf("logged %q, want %q", said, tt.said)
			}
			if len(status.Backends) != 1 || status.Backends[0].Name != "a" {
				t.Errorf("the backends became %v", status.Backends)
			}

			commandtest.Write(t, file, sound)
			_, _ = s.reload(t.Context())
			if got := s.gateway.Status().ReloadRefused; got != nil {
				t.Errorf("a file that works was followed by %v", got)
			}
		})
	}
}

// A command that writes a file and has it reloaded, such as approve, causes one reload: the watcher does not cause another.
func TestReloadByCommandIsNotRepeated(t *testing.T) {
	t.Parallel()
	s, e, file := serviceOf(t, "mcpServers: {}\n")
	w := startWatch(t, file)
	for i, text := range []string{"mcpServers: {a: {command: no-such-program}}\n", "mcpServers: {b: {command: no-such-program}}\n", "mcpServers: []\n"} {
		commandtest.Write(t, file, text)
		_, _ = s.reloadFor(t.Context(), w)
		if next(t, w) {
			t.Errorf("%s: the watcher notices it again", text)
		}
		if n := strings.Count(e.Err.String(), "configuration reloaded"); n != min(i+1, 2) {
			t.Errorf("%s: %d reloads:\n%s", text, n, e.Err.String())
		}
	}
	commandtest.Write(t, file, "mcpServers: {}\n")
	if !next(t, w) {
		t.Error("the watcher does not notice a later change")
	}
	if _, err := s.reloadFor(t.Context(), nil); err != nil { // no file is watched
		t.Error(err)
	}
}

// Flags stay in effect after a reload: the file's address is not used, and a change of it has
// no effect.
func TestReloadKeepsTheCommandLine(t *testing.T) {
	t.Parallel()
	s, e, file := serviceOf(t, "listen: 127.0.0.1:1\nmcpServers: {}\n")
	commandtest.Write(t, file, "listen: 127.0.0.1:2\nmcpServers: {b: {command: no-such-program}}\n")
	_, _ = s.reload(t.Context())
	if got := s.gateway.Status(); got.ReloadRefused != nil || len(got.Backends) != 1 {
		t.Errorf("refused %v, backends %v", got.ReloadRefused, got.Backends)
	}
	if said := e.Err.String(); !strings.Contains(said, `msg="configuration reloaded" file=`+file+" backends=1") {
		t.Errorf("logged %q", said)
	}
}
