// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// Eight bytes at once: the lowest marked bit of stops is at the first byte that ends a
// run of plain text: a quote, a control character or a backslash. Bits above it may be
// wrong, because a subtraction may borrow; they are not read.
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

// skipPlain skips plain text in steps of 32 bytes, with one branch each. It returns the
// offset of the first other byte, or an offset with fewer than eight bytes left, and
// all bytes that it read, or-ed.
func skipPlain(data []byte, i int) (stop int, high uint64) {
	for ; i+32 <= len(data); i += 32 {
		d := data[i : i+32]
		a, b := binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint64(d[8:])
		x, y := binary.LittleEndian.Uint64(d[16:]), binary.LittleEndian.Uint64(d[24:])
		high |= a | b | x | y
		a, b, x, y = stops(a), stops(b), stops(x), stops(y)
		switch {
		case a|b|x|y == 0:
		case a != 0:
			return i + bits.TrailingZeros64(a)>>3, high
		case b != 0:
			return i + 8 + bits.TrailingZeros64(b)>>3, high
		case x != 0:
			return i + 16 + bits.TrailingZeros64(x)>>3, high
		default:
			return i + 24 + bits.TrailingZeros64(y)>>3, high
		}
	}
	for ; i+8 <= len(data); i += 8 {
		x := binary.LittleEndian.Uint64(data[i : i+8])
		high |= x
		if m := stops(x); m != 0 {
			return i + bits.TrailingZeros64(m)>>3, high
		}
	}
	return i, high
}

// skipProse skips plain ASCII with line ends (\n), and returns an offset at most 64
// bytes before other text or the end of data. It may return the offset of the n of such
// an escape, but never that of the backslash before an n.
func skipProse(data []byte, i int) int {
	return len(data) - len(skipLines(data[i:], 0x02*ones, 0xA0*ones, '\\'*ones, 'n'*ones, 0x7F*ones, highs))
}

// skipLines is skipProse without a branch for each line end: these are unpredictable, and a
// wrong prediction costs as much as the line. It returns the rest of data, beginning
// with the first block of 64 bytes that has other text.
//
// The constants are parameters because the compiler would make known constants anew for
// each word, while parameters stay in registers, which saves a third of the time. So it
// must not be inlined.
//
//go:noinline
func skipLines(data []byte, pair, bound, slash, letter, most, high uint64) []byte {
	// The high bit is set for each byte that is not ASCII, for a quote or a control
	// character, as in stops, and for a backslash without an n after it. Only non-ASCII
	// bytes carry into other bytes, and then the loop ends anyway.
	odd := func(d []byte) uint64 {
		x, next := binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint64(d[1:])
		return x | (bound - (x ^ pair)) | (high-(x^slash))&((next^letter)+most)
	}
	for ; len(data) > 64; data = data[64:] {
		// The byte after the block may follow a backslash, and must be ASCII too.
		found := uint64(data[64]) | odd(data) | odd(data[8:]) | odd(data[16:]) | odd(data[24:]) |
			odd(data[32:]) | odd(data[40:]) | odd(data[48:]) | odd(data[56:])
		if found&high != 0 {
			break
		}
	}
	return data
}
