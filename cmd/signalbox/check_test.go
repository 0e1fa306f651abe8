// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

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
			e := commandtest.New(t, "")
			e.Terminal = func(any) bool { return true }
			commandtest.Write(t, filepath.Join(e.Dir, tt.file), tt.text)
			if code := runCommand(t.Context(), e, append([]string{"check"}, tt.args...)...); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			out, err := strings.ReplaceAll(e.Out.String(), e.Dir, "DIR"), strings.ReplaceAll(e.Err.String(), e.Dir, "DIR")
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
