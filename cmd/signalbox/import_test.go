// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
func importEnv(t *testing.T, answer string, before func(dir string)) *testEnv {
	t.Helper()
	e := newTestEnv(t, "")
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
		code := e.run(t.Context(), "import")
		text, err := os.ReadFile(filepath.Join(e.Dir, "signalbox.yaml"))
		if code != exitOK || (err == nil) != yes || yes != strings.Contains(string(text), "not-a-real-token") {
			t.Errorf("answer %q: exit code %d, %v, %s", answer, code, err, text)
		}
		if shown := e.out.String() + e.err.String(); strings.Contains(shown, "not-a-real") || !strings.Contains(shown, "env FORGE_TOKEN is a literal secret") ||
			!strings.Contains(shown, "signalbox.yaml (1 new server)? [y/N]") || yes == strings.Contains(shown, "nothing was written") {
			t.Errorf("answer %q: printed %s", answer, shown)
		}
		if info, err := os.Stat(filepath.Join(e.Dir, "signalbox.yaml")); err == nil && info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
			t.Errorf("mode %v", info.Mode())
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
		code := e.run(t.Context(), "import")
		if text, err := os.ReadFile(path); code != exitFailed || err != nil || string(text) != theirs || !strings.Contains(e.err.String(), "changed meanwhile; look again") {
			t.Errorf("exit code %d, the file has %q, %v, printed %s", code, text, err, e.err)
		}
	}
}

// A file of a project that is named has the project of its place.
func TestImportNamedProjectFile(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, "")
	folder := filepath.Join(e.Dir, "shop", ".roo")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(folder, "mcp.json"), filepath.Join(e.Dir, "shop", "any.json")} {
		if err := os.WriteFile(path, []byte(`{"mcpServers": {"a": {"command": "./a.sh"}}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		into := filepath.Join(t.TempDir(), "signalbox.yaml")
		code := e.run(t.Context(), "import", path, "--into", into, "--yes")
		text, err := os.ReadFile(into)
		if want := "cwd: " + filepath.Join(e.Dir, "shop") + "\n"; code != exitOK || err != nil || !strings.Contains(string(text), want) && os.PathSeparator == '/' {
			t.Errorf("exit code %d, %v: %s%s", code, err, text, e.err)
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
