// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"math"
	"slices"
	"strconv"
)

// Object is a JSON object: its bytes as they arrived, and where the members
// stand that the protocol gives a meaning. It is immutable, and cheap to copy
// though not free; methods take a pointer. The zero value is no object, which
// is what absent parameters are.
type Object struct {
	raw  []byte
	has  uint64 // one bit for each field that is present
	n    int
	few  [12]member
	many []member // what few has no room for
	over *change  // of a member's text, nil for none; raw and where things stand are from before it

	beside *[]byte // see Beside; nil for nothing
}

// member is where one member stands in the object's bytes. Only members that
// are there take room: an Object with a slot for each field would be three times
// as large, and is copied with each message.
type member struct {
	key, value, end uint32 // of the name's quote, of the value, behind the value
	field           Field
}

// ParseObject scans the JSON text of an object, and keeps it. No bytes give the
// zero Object. It refuses what Parse would refuse in a result, but sets no limit
// to what is its caller's own. The error is a [*ParseError].
func ParseObject(raw []byte) (Object, error) {
	return parseObject(raw, levelResult)
}

func parseObject(raw []byte, l level) (Object, error) {
	var o Object
	if len(raw) == 0 {
		return o, nil
	}
	s := newScanner(raw, Limits{Depth: maxDepth, Members: math.MaxInt})
	i := s.begin()
	if i >= 0 && raw[i] != '{' {
		if s.end(s.value(i, 0)) >= 0 {
			s.invalid(i, "this is no JSON object", "send {...}")
		}
	}
	if s.err == nil {
		s.end(s.object(i, 0, l, &o, i))
	}
	if s.err != nil {
		return Object{}, s.err
	}
	o.raw = bytes.TrimRight(raw[i:], " \t\r\n")
	return o, nil
}

func (o *Object) add(f Field, key, value, end int) {
	o.has |= 1 << f
	m := member{uint32(key), uint32(value), uint32(end), f}
	if o.n < len(o.few) {
		o.few[o.n] = m
		o.n++
		return
	}
	o.many = append(o.many, m)
}

func (o *Object) find(f Field) (member, bool) {
	if o.has>>f&1 == 0 {
		return member{}, false
	}
	for i := range o.few[:o.n] {
		if o.few[i].field == f {
			return o.few[i], true
		}
	}
	for i := range o.many {
		if o.many[i].field == f {
			return o.many[i], true
		}
	}
	return member{}, false
}

// forget leaves out the members that end at an offset.
func (o *Object) forget(end int) {
	for _, members := range [][]member{o.few[:o.n], o.many} {
		for _, m := range members {
			if int(m.end) == end {
				o.has &^= 1 << m.field
			}
		}
	}
}

// WithText returns the object with a text in a member, or with that member. Where it is
// one that the object has at its top, and the first that is changed so, the object's bytes
// are copied when all of them are asked for, each time, and not before: that is for an
// object that is changed once more when it is sent.
func (o *Object) WithText(f Field, s string) Object {
	if !o.Has(f) || o.over != nil || f.parent() != FieldNone || f == FieldMeta || f == FieldRef {
		var e Edit
		e.SetText(f, s)
		changed, _ := e.Apply(o) // only what is no JSON text makes it fail, and a string is one
		return changed
	}
	changed := *o
	changed.over = &change{field: f, isText: true, value: slices.Clip(AppendString(nil, s)), text: s}
	return changed
}

// Bytes returns the object's JSON text, or nil for the zero Object. It must not
// be changed.
func (o *Object) Bytes() []byte {
	if o.over != nil {
		return new(Edit).AppendTo(nil, o)
	}
	return o.raw
}

// Beside returns the members that a peer has put beside the params or the result in its
// message and that JSON-RPC does not define, as they stand between an object's braces. A
// message that is made of the object has them again: see [AppendBeside]. They must not be
// changed.
func (o *Object) Beside() []byte {
	if o.beside == nil {
		return nil
	}
	return *o.beside
}

// WithBytes returns the object that another JSON text makes in the place of this one, with
// the same members beside it. It keeps raw. The error is that of [ParseObject].
func (o *Object) WithBytes(raw []byte) (Object, error) {
	next, err := ParseObject(raw)
	next.beside = o.beside
	return next, err
}

// IsZero reports whether there is no object at all. An empty object is one.
func (o *Object) IsZero() bool { return o.raw == nil }

// Has reports whether the member is present, be it null.
func (o *Object) Has(f Field) bool { return o.has>>f&1 != 0 && f < numFields }

// Raw returns the JSON text of the member's value, or nil where the member is
// absent. It must not be changed.
func (o *Object) Raw(f Field) []byte {
	m, ok := o.find(f)
	switch {
	case !ok:
		return nil
	case o.over != nil && o.over.field == f:
		return o.over.value
	}
	return o.raw[m.value:m.end:m.end]
}

// Text returns the member as a decoded string. It reports false where the
// member is absent, or is no string, or is one that has no text because it holds
// half a surrogate pair.
func (o *Object) Text(f Field) (string, bool) {
	return decodeText(o.Raw(f))
}

// Int returns the member as an integer. It reports false where the member is
// absent, or has a fraction or an exponent, or does not fit.
func (o *Object) Int(f Field) (int64, bool) {
	raw := o.Raw(f)
	if !isInteger(raw) {
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}

// Bool returns the member as a boolean; ok is false where the member is absent
// or is none.
func (o *Object) Bool(f Field) (value, ok bool) {
	switch string(o.Raw(f)) {
	case "true":
		return true, true
	case "false":
		return false, true
	default:
		return false, false
	}
}

// isInteger reports whether a JSON number is written as an integer.
func isInteger(token []byte) bool {
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
