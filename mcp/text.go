// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// nearText is how far a string is looked at for its end before it is taken for a long one.
const nearText = 256

// otherText is how far prose is not tried again where it got nowhere, so that text of
// another kind loses next to nothing by it.
const otherText = 2 << 10

// text checks the string whose opening quote is at i. It returns the offset
// behind the closing quote, and whether the string has escapes.
func (s *scanner) text(i int) (end int, escaped bool) {
	data, start := s.data, i+1
	if start+8 > len(data) {
		return s.rest(start, start, 0)
	}
	high := binary.LittleEndian.Uint64(data[start : start+8])
	m := stops(high)
	if m == 0 {
		// Most runs of plain text end within a word. Those that do not may be long.
		var more uint64
		near := data[:min(len(data), start+nearText)]
		i, more = plain(near, start+8)
		high |= more
		if i+8 > len(near) && len(near) < len(data) {
			return s.long(start, i, high)
		}
	} else {
		i = start + bits.TrailingZeros64(m)>>3
	}
	if i < len(data) && data[i] == '"' && high&highs == 0 {
		return i + 1, false
	}
	return s.rest(start, i, high)
}

// long is rest where i may be inside of a run of plain text.
func (s *scanner) long(start, i int, high uint64) (end int, escaped bool) {
	i, far, skipped := skip(s.data, i)
	i, tail := plain(s.data, i)
	end, escaped = s.rest(start, i, high|far|tail)
	return end, escaped || skipped
}

// inside does so from behind the opening quote on. Where it fails, which it does without
// an error where a partial text ends, cut says how far the string was checked but for
// being UTF-8, and high whether it has anything beyond ASCII.
func (s *scanner) inside(i int) int {
	// What needs a window is long, and then it is prose most often, or base64.
	start := i
	if !hasSkip {
		i = prose(s.data, i)
	}
	i, _ = s.long(start, i, 0)
	return i
}

// rest checks the string whose inside begins at start from i on, where the first run of
// plain text ends. high is all bytes before that, or-ed.
func (s *scanner) rest(start, i int, high uint64) (end int, escaped bool) {
	data := s.data
	try := i // from here on it may be prose
	for i < len(data) {
		c := data[i]
		if c == '"' {
			return s.closeText(start, i, high), escaped
		}
		if c != '\\' && c >= ' ' {
			break
		}
		escaped = true
		next := i + 2
		if c != '\\' || next > len(data) || !isShort(data[i+1]) {
			if next = s.escape(i); next < 0 {
				s.cut, s.high = i, high
				return failed, escaped
			}
		}
		i = next
		switch {
		case hasSkip:
			var more uint64
			i, more, _ = skip(data, i)
			high |= more
		case i >= try && data[i-1] == 'n':
			// Behind the end of one line there are likely to be more.
			if i = prose(data, i); i == next {
				try = i + otherText
			}
		}
		if i+8 > len(data) {
			break
		}
		x := binary.LittleEndian.Uint64(data[i : i+8])
		high |= x
		if m := stops(x); m != 0 {
			i += bits.TrailingZeros64(m) >> 3
			continue
		}
		var more uint64
		i, more = plain(data, i+8)
		high |= more
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
	switch c := s.at(i + 1); {
	case isShort(c):
		return i + 2
	// Four digits of either case; which character they stand for is decided by who decodes.
	case c == 'u':
		if _, ok := hex4(s.data[i+2:]); ok {
			return i + 6
		}
	}
	if i+1 >= len(s.data) {
		return s.syntax(i+1, "an escape")
	}
	return s.fail(CodeParseError, i, "unknown escape in a string", "JSON has \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with four hexadecimal digits")
}

// isShort reports whether the byte makes an escape of two with a backslash before it. It
// has no branches: what is escaped next, nobody foresees.
func isShort(c byte) bool {
	const (
		low  = 1<<'"' | 1<<'/'
		high = 1<<('\\'-64) | 1<<('b'-64) | 1<<('f'-64) | 1<<('n'-64) | 1<<('r'-64) | 1<<('t'-64)
	)
	return (uint64(low)>>c|uint64(high)>>(c-64))&1 != 0
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
