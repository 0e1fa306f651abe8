// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The page of an app is too long to be printed: it has some hundred lines, or one with some hundred thousand characters. What
// is printed begins at the first difference.
const (
	maxLines   = 20
	maxLine    = 200
	lineBefore = 40 // characters of a long line before the difference
)

// changedLines returns the parts of two texts that differ, without the lines that they begin and end with, and at
// most maxLines of them. Long lines are cut.
func changedLines(before, after string) (old, next string) {
	a, b := lines(before), lines(after)
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	from := 0
	if len(a) == 1 && len(b) == 1 {
		from = max(0, samePrefix(a[0], b[0])-lineBefore)
	}
	return shorten(a, from), shorten(b, from)
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// samePrefix returns how many bytes two texts begin with.
func samePrefix(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// shorten returns lines as a text, each from a byte on.
func shorten(all []string, from int) string {
	var b strings.Builder
	for i, line := range all {
		if i == maxLines {
			fmt.Fprintf(&b, "… %d more lines\n", len(all)-maxLines)
			break
		}
		start := min(from, len(line))
		for start > 0 && start < len(line) && !utf8.RuneStart(line[start]) {
			start--
		}
		if start > 0 {
			b.WriteString("…")
		}
		rest := line[start:]
		if runes := []rune(rest[:min(len(rest), maxLine*utf8.UTFMax)]); len(runes) > maxLine {
			kept := string(runes[:maxLine])
			fmt.Fprintf(&b, "%s… %d more bytes\n", kept, len(rest)-len(kept))
			continue
		}
		b.WriteString(rest + "\n")
	}
	return b.String()
}
