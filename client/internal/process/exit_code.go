// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"regexp"
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/code"
)

// What programs write to standard error before they end.
var (
	// unknownPackage matches the words of npm, uv, pip and docker.
	unknownPackage = regexp.MustCompile(`(?i)npm (?:ERR!|error) (?:code )?(?:E404|404|ETARGET)\b|not found in the package registry|No matching distribution found for|pull access denied for|manifest unknown|manifest for \S+ not found`)

	// missingModule matches the error of node for a dependency that is not there, and ofNpx a path
	// in a folder in which npx has installed a package. npx starts a package that it has installed in
	// part, for example because it was ended meanwhile.
	missingModule = regexp.MustCompile(`Cannot find (?:module|package) '`)
	ofNpx         = regexp.MustCompile(`[/\\]_npx[/\\][0-9a-f]{16}[/\\]`)

	variable      = regexp.MustCompile(`\b[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]\b`)
	shortVariable = regexp.MustCompile(`(?i:environment variable|env var).*\b[A-Z][A-Z0-9]{2,}\b|\b[A-Z][A-Z0-9]{2,}\b.*(?i:environment variable|env var)`)
	isNeeded      = regexp.MustCompile(`(?i)\brequired\b|\bmissing\b|\bmust (?:be )?(?:set|provide|specif)|\bnot (?:set|provided|defined|configured)\b|\bunset\b|\bplease (?:set|provide)|KeyError|\bno \S+ (?:provided|given|found)\b`)
	notVariable   = regexp.MustCompile(`^(?:ERR_|E_)|_NOT_FOUND$`) // codes of errors
)

// exitCode returns the code of the cause of an exit, from the last lines on stderr.
func exitCode(lines []string) string {
	switch {
	case slices.ContainsFunc(lines, unknownPackage.MatchString):
		return code.StartPackage
	case slices.ContainsFunc(lines, missingModule.MatchString) && slices.ContainsFunc(lines, ofNpx.MatchString):
		return code.StartInstall
	case slices.ContainsFunc(lines, needsVariable):
		return code.StartNeedsValue
	default:
		return code.TalkExited
	}
}

// needsVariable reports whether a line says that a variable is missing.
func needsVariable(line string) bool {
	if !isNeeded.MatchString(line) {
		return false
	}
	isName := func(word string) bool { return !notVariable.MatchString(word) }
	return slices.ContainsFunc(variable.FindAllString(line, -1), isName) || shortVariable.MatchString(line)
}
