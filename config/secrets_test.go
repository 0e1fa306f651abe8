// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// withSecrets loads a server with a file of secrets beside it. What is in the environment is
// in env.
func withSecrets(t *testing.T, entry, secrets string, mode os.FileMode, env map[string]string) (*Config, []string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "signalbox.yaml")
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil { // independent of the umask
			t.Fatal(err)
		}
	}
	write(path, "mcpServers: {a: {command: x, "+entry+"}}\n", 0o600)
	if secrets != "none" {
		write(SecretsFile(path), secrets, mode)
	}
	c, err := Load(path, func(name string) (string, bool) {
		value, set := env[name]
		return value, set
	})
	if err == nil {
		return c, nil
	}
	text := strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
	if strings.Contains(text, secretText) {
		t.Errorf("%s, %s: an error shows a value: %s", entry, secrets, text)
	}
	return nil, strings.Split(text, "\n")
}

// TestSecrets checks which value a variable has, and which of the values count as secrets.
func TestSecrets(t *testing.T) {
	const entry = `args: ["${A}", "--b=${B:-default}", "${env:A}"], env: {C: "${C:-}"}`
	for _, tt := range []struct {
		name    string
		secrets string
		env     map[string]string
		want    []string // the arguments and the variable
		known   []string // the values that are secrets
	}{
		{"from the file", "A=one\nB=two\n", nil, []string{"one", "--b=two", "one", ""}, []string{"one", "two"}},
		{"the environment first", "A=one\nB=two\nC=three", map[string]string{"A": "own", "C": "own"}, []string{"own", "--b=two", "own", "own"}, []string{"two"}},
		{"not if it is empty", "A=one\n", map[string]string{"A": ""}, []string{"one", "--b=default", "one", ""}, []string{"one"}},
		{"no file", "none", map[string]string{"A": "own"}, []string{"own", "--b=default", "own", ""}, nil},
		{"quotes", "export A='o # ne' # note\n", nil, []string{"o # ne", "--b=default", "o # ne", ""}, []string{"o # ne"}},
		{"not expanded again", "A=${B}\nB=two\n", nil, []string{"${B}", "--b=two", "${B}", ""}, []string{"${B}", "two"}},
		{"empty", "A=\n", nil, []string{"", "--b=default", "", ""}, []string{""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, problems := withSecrets(t, entry, tt.secrets, 0o600, tt.env)
			if problems != nil {
				t.Fatal(problems)
			}
			s := &c.Servers[0]
			var known []string
			for _, secret := range s.Secrets {
				known = append(known, secret.Reveal())
			}
			got := append(append([]string{}, s.Args...), s.Env["C"].Reveal())
			if diff := cmp.Diff(tt.want, got) + cmp.Diff(tt.known, known); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if exists := c.SecretsFile() != ""; exists != (tt.secrets != "none") {
				t.Errorf("the file is %q", c.SecretsFile())
			}
		})
	}
}

// TestSecretsProblems checks that each mistake has its place, once, and that a file that is
// not needed causes none.
func TestSecretsProblems(t *testing.T) {
	const needed, optional = `args: ["${A}", "${B}"]`, `args: ["${A:-default}"]`
	const wide = "secrets.env:1:1: the file is not used: other users can read or write it (mode 0604) (chmod 600 "
	for _, tt := range []struct {
		name, entry, secrets string
		mode                 os.FileMode
		want                 []string // the beginnings of the problems
	}{
		{"missing", needed, "A=" + secretText, 0o600, []string{`signalbox.yaml:1:45: "args[1]" needs the environment variable B, which is not set (set it, run 'signalbox secret set B', or`}},
		{"mistakes", needed, "A=" + secretText + "\n\n  " + secretText + "\nB=" + secretText + "#x", 0o600, []string{
			"secrets.env:3:3: the line sets no variable (write NAME=value)",
			"secrets.env:4:18: the line has a # inside a value without quotes (put the value in quotes, or a space before the #)",
		}},
		{"mistakes of a file that is not needed", optional, secretText, 0o600, nil},
		{"mistakes of one that is", optional, "A=1\n" + secretText, 0o600, []string{"secrets.env:2:1: the line sets no variable"}},
		{"mode", needed, "A=1\nB=2\n", 0o604, []string{wide}},
		{"mode of a file that is not needed", optional, "A=1\n", 0o604, nil},
		{"large", needed, "A=1\nB=2\n#" + strings.Repeat("x", maxEnvFile), 0o600, []string{"secrets.env:1:1: the file is not used: the file "}},
	} {
		if tt.mode&0o077 != 0 && runtime.GOOS == "windows" {
			continue // files have no such modes
		}
		t.Run(tt.name, func(t *testing.T) {
			c, problems := withSecrets(t, tt.entry, tt.secrets, tt.mode, nil)
			if len(problems) != len(tt.want) {
				t.Fatalf("%q, want %q", problems, tt.want)
			}
			for i := range problems {
				if !strings.HasPrefix(problems[i], tt.want[i]) {
					t.Errorf("%q, want %q", problems[i], tt.want[i])
				}
			}
			if len(problems) == 0 && c.Servers[0].Args[0] != "default" {
				t.Errorf("the arguments are %q", c.Servers[0].Args)
			}
		})
	}
}

// A changed secret runs something new, and nothing else does.
func TestSecretRunsNew(t *testing.T) {
	load := func(secrets string, env map[string]string) *Config {
		c, problems := withSecrets(t, `env: {A: "${A}"}`, secrets, 0o600, env)
		if problems != nil {
			t.Fatal(problems)
		}
		c.Servers[0].Cwd = "" // another folder each time
		return c
	}
	one := load("A=1\nB=1\n", nil)
	if paths := one.RunsNew(load("A=1\nB=2\n", nil)); len(paths) > 0 {
		t.Errorf("an unused secret: %q", paths)
	}
	if paths := one.RunsNew(load("none", map[string]string{"A": "1"})); len(paths) > 0 {
		t.Errorf("the same value from the environment: %q", paths)
	}
	if paths := one.RunsNew(load("A=2\nB=1\n", nil)); !cmp.Equal(paths, []string{"mcpServers.a"}) {
		t.Errorf("a changed secret: %q", paths)
	}
}
