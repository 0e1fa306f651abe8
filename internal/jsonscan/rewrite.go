// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"iter"
)

// The functions of this file walk over JSON that was parsed before. They look no
// further than necessary and may panic for invalid JSON.

// Members returns the names and values of the members of an object in order, and
// nothing if raw is not an object. The values share the bytes of raw.
func Members(raw []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for s := range spans(raw, '{') {
			if !yield(s.name(raw), raw[s.value:s.end:s.end]) {
				return
			}
		}
	}
}

// Member returns the value of the first member with the name, or nil. It shares the bytes of
// raw.
func Member(raw []byte, name string) []byte {
	for n, value := range Members(raw) {
		if n == name {
			return value
		}
	}
	return nil
}

// IsObject reports whether a value is an object.
func IsObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// Elements returns the elements of an array, and nothing if raw is not an array. They
// share the bytes of raw.
func Elements(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for s := range spans(raw, '[') {
			if !yield(raw[s.value:s.end:s.end]) {
				return
			}
		}
	}
}

// RewriteMembers returns the object with each value replaced by what f returns: the
// value itself (the same slice), another JSON text, or nil to remove the member. If f
// changes nothing, or raw is not an object, the result is raw itself. Otherwise it is a
// copy in which unchanged names and values keep their bytes and order.
func RewriteMembers(raw []byte, f func(name string, value []byte) []byte) []byte {
	return rewrite(raw, '{', '}', func(s span, value []byte) []byte { return f(s.name(raw), value) })
}

// RewriteElements does the same for the elements of an array.
func RewriteElements(raw []byte, f func(value []byte) []byte) []byte {
	return rewrite(raw, '[', ']', func(_ span, value []byte) []byte { return f(value) })
}

// rewrite copies nothing before the first change, because most objects have none.
func rewrite(raw []byte, open, closing byte, f func(s span, value []byte) []byte) []byte {
	var out []byte
	kept := 0 // number of bytes of raw before the first change that are unchanged
	for s := range spans(raw, open) {
		old := raw[s.value:s.end:s.end]
		value := f(s, old)
		switch {
		case out != nil:
		case isSame(old, value):
			// The comma before the next element is excluded: whether it is needed
			// depends on the elements before it.
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

// isSame reports whether two slices are the same memory.
func isSame(a, b []byte) bool { return len(a) == len(b) && len(b) > 0 && &a[0] == &b[0] }

// span is the position of a member or an element. For an element, key equals value.
type span struct{ key, value, end int }

// name decodes the name of a member, with U+FFFD for an unpaired surrogate.
func (s span) name(raw []byte) string {
	// Backwards: there is no other quote between a name and its value.
	return TextOf(raw[s.key : s.key+bytes.LastIndexByte(raw[s.key:s.value], '"')+1])
}

// spans iterates over an object or an array, as open specifies, and yields nothing for
// any other value.
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

// skipTo returns the offset of the next token other than a comma or colon.
func skipTo(raw []byte, i int) int {
	for raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r' || raw[i] == ',' || raw[i] == ':' {
		i++
	}
	return i
}

// skipString returns the offset after the string that begins at i.
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

// skipValue returns the offset after the value that begins at i.
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

// skipScalar returns the offset after a number or a literal.
func skipScalar(raw []byte, i int) int {
	for i < len(raw) && bytes.IndexByte([]byte(" \n\t\r,:}]"), raw[i]) < 0 {
		i++
	}
	return i
}
