// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxLogged  = 200     // bytes of invalid output that are logged
	maxScanned = 1 << 16 // bytes that are searched for secrets first
)

// Sanitize returns a server's text in a form that is safe for terminals and logs. It
// escapes control characters, line breaks, characters that change the writing
// direction, and invalid UTF-8. Quotes and backslashes are left to the log format,
// which escapes them itself.
func Sanitize(s string) string {
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
