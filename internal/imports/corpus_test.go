// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/imports"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// corpusSize is the number of files in the corpus. It only grows.
const corpusSize = 120

// TestCorpus reads files of clients as they are found in public repositories, with their
// structure and their mistakes, and neutral names. testdata/corpus has an archive for each
// client: a file, and what is expected of it. A file in the folder project is one of a
// project.
//
// Each file is imported, or refused in one line. Its result is a valid configuration, and no
// note has a value.
func TestCorpus(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("testdata/corpus/*.txtar")
	if err != nil || len(archives) != len(clients.IDs()) {
		t.Fatalf("%d archives for %d clients: %v", len(archives), len(clients.IDs()), err)
	}
	total := 0
	for _, path := range archives {
		client, ok := clients.ByID(strings.TrimSuffix(filepath.Base(path), ".txtar"))
		if !ok {
			t.Fatalf("%s is not the ID of a client", path)
		}
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		total += testArchive(t, path, archive, func(name string) imports.Source {
			src := imports.Source{File: name, Client: client.ID, Dialect: client.Dialect, Home: "/home/me"}
			if strings.HasPrefix(name, "project/") {
				src.Project = "/srv/project"
			}
			return src
		})
	}
	if total < corpusSize {
		t.Errorf("%d files, want at least %d", total, corpusSize)
	}
}

// TestPasted reads texts that users paste, in the same way.
func TestPasted(t *testing.T) {
	t.Parallel()
	const path = "testdata/pasted.txtar"
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	testArchive(t, path, archive, func(string) imports.Source { return imports.Source{Home: "/home/me"} })
}

