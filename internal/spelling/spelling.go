// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package spelling suggests the word that a misspelt one most likely means.
package spelling

import (
	"fmt"
	"strings"
)

// longestWord bounds the words to compare: comparing takes time, and no key is as long.
const longestWord = 64

// Nearest returns the candidate that a misspelt word most likely means, or "" if none is
// close. Of equally close candidates the first is returned.
func Nearest(word string, candidates []string) string {
	if word = normalize(word); len(word) > longestWord {
		return ""
	}
	// One mistake in a short word, more in a longer one: beyond a third of its letters, a
	// suggestion misleads.
	best, limit := "", max(1, len(word)/3)+1
	for _, c := range candidates {
		other := normalize(c)
		if len(other) >= len(word)+limit {
			continue // each further letter is one to delete
		}
		// Strictly nearer: of equally near ones the first of the table is more common.
		if d := distance(word, other); d < limit {
			best, limit = c, d
		}
	}
	return best
}

// normalize removes the separators and case of other naming styles, so that mcp_servers is
// close to mcpServers.
func normalize(word string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if r == '_' || r == '-' {
			return -1
		}
		return r
	}, word))
}

// distance returns the number of letters to insert, delete, change or swap with a neighbour
// to turn one word into the other (optimal string alignment).
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

// DidYouMean returns a hint with the nearest candidate, or "".
func DidYouMean(word string, candidates []string) string {
	if found := Nearest(word, candidates); found != "" {
		return fmt.Sprintf("did you mean %q?", found)
	}
	return ""
}
