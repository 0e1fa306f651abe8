// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// An Object is a JSON object: its bytes as they arrived, and the positions of the
// members that have a meaning in the protocol. It is immutable. Copying it is cheap but
// not free, so methods take a pointer. The zero value is no object; absent parameters
// are a zero Object.
type Object struct {
	raw      []byte
	has      uint64 // one bit for each field that is present
	n        int
	few      [12]member
	many     []member // members that do not fit into few
	override *change  // replacement of one member's text, or nil; raw and the positions are from before it

	beside *[]byte // see Beside; nil if empty
}

// member is the position of one member in the object's bytes. Only present members take
// space: an Object with a slot for each field would be three times as large, and is
// copied with each message.
type member struct {
	key, value, end uint32 // offsets of the name's quote, of the value, and after the value
	field           Field
}

// ParseObject scans the JSON text of an object at a level and keeps it. Empty text gives
// the zero Object. It sets no limits but MaxDepth, because the text is the program's
// own. The error is an [*Error].
func ParseObject(raw []byte, l Level) (Object, error) {
	var o Object
	if len(raw) == 0 {
		return o, nil
	}
	s := NewScanner(raw, Limits{Depth: MaxDepth, Members: math.MaxInt})
	i := s.Begin()
	if i >= 0 && raw[i] != '{' {
		if s.End(s.Value(i, 0)) >= 0 {
			s.Invalid(i, "not a JSON object", "send {...}")
		}
	}
	if s.Err == nil {
		s.End(s.object(i, 0, l, &o, i))
	}
	if s.Err != nil {
		return Object{}, s.Err
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

// removeEndingAt removes the members that end at the given offset.
func (o *Object) removeEndingAt(end int) {
	for _, members := range [][]member{o.few[:o.n], o.many} {
		for _, m := range members {
			if int(m.end) == end {
				o.has &^= 1 << m.field
			}
		}
	}
}

// WithText returns the object with the member f set to the string s. If f is at the top
// of the object, is present, and is the first member changed this way, the bytes are
// copied only when Bytes is called, each time: use it for an object that will be edited
// once more when it is sent.
func (o *Object) WithText(f Field, s string) Object {
	if !o.Has(f) || o.override != nil || f.parent() != FieldNone || f == FieldMeta || f == FieldRef || !utf8.ValidString(s) {
		var e Edit
		e.SetText(f, s)
		changed, _ := e.Apply(o) // a string is always valid JSON
		return changed
	}
	changed := *o
	changed.override = &change{field: f, isText: true, text: s}
	return changed
}

// Bytes returns the JSON text of the object, or nil for the zero Object. It must not be
// changed.
func (o *Object) Bytes() []byte {
	if o.override != nil {
		return new(Edit).AppendTo(nil, o)
	}
	return o.raw
}

// Beside returns the members that a peer put beside the params or the result in its
// message and that JSON-RPC does not define, as they appear between the braces of an
// object. [AppendBeside] adds them to a message made from the object. They must not be
// changed.
func (o *Object) Beside() []byte {
	if o.beside == nil {
		return nil
	}
	return *o.beside
}

// WithBytes returns an object with the JSON text raw in place of this one, with the
// same members beside it. It keeps raw. The error is the one that [ParseObject]
// returns.
func (o *Object) WithBytes(raw []byte) (Object, error) {
	next, err := ParseObject(raw, LevelResult)
	next.beside = o.beside
	return next, err
}

// IsZero reports whether there is no object at all. An empty object is not zero.
func (o *Object) IsZero() bool { return o.raw == nil }

// Has reports whether the member is present, even if it is null.
func (o *Object) Has(f Field) bool { return o.has>>f&1 != 0 && f < numFields }

// Present is like Has, for members of the envelope and of an error object too.
func (o *Object) Present(f Field) bool { return o.has>>f&1 != 0 }

// Offset returns the position for an error about the member.
func (o *Object) Offset(f Field) int {
	m, _ := o.find(f)
	return int(m.value)
}

// End returns the offset after the member's value.
func (o *Object) End(f Field) int {
	m, _ := o.find(f)
	return int(m.end)
}

// IsObject reports whether the member is present and is an object.
func (o *Object) IsObject(f Field) bool {
	raw := o.Raw(f)
	return len(raw) > 0 && raw[0] == '{'
}

// Raw returns the JSON text of the member's value, or nil if the member is absent. It
// must not be changed.
func (o *Object) Raw(f Field) []byte {
	m, ok := o.find(f)
	switch {
	case !ok:
		return nil
	case o.override != nil && o.override.field == f:
		return slices.Clip(AppendString(make([]byte, 0, len(o.override.text)+2), o.override.text))
	}
	return o.raw[m.value:m.end:m.end]
}

// Text returns the member as a decoded string. It reports false if the member is
// absent, is not a string, or has an unpaired surrogate.
func (o *Object) Text(f Field) (string, bool) {
	if o.override != nil && o.override.field == f {
		return o.override.text, true
	}
	return DecodeText(o.Raw(f))
}

// Int returns the member as an integer. It reports false if the member is absent, has a
// fraction or an exponent, or does not fit.
func (o *Object) Int(f Field) (int64, bool) {
	raw := o.Raw(f)
	if !IsInteger(raw) {
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}

// Bool returns the member as a boolean; ok is false if the member is absent or not a
// boolean.
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
