// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"fmt"
	"go/ast"
	"go/build"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// proof is a statement of a test that it proves one side of a requirement, with the
// sentence and page of the requirement. It is written in the comment of a test
// function,
//
//	T2+ 2026-07-28 basic/transports/streamable-http: "Servers MUST validate ..."
//
// over as many lines as it needs, followed by a blank line, or in the prose of a
// transcript after "requires: ". The sign is + if the test shows correct behaviour, and
// - if it shows that incorrect behaviour is refused, or cannot be caused. A rule of our
// own is quoted from the entry itself, and has "own" in place of revision and page.
type proof struct {
	id    string
	right bool // the sign is +
	place passage
	quote string

	name, path string // of the test
}

// passage is the location of a sentence: a revision, or "seps", and a page; both are
// "own" if the rule is ours.
type passage struct{ revision, page string }

var (
	proofStart = regexp.MustCompile(`^[A-Z]+[0-9]+[+-]+(\s|$)`)
	proofForm  = regexp.MustCompile(`^([A-Z][0-9]+)([+-]) (?:(\d{4}-\d{2}-\d{2}|seps) ([a-z0-9][\w./-]*)|own): "(\S.*)"$`)
	proseKey   = regexp.MustCompile(`^(inbound|backend|cells|proves|instead|requires): `)
)

// parseProof reads one proof from its text, with its lines folded.
func parseProof(text string) (proof, error) {
	m := proofForm.FindStringSubmatch(text)
	if m == nil || m[4] == "own" {
		return proof{}, fmt.Errorf(`%.60q has not the form: T1+ REVISION PAGE: "sentence", or T1+ own: "sentence", and a blank line behind it`, text)
	}
	if m[3] == "" {
		m[3], m[4] = "own", "own"
	}
	return proof{id: m[1], right: m[2] == "+", place: passage{m[3], m[4]}, quote: m[5]}, nil
}

// proofTexts finds texts that begin like a proof, each up to the next blank line, the
// next proof or the next key.
func proofTexts(text string) []string {
	var out []string
	inside := false
	for line := range strings.Lines(text) {
		begins := proofStart.MatchString(line) // indented text is an example
		line = strings.Join(strings.Fields(line), " ")
		rest, required := strings.CutPrefix(line, "requires: ")
		switch {
		case required || begins:
			out, inside = append(out, rest), true
		case line == "" || proseKey.MatchString(line):
			inside = false
		case inside:
			out[len(out)-1] += " " + line
		}
	}
	return out
}

// proofs reads all proofs of the Go files, and reports those of another form and those
// that belong to no test run by make.
func proofs(files []sourceFile, makefile string) (found []proof, breaches []string) {
	for _, f := range files {
		tests := testsByComment(f, makefile)
		for _, group := range f.syntax.Comments {
			for _, text := range proofTexts(group.Text()) {
				p, err := parseProof(text)
				switch {
				case err != nil:
					breaches = append(breaches, f.breach(group.Pos(), "%v", err))
				case tests[group] == "":
					breaches = append(breaches, f.breach(group.Pos(), "%s is proved by no test: this is the comment of none that make runs", p.id))
				default:
					p.name, p.path = tests[group], f.path
					found = append(found, p)
				}
			}
		}
	}
	return found, breaches
}

// testsByComment returns the names of the tests of a file by their comments. A file
// that is excluded from the build, or belongs to a module that no target tests, has
// none.
func testsByComment(f sourceFile, makefile string) map[*ast.CommentGroup]string {
	found := make(map[*ast.CommentGroup]string)
	isTested := f.module == "." || strings.Contains(makefile, "cd "+f.module+" && go test")
	if !f.isTest() || !isTested || !isBuilt(f) {
		return found
	}
	for _, decl := range f.syntax.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if ok && fn.Recv == nil && fn.Doc != nil && testFunction.MatchString(fn.Name.Name) {
			found[fn.Doc] = fn.Name.Name
		}
	}
	return found
}

var testFunction = regexp.MustCompile(`^(Test|Fuzz)[^a-z]`)

// isBuilt reports whether a file is built for Linux without any tags, as in CI.
func isBuilt(f sourceFile) bool {
	ctx := build.Default
	ctx.GOOS, ctx.GOARCH, ctx.BuildTags = "linux", "amd64", nil
	ctx.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(f.text)), nil }
	ok, err := ctx.MatchFile(".", filepath.Base(f.path))
	return err == nil && ok
}

// transcriptProofs reads the proofs in the prose of one transcript.
func transcriptProofs(path, prose string) (found []proof, breaches []string) {
	for _, text := range proofTexts(prose) {
		p, err := parseProof(text)
		if err != nil {
			breaches = append(breaches, fmt.Sprintf("%s: %v", path, err))
			continue
		}
		p.name, p.path = strings.TrimSuffix(filepath.Base(path), ".txtar"), path
		found = append(found, p)
	}
	return found, breaches
}

