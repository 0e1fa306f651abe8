// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"crypto/sha256"
)

// object checks the object at i, interprets its members at level l, and records the
// positions of the known ones in o, relative to base. o may be nil if they are not
// needed.
func (s *scanner) object(i, depth int, l level, o *Object, base int) int {
	if depth >= s.depth {
		return s.tooDeep(i)
	}
	if i = s.space(i + 1); s.at(i) == '}' {
		return i + 1
	}
	var seen names
	for {
		// Start of the name, which is compared once its end is known.
		start := i
		if i = s.key(start); i < 0 {
			return failed
		}
		f := s.name(start, l, &seen)
		if s.err != nil {
			return failed
		}
		value := i
		if i = s.member(i, depth+1, l, f, o, base); i < 0 {
			return failed
		}
		// Members without a meaning here are checked and not recorded: they are
		// forwarded with the bytes around them. Those of the envelope are kept, because
		// a new envelope is written.
		switch {
		case l == levelEnvelope && f == FieldNone:
			s.addBeside(s.data[start:i:i])
		case f != FieldNone && o != nil:
			o.add(f, start-base, value-base, i-base)
		}
		i = s.space(i)
		switch s.at(i) {
		case ',':
			i = s.space(i + 1)
		case '}':
			return i + 1
		default:
			return s.syntax(i, "',' or '}' after a member")
		}
	}
}

// member checks the value of a member and, at an interpreted level, its members.
func (s *scanner) member(i, depth int, l level, f Field, o *Object, base int) int {
	sub, ok := l.sub(f)
	if !ok || s.at(i) != '{' {
		if l == levelResult && f.isList() {
			return s.list(i, depth)
		}
		return s.value(i, depth)
	}
	if l == levelEnvelope {
		// Offsets in params and result count from their own start. An envelope with
		// more than one of these objects is rejected later.
		s.body = Object{}
		o, base = &s.body, i
	}
	return s.object(i, depth, sub, o, base)
}

// addBeside keeps a member of the envelope that JSON-RPC does not define. A single one
// is not copied.
func (s *scanner) addBeside(member []byte) {
	if s.beside == nil {
		s.beside = member
		return
	}
	s.beside = append(append(s.beside, ','), member...)
}

// list checks a list in a result, which may be nested more deeply than the rest.
func (s *scanner) list(i, depth int) int {
	limit := s.depth
	s.depth = s.inLists
	i = s.value(i, depth)
	s.depth = limit
	return i
}

// name returns the field with the name that key has just read from start. It fails for
// a duplicate, and for a known name in another letter case.
func (s *scanner) name(start int, l level, seen *names) Field {
	name := s.data[start+1 : s.keyEnd-1]
	if s.keyEscaped {
		decoded, ok := unescape(nil, name)
		if !ok {
			s.fail(CodeParseError, start, "the name of a member has an unpaired surrogate", "send both halves of the pair")
			return FieldNone
		}
		name = decoded
	}
	f := l.field(name)
	if f == FieldNone {
		// Readers that fold case would take it for the member and others would not, so
		// that the message checked here would differ from the one acted on.
		if v := l.caseVariant(name); v != FieldNone {
			s.invalid(start, "member "+quoted(name)+" differs from "+quoted([]byte(v.Key()))+" in letter case only",
				"names are case-sensitive")
			return FieldNone
		}
	}
	// Some readers take the first duplicate, most the last.
	if !seen.add(f, name) {
		s.invalid(start, "duplicate member "+quoted(name), "send it once")
	}
	return f
}

// names is the set of member names seen in one object. The zero value is empty. Known
// names cost a bit and a few others a comparison. A map is made only for an object with
// many names, to avoid quadratic work.
type names struct {
	fields uint64 // known names: one bit for each field
	n      int
	few    [8][]byte
	many   map[string]struct{} // used instead of few when few is full

	copies bool // the bytes of names are overwritten later, so copy them
}

// add adds a name and reports whether it is new. It keeps the bytes of the name.
func (s *names) add(f Field, name []byte) bool {
	if f != FieldNone {
		old := s.fields
		s.fields |= 1 << f
		return s.fields != old
	}
	if s.copies {
		name = nameKey(name)
	}
	if s.many != nil {
		_, had := s.many[string(name)]
		s.many[string(name)] = struct{}{}
		return !had
	}
	for _, b := range s.few[:s.n] {
		if string(b) == string(name) {
			return false
		}
	}
	if s.n < len(s.few) {
		s.few[s.n] = name
		s.n++
		return true
	}
	// A map, so that the names of a large object are not compared pairwise.
	s.many = make(map[string]struct{}, 4*len(s.few))
	for _, b := range s.few {
		s.many[string(b)] = struct{}{}
	}
	s.many[string(name)] = struct{}{}
	return true
}

// nameKey returns a copy of a name, or the hash of a long one. A name that equals the
// hash of another is reported as a duplicate.
func nameKey(name []byte) []byte {
	if len(name) <= sha256.Size {
		return bytes.Clone(name)
	}
	sum := sha256.Sum256(name)
	return sum[:]
}
