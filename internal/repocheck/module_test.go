// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// modFile is the part of a go.mod that the rules need.
type modFile struct {
	requires map[string]bool // module to whether it is required directly
	replaces []string        // the lines, as written
}

// parseModFile reads the text of a go.mod that the go command accepts.
func parseModFile(text string) modFile {
	mod := modFile{requires: make(map[string]bool)}
	block := ""
	for line := range strings.Lines(text) {
		code, comment, _ := strings.Cut(line, "//")
		words := strings.Fields(code)
		switch {
		case len(words) == 0:
			continue
		case words[0] == ")":
			block = ""
			continue
		case len(words) == 2 && words[1] == "(":
			block = words[0]
			continue
		}
		if block == "" {
			block = words[0]
			mod.add(block, words[1:], comment)
			block = ""
			continue
		}
		mod.add(block, words, comment)
	}
	return mod
}

// add adds one directive.
func (m *modFile) add(verb string, args []string, comment string) {
	switch verb {
	case "require":
		m.requires[args[0]] = strings.TrimSpace(comment) != "indirect"
	case "replace":
		m.replaces = append(m.replaces, strings.Join(args, " "))
	}
}

func TestRepoParseModFile(t *testing.T) {
	got := parseModFile(`module m // a comment

go 1.26.3
require a.example/one v1.0.0
require (
	b.example/two v1.2.3 // indirect
	// c.example/not v1.0.0
	d.example/three v0.0.0-2026 // for a reason
)
tool e.example/tool
replace (
	a.example/one => ../one
)
replace b.example/two v1.2.3 => b.example/fork v1.2.4
`)
	if diff := cmp.Diff(got.requires, map[string]bool{
		"a.example/one": true, "b.example/two": false, "d.example/three": true,
	}); diff != "" {
		t.Errorf("requires (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(got.replaces, []string{
		"a.example/one => ../one", "b.example/two v1.2.3 => b.example/fork v1.2.4",
	}); diff != "" {
		t.Errorf("replaces (-got +want):\n%s", diff)
	}
}

// TestRepoNoReplace checks that go install of the command and import of the packages
// build what is tested here: both ignore or refuse a replace.
func TestRepoNoReplace(t *testing.T) {
	if got := parseModFile(readFile(t, "go.mod")).replaces; len(got) > 0 {
		t.Errorf("go.mod replaces %q", got)
	}
}

// dependencies is the content of docs/dependencies.md.
type dependencies struct {
	direct   map[string]string // module to the reason
	indirect map[string]string // module to the modules that require it, as written
	twice    []string
}

const (
	directHeading   = "## Modules that the code imports"
	indirectHeading = "## Indirect modules"
)

// dependencyRow is a table row with a module in its first cell.
var dependencyRow = regexp.MustCompile("^\\| `([^`]+)` \\|([^|]*)\\|")

// parseDependencies reads the two tables of docs/dependencies.md.
func parseDependencies(text string) dependencies {
	deps := dependencies{direct: make(map[string]string), indirect: make(map[string]string)}
	var table map[string]string
	for line := range strings.Lines(text) {
		switch line = strings.TrimSpace(line); {
		case line == directHeading:
			table = deps.direct
		case line == indirectHeading:
			table = deps.indirect
		case strings.HasPrefix(line, "## "):
			table = nil
		}
		row := dependencyRow.FindStringSubmatch(line)
		if row == nil || table == nil {
			continue
		}
		if _, ok := deps.listed(row[1]); ok {
			deps.twice = append(deps.twice, row[1])
		}
		table[row[1]] = strings.TrimSpace(row[2])
	}
	return deps
}

// listed returns the second cell of a module in either table.
func (d dependencies) listed(module string) (string, bool) {
	if reason, ok := d.direct[module]; ok {
		return reason, true
	}
	reason, ok := d.indirect[module]
	return reason, ok
}

// unlistedModules compares go.mod with the list, in both directions.
func unlistedModules(mod modFile, deps dependencies) []string {
	var breaches []string
	for _, m := range slices.Sorted(maps.Keys(mod.requires)) {
		if _, ok := deps.listed(m); !ok {
			breaches = append(breaches, m+": is in go.mod and not in docs/dependencies.md")
		}
		if _, ok := deps.indirect[m]; ok && mod.requires[m] {
			breaches = append(breaches, m+": is required directly and listed as brought by others")
		}
	}
	for _, list := range []map[string]string{deps.direct, deps.indirect} {
		for _, m := range slices.Sorted(maps.Keys(list)) {
			if _, ok := mod.requires[m]; !ok {
				breaches = append(breaches, m+": is in docs/dependencies.md and not in go.mod")
			}
		}
	}
	return breaches
}

// unreasonedModules finds rows without a reason for their module.
func unreasonedModules(deps dependencies) []string {
	var breaches []string
	for _, m := range deps.twice {
		breaches = append(breaches, m+": is listed twice")
	}
	for _, m := range slices.Sorted(maps.Keys(deps.direct)) {
		if deps.direct[m] == "" {
			breaches = append(breaches, m+": has no reason")
		}
	}
	for _, m := range slices.Sorted(maps.Keys(deps.indirect)) {
		if !broughtByListed(deps.indirect[m], deps) {
			breaches = append(breaches, m+": names no listed module that brings it")
		}
	}
	return breaches
}

