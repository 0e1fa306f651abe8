// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsontest

import (
	"math/rand/v2"
	"strconv"
	"strings"
)

// Seeded returns the same random numbers in each run, to reproduce failures.
func Seeded(n uint64) *rand.Rand {
	return rand.New(rand.NewPCG(2026_07_28, n)) //nolint:gosec // for tests, which must be reproducible
}

// RandomText has characters that are difficult to encode: quotes, escapes, control
// characters, the limits of UTF-8, unpaired surrogates.
func RandomText(r *rand.Rand) string {
	parts := []string{
		"", "a", "Z", " ", "\t", "\n", "\r", "\x00", "\x1f", "\x7f", `"`, `\`, "/", "'", "<", "&", "=?base64?", "?=", "é", "ß", "\u0080",
		"\u07ff", "\u0800", "\u2028", "\ufeff", "\ufffd", "\uffff", "世", "🎉", "\U0010ffff", "http://x/?a=b#c", "-1", "1e9", "..",
	}
	var b strings.Builder
	for range r.IntN(6) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

// EscapedText spells a text as a JSON string in a random way.
func EscapedText(r *rand.Rand, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c >= 0x10000 && r.IntN(2) == 0:
			c -= 0x10000
			b.WriteString(`\u` + hex16(r, 0xd800+c>>10) + `\u` + hex16(r, 0xdc00+c&0x3ff))
		case c < 0x10000 && (r.IntN(3) == 0 || c < ' ' || c == '"' || c == '\\'):
			b.WriteString(`\u` + hex16(r, c))
		default:
			b.WriteRune(c)
		}
	}
	return b.String() + `"`
}

func hex16(r *rand.Rand, c rune) string {
	s := "000" + strconv.FormatInt(int64(c), 16)
	s = s[len(s)-4:]
	if r.IntN(2) == 0 {
		return strings.ToUpper(s)
	}
	return s
}
