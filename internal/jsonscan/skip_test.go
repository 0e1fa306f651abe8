// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// skipped does byte by byte what skip does; it skips nothing on a processor without
// vectors.
func skipped(data []byte, i int) (stop int, high, escaped bool) {
	if !hasSkip || i == 0 || data[i-1] == '\\' {
		return i, false, false
	}
	for block := i; len(data)-block > 64; block += 64 {
		for i < block+64 {
			c, length := data[i], 1
			switch {
			case c == '\\' && bytes.IndexByte([]byte(`n"t`), data[i+1]) >= 0:
				length, escaped = 2, true
			case c == '\\' || c == '"' || c < ' ':
				return i, high, escaped
			}
			if length == 2 && i == block+63 && len(data)-block-64 <= 64 {
				return i, high, escaped // its second byte is not read here
			}
			high = high || c >= utf8.RuneSelf
			i += length
		}
	}
	return i, high, escaped
}

func checkSkip(t *testing.T, data []byte, i int) {
	t.Helper()
	wantStop, wantHigh, wantEscaped := skipped(data, i)
	stop, high, escaped := skip(data, i)
	if stop != wantStop || high&highs != 0 != wantHigh || escaped != wantEscaped {
		t.Fatalf("%q from %d on: %d %#x %v, want %d %v %v", data, i, stop, high, escaped, wantStop, wantHigh, wantEscaped)
	}
}

// Every byte next to every other, at any offset in a block and at its boundary with the
// next, or the end.
func TestSkipPairs(t *testing.T) {
	for _, at := range []int{0, 1, 32, 63, 64, 128} {
		data := []byte(strings.Repeat("x", 140))
		for a := range 256 {
			for b := range 256 {
				data[at], data[at+1] = byte(a), byte(b)
				checkSkip(t, data, 1)
			}
		}
	}
}

// Text of relevant bytes, of any length and from any offset.
func TestSkipRandom(t *testing.T) {
	const frequent, seldom = "aaaaaaaaaaaaaaaaaaaaa /ntn", "\\\\\\\"\"nt\x00\x1f\x20\x21\x22\x23\x7f\x80\xc3\xff"
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		data := make([]byte, rnd.IntN(300))
		strange := 1 << rnd.IntN(9) // one in strange bytes is not plain
		for i := range data {
			data[i] = frequent[rnd.IntN(len(frequent))]
			if rnd.IntN(strange) == 0 {
				data[i] = seldom[rnd.IntN(len(seldom))]
			}
		}
		// Valid escapes do not stop it.
		for range rnd.IntN(20) {
			if len(data) > 1 {
				copy(data[rnd.IntN(len(data)-1):], [...]string{`\n`, `\"`, `\t`}[rnd.IntN(3)])
			}
		}
		checkSkip(t, data, rnd.IntN(len(data)+1))
	}
}

// eachWay runs a test with skip and without, as on a processor without vectors.
func eachWay(t *testing.T, f func(*testing.T)) {
	t.Helper()
	f(t)
	if hasSkip {
		defer withoutSkip()()
		f(t)
	}
}
