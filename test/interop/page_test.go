// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// page has each table between two lines.
const (
	page        = "../../docs/interop.md"
	pageBegin   = "<!-- the table of make interop -->\n"
	tokensBegin = "<!-- the table of tokens of make interop -->\n"
	pageEnd     = "<!-- end -->\n"
)

// writePage writes a new table into the page, after the line begin. The tables are not compared, because results
// that depend on timing differ from run to run.
func writePage(t testing.TB, begin, table string) {
	t.Helper()
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text, err := inPage(string(old), begin, table)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// inPage returns the page with the table.
func inPage(old, begin, table string) (string, error) {
	before, rest, begins := strings.Cut(old, begin)
	_, after, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		return "", fmt.Errorf("there is no %q and %q behind it", begin, pageEnd)
	}
	var lines strings.Builder
	for line := range strings.Lines(table) {
		lines.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return before + begin + "```\n" + lines.String() + "```\n" + pageEnd + after, nil
}
