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

// maxDiffLine is the length of a line of a difference from which parts of it are left out, and
// diffAround how much is shown around a change in such a line.
const (
	maxDiffLine = 400
	diffAround  = 60
)

// cutLong leaves out parts of long lines of a difference: a file may be a single line. Of two
// lines of which one replaces the other, the change is shown.
func cutLong(diff string) string {
	lines := linesOf(diff)
	for i := 0; i < len(lines); i++ {
		if len(lines[i]) <= maxDiffLine {
			continue
		}
		next := i + 1
		if next < len(lines) && strings.HasPrefix(lines[next], `\`) {
			next++
		}
		if lines[i][0] == '-' && next < len(lines) && lines[next][0] == '+' {
			lines[i], lines[next] = cutPair(lines[i], lines[next])
			i = next
			continue
		}
		lines[i] = strings.ToValidUTF8(lines[i][:maxDiffLine], "") + "…\n"
	}
	return strings.Join(lines, "")
}

// cutPair leaves out what two lines with signs have in common.
func cutPair(a, b string) (string, string) {
	a, b = strings.TrimSuffix(a, "\n"), strings.TrimSuffix(b, "\n")
	start := 1
	for start < min(len(a), len(b)) && a[start] == b[start] {
		start++
	}
	same := 0 // at the end
	for same < min(len(a), len(b))-start && a[len(a)-1-same] == b[len(b)-1-same] {
		same++
	}
	cut := func(line string) string {
		from, to := max(1, start-diffAround), min(len(line), len(line)-same+diffAround)
		text := line[from:to]
		if len(text) > maxDiffLine {
			text = text[:maxDiffLine/2] + "…" + text[len(text)-maxDiffLine/2:]
		}
		if from > 1 {
			text = "…" + text
		}
		if to < len(line) {
			text += "…"
		}
		return line[:1] + strings.ToValidUTF8(text, "") + "\n"
	}
	return cut(a), cut(b)
}
