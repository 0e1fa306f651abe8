// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible returns a text in which everything that a terminal would obey or not
// show (control characters, escape sequences, characters that change the
// direction of writing or have no width) stands as an escape. Line breaks, tabs
// and all kinds of spaces stay.
func visible(s string) string {
	if !strings.ContainsFunc(s, isHidden) {
		return s
	}
	var b strings.Builder
	// Byte by byte where it is no UTF-8: a range over the string would show the same
	// mark for each such byte, and hide which they were.
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[0]), 16))
		case isHidden(r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

// visibleLine is visible, with all of it on one line.
func visibleLine(s string) string {
	return visible(strings.Join(strings.Fields(s), " "))
}

// shorten cuts a text to so many characters, and marks that it was cut.
func shorten(text string, most int) string {
	if letters := []rune(text); len(letters) > most {
		return string(letters[:most-1]) + "…"
	}
	return text
}

// isHidden reports whether a terminal would obey a character or not show it. All
// kinds of spaces are shown, though unicode.IsPrint takes only one of them; the
// mark of what is no UTF-8 is not, as it hides what stood there.
func isHidden(r rune) bool {
	return !unicode.IsPrint(r) && r != '\n' && r != '\t' && !unicode.Is(unicode.Zs, r) || r == utf8.RuneError
}

// visibleJSON returns the same JSON with hidden characters as JSON's own
// escapes. They can stand in strings only, so that the value stays what it is.
func visibleJSON(text []byte) []byte {
	var b bytes.Buffer
	// Strings are the only place in JSON where such a character can stand, but for
	// the returns between its tokens, which stay.
	for _, r := range string(text) {
		switch {
		case r == '\r' || r == utf8.RuneError || !isHidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := surrogates(r)
			writeEscape(&b, high)
			writeEscape(&b, low)
		default:
			writeEscape(&b, r)
		}
	}
	return b.Bytes()
}

// surrogates returns the two halves that JSON writes a large character as.
func surrogates(r rune) (high, low rune) {
	r -= 0x10000
	return 0xd800 + r>>10, 0xdc00 + r&0x3ff
}

// writeEscape writes one unit of UTF-16 as JSON escapes it.
func writeEscape(b *bytes.Buffer, r rune) {
	const digits = "0123456789abcdef"
	b.WriteString(`\u`)
	for shift := 12; shift >= 0; shift -= 4 {
		b.WriteByte(digits[r>>shift&0xf])
	}
}

// printText writes a server's text: as it is, or visible where w is a terminal.
func (e *env) printText(w io.Writer, text string) error {
	if e.Terminal(w) {
		text = visible(text)
	}
	_, err := io.WriteString(w, text)
	return err
}

// printJSON writes a server's JSON text and a line break, likewise.
func (e *env) printJSON(text []byte) error {
	if e.Terminal(e.Stdout) {
		text = visibleJSON(text)
	}
	_, err := e.Stdout.Write(append(bytes.Clone(text), '\n'))
	return err
}
