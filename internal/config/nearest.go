// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
)

// longestWord is more than any key has; a longer word is no slip of one, and
// comparing takes time by its length.
const longestWord = 64

// nearest returns the candidate that a misspelt word most likely stands for, or
// "" if none is close. Of equally close ones the first wins.
func nearest(word string, candidates []string) string {
	if word = plain(word); len(word) > longestWord {
		return ""
	}
	// One slip in a short word, more in a longer one: beyond a third of its
	// letters a guess misleads more than it helps.
	best, limit := "", max(1, len(word)/3)+1
	for _, c := range candidates {
		// Strictly nearer: of two that are as near the first of the table is offered, which is
		// the more common one.
		if d := distance(word, plain(c)); d < limit {
			best, limit = c, d
		}
	}
	return best
}

// Nearest returns the candidate that a misspelt word most likely stands for, or "".
func Nearest(word string, candidates []string) string { return nearest(word, candidates) }

// plain removes what separates the words of a key in other styles, so that
// mcp_servers is as close to mcpServers as it looks.
func plain(word string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if r == '_' || r == '-' {
			return -1
		}
		return r
	}, word))
}

// distance counts the letters to insert, delete, change or swap with their
// neighbour to make one word of the other (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			changed := last[j]
			if a[i] != b[j] {
				changed++
			}
			row[j+1] = min(changed, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// didYouMean is the hint that offers the nearest candidate, or "".
func didYouMean(word string, candidates []string) string {
	if found := nearest(word, candidates); found != "" {
		return fmt.Sprintf("did you mean %q?", found)
	}
	return ""
}
