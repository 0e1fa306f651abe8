// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
)

// Table is a table with the text above and below it.
type Table struct {
	Title  string
	Before string // describes the columns
	Header []string
	Rows   [][]string
	After  []string // remarks, each a list item
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Remark adds a remark, once.
func (t *Table) Remark(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if !slices.Contains(t.After, line) {
		t.After = append(t.After, line)
	}
}

// String returns the table in Markdown. The first column is text, the others are numbers.
func (t *Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", t.Title)
	if t.Before != "" {
		fmt.Fprintf(&b, "%s\n\n", t.Before)
	}
	writeRow(&b, t.Header)
	b.WriteString("|---|" + strings.Repeat("---:|", max(0, len(t.Header)-1)) + "\n")
	for _, row := range t.Rows {
		writeRow(&b, row)
	}
	if len(t.After) > 0 {
		b.WriteByte('\n')
	}
	for _, line := range t.After {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	return b.String()
}

func writeRow(b *strings.Builder, cells []string) {
	for _, cell := range cells {
		b.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
	}
	b.WriteString("|\n")
}

// Put replaces the text of a page between the lines "<!-- begin NAME -->" and "<!-- end
// -->".
func Put(page, name, text string) (string, error) {
	begin := "<!-- begin " + name + " -->\n"
	before, rest, ok := strings.Cut(page, begin)
	if !ok {
		return "", fmt.Errorf("the page has no line %q", strings.TrimSpace(begin))
	}
	const end = "<!-- end -->\n"
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("the part %q of the page has no end", name)
	}
	return before + begin + strings.TrimRight(text, "\n") + "\n" + end + after, nil
}
