// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"regexp"
	"slices"
)

var (
	npmLine = regexp.MustCompile(`^npm (?:ERR!|error|warn|WARN|notice)(?: |$)`)

	// npmError matches an error of npm that says what is wrong: neither a part of the error in
	// a line of its own, nor advice for any error.
	npmError = regexp.MustCompile(`^npm (?:ERR!|error) +\S`)
	npmPart  = regexp.MustCompile(`^npm (?:ERR!|error) +(?:(?:code|syscall|errno|path|dest|signal) |\S+$|A complete log |    )`)
)

// essential returns the lines without those of npm, except for the first one that says what is
// wrong. npm writes a dozen for one mistake.
func essential(lines []string) []string {
	first := slices.IndexFunc(lines, func(line string) bool { return npmError.MatchString(line) && !npmPart.MatchString(line) })
	if first < 0 {
		return lines
	}
	var kept []string
	for i, line := range lines {
		if i == first || !npmLine.MatchString(line) {
			kept = append(kept, line)
		}
	}
	return kept
}
