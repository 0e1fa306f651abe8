// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"encoding/json"
	"iter"
)

// The functions of this file walk over JSON that was parsed before: they look no
// further than they are asked to, and may panic where it is no JSON.

// Members returns the names and values of an object's members in their order,
// and nothing for what is no object. The values share raw's bytes.
func Members(raw []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for s := range spans(raw, '{') {
			if !yield(s.name(raw), raw[s.value:s.end:s.end]) {
				return
			}
		}
	}
}

// Elements returns the elements of an array, and nothing for what is none. They
// share raw's bytes.
func Elements(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for s := range spans(raw, '[') {
			if !yield(raw[s.value:s.end:s.end]) {
				return
			}
		}
	}
}

// RewriteMembers returns the object with each value as f returns it: the very value
// that it was given, another JSON text, or nil for no such member. Where f changes
// nothing, and for what is no object, that is raw itself; otherwise it is a
// copy in which names and values that stay have their own bytes, in their order.
func RewriteMembers(raw []byte, f func(name string, value []byte) []byte) []byte {
	return rewrite(raw, '{', '}', func(s span, value []byte) []byte { return f(s.name(raw), value) })
}

// RewriteElements does the same with the elements of an array.
func RewriteElements(raw []byte, f func(value []byte) []byte) []byte {
	return rewrite(raw, '[', ']', func(_ span, value []byte) []byte { return f(value) })
}

// rewrite copies nothing before the first change, which most objects never come to.
func rewrite(raw []byte, open, closing byte, f func(s span, value []byte) []byte) []byte {
	var out []byte
	kept := 0 // so many bytes of raw stay as they are, up to the first change
	for s := range spans(raw, open) {
		old := raw[s.value:s.end:s.end]
		value := f(s, old)
		switch {
		case out != nil:
		case isSame(old, value):
			// A comma in front of what comes next is not kept: whether one is needed depends on
			// whether anything stands before it.
			kept = s.end
			continue
		default:
			out = append(make([]byte, 0, len(raw)+len(value)), raw[:max(kept, 1)]...)
		}
		if value == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, raw[s.key:s.value]...), value...)
	}
	if out == nil {
		return raw
	}
	return append(out, closing)
}

// isSame reports whether two slices are one and the same.
func isSame(a, b []byte) bool { return len(a) == len(b) && len(b) > 0 && &a[0] == &b[0] }

// span is where a member or an element stands. An element begins with its value.
type span struct{ key, value, end int }

// name decodes the name of a member. Half a surrogate pair is U+FFFD.
func (s span) name(raw []byte) string {
	// From behind: between a name and its value there is no other quote.
	inner := raw[s.key+1 : s.key+1+bytes.LastIndexByte(raw[s.key+1:s.value], '"')]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var text string
	if json.Unmarshal(raw[s.key:s.key+len(inner)+len(`""`)], &text) != nil {
		return "" // it was valid when it came
	}
	return text
}

// spans walks over an object or an array, as open says, and finds nothing in what is
// something else.
func spans(raw []byte, open byte) iter.Seq[span] {
	return func(yield func(span) bool) {
		if len(raw) == 0 || raw[0] != open {
			return
		}
		for i := skipTo(raw, 1); raw[i] != '}' && raw[i] != ']'; i = skipTo(raw, i) {
			s := span{key: i, value: i}
			if open == '{' {
				s.value = skipTo(raw, skipString(raw, i))
			}
			i = skipValue(raw, s.value)
			s.end = i
			if !yield(s) {
				return
			}
		}
	}
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
