// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "strings"

// Programs of package managers, such as npx, are batch files on Windows. cmd.exe runs them,
// and reads their arguments by its own rules: a URL with & in it would be two commands.

// isBatch reports whether a program is a batch file.
func isBatch(path string) bool {
	lower := strings.ToLower(path)
	return strings.HasSuffix(lower, ".cmd") || strings.HasSuffix(lower, ".bat")
}

// isSpecialInBatch reports whether cmd.exe would read a part of an argument as something else.
func isSpecialInBatch(arg string) bool { return strings.ContainsAny(arg, "&|<>^%!()\"\r\n") }

// batchLine returns the command line for cmd.exe that runs a batch file. It quotes as the
// standard library of Rust does since CVE-2024-24576.
func batchLine(file string, args []string) string {
	var b strings.Builder
	// Extensions on, for the substring below; delayed expansion off, for the sign !; no
	// commands of the user at the start.
	b.WriteString(`cmd.exe /e:ON /v:OFF /d /c "` + `"` + file + `"`)
	for _, arg := range args {
		b.WriteByte(' ')
		writeBatchArg(&b, arg)
	}
	b.WriteByte('"')
	return b.String()
}

func writeBatchArg(b *strings.Builder, arg string) {
	quote := arg == "" || strings.HasSuffix(arg, `\`) || strings.ContainsFunc(arg, func(r rune) bool {
		isPlain := '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune(`#$*+-./:?@\_`, r)
		return !isPlain
	})
	if quote {
		b.WriteByte('"')
	}
	backslashes := 0
	for _, r := range arg {
		switch r {
		case '\\':
			backslashes++
		case '"':
			b.WriteString(strings.Repeat(`\`, backslashes) + `"`)
		case '%', '\r':
			b.WriteString("%%cd:~,") // an empty substring, so that what follows is no variable
		default:
		}
		if r != '\\' {
			backslashes = 0
		}
		b.WriteRune(r)
	}
	if quote {
		b.WriteString(strings.Repeat(`\`, backslashes) + `"`)
	}
}
