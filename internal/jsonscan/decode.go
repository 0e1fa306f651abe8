// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// DecodeText returns the text of a JSON string that was scanned before. It reports
// false for any other value and for an unpaired surrogate.
func DecodeText(raw []byte) (string, bool) {
	text, ok := decodeText(raw)
	if !ok {
		return "", false
	}
	return text, true
}

// ResultComplete is the type of a result without a resultType.
const ResultComplete = "complete"

// ResultType returns the type of a result, given the JSON text of its resultType, or nothing
// if it has none. A value that is not a string is returned as its JSON text, which equals no
// type.
func ResultType(raw []byte) string {
	switch string(raw) {
	case "", `"complete"`: // nearly all results: make no string
		return ResultComplete
	}
	if text, ok := DecodeText(raw); ok {
		return text
	}
	return string(raw)
}

// TextOf is DecodeText with U+FFFD for an unpaired surrogate, and with "" for any other value.
func TextOf(raw []byte) string {
	text, _ := decodeText(raw)
	return text
}

// decodeText is TextOf. It reports false where DecodeText does.
func decodeText(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	raw = raw[1 : len(raw)-1]
	// Most texts that route a message have no escape.
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw), true
	}
	b, ok := Unescape(make([]byte, 0, len(raw)), raw)
	return string(b), ok
}

// Unescape appends the decoded content of a scanned JSON string. It reports false if
// there is an unpaired surrogate, which is appended as U+FFFD.
func Unescape(dst, src []byte) ([]byte, bool) {
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
		dst = utf8.AppendRune(dst, r) // U+FFFD for a surrogate
		src = src[size:]
	}
}

// unescapeByte decodes an escape of one letter; other bytes decode to themselves.
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

// unescapeRune decodes uXXXX, or a surrogate pair of two of them. An unpaired surrogate
// is returned as it is.
func unescapeRune(src []byte) (r rune, size int) {
	// src begins after the backslash, so both lengths exclude it.
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
