// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// diffContext is the number of lines that a difference shows around the changed ones.
const diffContext = 3

// unifiedDiff returns the difference between two texts in unified form, or "". It has one
// hunk, from the first to the last changed line.
func unifiedDiff(name string, old, text []byte) string {
	a, b := linesOf(string(old)), linesOf(string(text))
	if slices.Equal(a, b) {
		return ""
	}
	start := 0
	for start < min(len(a), len(b)) && a[start] == b[start] {
		start++
	}
	same := 0 // at the end
	for same < min(len(a), len(b))-start && a[len(a)-1-same] == b[len(b)-1-same] {
		same++
	}
	from := max(0, start-diffContext)
	after := min(same, diffContext)
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n@@ -%s +%s @@\n", name, name, hunkRange(from, len(a)-same+after), hunkRange(from, len(b)-same+after))
	write := func(sign string, lines []string) {
		for _, line := range lines {
			out.WriteString(sign + line)
			if !strings.HasSuffix(line, "\n") {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
	write(" ", a[from:start])
	write("-", a[start:len(a)-same])
	write("+", b[start:len(b)-same])
	write(" ", a[len(a)-same:len(a)-same+after])
	return out.String()
}

// hunkRange returns the range of lines in the head of a hunk.
func hunkRange(from, to int) string {
	if from == to {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

// linesOf splits a text into its lines, with their line breaks.
func linesOf(text string) []string { return slices.Collect(strings.Lines(text)) }
