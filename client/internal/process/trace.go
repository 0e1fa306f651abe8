// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"regexp"
	"strings"
)

// The lines of stack traces, of Python and of Node.js.
var (
	traceBegin = regexp.MustCompile(`Traceback \(most recent call last\):$`)
	traceFrame = regexp.MustCompile(`^\s+(?:\|\s+)?File "[^"]*", line \d+`)
	traceLink  = regexp.MustCompile(`^(?:During handling of the above exception, another exception occurred|The above exception was the direct cause of the following exception):$`)
	// The traces of several tasks are drawn as a tree.
	traceBranch = regexp.MustCompile(`^\s+(?:\||\+(?:-\+)?-{4,}(?: \d+ -{4,})?$)\s?`)
	nodeFrame   = regexp.MustCompile(`^\s+at \S|^Node\.js v\d`)
)

// withoutTraces returns the lines without those of stack traces, but with the errors that the
// traces are about.
func withoutTraces(lines []string) []string {
	var kept []string
	python := false
	// The beginning of a trace may be lost.
	inside := len(lines) > 0 && strings.HasPrefix(lines[0], " ")
	for _, line := range lines {
		text := line
		if python || inside {
			text = traceBranch.ReplaceAllString(line, "")
		}
		switch {
		case traceBegin.MatchString(line), traceFrame.MatchString(line):
			python, inside = true, true
			continue
		case nodeFrame.MatchString(line), python && traceLink.MatchString(text), inside && strings.HasPrefix(text, " "):
			continue
		case python && text == "":
			continue
		}
		inside = false
		kept = append(kept, text)
	}
	if len(kept) == 0 {
		return lines
	}
	return kept
}
