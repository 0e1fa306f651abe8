// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// The first of the files is used, and mistakes in the others do not matter.
func TestLookupOrder(t *testing.T) {
	t.Parallel()
	order := []string{"signalbox.yaml", "signalbox.json", ".mcp.json"}
	for first := range len(order) + 1 {
		name := "the demo"
		if first < len(order) {
			name = order[first]
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := commandtest.New(t, "")
			for i, file := range order {
				switch {
				case i == first:
					commandtest.Write(t, filepath.Join(e.Dir, file), `{"mcpServers": {}}`)
				case i > first:
					commandtest.Write(t, filepath.Join(e.Dir, file), "this is wrong: [")
				}
			}
			s := Find(e.Env, "")
			if got := filepath.Base(s.Path); first < len(order) && got != name || s.IsDemo() != (first == len(order)) {
				t.Errorf("found %q, want %q", s.Path, name)
			}
			if _, err := s.Load(); err != nil {
				t.Error(err)
			}
			if demo := len(s.Options(slog.New(slog.DiscardHandler)).InProcess); demo != map[bool]int{true: 1}[s.IsDemo()] {
				t.Errorf("%d backends in the process", demo)
			}
		})
	}
}

// The user's file is the last to be used, and found by the rules of the system.
func TestUserConfig(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	home := t.TempDir()
	e.LookupEnv = func(name string) (string, bool) {
		return home, name == map[string]string{"windows": "AppData"}[runtime.GOOS] || name == "HOME"
	}
	if s := Find(e.Env, ""); !s.IsDemo() {
		t.Errorf("found %q", s.Path)
	}
	path := UserConfig(e.Env)
	if !strings.HasPrefix(path, home) || !strings.HasSuffix(path, filepath.Join("signalbox", "signalbox.yaml")) {
		t.Fatalf("the user's file is %q", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	commandtest.Write(t, path, "mcpServers: {}\n")
	if s := Find(e.Env, ""); s.Path != path {
		t.Errorf("found %q, want %q", s.Path, path)
	}
	commandtest.Write(t, filepath.Join(e.Dir, "mcp.json"), `{"mcpServers": {}}`)
	if s := Find(e.Env, ""); s.Path != filepath.Join(e.Dir, "mcp.json") {
		t.Errorf("found %q, want the one of the folder", s.Path)
	}
}

// A file named by a flag is used, whatever other files there are, even if it does not exist.
func TestNamedFileIsTaken(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	commandtest.Write(t, filepath.Join(e.Dir, "signalbox.yaml"), "mcpServers: {}\n")
	s := Find(e.Env, "other.yaml")
	if s.Path != filepath.Join(e.Dir, "other.yaml") {
		t.Errorf("took %q", s.Path)
	}
	if _, err := s.Load(); err == nil || !strings.Contains(err.Error(), "other.yaml") {
		t.Errorf("got %v, want that there is none", err)
	}
	absolute := filepath.Join(t.TempDir(), "x.yaml")
	if got := Find(e.Env, absolute).Path; got != absolute {
		t.Errorf("took %q, want %q", got, absolute)
	}
	e.Dir = ""
	if got := Find(e.Env, "x.yaml").Path; got != "x.yaml" {
		t.Errorf("messages will say %q, and x.yaml was typed", got)
	}
}
