// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"encoding/json"
	"iter"
)

// The functions of this file walk JSON that is known to be valid. They look no
// further than they are asked to.

// members returns the names and values of an object's members in their order,
// and nothing for what is no object.
func members(raw []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		if !isObject(raw) {
			return
		}
		for i := skipTo(raw, 1); raw[i] == '"'; i = skipTo(raw, i) {
			end := skipString(raw, i)
			name := text(raw[i:end])
			start := skipTo(raw, end)
			i = skipValue(raw, start)
			if !yield(name, raw[start:i:i]) {
				return
			}
		}
	}
}

// elements returns the elements of an array, and nothing for what is none.
func elements(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(raw) == 0 || raw[0] != '[' {
			return
		}
		for i := skipTo(raw, 1); raw[i] != ']'; i = skipTo(raw, i) {
			start := i
			i = skipValue(raw, start)
			if !yield(raw[start:i:i]) {
				return
			}
		}
	}
}

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

func isString(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }

// text decodes a string.
func text(raw []byte) string {
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return "" // it was valid when it came
	}
	return s
}

// skipTo returns where the next token stands; commas and colons are none.
func skipTo(raw []byte, i int) int {
	for raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r' || raw[i] == ',' || raw[i] == ':' {
		i++
	}
	return i
}

// skipString returns the place behind the string that begins at i.
func skipString(raw []byte, i int) int {
	for i++; ; i++ {
		i += bytes.IndexByte(raw[i:], '"')
		slashes := 0
		for raw[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// skipValue returns the place behind the value that begins at i.
func skipValue(raw []byte, i int) int {
	for depth := 0; i < len(raw); {
		switch raw[i] {
		case '"':
			i = skipString(raw, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ' ', '\n', '\t', '\r', ',', ':':
			i++
			continue
		default:
			i = skipScalar(raw, i)
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// skipScalar returns the place behind a number or a word.
func skipScalar(raw []byte, i int) int {
	for i < len(raw) && bytes.IndexByte([]byte(" \n\t\r,:}]"), raw[i]) < 0 {
		i++
	}
	return i
}
