// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"slices"
)

// Edit is a set of changes to the known members of an [Object], to be made by
// splicing: bytes that no change asks for stay as they are, in their order. The
// zero value changes nothing. Of two changes to one member the later counts, and
// a change to _meta or ref as a whole undoes the earlier ones inside of it.
//
// An Edit may be applied to any number of objects, also concurrently once it is
// complete.
type Edit struct {
	changes []change
}

// change is the new value of a field, or none to delete it.
type change struct {
	field Field
	value []byte
}

// Set replaces the member's value by a JSON text, or appends the member where
// it is absent, making the _meta or ref that it belongs in. It keeps value. An
// empty value deletes.
func (e *Edit) Set(f Field, value []byte) {
	e.changes = slices.DeleteFunc(e.changes, func(c change) bool {
		return c.field == f || f != FieldNone && c.field.parent() == f
	})
	e.changes = append(e.changes, change{f, bytes.Trim(value, " \t\r\n")})
}

// SetText sets the member to a string.
func (e *Edit) SetText(f Field, s string) {
	e.Set(f, AppendString(make([]byte, 0, len(s)+2), s))
}

// Delete removes the member, if it is there. A _meta that becomes empty stays.
func (e *Edit) Delete(f Field) { e.Set(f, nil) }

// IsZero reports whether nothing is to change.
func (e *Edit) IsZero() bool { return len(e.changes) == 0 }

// Apply returns the changed object. It fails where a value that was set is no
// JSON text.
func (e *Edit) Apply(o *Object) (Object, error) {
	if e.IsZero() {
		return *o, nil
	}
	return ParseObject(e.AppendTo(make([]byte, 0, len(o.raw)+e.growth()), o))
}

// growth bounds how much longer an object becomes.
func (e *Edit) growth() int {
	n := len(`{"_meta":{},"ref":{}}`)
	for _, c := range e.changes {
		n += len(c.field.Key()) + len(`"":,`) + len(c.value)
	}
	return n
}

// AppendTo appends the changed object's JSON text. The zero Object counts as
// {}. New members stand at the end of their object, in the order in which they
// were set.
func (e *Edit) AppendTo(dst []byte, o *Object) []byte {
	if e.IsZero() && !o.IsZero() {
		return append(dst, o.raw...)
	}
	var room [8]change
	top := room[:0]
	for _, c := range e.changes {
		if c.field.parent() == FieldNone && c.field != FieldNone && c.field < numFields {
			top = append(top, c)
		}
	}
	top = e.nested(top, FieldRef, o)
	top = e.nested(top, FieldMeta, o)
	raw := o.raw
	if raw == nil {
		raw = []byte("{}")
	}
	return splice(dst, raw, 0, o, top)
}

// nested turns the changes inside of parent into one change of parent.
func (e *Edit) nested(top []change, parent Field, o *Object) []change {
	var room [8]change
	inner := room[:0]
	sets := false
	for _, c := range e.changes {
		if c.field.parent() == parent {
			inner = append(inner, c)
			sets = sets || len(c.value) > 0
		}
	}
	if len(inner) == 0 {
		return top
	}
	members, raw, base := o, o.Raw(parent), o.offset(parent)
	i := slices.IndexFunc(top, func(c change) bool { return c.field == parent })
	if i >= 0 {
		members, raw, base = scanNested(top[i].value, parent), top[i].value, 0
	}
	switch {
	case members == nil:
		return top // what was set is no JSON text: Apply says so
	case len(raw) > 0 && raw[0] == '{':
	case !sets:
		return top // there is nothing to delete from
	default:
		members, raw = &Object{}, []byte("{}")
	}
	if i >= 0 {
		top = slices.Delete(top, i, i+1)
	}
	value := make([]byte, 0, len(raw)+e.growth())
	return append(top, change{parent, splice(value, raw, base, members, inner)})
}

// scanNested finds the members of a _meta or ref that was itself set; nil where
// that cannot be done.
func scanNested(raw []byte, parent Field) *Object {
	l := levelMeta
	if parent == FieldRef {
		l = levelResultRef
	}
	if len(raw) == 0 || raw[0] != '{' {
		return &Object{}
	}
	o, err := parseObject(raw, l)
	if err != nil {
		return nil
	}
	return &o
}

// cut is a piece of an object's text that is replaced.
type cut struct {
	from, to int
	value    []byte
}

// splice appends the object raw with the changes made. Where its members stand
// is known from o, whose offsets are base more than those of raw: those of a
// nested object count from the start of the object around it.
//
// New members are appended, so that those who read from the front find what they
// found before, and a change never moves what it does not concern.
func splice(dst, raw []byte, base int, o *Object, changes []change) []byte {
	var cutRoom [8]cut
	cuts := cutRoom[:0]
	var addedRoom [8]change
	added := addedRoom[:0]
	for _, c := range changes {
		m, ok := o.find(c.field)
		switch {
		case ok && len(c.value) > 0:
			cuts = append(cuts, cut{int(m.value) - base, int(m.end) - base, c.value})
		case ok:
			cuts = append(cuts, cut{int(m.key) - base, int(m.end) - base, nil})
		case len(c.value) > 0:
			added = append(added, c)
		}
	}
	slices.SortFunc(cuts, func(a, b cut) int { return a.from - b.from })
	at := 0
	for _, c := range closeGaps(raw, cuts) {
		dst = append(dst, raw[at:c.from]...)
		dst = append(dst, c.value...)
		at = c.to
	}
	end := bytes.LastIndexByte(raw, '}')
	dst = append(dst, raw[at:end]...)
	for _, c := range added {
		dst = appendMember(dst, c)
	}
	return append(dst, raw[end:]...)
}

// closeGaps widens the cuts that delete members, so that each takes a comma with
// it: neighbours are deleted as one, with the comma behind them, or, at the end
// of the object, with the one before.
func closeGaps(raw []byte, cuts []cut) []cut {
	out := cuts[:0]
	for i := 0; i < len(cuts); i++ {
		c := cuts[i]
		if c.value != nil {
			out = append(out, c)
			continue
		}
		next := skipSpace(raw, c.to)
		for raw[next] == ',' && i+1 < len(cuts) && cuts[i+1].value == nil && skipSpace(raw, next+1) == cuts[i+1].from {
			i++
			c.to = cuts[i].to
			next = skipSpace(raw, c.to)
		}
		if raw[next] == ',' {
			c.to = next + 1
		} else if before := skipSpaceBack(raw, c.from); raw[before] == ',' {
			c.from = before
		}
		out = append(out, c)
	}
	return out
}

func skipSpace(raw []byte, i int) int {
	for isSpace(raw[i]) {
		i++
	}
	return i
}

// skipSpaceBack returns the offset of the last byte before i that is no space.
func skipSpaceBack(raw []byte, i int) int {
	for i--; isSpace(raw[i]); i-- {
	}
	return i
}

// appendMember appends a member to an object that is open at the end of dst. A
// brace before it is the object's own, because no value ends with that one: then
// the member is the first.
func appendMember(dst []byte, c change) []byte {
	if dst[skipSpaceBack(dst, len(dst))] != '{' {
		dst = append(dst, ',')
	}
	dst = AppendString(dst, c.field.Key())
	dst = append(dst, ':')
	return append(dst, c.value...)
}
