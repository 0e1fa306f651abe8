// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEnvFile checks that a file of variables is read into env, which has precedence, and that
// problems name the key, the file and the line, and never the content.
func TestEnvFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write(".env", "TOKEN="+secretText+"\nMODE=file\n")
	bad := write("bad.env", "TOKEN='"+secretText+"\n"+secretText+"\nA="+secretText+"#1\n")
	write("null.env", "A=\x00\n")
	large := write("large.env", strings.Repeat("#", maxEnvFile+1))
	read := func(entry string) (*Config, error) {
		return Parse(filepath.Join(dir, "mcp.json"), fmt.Appendf(nil, "{\"mcpServers\": {\"a\": {\n%s}}}", entry),
			func(name string) (string, bool) { return ".env", name == "WHICH" })
	}
	for _, entry := range []string{
		`"command": "x", "envFile": ".env", "env": {"MODE": "own", "MORE": "1"}`,
		`"env": {"MODE": "own", "MORE": "1"}, "envFile": "./${WHICH}", "command": "x"`,
	} {
		c, err := read(entry)
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for name, value := range c.Servers[0].Env {
			got[name] = value.Reveal()
		}
		if diff := cmp.Diff(got, map[string]string{"TOKEN": secretText, "MODE": "own", "MORE": "1"}); diff != "" {
			t.Errorf("%s (-got +want):\n%s", entry, diff)
		}
		if want := filepath.Join(dir, ".env"); c.Servers[0].EnvFile != want {
			t.Errorf("%s: the file is %s, want %s", entry, c.Servers[0].EnvFile, want)
		}
	}
	gone := filepath.Join(dir, "gone.env")
	for _, tt := range []struct{ entry, want string }{
		{`"command": "x", "envFile": "gone.env"`, `FILE:2:28: "envFile": the file cannot be read: stat ` + gone + `: no such file or directory (create it, or remove the key)`},
		{`"command": "x", "envFile": "."`, `FILE:2:28: "envFile": ` + dir + ` is not a regular file (mode drwxr-xr-x)`},
		{`"command": "x", "envFile": "large.env"`, `FILE:2:28: "envFile": the file ` + large + ` is larger than 1MiB`},
		{
			`"command": "x", "envFile": "bad.env"`,
			`FILE:2:28: "envFile": line 1 of ` + bad + ` has a quote that is not closed` + "\n" +
				`FILE:2:28: "envFile": line 2 of ` + bad + ` sets no variable (write NAME=value)` + "\n" +
				`FILE:2:28: "envFile": line 3 of ` + bad + ` has a # inside a value without quotes (put the value in quotes, or a space before the #)`,
		},
		{`"command": "x", "envFile": "null.env"`, `FILE:1:17: the value of the variable A has a NUL in it`},
		{`"command": "x", "envFile": "~/.env"`, `FILE:2:28: "envFile" begins with ~, which only a shell replaces (write ${HOME}) [SB_FILE_TILDE]`},
		{`"url": "http://x", "envFile": ".env"`, `FILE:2:31: "envFile" has no meaning beside "url" (remove it)`},
		{`"command": "x", "envFile": "gone.env", "disabled": true`, ""},
		{`"command": "x", "envFile": ""`, ""},
	} {
		_, err := read(tt.entry)
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), filepath.Join(dir, "mcp.json"), "FILE")
		}
		if got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.entry, got, tt.want)
		}
		if strings.Contains(got, secretText) {
			t.Errorf("%s: it shows what the file holds: %s", tt.entry, got)
		}
	}
}

// TestEnvFileRunsNew checks that a changed value in the file is a change of env, and that a
// changed path with the same values is not.
func TestEnvFileRunsNew(t *testing.T) {
	dir := t.TempDir()
	read := func(file, text string) *Config {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Parse(filepath.Join(dir, "x.json"), fmt.Appendf(nil, `{"mcpServers": {"a": {"command": "x", "envFile": %q}}}`, file), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	old := read("a.env", "A=1")
	if got := old.RunsNew(read("b.env", "A=1\n# the same\n")); got != nil {
		t.Errorf("the same values in another file are new: %q", got)
	}
	if diff := cmp.Diff(old.RunsNew(read("a.env", "A=2")), []string{"mcpServers.a"}); diff != "" {
		t.Errorf("another value (-got +want):\n%s", diff)
	}
}
