// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeText returns the text of a JSON string that was scanned before. It
// reports false for anything else and for half a surrogate pair.
func decodeText(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	raw = raw[1 : len(raw)-1]
	// Nearly all texts that route something have no escape.
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw), true
	}
	b, ok := unescape(make([]byte, 0, len(raw)), raw)
	if !ok {
		return "", false
	}
	return string(b), true
}

// unescape appends what the inside of a scanned JSON string stands for. It
// reports false where the string holds half a surrogate pair; that half is
// appended as U+FFFD.
func unescape(dst, src []byte) ([]byte, bool) {
	ok := true
	for {
		n := bytes.IndexByte(src, '\\')
		if n < 0 {
			return append(dst, src...), ok
		}
		dst = append(dst, src[:n]...)
		src = src[n+1:]
		if src[0] != 'u' {
			dst = append(dst, unescapeByte(src[0]))
			src = src[1:]
			continue
		}
		r, size := unescapeRune(src)
		ok = ok && !utf16.IsSurrogate(r)
		dst = utf8.AppendRune(dst, r) // a surrogate becomes U+FFFD
		src = src[size:]
	}
}

// unescapeByte is for the escapes of one letter; the rest stand for themselves.
func unescapeByte(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default:
		return c
	}
}

// unescapeRune reads uXXXX, or two of them that are a surrogate pair. A half
// without its other comes back as itself.
func unescapeRune(src []byte) (r rune, size int) {
	// src begins behind the backslash, so that both lengths are without it.
	const one, pair = len("u0000"), len(`u0000\u0000`)
	r, _ = hex4(src[1:])
	if len(src) < pair || src[one] != '\\' || src[one+1] != 'u' {
		return r, one
	}
	low, _ := hex4(src[one+2:])
	if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
		return both, pair
	}
	return r, one
}
