// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

// Where there are vector instructions (hasSkip), skipBlocks skips the inside of a string 64
// bytes at a time, with the escapes that are frequent. Everything else is decided without
// it, byte by byte where need be: it may stop anywhere, but never skip what is wrong.

// skip skips what is plain, and escapes, from i on, where a character or an escape begins.
// It returns where something else stands, or where fewer than 65 bytes are left, all that
// it skipped or-ed, as far as that tells what is beyond ASCII, and whether there were
// escapes.
func skip(data []byte, i int) (stop int, high uint64, escaped bool) {
	// The byte before decides whether a quote is escaped. A backslash there is the end of
	// an escape, though, and what was before a window nobody knows.
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
