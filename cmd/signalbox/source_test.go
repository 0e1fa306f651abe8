// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
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
			e := newTestEnv(t, "")
			for i, file := range order {
				switch {
				case i == first:
					write(t, filepath.Join(e.Dir, file), `{"mcpServers": {}}`)
				case i > first:
					write(t, filepath.Join(e.Dir, file), "this is wrong: [")
				}
			}
			s := e.source("")
			if got := filepath.Base(s.path); first < len(order) && got != name || s.isDemo() != (first == len(order)) {
				t.Errorf("found %q, want %q", s.path, name)
			}
			if _, err := s.load(); err != nil {
				t.Error(err)
			}
			if demo := len(s.options(slog.New(slog.DiscardHandler)).InProcess); demo != map[bool]int{true: 1}[s.isDemo()] {
				t.Errorf("%d backends in the process", demo)
			}
		})
	}
}

// The user's file is the last to be used, and found by the rules of the system.
func TestUserConfig(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, "")
	home := t.TempDir()
	e.LookupEnv = func(name string) (string, bool) {
		return home, name == map[string]string{"windows": "AppData"}[runtime.GOOS] || name == "HOME"
	}
	if s := e.source(""); !s.isDemo() {
		t.Errorf("found %q", s.path)
	}
	path := e.userConfig()
	if !strings.HasPrefix(path, home) || !strings.HasSuffix(path, filepath.Join("signalbox", "signalbox.yaml")) {
		t.Fatalf("the user's file is %q", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, "mcpServers: {}\n")
	if s := e.source(""); s.path != path {
		t.Errorf("found %q, want %q", s.path, path)
	}
	write(t, filepath.Join(e.Dir, "mcp.json"), `{"mcpServers": {}}`)
	if s := e.source(""); s.path != filepath.Join(e.Dir, "mcp.json") {
		t.Errorf("found %q, want the one of the folder", s.path)
	}
}

// A file named by a flag is used, whatever other files there are, even if it does not exist.
func TestNamedFileIsTaken(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, "")
	write(t, filepath.Join(e.Dir, "signalbox.yaml"), "mcpServers: {}\n")
	s := e.source("other.yaml")
	if s.path != filepath.Join(e.Dir, "other.yaml") {
		t.Errorf("took %q", s.path)
	}
	if _, err := s.load(); err == nil || !strings.Contains(err.Error(), "other.yaml") {
		t.Errorf("got %v, want that there is none", err)
	}
	absolute := filepath.Join(t.TempDir(), "x.yaml")
	if got := e.source(absolute).path; got != absolute {
		t.Errorf("took %q, want %q", got, absolute)
	}
	e.Dir = ""
	if got := e.source("x.yaml").path; got != "x.yaml" {
		t.Errorf("messages will say %q, and x.yaml was typed", got)
	}
}

func TestCheckOutput(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, file, text string
		args             []string
		code             int
		out, err         string
	}{
		{"sound", "a.yaml", "mcpServers: {a: {command: /bin/sh}}", []string{"a.yaml"}, exitOK, "DIR/a.yaml: no problems, 1 backend\n", ""},
		{"found", ".mcp.json", `{"mcpServers": {}}`, nil, exitOK, "DIR/.mcp.json: no problems, 0 backends\n", ""},
		{"an editor's", "mcp.json", `{"servers": {"a": {"command": "/bin/sh"}, "b": {"url": "http://127.0.0.1/"}}}`, []string{"mcp.json"}, exitOK, "DIR/mcp.json: no problems, 2 backends\n", ""},
		{"all disabled", "a.yaml", "mcpServers: {a: {command: x, disabled: true}}", []string{"a.yaml"}, exitOK, "DIR/a.yaml: no problems, 0 backends, 1 more disabled\n", ""},
		{"one problem", "a.yaml", "mcpServers: {a: {comand: x}}", []string{"a.yaml"}, exitFailed,
			"DIR/a.yaml:1:18: unknown key \"comand\" (did you mean \"command\"?)\n", "signalbox: check DIR/a.yaml: 1 problem\n"},
		{"a tab", "a.yaml", "mcpServers:\n\ta: {command: x}\n", []string{"a.yaml"}, exitFailed, "DIR/a.yaml:2:1: ", "signalbox: check DIR/a.yaml: 1 problem\n"},
		{"twice the same key", "a.yaml", "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\nmcpServers: {}\n", []string{"a.yaml"}, exitFailed, "DIR/a.yaml:2:1: ", "signalbox: check DIR/a.yaml: 1 problem\n"},
		{"nothing", "a.yaml", "", []string{"a.yaml"}, exitFailed, "DIR/a.yaml:", "signalbox: check DIR/a.yaml: 1 problem\n"},
		{"hostile", "a.yaml", "\"\\e[2J\\u202e\": 1\nmcpServers: {}\n", []string{"a.yaml"}, exitFailed, "DIR/a.yaml:1:1: ", "signalbox: check DIR/a.yaml: 1 problem\n"},
		{"no file", "a.yaml", "", []string{"b.yaml"}, exitFailed, "", "signalbox: check DIR/b.yaml: read config: open DIR/b.yaml: no such file"},
		{"none here", "a.yaml", "", nil, exitUsage, "", "signalbox: no signalbox.yaml, signalbox.json, .mcp.json or mcp.json here; name the FILE (see"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t, "")
			e.Terminal = func(any) bool { return true }
			write(t, filepath.Join(e.Dir, tt.file), tt.text)
			if code := e.run(t.Context(), append([]string{"check"}, tt.args...)...); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			out, err := strings.ReplaceAll(e.out.String(), e.Dir, "DIR"), strings.ReplaceAll(e.err.String(), e.Dir, "DIR")
			if !strings.HasPrefix(out, tt.out) || tt.code != exitFailed && out != tt.out {
				t.Errorf("printed %q, want %q", out, tt.out)
			}
			if !strings.HasPrefix(err, tt.err) || tt.err == "" && err != "" {
				t.Errorf("said %q, want %q", err, tt.err)
			}
			if hasHidden(out) || hasHidden(err) {
				t.Errorf("a terminal would obey %q, %q", out, err)
			}
		})
	}
}
