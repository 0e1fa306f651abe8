// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"crypto/sha256"
)

// Envelope checks the JSON-RPC message at i and records its members in env. [Scanner.Body]
// then returns its params or result.
func (s *Scanner) Envelope(i int, env *Object) (end int) {
	end = s.object(i, 0, LevelEnvelope, env, 0)
	env.raw = s.Data
	return end
}

// Body returns the object that is the member f of the envelope, which is the params or
// the result. It is the zero Object if the member is absent.
func (s *Scanner) Body(env *Object, f Field) Object {
	var o Object
	if raw := env.Raw(f); raw != nil {
		o = s.body
		o.raw = raw
	}
	if s.beside != nil {
		beside := s.beside
		o.beside = &beside
	}
	return o
}

// Beside returns the members of the scanned envelope that JSON-RPC does not define: see
// [Object.Beside].
func (s *Scanner) Beside() []byte { return s.beside }

// object checks the object at i, interprets its members at level l, and records the
// positions of the known ones in o, relative to base. o may be nil if they are not
// needed.
func (s *Scanner) object(i, depth int, l Level, o *Object, base int) int {
	if depth >= s.Depth {
		return s.TooDeep(i)
	}
	if i = s.Space(i + 1); s.At(i) == '}' {
		return i + 1
	}
	var seen Names
	for {
		// Start of the name, which is compared once its end is known.
		start := i
		if i = s.Key(start); i < 0 {
			return Failed
		}
		f := s.name(start, l, &seen)
		if s.Err != nil {
			return Failed
		}
		value := i
		if i = s.member(i, depth+1, l, f, o, base); i < 0 {
			return Failed
		}
		// Members without a meaning here are checked and not recorded: they are
		// forwarded with the bytes around them. Those of the envelope are kept, because
		// a new envelope is written.
		switch {
		case l == LevelEnvelope && f == FieldNone:
			s.addBeside(s.Data[start:i:i])
		case f != FieldNone && o != nil:
			o.add(f, start-base, value-base, i-base)
		}
		i = s.Space(i)
		switch s.At(i) {
		case ',':
			i = s.Space(i + 1)
		case '}':
			return i + 1
		default:
			return s.Syntax(i, "',' or '}' after a member")
		}
	}
}

// member checks the value of a member and, at an interpreted level, its members.
func (s *Scanner) member(i, depth int, l Level, f Field, o *Object, base int) int {
	sub, ok := l.sub(f)
	if !ok || s.At(i) != '{' {
		if l == LevelResult && f.isList() {
			return s.list(i, depth)
		}
		return s.Value(i, depth)
	}
	if l == LevelEnvelope {
		// Offsets in params and result count from their own start. An envelope with
		// more than one of these objects is rejected later.
		s.body = Object{}
		o, base = &s.body, i
	}
	return s.object(i, depth, sub, o, base)
}

// addBeside keeps a member of the envelope that JSON-RPC does not define. A single one
// is not copied.
func (s *Scanner) addBeside(member []byte) {
	if s.beside == nil {
		s.beside = member
		return
	}
	s.beside = append(append(s.beside, ','), member...)
}

// list checks a list in a result, which may be nested more deeply than the rest.
func (s *Scanner) list(i, depth int) int {
	limit := s.Depth
	s.Depth = s.inLists
	i = s.Value(i, depth)
	s.Depth = limit
	return i
}

// name returns the field with the name that Key has just read from start. It fails for
// a duplicate, and for a known name in another letter case.
func (s *Scanner) name(start int, l Level, seen *Names) Field {
	name := s.Data[start+1 : s.keyEnd-1]
	if s.keyEscaped {
		decoded, ok := Unescape(nil, name)
		if !ok {
			s.Malformed(start, "the name of a member has an unpaired surrogate", "send both halves of the pair")
			return FieldNone
		}
		name = decoded
	}
	f := l.field(name)
	if f == FieldNone {
		// Readers that fold case would take it for the member and others would not, so
		// that the message checked here would differ from the one acted on.
		if v := l.caseVariant(name); v != FieldNone {
			s.Invalid(start, "member "+Quoted(name)+" differs from "+Quoted([]byte(v.Key()))+" in letter case only",
				"names are case-sensitive")
			return FieldNone
		}
	}
	// Some readers take the first duplicate, most the last.
	if !seen.Add(f, name) {
		s.Invalid(start, "duplicate member "+Quoted(name), "send it once")
	}
	return f
}

// Names is the set of member names seen in one object. The zero value is empty. Known
// names cost a bit and a few others a comparison. A map is made only for an object with
// many names, to avoid quadratic work.
type Names struct {
	fields uint64 // known names: one bit for each field
	n      int
	few    [8][]byte
	many   map[string]struct{} // used instead of few when few is full

	copies bool // the bytes of names are overwritten later, so copy them
}

// Add adds a name and reports whether it is new. It keeps the bytes of the name.
func (s *Names) Add(f Field, name []byte) bool {
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
