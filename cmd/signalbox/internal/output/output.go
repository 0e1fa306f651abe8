// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package output formats what the commands print: text of servers as a terminal may show
// it, numbers with their nouns, times, and tables.
package output

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Visible returns s with everything escaped that a terminal would interpret or not show:
// control characters, escape sequences, and characters that change the direction of writing
// or have no width. Line breaks, tabs and all kinds of spaces are kept.
func Visible(s string) string {
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

// VisibleLine is Visible with all white space replaced by single spaces.
func VisibleLine(s string) string {
	return Visible(strings.Join(strings.Fields(s), " "))
}

// Shorten cuts a text to most characters, with an ellipsis if it was cut.
func Shorten(text string, most int) string {
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

// VisibleJSON returns the same JSON with hidden characters as JSON escapes. They occur in
// strings only, so that the value stays the same.
func VisibleJSON(text []byte) []byte {
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

// Plural returns a number with its noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// MaxColumn bounds the width of a column in characters: a server chooses the names of its
// tools, and one long name does not fill all lines with blanks.
const MaxColumn = 100

// WriteColumns writes rows with aligned columns. The columns in right are aligned to the right.
// Text that is longer than a column stays whole.
func WriteColumns(b *bytes.Buffer, rows [][]string, right ...int) {
	if len(rows) == 0 {
		return
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = VisibleLine(row[i])
			widths[i] = max(widths[i], min(utf8.RuneCountInString(row[i]), MaxColumn))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			width := -widths[i]
			if slices.Contains(right, i) {
				width = widths[i]
			}
			fmt.Fprintf(&line, "%*s", width, cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// NonEmpty returns the texts that are not empty.
func NonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// ShortTime formats milliseconds for a line: two or three digits that matter, and a unit.
func ShortTime(ms float64) string {
	switch {
	case ms < 1:
		return fmt.Sprintf("%.2gms", ms)
	case ms < 10:
		return fmt.Sprintf("%.1fms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0fms", ms)
	case ms < 60_000:
		return fmt.Sprintf("%.1fs", ms/1000)
	default:
		return time.Duration(ms * float64(time.Millisecond)).Round(time.Second).String()
	}
}

// ExcerptLength is how much of an unexpected page is shown.
const ExcerptLength = 200

// FirstLine returns the part of an unexpected page that is shown.
func FirstLine(body []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	return Shorten(VisibleLine(line), ExcerptLength)
}

// CodeSuffix formats the code at the end of a reason.
func CodeSuffix(code string) string {
	if code == "" {
		return ""
	}
	return " [" + VisibleLine(code) + "]"
}

// Ago formats the time from then to now in one unit.
func Ago(now, then time.Time) string {
	d := now.Sub(then)
	switch {
	case then.IsZero():
		return "never"
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	// Up to two days, because "1d ago" could mean this morning.
	case d < 2*Day:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	default:
		return fmt.Sprintf("%dd ago", d/Day)
	}
}

// Day ignores daylight saving, as uptimes do.
const Day = 24 * time.Hour
