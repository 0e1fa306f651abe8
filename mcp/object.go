// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "github.com/signalbox-mcp/signalbox/internal/jsonscan"

// An Object is a JSON object: its bytes as they arrived, and the positions of the
// members that have a meaning in the protocol. It is immutable. Copying it is cheap but
// not free, so methods take a pointer. The zero value is no object; absent parameters
// are a zero Object.
type Object struct {
	scanned jsonscan.Object
}

// ParseObject scans the JSON text of an object and keeps it. Empty text gives the zero
// Object. It rejects what Parse rejects in a result, but sets no limits, because the
// text is the program's own. The error is a [*ParseError].
func ParseObject(raw []byte) (Object, error) { return parseObject(raw, jsonscan.LevelResult) }

func parseObject(raw []byte, l jsonscan.Level) (Object, error) {
	o, err := jsonscan.ParseObject(raw, l)
	if err != nil {
		return Object{}, parseError(err)
	}
	return Object{o}, nil
}

// WithText returns the object with the member f set to the string s. If f is at the top
// of the object, is present, and is the first member changed this way, the bytes are
// copied only when Bytes is called, each time: use it for an object that will be edited
// once more when it is sent.
func (o *Object) WithText(f Field, s string) Object {
	return Object{o.scanned.WithText(jsonscan.Field(f), s)}
}

// Bytes returns the JSON text of the object, or nil for the zero Object. It must not be
// changed.
func (o *Object) Bytes() []byte { return o.scanned.Bytes() }

// Beside returns the members that a peer put beside the params or the result in its
// message and that JSON-RPC does not define, as they appear between the braces of an
// object. A message made from the object has them too. They must not be changed.
func (o *Object) Beside() []byte { return o.scanned.Beside() }

// WithBytes returns an object with the JSON text raw in place of this one, with the
// same members beside it. It keeps raw. The error is the one that [ParseObject]
// returns.
func (o *Object) WithBytes(raw []byte) (Object, error) {
	next, err := o.scanned.WithBytes(raw)
	if err != nil {
		return Object{}, parseError(err)
	}
	return Object{next}, nil
}

// IsZero reports whether there is no object at all. An empty object is not zero.
func (o *Object) IsZero() bool { return o.scanned.IsZero() }

// Has reports whether the member is present, even if it is null.
func (o *Object) Has(f Field) bool { return o.scanned.Has(jsonscan.Field(f)) }

// Raw returns the JSON text of the member's value, or nil if the member is absent. It
// must not be changed.
func (o *Object) Raw(f Field) []byte { return o.scanned.Raw(jsonscan.Field(f)) }

// Text returns the member as a decoded string. It reports false if the member is
// absent, is not a string, or has an unpaired surrogate.
func (o *Object) Text(f Field) (string, bool) { return o.scanned.Text(jsonscan.Field(f)) }

// Int returns the member as an integer. It reports false if the member is absent, has a
// fraction or an exponent, or does not fit.
func (o *Object) Int(f Field) (int64, bool) { return o.scanned.Int(jsonscan.Field(f)) }

// Bool returns the member as a boolean; ok is false if the member is absent or not a
// boolean.
func (o *Object) Bool(f Field) (value, ok bool) { return o.scanned.Bool(jsonscan.Field(f)) }
