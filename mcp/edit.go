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
	field  Field
	isText bool
	value  []byte // the JSON text, unless isText
	text   string // encoded only when the change is made
}

func (c *change) deletes() bool { return !c.isText && len(c.value) == 0 }

// size is about how long the value is.
func (c *change) size() int { return len(c.value) + len(c.text) + len(`""`) }

func (c *change) appendTo(dst []byte) []byte {
	if c.isText {
		return AppendString(dst, c.text)
	}
	return append(dst, c.value...)
}

// Set replaces the member's value by a JSON text, or appends the member where
// it is absent, making the _meta or ref that it belongs in. It keeps value. An
// empty value deletes.
func (e *Edit) Set(f Field, value []byte) {
	e.set(change{field: f, value: bytes.Trim(value, " \t\r\n")})
}

// SetText sets the member to a string.
func (e *Edit) SetText(f Field, s string) { e.set(change{field: f, isText: true, text: s}) }

func (e *Edit) set(c change) {
	const few = 4 // more are seldom
	if e.changes == nil {
		e.changes = make([]change, 0, few)
	}
	kept := e.changes[:0]
	for _, old := range e.changes {
		if old.field != c.field && (c.field == FieldNone || old.field.parent() != c.field) {
			kept = append(kept, old)
		}
	}
	e.changes = append(kept, c)
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
		n += len(c.field.Key()) + len(`"":,`) + c.size()
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
			sets = sets || !c.deletes()
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
	return append(top, change{field: parent, value: splice(value, raw, base, members, inner)})
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
	by       int // of the changes, the one that replaces it; or deleted
}

const deleted = -1

// splice appends the object raw with the changes made. Where its members stand
// is known from o, whose offsets are base more than those of raw: those of a
// nested object count from the start of the object around it.
//
// New members are appended, so that those who read from the front find what they
// found before, and a change never moves what it does not concern.
func splice(dst, raw []byte, base int, o *Object, changes []change) []byte {
	var cutRoom [8]cut
	cuts := cutRoom[:0]
	var addedRoom [8]int
	added := addedRoom[:0]
	for i, c := range changes {
		m, ok := o.find(c.field)
		switch {
		case ok && c.deletes():
			cuts = append(cuts, cut{int(m.key) - base, int(m.end) - base, deleted})
		case ok:
			cuts = append(cuts, cut{int(m.value) - base, int(m.end) - base, i})
		case !c.deletes():
			added = append(added, i)
		}
	}
	slices.SortFunc(cuts, func(a, b cut) int { return a.from - b.from })
	at := 0
	for _, c := range closeGaps(raw, cuts) {
		dst = append(dst, raw[at:c.from]...)
		if c.by != deleted {
			dst = changes[c.by].appendTo(dst)
		}
		at = c.to
	}
	end := bytes.LastIndexByte(raw, '}')
	dst = append(dst, raw[at:end]...)
	for _, i := range added {
		dst = appendMember(dst, &changes[i])
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
		if c.by != deleted {
			out = append(out, c)
			continue
		}
		next := skipSpace(raw, c.to)
		for raw[next] == ',' && i+1 < len(cuts) && cuts[i+1].by == deleted && skipSpace(raw, next+1) == cuts[i+1].from {
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
func appendMember(dst []byte, c *change) []byte {
	if dst[skipSpaceBack(dst, len(dst))] != '{' {
		dst = append(dst, ',')
	}
	dst = AppendString(dst, c.field.Key())
	return c.appendTo(append(dst, ':'))
}
