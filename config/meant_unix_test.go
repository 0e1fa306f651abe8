// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package config

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/code"
)

// TestInspectFindsWhatNobodyMeans checks the notes on valid values that are seldom meant, and
// that none shows its value.
func TestInspectFindsWhatNobodyMeans(t *testing.T) {
	github := "ghp_" + strings.Repeat("a1B2", 9)
	for _, tt := range []struct{ server, at, code string }{
		{`"command": "known"`, "", ""},
		{`"command": "known", "args": ["<YOUR_TOKEN>"]`, "args[0]", code.FilePlaceholder},
		{`"command": "known", "args": ["--root=/path/to/folder"]`, "args[0]", code.FilePlaceholder},
		{`"url": "https://h/mcp", "headers": {"Authorization": "Bearer <token>"}`, "Authorization", code.FilePlaceholder},

		{`"command": "known", "args": ["--token", "` + github + `"]`, "args[1]", code.FileLiteral},
		{`"command": "known", "env": {"A": "Bearer ` + github + `"}`, "A", code.FileLiteral},
		{`"url": "https://h/mcp?key=` + github + `"`, "url", code.FileLiteral},
		{`"command": "known", "args": ["${A}", "ghp_short", "task-management-for-the-whole-team", "sketch"]`, "", ""},

		{`"command": "known", "args": ["~/notes"]`, "args[0]", code.FileTilde},
		{`"command": "known", "args": ["--root=~/notes"]`, "args[0]", code.FileTilde},
		{`"command": "known", "args": ["~"]`, "args[0]", code.FileTilde},
		{`"command": "known", "args": ["a~/b", "~a", "x=~/y"]`, "", ""},

		{`"command": "known", "args": ["./signalbox.json"]`, "args[0]", code.FileRelative},
		{`"command": "known", "args": ["--file=signalbox.json"]`, "args[0]", code.FileRelative},
		{`"command": "known", "cwd": ".", "args": ["signalbox.json"]`, "", ""},
		{`"command": "known", "cwd": "nosuch", "args": [".", "./signalbox.json"]`, "", ""},
		{`"command": "known", "args": ["here", "./here", "./nosuch", "/etc/passwd", ".."]`, "", ""},

		{`"command": "npx", "args": ["-y", "@x/server"]`, "args[1]", code.FileUnpinned},
		{`"command": "/usr/bin/npx", "args": ["server@latest", "a@1"]`, "args[0]", code.FileUnpinned},
		{`"command": "npx", "args": ["--package", "server", "run"]`, "args[1]", code.FileUnpinned},
		{`"command": "npx", "args": ["-y", "@x/server@1.2.3", "server"]`, "", ""},
		{`"command": "npx", "args": ["--package=server@1", "run"]`, "", ""},
		{`"command": "npx", "args": ["-c", "server"]`, "", ""},
		{`"command": "npx", "args": ["github:x/y"]`, "", ""},
		{`"command": "npx", "args": ["-y"]`, "", ""},
		{`"command": "uvx", "args": ["mcp-server-fetch"]`, "args[0]", code.FileUnpinned},
		{`"command": "uvx", "args": ["--with", "x", "--from", "server", "run"]`, "args[3]", code.FileUnpinned},
		{`"command": "uvx", "args": ["server==1.2"]`, "", ""},
		{`"command": "uvx", "args": ["--from", "git+https://h/x", "run"]`, "", ""},
		{`"command": "known", "args": ["server"]`, "", ""},

		{`"command": "known", "prefix": "` + strings.Repeat("p", 60) + `"`, "names of its tools", code.NameLong},
	} {
		var found []string
		for _, note := range inspected(t, `{"mcpServers": {"a": {`+tt.server+`}}}`, 0o600) {
			if strings.HasSuffix(note, "["+code.StartNotFound+"]") && !strings.Contains(tt.server, "known") {
				continue // there is no npx
			}
			if strings.Contains(note, "others may be able to write") {
				continue
			}
			found = append(found, note)
			if strings.Contains(note, github) || strings.Contains(note, "notes\"") {
				t.Errorf("%s: the value is shown: %s", tt.server, note)
			}
		}
		switch {
		case tt.code == "" && len(found) > 0:
			t.Errorf("%s: noted %q", tt.server, found)
		case tt.code != "" && (len(found) != 1 || !strings.Contains(found[0], tt.at) || !strings.HasSuffix(found[0], "["+tt.code+"]")):
			t.Errorf("%s: noted %q, want %s with %s", tt.server, found, tt.at, tt.code)
		}
	}
}

// TestLiteralOfNameWithDot checks that a token is noted whatever the name of its server is.
func TestLiteralOfNameWithDot(t *testing.T) {
	const text = `{"mcpServers": {"a.b": {"command": "known", "prefix": "ab_", "env": {"A": "github_pat_0123456789abcdefghij"}}}}`
	if notes := inspected(t, text, 0o600); len(notes) != 1 || !strings.HasSuffix(notes[0], "["+code.FileLiteral+"]") {
		t.Errorf("noted %q, want one with %s", notes, code.FileLiteral)
	}
}
