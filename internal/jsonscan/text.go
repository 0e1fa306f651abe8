// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// shortText is how far a string is searched for its end before it is treated as long.
const shortText = 256

// proseBackoff is how far prose is not tried again after a failure, so that other kinds
// of text lose next to nothing by it.
const proseBackoff = 2 << 10

// Text checks the string with its opening quote at i. It returns the offset after the
// closing quote, and whether the string has escapes.
func (s *Scanner) Text(i int) (end int, escaped bool) {
	data, start := s.Data, i+1
	if start+8 > len(data) {
		return s.textSlow(start, start, 0)
	}
	high := binary.LittleEndian.Uint64(data[start : start+8])
	m := stops(high)
	if m == 0 {
		// Most runs of plain text end within a word. Others may be long.
		var more uint64
		near := data[:min(len(data), start+shortText)]
		i, more = skipPlain(near, start+8)
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
	return s.textSlow(start, i, high)
}

// long is like textSlow, but i may be inside a run of plain text.
func (s *Scanner) long(start, i int, high uint64) (end int, escaped bool) {
	i, far, skipped := skip(s.Data, i)
	i, tail := skipPlain(s.Data, i)
	end, escaped = s.textSlow(start, i, high|far|tail)
	return end, escaped || skipped
}

// textFrom is like long, from the opening quote on. It may fail without an error at the
// end of a partial text. After a failure, cut is the offset up to which the string was
// checked, except for UTF-8, and high reports whether it has non-ASCII bytes.
func (s *Scanner) textFrom(i int) int {
	// A string that needs a window is long, and then most often prose or base64.
	start := i
	if !hasSkip {
		i = skipProse(s.Data, i)
	}
	i, _ = s.long(start, i, 0)
	return i
}

// textSlow checks a string with content from start, beginning at i, where its first run
// of plain text ends. high is all earlier bytes, or-ed.
func (s *Scanner) textSlow(start, i int, high uint64) (end int, escaped bool) {
	data := s.Data
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
				return Failed, escaped
			}
		}
		i = next
		switch {
		case hasSkip:
			var more uint64
			i, more, _ = skip(data, i)
			high |= more
		case i >= try && data[i-1] == 'n':
			// After one end of a line there are likely to be more.
			if i = skipProse(data, i); i == next {
				try = i + proseBackoff
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
		i, more = skipPlain(data, i+8)
		high |= more
	}
	// Fewer than eight bytes are left, without a quote so far.
	return s.textEnd(start, i, high, escaped)
}

// closeText ends the string with the content from start to i, where its closing quote
// is. UTF-8 is checked for the whole string at once: no part of a longer character
// looks like a quote or a backslash, so that an invalid one hides no end.
func (s *Scanner) closeText(start, i int, high uint64) int {
	if high&highs != 0 && !utf8.Valid(s.Data[start:i]) {
		return s.badUTF8(start, i)
	}
	return i + 1
}

// textEnd continues where fewer than eight bytes are left.
func (s *Scanner) textEnd(start, i int, high uint64, escaped bool) (int, bool) {
	for i < len(s.Data) {
		switch c := s.Data[i]; {
		case c == '"':
			return s.closeText(start, i, high), escaped
		case c == '\\' || c < ' ':
			escaped = true
			next := s.escape(i)
			if next < 0 {
				s.cut, s.high = i, high
				return Failed, escaped
			}
			i = next
		default:
			high |= uint64(c)
			i++
		}
	}
	s.cut, s.high = i, high
	if s.partial {
		return Failed, escaped
	}
	return s.Syntax(i, "the closing quote of a string"), escaped
}

// escape checks the escape at i, or fails if a control character is there. Unpaired
// surrogates pass: the grammar allows them, and they are forwarded unmodified.
func (s *Scanner) escape(i int) int {
	if c := s.Data[i]; c < ' ' {
		return s.Malformed(i, "control character "+QuoteByte(c)+" in a string", "escape it")
	}
	switch c := s.At(i + 1); {
	case isShort(c):
		return i + 2
	// Four digits of either case; the decoder checks the character.
	case c == 'u':
		if _, ok := hex4(s.Data[i+2:]); ok {
			return i + 6
		}
	}
	if i+1 >= len(s.Data) {
		return s.Syntax(i+1, "an escape")
	}
	return s.Malformed(i, "unknown escape in a string", "JSON has \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with four hexadecimal digits")
}

// isShort reports whether a backslash and c are an escape of two bytes. It has no
// branches, because they would be unpredictable.
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

// badUTF8 fails at the first invalid byte, which it searches for.
func (s *Scanner) badUTF8(i, end int) int {
	for i < end {
		r, n := utf8.DecodeRune(s.Data[i:end])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	s.cut, s.high = i, 0
	return s.Malformed(i, "invalid UTF-8", "JSON text is UTF-8, without overlong forms and surrogates")
}
