// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"strconv"
	"unicode/utf16"
)

// ID is the id of a JSON-RPC request, kept as the bytes of the message: 1 and "1"
// differ, and 9007199254740993 is preserved. IDs are comparable and may be map keys.
// The zero value is no id.
type ID struct {
	// A token is kept in short if it fits and otherwise in long, never in both, so that
	// equal ids compare equal. Most ids need no allocation.
	long  string
	short [23]byte
	size  uint8 // of short
}

// maxID bounds the JSON text of an id, which is kept as long as its request runs and is
// written to logs.
const maxID = 1024

// ParseID returns the id with the given JSON text: a string, or a number written as an
// integer, of at most 1 KiB. The error is a [*ParseError].
func ParseID(raw []byte) (ID, error) {
	s := newScanner(raw, Limits{})
	i := s.begin()
	if i >= 0 {
		if end := s.value(i, 0); s.end(end) >= 0 {
			id := s.id(i, end)
			if s.err == nil {
				return id, nil
			}
		}
	}
	return ID{}, s.err
}

// NumberID returns the number n as an id.
func NumberID(n uint64) ID {
	var buf [20]byte
	return newID(strconv.AppendUint(buf[:0], n, 10))
}

// StringID returns the string s, which may be empty, as an id.
func StringID(s string) ID {
	return newID(AppendString(nil, s))
}

func newID(token []byte) ID {
	var id ID
	if len(token) > len(id.short) {
		id.long = string(token)
		return id
	}
	id.size = uint8(copy(id.short[:], token))
	return id
}

// id returns the scanned value from i to end as an id.
func (s *scanner) id(i, end int) ID {
	const cure = "an id is a string or an integer"
	token := s.data[i:end]
	switch {
	case token[0] == 'n':
		s.invalid(i, "the id is null", cure)
	case token[0] == '"' && hasHalfPair(token):
		s.fail(CodeParseError, i, "the id has an unpaired surrogate", "send both halves of the pair")
	case token[0] != '"' && !isInteger(token):
		s.invalid(i, "the id is "+kindOf(token), cure)
	case len(token) > maxID:
		s.invalid(i, "the id is longer than "+strconv.Itoa(maxID)+" bytes", "send a shorter id")
	default:
		return newID(token)
	}
	return ID{}
}

// kindOf returns the JSON type of a scanned value, with its article.
func kindOf(token []byte) string {
	switch token[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	if isInteger(token) {
		return "an integer"
	}
	return "a number with a fraction or an exponent"
}

// hasHalfPair reports whether a scanned string has an unpaired surrogate.
func hasHalfPair(token []byte) bool {
	for i := 0; i < len(token); i++ {
		if token[i] != '\\' {
			continue
		}
		i++
		if token[i] != 'u' {
			continue
		}
		r, size := unescapeRune(token[i : len(token)-1])
		if utf16.IsSurrogate(r) {
			return true
		}
		i += size - 1
	}
	return false
}

// IsZero reports whether there is no id.
func (id ID) IsZero() bool { return id.size == 0 && id.long == "" }

// String returns the id's JSON text.
func (id ID) String() string {
	if id.size == 0 {
		return id.long
	}
	return string(id.short[:id.size])
}

// AppendTo appends the id's JSON text.
func (id ID) AppendTo(dst []byte) []byte {
	if id.size == 0 {
		return append(dst, id.long...)
	}
	return append(dst, id.short[:id.size]...)
}
