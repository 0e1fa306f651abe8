// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// UnifiedDiff returns the difference between two texts in unified form, or "".
func UnifiedDiff(name string, old, text []byte) string {
	_, hunks, _ := strings.Cut(string(diff.Diff(name, old, name, text)), "\n") // after the command
	return hunks
}

// linesOf splits a text into its lines, with their line breaks.
func linesOf(text string) []string { return slices.Collect(strings.Lines(text)) }

// maxDiffLine is the length of a line of a difference from which parts of it are left out, and
// diffAround how much is shown around a change in such a line.
const (
	maxDiffLine = 400
	diffAround  = 60
)

// CutLong leaves out parts of long lines of a difference: a file may be a single line. Of two
// lines of which one replaces the other, the change is shown.
func CutLong(diff string) string {
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
