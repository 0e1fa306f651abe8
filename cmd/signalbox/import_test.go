// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/internal/clients"
)

// typedAnswers is standard input on which a question is answered, after an action.
type typedAnswers struct {
	io.Reader
	before func()
}

func (a *typedAnswers) Read(p []byte) (int, error) {
	if a.before != nil {
		a.before()
		a.before = nil
	}
	return a.Reader.Read(p)
}

// importEnv returns an env with a terminal, on which one line is typed, and a file of a
// client. before is called when the question has been asked.
func importEnv(t *testing.T, answer string, before func(dir string)) *commandtest.Env {
	t.Helper()
	e := commandtest.New(t, "")
	e.Stdin = &typedAnswers{strings.NewReader(answer), func() {
		if before != nil {
			before(e.Dir)
		}
	}}
	e.Terminal = func(any) bool { return true }
	folder := filepath.Join(e.Dir, ".cursor")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	text := `{"mcpServers": {"forge": {"command": "forge", "env": {"FORGE_TOKEN": "not-a-real-token"}}}}`
	if err := os.WriteFile(filepath.Join(folder, "mcp.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return e
}

// A question is asked before anything is written, and only a yes is one. What is shown has no
// secret, and the file can be read by its user only.
func TestImportAsks(t *testing.T) {
	t.Parallel()
	for answer, yes := range map[string]bool{"y\n": true, "YES\r\n": true, "n\n": false, "\n": false, "": false, "yes please\n": false} {
		e := importEnv(t, answer, nil)
		code := runCommand(t.Context(), e, "import")
		text, err := os.ReadFile(filepath.Join(e.Dir, "signalbox.yaml"))
		if code != exitOK || (err == nil) != yes || yes != strings.Contains(string(text), "FORGE_TOKEN: \"${FORGE_TOKEN}\"") {
			t.Errorf("answer %q: exit code %d, %v, %s", answer, code, err, text)
		}
		secrets, err := os.ReadFile(filepath.Join(e.Dir, "secrets.env"))
		if (err == nil) != yes || yes != (string(secrets) == "FORGE_TOKEN=not-a-real-token\n") {
			t.Errorf("answer %q: the secrets are %q, %v", answer, secrets, err)
		}
		if shown := e.Out.String() + e.Err.String(); strings.Contains(shown, "not-a-real") || !strings.Contains(shown, "FORGE_TOKEN moves to secrets.env\n") ||
			!strings.Contains(shown, "signalbox.yaml (new, 1 server) and secrets.env (0600, 1 value). No other file changes.\n") ||
			!strings.Contains(shown, "Proceed? [y/N] ") || yes == strings.Contains(shown, "nothing was written") {
			t.Errorf("answer %q: printed %s", answer, shown)
		}
		for _, name := range []string{"signalbox.yaml", "secrets.env"} {
			if info, err := os.Stat(filepath.Join(e.Dir, name)); err == nil && info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
				t.Errorf("%s has mode %v", name, info.Mode())
			}
		}
	}
}

// A file that is written while the question is asked is left alone, also a new one.
func TestImportIntoChangedFile(t *testing.T) {
	t.Parallel()
	const theirs = "mcpServers: {theirs: {command: x}}\n"
	for _, old := range []string{"", "mcpServers: {}\n"} {
		e := importEnv(t, "y\n", func(dir string) {
			if err := os.WriteFile(filepath.Join(dir, "signalbox.yaml"), []byte(theirs), 0o600); err != nil {
				t.Error(err)
			}
		})
		path := filepath.Join(e.Dir, "signalbox.yaml")
		if old != "" {
			if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		code := runCommand(t.Context(), e, "import")
		if text, err := os.ReadFile(path); code != exitFailed || err != nil || string(text) != theirs || !strings.Contains(e.Err.String(), "changed meanwhile; look again") {
			t.Errorf("exit code %d, the file has %q, %v, printed %s", code, text, err, e.Err)
		}
	}
}

// If the second file cannot be written, the secrets are kept, and a second import uses them.
func TestImportWritesSecretsFirst(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, file, theirs string
		want               string
		secrets            string // afterwards
	}{
		{"the configuration changes", "signalbox.yaml", "mcpServers: {theirs: {command: x}}\n", "secrets.env has the credentials already, and no server was written: import again", "FORGE_TOKEN=not-a-real-token\n"},
		{"the secrets change", "secrets.env", "FORGE_TOKEN=theirs\n", "nothing was written: ", "FORGE_TOKEN=theirs\n"},
	} {
		e := importEnv(t, "y\n", func(dir string) { commandtest.Write(t, filepath.Join(dir, tt.file), tt.theirs) })
		secrets := filepath.Join(e.Dir, "secrets.env")
		code := runCommand(t.Context(), e, "import")
		if text, err := os.ReadFile(secrets); code != exitFailed || !strings.Contains(e.Err.String(), tt.want) || err != nil || string(text) != tt.secrets {
			t.Errorf("%s: exit code %d, %q, %v, printed %s", tt.name, code, text, err, e.Err)
		}
		if text, err := os.ReadFile(filepath.Join(e.Dir, "signalbox.yaml")); err == nil && string(text) != tt.theirs {
			t.Errorf("%s: the configuration is %q", tt.name, text)
		}
		if err := os.Chmod(secrets, 0o600); err != nil {
			t.Fatal(err)
		}
		// A name that is taken is not used, and one with the value is.
		if code := runCommand(t.Context(), e, "import", "--yes"); code != exitOK {
			t.Errorf("%s: exit code %d: %s", tt.name, code, e.Err)
		}
		want := tt.secrets
		if tt.file == "secrets.env" {
			want += "FORGE_TOKEN_2=not-a-real-token\n"
		}
		if text, err := os.ReadFile(secrets); err != nil || string(text) != want {
			t.Errorf("%s: then the secrets are %q, %v", tt.name, text, err)
		}
	}
}

// A file with secrets that others can read is left alone.
func TestImportRefusesSecretsOfOthers(t *testing.T) {
	t.Parallel()
	if os.PathSeparator != '/' {
		return // files have no modes
	}
	e := importEnv(t, "", nil)
	path := filepath.Join(e.Dir, "secrets.env")
	commandtest.Write(t, path, "A=1\n")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	code := runCommand(t.Context(), e, "import", "--yes")
	if code != exitFailed || !strings.Contains(e.Err.String(), "secrets.env is not used: other users can read or write it (mode 0644) (chmod 600 ") {
		t.Errorf("exit code %d: %s", code, e.Err)
	}
	if code := runCommand(t.Context(), e, "import", "--yes", "--keep-secrets"); code != exitOK || !strings.Contains(e.Out.String(), "env FORGE_TOKEN is a literal secret in the configuration") {
		t.Errorf("exit code %d: %s%s", code, e.Out, e.Err)
	}
	if text, err := os.ReadFile(filepath.Join(e.Dir, "signalbox.yaml")); err != nil || !strings.Contains(string(text), "FORGE_TOKEN: not-a-real-token\n") {
		t.Errorf("%q, %v", text, err)
	}
}

// A file of a project that is named has the project of its place.
func TestImportNamedProjectFile(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	folder := filepath.Join(e.Dir, "shop", ".roo")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(folder, "mcp.json"), filepath.Join(e.Dir, "shop", "any.json")} {
		if err := os.WriteFile(path, []byte(`{"mcpServers": {"a": {"command": "./a.sh"}}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		into := filepath.Join(t.TempDir(), "signalbox.yaml")
		code := runCommand(t.Context(), e, "import", path, "--into", into, "--yes")
		text, err := os.ReadFile(into)
		if want := "cwd: " + filepath.Join(e.Dir, "shop") + "\n"; code != exitOK || err != nil || !strings.Contains(string(text), want) && os.PathSeparator == '/' {
			t.Errorf("exit code %d, %v: %s%s", code, err, text, e.Err)
		}
	}
}

// The documentation names every client.
func TestImportDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "config.md"))
	if err != nil {
		t.Fatal(err)
	}
	docs := strings.Join(strings.Fields(string(text)), " ")
	for _, c := range clients.All() {
		if want := c.Name + " (`" + c.ID + "`)"; !strings.Contains(docs, want) {
			t.Errorf("docs/config.md does not have %s", want)
		}
	}
}
