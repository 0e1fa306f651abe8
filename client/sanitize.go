// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sanitize returns a server's text as it may stand on a terminal and in a log: what
// controls the terminal, turns the direction of writing or breaks the line, and what
// is no character, is redactPrefix by its number. Quotes and backslashes are left alone,
// because each format of a log escapes them in its own way, and once is enough.
func sanitize(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1, r < utf8.RuneSelf && r != '\t' && unicode.IsControl(r):
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r != '\t' && isDeceptive(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func isDeceptive(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}
