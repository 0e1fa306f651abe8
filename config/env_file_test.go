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

// TestParseEnv checks the rules of the format. For texts without ambiguity, the expected
// values are those of npm's dotenv package.
func TestParseEnv(t *testing.T) {
	const (
		nothing  = "sets no variable"
		noName   = "sets something that is not the name of a variable"
		unclosed = "has a quote that is not closed"
		behind   = "has text after the closing quote"
		inside   = "has a # inside a value without quotes"
	)
	tests := []struct {
		text     string
		vars     map[string]string
		mistakes []string // line: message
	}{
		{"", nil, nil},
		{"\n# a comment\n \t# another\n\n", nil, nil},
		{"A=1", map[string]string{"A": "1"}, nil},
		{"A=1\r\nB=2\rC=3\n", map[string]string{"A": "1", "B": "2", "C": "3"}, nil},
		{"\ufeffA=1\n", map[string]string{"A": "1"}, nil},
		{"  A \t=  b c\t \n", map[string]string{"A": "b c"}, nil},
		{"export A=1\nexport\tB=2\nexported=3\nexport=4", map[string]string{"A": "1", "B": "2", "exported": "3", "export": "4"}, nil},
		{"A: 1\nB:\t2\nURL=http://x:1/?a=b", map[string]string{"A": "1", "B": "2", "URL": "http://x:1/?a=b"}, nil},
		{"A=\nB= \nC=''\nD=\"\"", map[string]string{"A": "", "B": "", "C": "", "D": ""}, nil},
		{"A=1 # note\nB= # note\nC=#note", map[string]string{"A": "1", "B": "", "C": ""}, nil},
		{"A=1\nA=2", map[string]string{"A": "2"}, nil},
		{"a.b-C_9=1", map[string]string{"a.b-C_9": "1"}, nil},
		{"A=$B ${B}\nC=\"${A}\"", map[string]string{"A": "$B ${B}", "C": "${A}"}, nil},
		{`A='a # "b" \n' # note` + "\nB=`it's \"it\"`\n", map[string]string{"A": `a # "b" \n`, "B": `it's "it"`}, nil},
		{`A="a\nb\rc\t" `, map[string]string{"A": "a\nb\rc\\t"}, nil},
		{`A="a\"b"`, map[string]string{"A": `a\"b`}, nil},
		{"A=\"-----BEGIN\nMII=\n# key\n-----END\"\nB=2", map[string]string{"A": "-----BEGIN\nMII=\n# key\n-----END", "B": "2"}, nil},
		{"A='1\n2'\nB", map[string]string{"A": "1\n2"}, []string{"3: " + nothing}},
		{"A=it's\nB=5\"", map[string]string{"A": "it's", "B": `5"`}, nil},

		{"A\nexport B\nC:1\nD:\n", nil, []string{"1: " + nothing, "2: " + nothing, "3: " + nothing, "4: " + nothing}},
		{"=1\nA B=2\n\"C\"=3\n", nil, []string{"1: " + noName, "2: " + noName, "3: " + noName}},
		{"A=a#b\nB=2", map[string]string{"B": "2"}, []string{"1: " + inside}},
		{"A='1\nB=2", map[string]string{"B": "2"}, []string{"1: " + unclosed}},
		{`A="C:\dir\"`, nil, []string{"1: " + unclosed}},
		{"A='1'2\nB=2", map[string]string{"B": "2"}, []string{"1: " + behind}},
	}
	for _, tt := range tests {
		vars, mistakes := parseEnv(tt.text)
		got := make(map[string]string)
		for name, value := range vars {
			got[name] = value.Reveal()
		}
		var told []string
		for _, m := range mistakes {
			told = append(told, fmt.Sprintf("%d: %s", m.line, m.message))
		}
		if tt.vars == nil {
			tt.vars = map[string]string{}
		}
		if diff := cmp.Diff(got, tt.vars) + cmp.Diff(told, tt.mistakes); diff != "" {
			t.Errorf("%q (-got +want):\n%s", tt.text, diff)
		}
	}
}

func FuzzParseEnv(f *testing.F) {
	f.Add("A=1\nB='2\n3' # x\nexport C=\"4\"\nbad\n")
	f.Fuzz(func(t *testing.T, text string) {
		vars, mistakes := parseEnv(text)
		lines := 1 + strings.Count(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"), "\n")
		if len(vars)+len(mistakes) > lines {
			t.Fatalf("%q: %d variables and %d mistakes in %d lines", text, len(vars), len(mistakes), lines)
		}
		last := 0
		for _, m := range mistakes {
			if m.line <= last || m.line > lines {
				t.Fatalf("%q: a mistake in line %d of %d, after one in %d", text, m.line, lines, last)
			}
			last = m.line
		}
		for name := range vars {
			if name == "" || !isName(name, len(name)) {
				t.Fatalf("%q: the name %q", text, name)
			}
		}
	})
}

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