// testArchive compares the results of the files of an archive with those in it, and returns
// the number of files.
func testArchive(t *testing.T, path string, archive *txtar.Archive, source func(name string) imports.Source) int {
	t.Helper()
	want := make(map[string]string)
	for _, f := range archive.Files {
		if name, ok := strings.CutSuffix(f.Name, ".want"); ok {
			want[name] = string(f.Data)
		}
	}
	var renewed []txtar.File
	count := 0
	for _, f := range archive.Files {
		if strings.HasSuffix(f.Name, ".want") {
			continue
		}
		count++
		got := describe(t, path+" "+f.Name, source(f.Name), asWritten(f))
		renewed = append(renewed, f, txtar.File{Name: f.Name + ".want", Data: []byte(got)})
		if diff := cmp.Diff(want[f.Name], got); diff != "" && !*update {
			t.Errorf("%s: %s (-want +got):\n%s", path, f.Name, diff)
		}
	}
	if *update {
		archive.Files = renewed
		if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return count
}

// asWritten returns the bytes of a file. Line breaks and marks that would not survive in an
// archive are in its name.
func asWritten(f txtar.File) []byte {
	text := string(f.Data)
	if strings.Contains(f.Name, "crlf") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if strings.Contains(f.Name, "bom") {
		text = "\ufeff" + text
	}
	return []byte(text)
}

// describe returns the notes and the configuration of a text, or why it is refused.
func describe(t *testing.T, name string, src imports.Source, data []byte) string {
	t.Helper()
	result, err := imports.Read(src, data)
	if err != nil {
		if strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("%s: more than one line: %v", name, err)
		}
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	servers := imports.Merge([]*imports.Result{result}, nil, nil)
	moved := imports.MoveSecrets(servers, func(string, string) bool { return true })
	for i := range servers {
		s := &servers[i]
		fmt.Fprintf(&b, "# %s: %s (%s)\n", s.Name, s.Summary(), s.Origins[0])
		for _, n := range s.Notes {
			b.WriteString("#   " + note(n) + "\n")
		}
		if len(s.Variables) > 0 {
			b.WriteString("#   needs " + strings.Join(s.Variables, ", ") + "\n")
		}
	}
	for _, n := range result.Notes {
		b.WriteString("# " + note(n) + "\n")
	}
	checkNotes(t, name, servers, moved, b.String())
	if len(servers) == 0 {
		return b.String() + "no servers\n"
	}
	rendered := render(t, servers)
	accept(t, name, rendered, servers, moved)
	_, body, _ := strings.Cut(string(rendered), "\n") // the comment is the same in all
	return b.String() + body
}

// render returns a new configuration file with servers.
func render(t *testing.T, servers []imports.Server) []byte {
	t.Helper()
	file, err := imports.AddTo(configedit.File{Name: "signalbox.yaml"}, servers)
	if err != nil {
		t.Fatal(err)
	}
	return file.Text
}

func note(n imports.Note) string {
	if n.Line == 0 {
		return n.Text
	}
	return fmt.Sprintf("line %d: %s", n.Line, n.Text)
}

// checkNotes rejects a description that has a secret, or a literal value of a variable or a
// header, or more than one line for a note.
func checkNotes(t *testing.T, name string, servers []imports.Server, moved []imports.Secret, described string) {
	t.Helper()
	for _, s := range moved {
		if len(s.Value) > 8 && strings.Contains(described, s.Value) {
			t.Errorf("%s: the value of %s is in the notes:\n%s", name, s.Name, described)
		}
	}
	for _, s := range servers {
		for _, p := range slices.Concat(s.Env, s.Headers) {
			if value := strings.TrimPrefix(p.Value, "Bearer "); len(value) > 8 && !strings.Contains(value, "${") && strings.Contains(described, value) {
				t.Errorf("%s: the value of %s is in the notes:\n%s", name, p.Name, described)
			}
		}
		for _, n := range s.Notes {
			if strings.ContainsAny(n.Text, "\r\n") {
				t.Errorf("%s: a note of several lines: %q", name, n.Text)
			}
		}
	}
}

// accept checks that a rendered configuration is valid, and has the same servers and none of
// the secrets that were moved out of it.
func accept(t *testing.T, name string, rendered []byte, servers []imports.Server, moved []imports.Secret) {
	t.Helper()
	for _, s := range moved {
		if len(s.Value) > 8 && strings.Contains(string(rendered), s.Value) {
			t.Errorf("%s: the value of %s is in the configuration:\n%s", name, s.Name, rendered)
		}
	}
	cfg, err := config.Parse("signalbox.yaml", rendered, func(variable string) (string, bool) {
		at := slices.IndexFunc(moved, func(s imports.Secret) bool { return s.Name == variable })
		switch {
		case at >= 0:
			return moved[at].Value, true
		case strings.Contains(variable, "URL"):
			return "http://127.0.0.1:1", true
		case strings.Contains(variable, "PORT"):
			return "8080", true
		}
		return "value", true
	})
	if err != nil {
		t.Errorf("%s: the configuration is rejected: %v\n%s", name, err, rendered)
		return
	}
	if len(cfg.Servers) != len(servers) {
		t.Errorf("%s: %d servers in the configuration, want %d", name, len(cfg.Servers), len(servers))
		return
	}
	for i, b := range cfg.Servers {
		s := &servers[i]
		if b.Name != s.Name || b.Disabled != s.Disabled || len(b.Args) != len(s.Args) || len(b.Env) != len(s.Env) || len(b.Headers) != len(s.Headers) || b.Timeout != s.Timeout {
			t.Errorf("%s: got %+v, want %+v", name, b, s)
		}
		if b.Disabled {
			continue // its variables are not replaced
		}
		for j, arg := range s.Args {
			if !strings.Contains(arg, "${") && b.Args[j] != arg {
				t.Errorf("%s: argument %q, want %q", name, b.Args[j], arg)
			}
		}
		for _, p := range s.Env {
			if got := b.Env[p.Name].Reveal(); !strings.Contains(p.Value, "${") && got != p.Value {
				t.Errorf("%s: variable %s: %q, want %q", name, p.Name, got, p.Value)
			}
		}
	}
}
