// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"strconv"
	"unicode/utf16"
)

// maxID bounds the JSON text of an id, which is kept as long as its request runs and is
// written to logs.
const maxID = 1024

// ID checks that the scanned value from i to end is the id of a request, and returns
// its text, or nil if it is not.
func (s *Scanner) ID(i, end int) []byte {
	const cure = "an id is a string or an integer"
	token := s.Data[i:end]
	switch {
	case token[0] == 'n':
		s.Invalid(i, "the id is null", cure)
	case token[0] == '"' && HasHalfPair(token):
		s.Malformed(i, "the id has an unpaired surrogate", "send both halves of the pair")
	case token[0] != '"' && !IsInteger(token):
		s.Invalid(i, "the id is "+KindOf(token), cure)
	case len(token) > maxID:
		s.Invalid(i, "the id is longer than "+strconv.Itoa(maxID)+" bytes", "send a shorter id")
	default:
		return token
	}
	return nil
}

// KindOf returns the JSON type of a scanned value, with its article.
func KindOf(token []byte) string {
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
	if IsInteger(token) {
		return "an integer"
	}
	return "a number with a fraction or an exponent"
}

// IsInteger reports whether a JSON number is written as an integer.
func IsInteger(token []byte) bool {
	if len(token) > 0 && token[0] == '-' {
		token = token[1:]
	}
	if len(token) == 0 || token[0] == '0' && len(token) > 1 {
		return false
	}
	for _, c := range token {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// HasHalfPair reports whether a scanned string has an unpaired surrogate.
func HasHalfPair(token []byte) bool {
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

// IsVersion2 reports whether the value of the member jsonrpc is "2.0". It accepts
// escapes too, which are unusual but valid.
func IsVersion2(raw []byte) bool {
	if string(raw) == `"2.0"` {
		return true
	}
	v, ok := DecodeText(raw)
	return ok && v == "2.0"
}
