// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"crypto/sha256"
)

// object checks the object at i, whose members are interpreted, and records in o
// where the known ones stand. o may be nil for an object of which nothing is
// asked later. base is what offsets in o count from.
func (s *scanner) object(i, depth int, l level, o *Object, base int) int {
	if depth >= s.depth {
		return s.tooDeep(i)
	}
	if i = s.space(i + 1); s.at(i) == '}' {
		return i + 1
	}
	var seen names
	for {
		// Where the name begins: it is compared when its end is known.
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
		// Members that have no meaning to us are checked and not kept: they are forwarded with
		// the bytes around them. Those of the envelope are kept, because that is written anew.
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

// member checks the value of a member, whose own members may be interpreted.
func (s *scanner) member(i, depth int, l level, f Field, o *Object, base int) int {
	sub, ok := l.sub(f)
	if !ok || s.at(i) != '{' {
		if l == levelResult && f.isList() {
			return s.list(i, depth)
		}
		return s.value(i, depth)
	}
	if l == levelEnvelope {
		// The object stands for itself: its offsets count from its own start. An
		// envelope with more than one of these objects is refused later.
		s.body = Object{}
		o, base = &s.body, i
	}
	return s.object(i, depth, sub, o, base)
}

// addBeside keeps a member of an envelope that JSON-RPC does not define. A single one is
// not copied.
func (s *scanner) addBeside(member []byte) {
	if s.beside == nil {
		s.beside = member
		return
	}
	s.beside = append(append(s.beside, ','), member...)
}

// list checks a list of a result, which may be deeper than the rest.
func (s *scanner) list(i, depth int) int {
	limit := s.depth
	s.depth = s.inLists
	i = s.value(i, depth)
	s.depth = limit
	return i
}

// name returns the field of the member whose name key has just read from start.
// It fails where the name stands for the second time, or where it is a known
// name in another letter case.
func (s *scanner) name(start int, l level, seen *names) Field {
	name := s.data[start+1 : s.keyEnd-1]
	if s.keyEscaped {
		decoded, ok := unescape(nil, name)
		if !ok {
			s.fail(CodeParseError, start, "the name of a member has half a surrogate pair", "send both halves")
			return FieldNone
		}
		name = decoded
	}
	f := l.field(name)
	if f == FieldNone {
		// Readers that fold case would take it for the member, and others would not: what was
		// judged would then be something else than what is acted on.
		if v := l.variantOf(name); v != FieldNone {
			s.invalid(start, "member "+quoted(name)+" differs from "+quoted([]byte(v.Key()))+" in letter case only",
				"names are case-sensitive")
			return FieldNone
		}
	}
	// Some readers take the first of two, and most the last.
	if !seen.add(f, name) {
		s.invalid(start, "member "+quoted(name)+" stands twice", "send it once")
	}
	return f
}

// names is the set of the names that one object has had so far. The zero value
// is empty. Known names cost a bit and a few others a comparison; a map is made
// only for an object of many, so that its size is never squared.
type names struct {
	fields uint64 // known names: one bit for each field
	n      int
	few    [8][]byte
	many   map[string]struct{} // takes over where few is full

	fleeting bool // the bytes of names will not stay, so that they are copied
}

// add adds a name and reports whether it is new. It keeps the name's bytes.
func (s *names) add(f Field, name []byte) bool {
	if f != FieldNone {
		old := s.fields
		s.fields |= 1 << f
		return s.fields != old
	}
	if s.fleeting {
		name = keepsake(name)
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
	// Beyond a few, so that the names of a large object are not compared each with each.
	s.many = make(map[string]struct{}, 4*len(s.few))
	for _, b := range s.few {
		s.many[string(b)] = struct{}{}
	}
	s.many[string(name)] = struct{}{}
	return true
}

// keepsake returns a copy of a name, or what stands for it if it is long: whoever
// makes a name that is another's hash is told that it stands twice.
func keepsake(name []byte) []byte {
	if len(name) <= sha256.Size {
		return bytes.Clone(name)
	}
	sum := sha256.Sum256(name)
	return sum[:]
}
