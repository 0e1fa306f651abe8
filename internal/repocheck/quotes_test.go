// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// goCode is a block of Go in a document.
var goCode = regexp.MustCompile("(?s)```go\n(.*?)```")

// inventedCode finds the Go code of a document that is in no Go file, where it would be
// compiled and tested: each paragraph of it, ignoring indentation.
func inventedCode(name, doc string, sources []string) []string {
	var breaches []string
	for _, block := range goCode.FindAllStringSubmatch(doc, -1) {
		for paragraph := range strings.SplitSeq(block[1], "\n\n") {
			quote := flatten(paragraph)
			if !slices.ContainsFunc(sources, func(source string) bool { return strings.Contains(source, quote) }) {
				first, _, _ := strings.Cut(strings.TrimSpace(quote), "\n")
				breaches = append(breaches, fmt.Sprintf("%s: no file has the code that begins with %q", name, first))
			}
		}
	}
	return breaches
}

// flatten removes the indentation of each line.
func flatten(code string) string {
	var out strings.Builder
	for line := range strings.Lines(strings.Trim(code, "\n") + "\n") {
		out.WriteString("\n" + strings.TrimSpace(line))
	}
	return out.String() + "\n"
}

func TestRepoDocumentsQuoteCode(t *testing.T) {
	source := flatten("package x\n\nfunc f() {\n\tif a {\n\t\tb()\n\t}\n}\n")
	doc := "```go\nif a {\n\tb()\n}\n```\n```sh\nmake\n```\n```go\nfunc f() {\n\nif a {\n\tc()\n}\n\nb(\n```\n"
	want := []string{`x.md: no file has the code that begins with "if a {"`, `x.md: no file has the code that begins with "b("`}
	if diff := cmp.Diff(inventedCode("x.md", doc, []string{source}), want); diff != "" {
		t.Errorf("breaches (-got +want):\n%s", diff)
	}
	files, err := repoSources()
	if err != nil {
		t.Fatal(err)
	}
	var sources []string
	for _, f := range files {
		sources = append(sources, flatten(f.text))
	}
	for name, doc := range markdown(t) {
		reportBreaches(t, inventedCode(name, doc, sources))
	}
}
