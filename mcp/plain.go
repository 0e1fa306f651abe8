// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"encoding/binary"
	"math/bits"
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
// where something else is, or where fewer than eight bytes are left, and all bytes that
// it saw or-ed.
func plain(data []byte, i int) (stop int, high uint64) {
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

// prose skips plain ASCII and the ends of lines (\n) in it, and returns where something
// else may be: up to 64 bytes before that, or before the end of data. It may return the n
// of such an escape, never its backslash's own place with the n unseen.
func prose(data []byte, i int) int {
	return len(data) - len(lines(data[i:], 0x02*ones, 0xA0*ones, '\\'*ones, 'n'*ones, 0x7F*ones, highs))
}

// lines is prose without a branch for each line: where a line ends no processor
// foresees, and to be wrong there costs as much as the line. It returns what is left,
// from the first block of 64 bytes on that has something else.
//
// The constants are passed to it because those that the compiler knows are made anew for
// each word, and parameters stay in registers: a third of the time. So it must not be
// inlined.
//
//go:noinline
func lines(data []byte, pair, bound, slash, letter, most, high uint64) []byte {
	// The high bit is set of each byte that is not ASCII, or a quote or a control character,
	// as in stops, or a backslash with no n behind it. Only what is not ASCII carries bits
	// into other bytes, and then the block is left anyhow.
	odd := func(d []byte) uint64 {
		x, next := binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint64(d[1:])
		return x | (bound - (x ^ pair)) | (high-(x^slash))&((next^letter)+most)
	}
	for ; len(data) > 64; data = data[64:] {
		// The byte behind the block may be what is behind a backslash, and must be ASCII too.
		found := uint64(data[64]) | odd(data) | odd(data[8:]) | odd(data[16:]) | odd(data[24:]) |
			odd(data[32:]) | odd(data[40:]) | odd(data[48:]) | odd(data[56:])
		if found&high != 0 {
			break
		}
	}
	return data
}
