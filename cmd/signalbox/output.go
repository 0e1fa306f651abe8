// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// visible returns s with everything escaped that a terminal would interpret or not show:
// control characters, escape sequences, and characters that change the direction of writing
// or have no width. Line breaks, tabs and all kinds of spaces are kept.
func visible(s string) string {
	if !strings.ContainsFunc(s, isHidden) {
		return s
	}
	var b strings.Builder
	// Invalid UTF-8 is escaped byte by byte: a range over the string would yield the same
	// replacement character for each byte.
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

// visibleLine is visible with all white space replaced by single spaces.
func visibleLine(s string) string {
	return visible(strings.Join(strings.Fields(s), " "))
}

// shorten cuts a text to most characters, with an ellipsis if it was cut.
func shorten(text string, most int) string {
	if letters := []rune(text); len(letters) > most {
		return string(letters[:most-1]) + "…"
	}
	return text
}

// isHidden reports whether a terminal would interpret a character or not show it. All kinds
// of spaces are shown, although unicode.IsPrint accepts only one of them. The replacement
// character counts as hidden, as it hides the original bytes.
func isHidden(r rune) bool {
	return !unicode.IsPrint(r) && r != '\n' && r != '\t' && !unicode.Is(unicode.Zs, r) || r == utf8.RuneError
}

// visibleJSON returns the same JSON with hidden characters as JSON escapes. They occur in
// strings only, so that the value stays the same.
func visibleJSON(text []byte) []byte {
	var b bytes.Buffer
	// Outside of strings only carriage returns between tokens can occur, and are kept.
	for _, r := range string(text) {
		switch {
		case r == '\r' || r == utf8.RuneError || !isHidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// printText writes a server's text: unmodified, or visible if w is a terminal.
func (e *env) printText(w io.Writer, text string) error {
	if e.Terminal(w) {
		text = visible(text)
	}
	_, err := io.WriteString(w, text)
	return err
}

// printJSON writes a server's JSON text and a line break, like printText.
func (e *env) printJSON(text []byte) error {
	if e.Terminal(e.Stdout) {
		text = visibleJSON(text)
	}
	_, err := e.Stdout.Write(append(bytes.Clone(text), '\n'))
	return err
}

// printError writes each line of a message to standard error. Hidden characters are escaped,
// as the message may contain text from a server.
func (e *env) printError(message string) {
	for line := range strings.Lines(message) {
		fmt.Fprintf(e.Stderr, "signalbox: %s\n", visible(strings.TrimRight(line, "\r\n")))
	}
}

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
