// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/code"
)

//go:generate go test -run ^TestCausesPageIsCurrent$ . -update

// causesPage explains the codes of causes. It is generated from package code.
const causesPage = "docs/codes.md"

// causesPackage declares the codes.
const causesPackage = "internal/code"

var causeForm = regexp.MustCompile(`\bSB(?:_[A-Z0-9]+)+\b`)

// declaredCauses returns the codes by the names of their constants.
func declaredCauses(files []sourceFile) map[string]string {
	found := map[string]string{}
	for _, f := range files {
		if f.pkg() != causesPackage || f.isTest() {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == 1 && len(spec.Values) == 1 {
				if value := causesIn(spec.Values[0]); len(value) == 1 {
					found[spec.Names[0].Name] = value[0]
				}
			}
			return true
		})
	}
	return found
}

// causesIn returns the codes in a string literal.
func causesIn(n ast.Node) []string {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return nil
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return nil // cannot happen, because the parser has accepted it
	}
	return causeForm.FindAllString(text, -1)
}

// causesNamed returns the codes that a piece of syntax names: by constants of package code,
// and in string literals.
func causesNamed(n ast.Node, declared map[string]string) []string {
	var found []string
	ast.Inspect(n, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "code" && declared[sel.Sel.Name] != "" {
				found = append(found, declared[sel.Sel.Name])
			}
		}
		found = append(found, causesIn(n)...)
		return true
	})
	return found
}

// causeTests returns the tests that name a code, by the code, ordered by path and place.
func causeTests(files []sourceFile) map[string][]regressTest {
	declared := declaredCauses(files)
	found := map[string][]regressTest{}
	for _, f := range files {
		if !f.isTest() || f.pkg() == "internal/repocheck" {
			continue
		}
		for _, decl := range f.syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			for _, c := range causesNamed(fn, declared) {
				if test := (regressTest{fn.Name.Name, f.path}); !slices.Contains(found[c], test) {
					found[c] = append(found[c], test)
				}
			}
		}
	}
	return found
}

// looseCauses finds codes that no code of the product reports, that no test provokes, or
// that are missing in the table, and codes that the table lacks.
func looseCauses(files []sourceFile, table []code.Entry) []string {
	declared := declaredCauses(files)
	tests := causeTests(files)
	reported := map[string]bool{}
	var breaches, listed []string
	for _, e := range table {
		listed = append(listed, e.Code)
	}
	for _, f := range productCode(files) {
		if f.pkg() == causesPackage {
			continue
		}
		for _, c := range causesNamed(f.syntax, declared) {
			reported[c] = true
			if !slices.Contains(listed, c) {
				breaches = append(breaches, fmt.Sprintf("%s: %s is not in the table", f.path, c))
			}
		}
	}
	for _, c := range listed {
		if !reported[c] {
			breaches = append(breaches, c+": nothing in the product reports it")
		}
		if len(tests[c]) == 0 {
			breaches = append(breaches, c+": no test provokes it")
		}
	}
	for _, c := range declared {
		if !slices.Contains(listed, c) {
			breaches = append(breaches, c+": is declared, and not in the table")
		}
	}
	slices.Sort(breaches)
	return breaches
}

// Each code of a cause is reported by the product and provoked by a test.
func TestRepoCausesAreProvoked(t *testing.T) {
	files, err := repoSources()
	if err != nil {
		t.Fatal(err)
	}
	reportBreaches(t, looseCauses(files, code.All()))
	seen := map[string]bool{}
	for _, e := range code.All() {
		if seen[e.Code] || causeForm.FindString(e.Code) != e.Code || causeArea(e.Code) == "" {
			t.Errorf("%q is not a code, or not the first of that name", e.Code)
		}
		seen[e.Code] = true
		for _, text := range []string{e.Text, e.Cause, e.Cure} {
			if !strings.HasSuffix(text, ".") {
				t.Errorf("%s: %q is no sentence", e.Code, text)
			}
		}
	}
}

