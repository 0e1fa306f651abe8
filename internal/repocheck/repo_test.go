// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The tests of this package check the rules of the repository itself: allowed
// imports, file headers, the content of documents. A rule is a function of data that
// returns one line per breach. Each rule is tried on made-up input first, which shows
// that it detects breaches, then on the tree.

// repoModule is the module path of the product.
const repoModule = "github.com/signalbox-mcp/signalbox"

// sourceFile is one Go file of the repository.
type sourceFile struct {
	path   string // below the root, with slashes
	module string // folder of the go.mod that it belongs to; "." is the product
	text   string
	syntax *ast.File
	fset   *token.FileSet
}

// parseSource makes a sourceFile of the module "." from its text.
func parseSource(name, text string) (sourceFile, error) {
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return sourceFile{path: name, module: ".", text: text, syntax: syntax, fset: fset}, err
}

// pkg returns the folder of the file below the root, which names its package.
func (f sourceFile) pkg() string { return path.Dir(f.path) }

func (f sourceFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// line returns the line of pos.
func (f sourceFile) line(pos token.Pos) int { return f.fset.Position(pos).Line }

// breach returns a line that describes a breach at pos.
func (f sourceFile) breach(pos token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", f.path, f.line(pos), fmt.Sprintf(format, args...))
}

// importPath returns the path of an import.
func importPath(s *ast.ImportSpec) string {
	p, err := strconv.Unquote(s.Path.Value)
	if err != nil {
		return s.Path.Value // cannot happen, because the parser has accepted it
	}
	return p
}

// imports reports whether the file imports a package.
func (f sourceFile) imports(pkg string) bool {
	return slices.ContainsFunc(f.syntax.Imports, func(s *ast.ImportSpec) bool {
		return importPath(s) == pkg
	})
}

// calls lists the calls of the form x.Method(...) in the file.
func (f sourceFile) calls() []methodCall {
	var found []methodCall
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
			x, _ := sel.X.(*ast.Ident)
			found = append(found, methodCall{call: call, on: x, name: sel.Sel.Name})
		}
		return true
	})
	return found
}

// methodCall is one call on.name(...); on is nil unless it is a plain name.
type methodCall struct {
	call *ast.CallExpr
	on   *ast.Ident
	name string
}

// receiver returns the name that the method is called on, or "".
func (c methodCall) receiver() string {
	if c.on == nil {
		return ""
	}
	return c.on.Name
}

// repoSources reads the tree once for all tests.
var repoSources = sync.OnceValues(func() ([]sourceFile, error) {
	logFolder()
	return loadSources(".")
})

// loadSources parses each Go file below root, in the order of their paths.
func loadSources(root string) ([]sourceFile, error) {
	var files []sourceFile
	modules := map[string]string{".": "."}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			modules[rel] = moduleOf(root, rel, modules)
			return skipFolder(rel)
		}
		if path.Ext(rel) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := parseSource(rel, string(text))
		f.module = modules[path.Dir(rel)]
		files = append(files, f)
		return err
	})
	return files, err
}

// moduleOf returns the folder of the module of a folder: its own, or that of the folder
// above it.
func moduleOf(root, folder string, known map[string]string) string {
	if _, err := os.Stat(filepath.Join(root, folder, "go.mod")); err == nil {
		return folder
	}
	return known[path.Dir(folder)]
}

// skipFolder skips the folders that go build skips.
func skipFolder(rel string) error {
	base := path.Base(rel)
	switch {
	case rel == ".":
		return nil
	case base == "testdata", base == "vendor", base == "node_modules", base[0] == '.', base[0] == '_':
		return fs.SkipDir
	}
	return nil
}

// sourceRule checks Go files and returns its breaches in the order of files.
type sourceRule func(files []sourceFile) []string

// ruleCase is made-up input of a sourceRule: file names to their texts.
type ruleCase struct {
	name  string
	files map[string]string
	want  []string
}

// testSourceRule tries a rule on made-up files, then on the tree.
func testSourceRule(t *testing.T, rule sourceRule, cases []ruleCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(rule(madeUp(t, c.files)), c.want); diff != "" {
				t.Errorf("breaches (-got +want):\n%s", diff)
			}
		})
	}
	files, err := repoSources()
	if err != nil {
		t.Fatal(err)
	}
	reportBreaches(t, rule(files))
}

// reportBreaches fails the test with each breach.
func reportBreaches(t *testing.T, breaches []string) {
	t.Helper()
	for _, b := range breaches {
		t.Error(b)
	}
}

// madeUp parses made-up files in the order of their names. It adds a package clause to
// a text without one, on its first line.
func madeUp(t *testing.T, texts map[string]string) []sourceFile {
	t.Helper()
	var files []sourceFile
	for name, text := range texts {
		if !strings.Contains(text, "package ") {
			text = "package p; " + text
		}
		f, err := parseSource(name, text)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b sourceFile) int { return strings.Compare(a.path, b.path) })
	return files
}

func TestRepoLoadsEachModuleApart(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":            "module m",
		"a/a.go":            "package a",
		"a/testdata/t.go":   "not Go",
		".git/g.go":         "not Go",
		"test/x/go.mod":     "module x",
		"test/x/x.go":       "package x",
		"test/x/deep/d.go":  "package deep",
		"test/note.txt":     "not Go",
		"node_modules/n.go": "not Go",
	} {
		writeFile(t, filepath.Join(root, name), text)
	}
	files, err := loadSources(root)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, f := range files {
		got[f.path] = f.module
	}
	want := map[string]string{"a/a.go": ".", "test/x/x.go": "test/x", "test/x/deep/d.go": "test/x"}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("files and their modules (-got +want):\n%s", diff)
	}
}

func TestRepoLoadReportsWhatDoesNotParse(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "bad.go"), "package")
	if _, err := loadSources(root); err == nil {
		t.Error("got no error for a file that does not parse")
	}
	if _, err := loadSources(filepath.Join(root, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v for a folder that is not there, want fs.ErrNotExist", err)
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
