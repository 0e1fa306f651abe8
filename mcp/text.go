// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Eight bytes at once: the lowest marked bit of stops is at the first byte that
// ends a run of plain text: a quote, a control character or a backslash. Bits
// above it may be wrong, because a subtraction may borrow; they are not read.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

func stops(x uint64) uint64 {
	// Exchanging 0x20..0x23 in pairs puts the quote (0x22) next to the control
	// characters, so that one comparison finds both.
	quote := (x ^ 0x02*ones) - 0x21*ones
	slash := (x ^ '\\'*ones) - ones
	return (quote | slash) &^ x & highs
}

// plain skips plain text in steps of 32 bytes, with one branch for each. It returns
// the word that has something else and what stops says of that, or nothing where it
// came too near to the end, and all bytes that it saw or-ed.
func plain(data []byte, i int) (word int, stop, high uint64) {
	for ; i+32 <= len(data); i += 32 {
		d := data[i : i+32]
		a, b := binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint64(d[8:])
		x, y := binary.LittleEndian.Uint64(d[16:]), binary.LittleEndian.Uint64(d[24:])
		high |= a | b | x | y
		a, b, x, y = stops(a), stops(b), stops(x), stops(y)
		switch {
		case a|b|x|y == 0:
		case a != 0:
			return i, a, high
		case b != 0:
			return i + 8, b, high
		case x != 0:
			return i + 16, x, high
		default:
			return i + 24, y, high
		}
	}
	return i, 0, high
}

// text checks the string whose opening quote is at i. It returns the offset
// behind the closing quote, and whether the string has escapes.
func (s *scanner) text(i int) (end int, escaped bool) {
	return s.inside(i + 1)
}

// inside does so from behind the opening quote on. Where it fails, which it does without
// an error where a partial text ends, cut says how far the string was checked but for
// being UTF-8, and high whether it has anything beyond ASCII.
func (s *scanner) inside(i int) (end int, escaped bool) {
	data := s.data
	start := i
	high := uint64(0) // all bytes or-ed: is there anything beyond ASCII
	for i+8 <= len(data) {
		x := binary.LittleEndian.Uint64(data[i:])
		high |= x
		m := stops(x)
		if m == 0 {
			// Most runs of plain text end within a word. Those that do not may be long.
			var more uint64
			i, m, more = plain(data, i+8)
			high |= more
			if m == 0 {
				continue
			}
		}
		i += bits.TrailingZeros64(m) >> 3
		if data[i] == '"' {
			return s.closeText(start, i, high), escaped
		}
		escaped = true
		next := s.escape(i)
		if next < 0 {
			s.cut, s.high = i, high
			return failed, escaped
		}
		i = next
	}
	// Fewer than eight bytes are left, and no quote yet.
	return s.textEnd(start, i, high, escaped)
}

// closeText ends the string whose inside is from start to i, where its closing
// quote is. All of it is checked at once for being UTF-8: no part of a longer
// character looks like a quote or a backslash, so that a wrong one hides no end.
func (s *scanner) closeText(start, i int, high uint64) int {
	if high&highs != 0 && !utf8.Valid(s.data[start:i]) {
		return s.badUTF8(start, i)
	}
	return i + 1
}

// textEnd goes on with text where fewer than eight bytes are left.
func (s *scanner) textEnd(start, i int, high uint64, escaped bool) (int, bool) {
	for i < len(s.data) {
		switch c := s.data[i]; {
		case c == '"':
			return s.closeText(start, i, high), escaped
		case c == '\\' || c < ' ':
			escaped = true
			next := s.escape(i)
			if next < 0 {
				s.cut, s.high = i, high
				return failed, escaped
			}
			i = next
		default:
			high |= uint64(c)
			i++
		}
	}
	s.cut, s.high = i, high
	if s.partial {
		return failed, escaped
	}
	return s.syntax(i, "the closing quote of a string"), escaped
}

// escape checks the escape at i, or fails at the control character that is there
// instead. Half a surrogate pair is let through: it is valid by the grammar, and
// forwarded as it stands.
func (s *scanner) escape(i int) int {
	if c := s.data[i]; c < ' ' {
		return s.fail(CodeParseError, i, "control character "+quoteByte(c)+" in a string", "escape it")
	}
	switch s.at(i + 1) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	// Four digits of either case; which character they stand for is decided by who decodes.
	case 'u':
		if _, ok := hex4(s.data[i+2:]); ok {
			return i + 6
		}
	}
	if i+1 >= len(s.data) {
		return s.syntax(i+1, "an escape")
	}
	return s.fail(CodeParseError, i, "unknown escape in a string", "JSON has \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with four hexadecimal digits")
}

// hex4 returns the value of the four hexadecimal digits that b begins with.
func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// badUTF8 fails at the first byte that is at fault, which is looked for only now.
func (s *scanner) badUTF8(i, end int) int {
	for i < end {
		r, n := utf8.DecodeRune(s.data[i:end])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	s.cut, s.high = i, 0
	return s.fail(CodeParseError, i, "invalid UTF-8", "JSON text is UTF-8, without overlong forms and surrogates")
}
