// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

// With vector instructions (hasSkip), skipBlocks skips the content of a string 64 bytes
// at a time, including frequent escapes. Everything else is checked without it, if
// necessary byte by byte: skipBlocks may stop anywhere, but never skips invalid text.

// skip skips plain text and escapes from i on, where a character or an escape must
// begin. It returns the offset of the first other byte or an offset with fewer than 65
// bytes left, all skipped bytes or-ed, as far as that shows non-ASCII bytes, and
// whether there were escapes.
func skip(data []byte, i int) (stop int, high uint64, escaped bool) {
	// The byte before i decides whether a quote is escaped. A backslash there is the
	// end of an escape, however, and the byte before a window is unknown.
	if !hasSkip || len(data)-i <= 64 || i == 0 || data[i-1] == '\\' {
		return i, 0, false
	}
	n, high, escapes := skipBlocks(data[i-1:])
	if n > 0 && data[i+n-1] == '\\' {
		n--
	}
	if high != 0 {
		high = highs
	}
	return i + n, high, escapes != 0
}
