// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

// First begins, and Next continues, an iteration over the members of an object that no
// level interprets:
//
//	for i := s.First(i); i >= 0; i = s.Next(i) { i = s.Value(s.Key(i), d) }
//
// The loop ends with a negative offset. Then AfterObject is the offset after the object,
// or Failed.
func (s *Scanner) First(i int) int {
	s.AfterObject = Failed
	if s.At(i) != '{' {
		return s.Syntax(i, "an object")
	}
	if i = s.Space(i + 1); s.At(i) == '}' {
		s.AfterObject = i + 1
		return Failed
	}
	return i
}

// Next continues after the value that ends at i: see First.
func (s *Scanner) Next(i int) int {
	s.AfterObject = Failed
	i = s.Space(i)
	switch s.At(i) {
	case ',':
		return s.Space(i + 1)
	case '}':
		s.AfterObject = i + 1
		return Failed
	default:
		return s.Syntax(i, "',' or '}' after a member")
	}
}

// KeyText returns the name that Key has just read from start, with U+FFFD for an
// unpaired surrogate.
func (s *Scanner) KeyText(start int) string {
	name := s.Data[start+1 : s.keyEnd-1]
	if s.keyEscaped {
		name, _ = Unescape(nil, name)
	}
	return string(name)
}