// repoProofs reads the proofs of the tree: those of functions, then those of
// transcripts.
func repoProofs(t *testing.T) []proof {
	t.Helper()
	files, err := repoSources()
	if err != nil {
		t.Fatal(err)
	}
	found, breaches := proofs(files, readFile(t, "Makefile"))
	names, err := filepath.Glob("test/transcripts/testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		more, wrong := transcriptProofs(filepath.ToSlash(name), string(archive.Comment))
		found, breaches = append(found, more...), append(breaches, wrong...)
	}
	reportBreaches(t, breaches)
	return found
}

// The rule detects breaches: on made-up files.
func TestProofsAreOfTestsThatRun(t *testing.T) {
	const at = "// %s+ 2026-07-28 basic/index: \"Be.\"\n"
	doc := func(ids ...string) string {
		var out []string
		for _, id := range ids {
			out = append(out, fmt.Sprintf(at, id))
		}
		return strings.Join(out, "//\n")
	}
	files := madeUp(t, map[string]string{
		"a/a_test.go":         "package a\n\n// It does.\n//\n" + doc("T1", "T2") + "func TestA(t *T) {}\n\n" + doc("T3") + "func helper() {}\n\n" + doc("T4") + "func (x X) TestB() {}\n\n" + doc("T5") + "func FuzzC() {\n" + doc("T6") + "}\n",
		"a/code.go":           "package a\n\n" + doc("T7") + "func TestD() {}\n",
		"a/tag_test.go":       "//go:build mutations\n\npackage a\n\n" + doc("T8") + "func TestE(t *T) {}\n",
		"a/x_windows_test.go": "package a\n\n" + doc("T9") + "func TestF(t *T) {}\n",
		"a/y_linux_test.go":   "package a\n\n" + doc("T10") + "func TestG(t *T) {}\n",
		"z/o_test.go":         "package z\n\n" + doc("T11") + "func TestH(t *T) {}\n",
		"z/t_test.go":         "package z\n\n" + doc("T12") + "func TestI(t *T) {}\n",
	})
	files[len(files)-2].module, files[len(files)-1].module = "test/other", "test/tested"
	found, breaches := proofs(files, "x:\n\tcd test/tested && go test ./...\n")
	var got []string
	for _, p := range found {
		got = append(got, p.id+" "+p.name)
	}
	if want := []string{"T1 TestA", "T2 TestA", "T5 FuzzC", "T10 TestG", "T12 TestI"}; !slices.Equal(got, want) {
		t.Errorf("proofs %q, want %q", got, want)
	}
	for i, id := range []string{"a_test.go:10: T3", "a_test.go:13: T4", "a_test.go:18: T6", "code.go:3: T7", "tag_test.go:5: T8", "x_windows_test.go:3: T9", "o_test.go:3: T11"} {
		if i >= len(breaches) || !strings.Contains(breaches[i], id+" is proved by no test") {
			t.Errorf("breaches %q; want one of %s", breaches, id)
		}
	}
}

// The form is enforced, and no text that begins like it is missed.
func TestProofForm(t *testing.T) {
	const prose = "A transcript, T1 too.\nrequires: T1- 2026-07-28 basic/index: \"Be\n  \"kind\" always.\"\ninbound: http - why\n" +
		"requires: J12+ own: \"Ours.\"\nproves: lists\n\nT3: no proof. T4+ neither.\n"
	got, breaches := transcriptProofs("d/one.txtar", prose)
	want := []proof{
		{"T1", false, passage{"2026-07-28", "basic/index"}, `Be "kind" always.`, "one", "d/one.txtar"},
		{"J12", true, passage{"own", "own"}, "Ours.", "one", "d/one.txtar"},
	}
	if diff := cmp.Diff(got, want, cmp.AllowUnexported(proof{}, passage{})); diff != "" || len(breaches) > 0 {
		t.Errorf("breaches %q, proofs (-got +want):\n%s", breaches, diff)
	}
	for _, wrong := range []string{
		"requires: nothing", "requires: T1 2026-07-28 basic/index: \"x\"", `T1+ own "x"`, `T1+ 2026-07-28: "x"`, `T1+ 2026-07 basic: "x"`,
		`T1+ 2026-07-28 basic: x`, `T1+ 2026-07-28 basic: ""`, `T1+ 2026-07-28 basic: "x`, "T1+ 2026-07-28 basic: \"x\"\nmore", "T1+", "T1+- own: \"x\"", `T1+ 2026-07-28 own: "x"`,
	} {
		if got, breaches := transcriptProofs("d/one.txtar", wrong); len(got) > 0 || len(breaches) != 1 {
			t.Errorf("%q is taken for %v, breaches %q", wrong, got, breaches)
		}
	}
}
