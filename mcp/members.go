// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

// first and next iterate over the members of an object that no level interprets:
//
//	for i := s.first(i); i >= 0; i = s.next(i) { i = s.value(s.key(i), d) }
//
// The loop ends with a negative offset. Then afterObject is the offset after the object, or
// failed.
func (s *scanner) first(i int) int {
	s.afterObject = failed
	if s.at(i) != '{' {
		return s.syntax(i, "an object")
	}
	if i = s.space(i + 1); s.at(i) == '}' {
		s.afterObject = i + 1
		return failed
	}
	return i
}

func (s *scanner) next(i int) int {
	s.afterObject = failed
	i = s.space(i)
	switch s.at(i) {
	case ',':
		return s.space(i + 1)
	case '}':
		s.afterObject = i + 1
		return failed
	default:
		return s.syntax(i, "',' or '}' after a member")
	}
}

// keyText returns the name that key has just read from start, with U+FFFD for an
// unpaired surrogate.
func (s *scanner) keyText(start int) string {
	name := s.data[start+1 : s.keyEnd-1]
	if s.keyEscaped {
		name, _ = unescape(nil, name)
	}
	return string(name)
}
