// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "github.com/signalbox-mcp/signalbox/internal/jsonscan"

// An Edit is a set of changes to the known members of an [Object], made by splicing:
// all other bytes keep their text and order. The zero value changes nothing. The later
// of two changes to one member counts, and a change to _meta or ref as a whole undoes
// the earlier ones inside it.
//
// An Edit may be applied to any number of objects, also concurrently once it is
// complete.
type Edit struct {
	changes jsonscan.Edit
}

// Set replaces the member's value by a JSON text. If the member is absent, Set appends
// it, and creates the _meta or ref that contains it. It keeps value. An empty value
// deletes the member.
func (e *Edit) Set(f Field, value []byte) { e.changes.Set(jsonscan.Field(f), value) }

// SetText sets the member to a string.
func (e *Edit) SetText(f Field, s string) { e.changes.SetText(jsonscan.Field(f), s) }

// Delete removes the member if it is present. A _meta that becomes empty remains.
func (e *Edit) Delete(f Field) { e.changes.Delete(jsonscan.Field(f)) }

// IsZero reports whether there are no changes.
func (e *Edit) IsZero() bool { return e.changes.IsZero() }

// Apply returns the changed object. It fails if a value that was set is not valid JSON.
func (e *Edit) Apply(o *Object) (Object, error) {
	changed, err := e.changes.Apply(&o.scanned)
	if err != nil {
		return Object{}, parseError(err)
	}
	return Object{changed}, nil
}

// AppendTo appends the JSON text of the changed object. The zero Object counts as {}.
// New members are appended to the end of their object, in the order in which they were
// set.
func (e *Edit) AppendTo(dst []byte, o *Object) []byte { return e.changes.AppendTo(dst, &o.scanned) }

// Pieces returns the text before, the changed object, and the text after as one text in
// up to three pieces. If the object has a long part that is unchanged, this is the second
// piece: it is in the object's memory, so that it need not be copied, and must not be
// changed. Otherwise only the first piece has text.
func (e *Edit) Pieces(before []byte, o *Object, after []byte) [3][]byte {
	return e.changes.Pieces(before, &o.scanned, after)
}