var backticked = regexp.MustCompile("`([^`]+)`")

// broughtByListed reports whether a cell names modules, all of them listed.
func broughtByListed(cell string, deps dependencies) bool {
	names := backticked.FindAllStringSubmatch(cell, -1)
	for _, name := range names {
		if _, ok := deps.listed(name[1]); !ok {
			return false
		}
	}
	return len(names) > 0
}

func TestRepoDependencyRules(t *testing.T) {
	const doc = directHeading + `
| module | why |
|---|---|
| ` + "`a.example/one` | parses |" + `
` + indirectHeading + `
| ` + "`b.example/two` | `a.example/one` |" + `
## Considered
| ` + "`z.example/other` | too large |"
	tests := []struct {
		name, mod, doc string
		want           []string
	}{
		{name: "equal", mod: "require a.example/one v1\nrequire b.example/two v1 // indirect", doc: doc},
		{name: "missing and superfluous", mod: "require c.example/three v1", doc: doc, want: []string{
			"c.example/three: is in go.mod and not in docs/dependencies.md",
			"a.example/one: is in docs/dependencies.md and not in go.mod",
			"b.example/two: is in docs/dependencies.md and not in go.mod",
		}},
		{name: "direct in the wrong table", mod: "require a.example/one v1\nrequire b.example/two v1", doc: doc,
			want: []string{"b.example/two: is required directly and listed as brought by others"}},
		{name: "no reason, twice, brought by a stranger", mod: "require a.example/one v1\nrequire b.example/two v1 // indirect",
			doc: directHeading + "\n| `a.example/one` | |\n| `b.example/two` | x |\n" +
				indirectHeading + "\n| `b.example/two` | `z.example/none` |\n",
			want: []string{
				"b.example/two: is listed twice",
				"a.example/one: has no reason",
				"b.example/two: names no listed module that brings it",
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			deps := parseDependencies(tt.doc)
			got := append(unlistedModules(parseModFile(tt.mod), deps), unreasonedModules(deps)...)
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("breaches (-got +want):\n%s", diff)
			}
		})
	}
}

func TestRepoDependenciesAreListed(t *testing.T) {
	deps := parseDependencies(readFile(t, "docs/dependencies.md"))
	reportBreaches(t, unlistedModules(parseModFile(readFile(t, "go.mod")), deps))
	reportBreaches(t, unreasonedModules(deps))
}

// unexplainedImports finds imports of modules that the first table does not explain. It
// uses the code, so that it works while go.mod is not yet tidy.
func unexplainedImports(files []sourceFile, deps dependencies) []string {
	var breaches []string
	for _, f := range files {
		for _, s := range f.syntax.Imports {
			imported := importPath(s)
			_, ours := ourPackage(imported)
			if f.module != "." || ours || isStandard(imported) || explained(imported, deps) {
				continue
			}
			breaches = append(breaches, f.breach(s.Pos(), "imports %s, which docs/dependencies.md does not explain", imported))
		}
	}
	return breaches
}

// explained reports whether a package belongs to a module of the first table.
func explained(pkg string, deps dependencies) bool {
	for module := range deps.direct {
		if matches(module+"/...", pkg) {
			return true
		}
	}
	return false
}

func TestRepoImportsAreExplained(t *testing.T) {
	made := dependencies{direct: map[string]string{"a.example/one": "x"}, indirect: map[string]string{"b.example/two": "y"}}
	rule := func(deps dependencies) sourceRule {
		return func(files []sourceFile) []string { return unexplainedImports(files, deps) }
	}
	cases := map[string]string{
		"a.go":      `import ("fmt"; "a.example/one"; "a.example/one/deep"; "` + repoModule + `/mcp")`,
		"a_test.go": `import "b.example/two"`,
		"b.go":      `import "a.example/onemore"`,
	}
	want := []string{
		"a_test.go:1: imports b.example/two, which docs/dependencies.md does not explain",
		"b.go:1: imports a.example/onemore, which docs/dependencies.md does not explain",
	}
	if diff := cmp.Diff(rule(made)(madeUp(t, cases)), want); diff != "" {
		t.Errorf("breaches (-got +want):\n%s", diff)
	}
	testSourceRule(t, rule(parseDependencies(readFile(t, "docs/dependencies.md"))), nil)
}

// toolsApart finds modules that tools/go.mod runs and the product requires.
func toolsApart(product modFile, tools string) []string {
	var breaches []string
	for module := range product.requires {
		if strings.Contains(tools, "\t"+module+"/cmd/") {
			breaches = append(breaches, fmt.Sprintf("%s: is a tool and required by the product's go.mod", module))
		}
	}
	slices.Sort(breaches)
	return breaches
}

func TestRepoToolsAreAModuleOfTheirOwn(t *testing.T) {
	const tools = "tool (\n\ta.example/lint/cmd/lint\n)\n"
	got := toolsApart(parseModFile("require a.example/lint v1\nrequire a.example/one v1"), tools)
	want := []string{"a.example/lint: is a tool and required by the product's go.mod"}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("breaches (-got +want):\n%s", diff)
	}
	reportBreaches(t, toolsApart(parseModFile(readFile(t, "go.mod")), readFile(t, "tools/go.mod")))
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	logFolder()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