// The rule detects breaches: on a made-up table, product and tests.
func TestRepoCausesRule(t *testing.T) {
	files := madeUp(t, map[string]string{
		"internal/code/code.go": "package code\n\nconst (\n\tA = \"SB_X_A\"\n\tB = \"SB_X_B\"\n\tC = \"SB_X_C\"\n\tD = \"SB_X_D\"\n)\n",
		"p/p.go":                "package p\n\nvar _ = []string{code.A, code.B, other.C, `says [SB_X_E]`}\n",
		"p/p_test.go":           "package p\n\nfunc TestA(t *T) { f(code.A, \"x [SB_X_C]\") }\n\nfunc helper() { f(code.B) }\n",
	})
	want := []string{
		"SB_X_B: no test provokes it", "SB_X_C: nothing in the product reports it", "SB_X_D: is declared, and not in the table",
		"p/p.go: SB_X_E is not in the table",
	}
	if got := looseCauses(files, []code.Entry{{Code: "SB_X_A"}, {Code: "SB_X_B"}, {Code: "SB_X_C"}}); !slices.Equal(got, want) {
		t.Errorf("breaches:\n got %q\nwant %q", got, want)
	}
}

const causesIntroduction = `# Codes of causes

A code names the cause of a failure. It is stable: it is never renamed and never used for anything else, while the texts around it may
change. It appears

- in the status of a backend (` + "`signalbox status`, `code` in `/status`" + `), beside the reason why it is not live;
- in the log, as ` + "`code=`" + `;
- in the ` + "`data`" + ` of an error that the gateway sends, as ` + "`code`" + `, beside ` + "`source`, `outcome` and `backend`" + `;
- at the end of a note of ` + "`signalbox check`" + `, and of a problem of ` + "`signalbox check --connect`" + `;
- in the findings of ` + "`signalbox doctor`" + `, with the cure.

A backend that is not started for a while, because its process ended too often, keeps the code of its last end.

This page is generated from [internal/code](../internal/code/code.go). Each code is provoked by the tests that it names.
`

// causeArea returns the title of a code's area, or "".
func causeArea(c string) string {
	area, _, _ := strings.Cut(strings.TrimPrefix(c, "SB_"), "_")
	return map[string]string{
		"START": "A process does not start", "TALK": "A server does not speak MCP", "NET": "A server is not reached",
		"AUTH": "A server refuses the credentials", "FILE": "The configuration file", "NAME": "Names", "APP": "Apps", "SKILL": "Skills", "ITEM": "Definitions", "POLICY": "Policy", "FILTER": "Filters", "CHILD": "Processes", "COST": "Definitions", "STATE": "This machine", "CLOCK": "This machine", "FILES": "This machine", "PORT": "This machine", "OLD": "This machine",
	}[area]
}

// causesWithTests returns the page.
func causesWithTests(table []code.Entry, tests map[string][]regressTest) string {
	var out strings.Builder
	out.WriteString(causesIntroduction)
	area := ""
	for _, e := range table {
		if next := causeArea(e.Code); next != area {
			area = next
			fmt.Fprintf(&out, "\n## %s\n", area)
		}
		passes := "No."
		if e.Passes {
			passes = "It may."
		}
		links := make([]string, len(tests[e.Code]))
		for i, test := range tests[e.Code] {
			links[i] = fmt.Sprintf("[%s](../%s)", test.name, test.path)
		}
		fmt.Fprintf(&out, "\n### %s\n\n%s\n\n- Cause: %s\n- Cure: %s\n- Passes by itself: %s\n- Tests: %s\n", e.Code, e.Text, e.Cause, e.Cure, passes, strings.Join(links, ", "))
	}
	return out.String()
}

func TestCausesPageIsCurrent(t *testing.T) {
	files, err := repoSources()
	if err != nil {
		t.Fatal(err)
	}
	want := causesWithTests(code.All(), causeTests(files))
	if *update {
		if err := os.WriteFile(causesPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if readFile(t, causesPage) != want {
		t.Errorf("%s is not what package code and the tests say; run make generate", causesPage)
	}
}
