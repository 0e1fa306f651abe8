// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/signalbox-mcp/signalbox/config"
)

// script is a txtar file of cases. Each case is a file NAME.yaml or NAME.json and its expected
// result, NAME.yaml.want. The file "env" has the variables, and "modes" the modes of files of
// the cases.
type script struct {
	path    string
	archive *txtar.Archive
}

// scripts reads the scripts of a folder of testdata.
func scripts(t testing.TB, folder string) []script {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts in %s: %v", folder, err)
	}
	var all []script
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		absolute, err := filepath.Abs(path) // tests change the working directory
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, script{absolute, archive})
	}
	return all
}

func (s script) name() string { return strings.TrimSuffix(filepath.Base(s.path), ".txtar") }

func (s script) file(name string) string {
	for _, f := range s.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// cases returns the configs of a script.
func (s script) cases() []txtar.File {
	var cases []txtar.File
	for _, f := range s.archive.Files {
		if slices.Contains([]string{".yaml", ".yml", ".json", ".jsonc"}, filepath.Ext(f.Name)) {
			cases = append(cases, f)
		}
	}
	return cases
}

// env returns the environment of a script.
func (s script) env() func(string) (string, bool) {
	vars := make(map[string]string)
	for line := range strings.Lines(s.file("env")) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		vars[name] = value
	}
	return func(name string) (string, bool) {
		value, ok := vars[name]
		return value, ok
	}
}

// enter writes the files of a script to a new folder and makes it the working directory, so
// that paths in messages are short.
func (s script) enter(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := txtar.Write(s.archive, "."); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(s.file("modes")) {
		mode, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		bits, err := strconv.ParseUint(mode, 8, 32)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, os.FileMode(bits)); err != nil {
			t.Fatal(err)
		}
	}
}

// hold compares the result of a case with the script, or rewrites the script.
func (s script) hold(t *testing.T, c txtar.File, got string) {
	t.Helper()
	name := c.Name + ".want"
	if !*config.Update {
		if diff := cmp.Diff(got, s.file(name)); diff != "" {
			t.Errorf("%s (-got +want):\n%s", c.Name, diff)
		}
		return
	}
	s.replace(name, c.Name, got)
	if err := os.WriteFile(s.path, txtar.Format(s.archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// replace sets a file of the archive, or inserts it after another.
func (s script) replace(name, behind, text string) {
	file := txtar.File{Name: name, Data: []byte(text)}
	for i, f := range s.archive.Files {
		if f.Name == name {
			s.archive.Files[i] = file
			return
		}
	}
	var files []txtar.File
	for _, f := range s.archive.Files {
		files = append(files, f)
		if f.Name == behind {
			files = append(files, file)
		}
	}
	s.archive.Files = files
}

// TestProblemString checks the line format with and without a file, a path and a hint.
func TestProblemString(t *testing.T) {
	tests := []struct {
		p    config.Problem
		want string
	}{
		{config.Problem{File: "x.yaml", Line: 3, Column: 7, Path: "a.b", Message: "m", Hint: "h"}, "x.yaml:3:7: m (h)"},
		{config.Problem{File: "x.yaml", Line: 3, Column: 7, Path: "a.b", Message: "m"}, "x.yaml:3:7: m"},
		{config.Problem{Path: "a.b", Message: "m", Hint: "h"}, "a.b: m (h)"},
		{config.Problem{Path: "a.b", Message: "m"}, "a.b: m"},
		{config.Problem{Message: "m", Hint: "h"}, "m (h)"},
		{config.Problem{Message: "m"}, "m"},
	}
	var all config.Problems
	var lines []string
	for _, tt := range tests {
		if got := tt.p.String(); got != tt.want {
			t.Errorf("%+v is %q, want %q", tt.p, got, tt.want)
		}
		all, lines = append(all, tt.p), append(lines, tt.want)
	}
	if got, want := all.Error(), strings.Join(lines, "\n"); got != want {
		t.Errorf("together: %q, want %q", got, want)
	}
}

// TestProblems checks the output for each mistake.
func TestProblems(t *testing.T) {
	for _, s := range scripts(t, "problems") {
		t.Run(s.name(), func(t *testing.T) {
			s.enter(t)
			for _, c := range s.cases() {
				_, err := config.Parse(c.Name, c.Data, s.env())
				if err == nil {
					t.Errorf("%s: no problem", c.Name)
					continue
				}
				s.hold(t, c, err.Error()+"\n")
			}
		})
	}
}
