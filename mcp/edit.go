// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"math"
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
	few  [6]change // more are seldom
	n    int       // of few
	many []change  // all of them, where few has no room
}

// all returns the changes, for as long as no other is set.
func (e *Edit) all() []change {
	if e.many != nil {
		return e.many
	}
	return e.few[:e.n]
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
	if e.many != nil {
		e.many = append(without(e.many, c.field), c)
		return
	}
	e.n = len(without(e.few[:e.n], c.field))
	if e.n < len(e.few) {
		e.few[e.n] = c
		e.n++
		return
	}
	e.many = append(append(make([]change, 0, 2*len(e.few)), e.few[:]...), c)
}

// without takes out the changes that a later one of that field undoes.
func without(changes []change, f Field) []change {
	kept := changes[:0]
	for _, c := range changes {
		if c.field != f && (f == FieldNone || c.field.parent() != f) {
			kept = append(kept, c)
		}
	}
	return kept
}

// Delete removes the member, if it is there. A _meta that becomes empty stays.
func (e *Edit) Delete(f Field) { e.Set(f, nil) }

// IsZero reports whether nothing is to change.
func (e *Edit) IsZero() bool { return len(e.all()) == 0 }

// Apply returns the changed object. It fails where a value that was set is no
// JSON text.
func (e *Edit) Apply(o *Object) (Object, error) {
	if e.IsZero() {
		return *o, nil
	}
	var room [8]change
	var cutRoom [8]cut
	changes := e.flat(room[:0], o)
	text, cuts := splice(make([]byte, 0, e.length(o)), textOf(o), o, changes, cutRoom[:0], new(leftOut))
	if !arePlain(changes) || uint64(len(text)) > math.MaxUint32 {
		return o.WithBytes(text)
	}
	return moved(text, o, changes, cuts), nil
}

// arePlain reports whether no change can make an object wrong, or another one inside of
// it than there was: what is deleted, and what is set to a text that we encode. It is
// known then where all members stand, so that nobody has to look for them again.
func arePlain(changes []change) bool {
	for i := range changes {
		c := &changes[i]
		if !c.deletes() && (!c.isText || c.field == FieldMeta || c.field == FieldRef) {
			return false
		}
	}
	return true
}

// length bounds how long the changed object is.
func (e *Edit) length(o *Object) int {
	n := len(o.raw) + e.growth()
	if o.over != nil {
		n += o.over.size()
	}
	return n
}

// growth bounds how much longer an object becomes.
func (e *Edit) growth() int {
	n := len(`{"_meta":{},"ref":{}}`)
	changes := e.all()
	for i := range changes {
		n += len(changes[i].field.Key()) + len(`"":,`) + changes[i].size()
	}
	return n
}

// AppendTo appends the changed object's JSON text. The zero Object counts as
// {}. New members stand at the end of their object, in the order in which they
// were set.
func (e *Edit) AppendTo(dst []byte, o *Object) []byte {
	return e.appendTo(withRoom(dst, e.length(o)), o, new(leftOut))
}

// appendTo is AppendTo, but for what may be left out.
func (e *Edit) appendTo(dst []byte, o *Object, left *leftOut) []byte {
	if e.IsZero() && !o.IsZero() && o.over == nil {
		return left.append(dst, o.raw)
	}
	var room [8]change
	var cuts [8]cut
	dst, _ = splice(dst, textOf(o), o, e.flat(room[:0], o), cuts[:0], left)
	return dst
}

// leftOut is what of a text that stays as it was is not copied: its first run that is long.
// The zero value leaves out nothing.
type leftOut struct {
	min int // how long a run is, at least; 0 for none
	run []byte
	at  int // where in the copy it belongs
}

// longRun is how long a run is that is better left where it is, and besideRun how much
// there is as a rule besides.
const (
	longRun   = 32 << 10
	besideRun = 1 << 10
)

// append appends a run, or leaves it out.
func (l *leftOut) append(dst, run []byte) []byte {
	if l.min == 0 || l.run != nil || len(run) < l.min {
		return append(dst, run...)
	}
	l.run, l.at = run, len(dst)
	return dst
}

// last returns the last byte of the text, of which dst is the copy, that is no space.
func (l *leftOut) last(dst []byte) byte {
	for _, part := range [...][]byte{dst[l.at:], l.run, dst[:l.at]} {
		if part = bytes.TrimRight(part, " \t\r\n"); len(part) > 0 {
			return part[len(part)-1]
		}
	}
	return 0
}

//nolint:gochecknoglobals // nobody writes to it
var empty = []byte("{}")

// textOf returns an object's text; that of none is an empty one.
func textOf(o *Object) []byte {
	if o.IsZero() {
		return empty
	}
	return o.raw
}

// flat appends the changes to dst so that no two of them are of one part of the object:
// those at its top, and those inside of its ref and its _meta where these are objects
// that stay. Where one is not, what is set inside of it becomes one change of the whole.
// What the object has over its text is the first of them, unless another undoes it.
func (e *Edit) flat(dst []change, o *Object) []change {
	if o.over != nil && !slices.ContainsFunc(e.all(), func(c change) bool { return c.field == o.over.field }) {
		dst = append(dst, *o.over)
	}
	for _, c := range e.all() {
		if c.field.parent() == FieldNone && c.field != FieldNone && c.field < numFields {
			dst = append(dst, c)
		}
	}
	return e.nested(e.nested(dst, FieldRef, o), FieldMeta, o)
}

func (e *Edit) nested(dst []change, parent Field, o *Object) []change {
	var room [8]change
	inner := room[:0]
	sets := false
	for _, c := range e.all() {
		if c.field.parent() == parent {
			inner = append(inner, c)
			sets = sets || !c.deletes()
		}
	}
	if len(inner) == 0 {
		return dst
	}
	members, raw := &Object{}, o.Raw(parent)
	i := slices.IndexFunc(dst, func(c change) bool { return c.field == parent })
	switch {
	case i >= 0:
		members, raw = scanNested(dst[i].value, parent), dst[i].value
	case o.isObject(parent):
		return append(dst, inner...)
	}
	switch {
	case members == nil:
		return dst // what was set is no JSON text: Apply says so
	case i >= 0 && len(raw) > 0 && raw[0] == '{':
	case !sets:
		return dst // there is nothing to delete from
	default:
		members, raw = &Object{}, empty
	}
	if i >= 0 {
		dst = slices.Delete(dst, i, i+1)
	}
	var cuts [8]cut
	value, _ := splice(make([]byte, 0, len(raw)+e.growth()), raw, members, inner, cuts[:0], new(leftOut))
	return append(dst, change{field: parent, value: value})
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

// cut is a piece of an object's text that is replaced; an empty one is where a new member
// stands.
type cut struct {
	from, to   int
	by         int // of the changes, the one that replaces it; or deleted
	grows      int // how much longer the text becomes by it
	value, end int // of a new member, where its value stands in the new text, if all is in that
}

const deleted = -1

// splice appends the object whose text is raw with the changes made, but for what may be
// left out, and returns what was cut besides, in the room for that. Where its members
// stand is known from o.
//
// New members are appended, so that those who read from the front find what they
// found before, and a change never moves what it does not concern.
func splice(dst, raw []byte, o *Object, changes []change, cuts []cut, left *leftOut) ([]byte, []cut) {
	for i := range changes {
		c := &changes[i]
		m, ok := o.find(c.field)
		switch {
		case ok && c.deletes():
			cuts = append(cuts, cut{from: int(m.key), to: int(m.end), by: deleted})
		case ok:
			cuts = append(cuts, cut{from: int(m.value), to: int(m.end), by: i})
		case !c.deletes():
			end := endOf(raw, o, c.field.parent())
			cuts = append(cuts, cut{from: end, to: end, by: i})
		}
	}
	slices.SortStableFunc(cuts, func(a, b cut) int { return a.from - b.from })
	cuts = closeGaps(raw, cuts)
	start, at := len(dst), 0
	for i := range cuts {
		c := &cuts[i]
		dst = left.append(dst, raw[at:c.from])
		at = c.to
		before := len(dst)
		switch {
		case c.by == deleted:
		case c.from < c.to:
			dst = changes[c.by].appendTo(dst)
		default:
			dst = appendKey(dst, changes[c.by].field, left)
			c.value = len(dst) - start
			dst = changes[c.by].appendTo(dst)
			c.end = len(dst) - start
		}
		c.grows = len(dst) - before - (c.to - c.from)
	}
	return left.append(dst, raw[at:]), cuts
}

// endOf returns where the object around the members of a parent ends: the brace that
// closes it.
func endOf(raw []byte, o *Object, parent Field) int {
	if parent != FieldNone && o.isObject(parent) {
		return o.end(parent) - len("}")
	}
	return bytes.LastIndexByte(raw, '}')
}

// appendKey begins a member of an object that is open at the end of dst. A brace before
// it is the object's own, because no value ends with that one: then the member is the
// first.
func appendKey(dst []byte, f Field, left *leftOut) []byte {
	if left.last(dst) != '{' {
		dst = append(dst, ',')
	}
	return append(AppendString(dst, f.Key()), ':')
}

// moved returns the object that was made of o with plain changes: where its members stand
// is told from what was cut.
func moved(text []byte, o *Object, changes []change, cuts []cut) Object {
	out := Object{raw: text, beside: o.beside}
	for _, members := range [][]member{o.few[:o.n], o.many} {
		for _, m := range members {
			if o.present(m.field) && !isDeleted(m.field, changes) {
				out.add(m.field, behind(cuts, int(m.key)), behind(cuts, int(m.value)), within(cuts, int(m.end)))
			}
		}
	}
	for i := range cuts {
		if c := &cuts[i]; c.by != deleted && c.from == c.to {
			f := changes[c.by].field
			out.add(f, c.value-len(f.Key())-len(`"":`), c.value, c.end)
		}
	}
	return out
}

func isDeleted(f Field, changes []change) bool {
	for i := range changes {
		if c := &changes[i]; c.deletes() && (c.field == f || c.field == f.parent()) {
			return true
		}
	}
	return false
}

// behind returns where a place of the old text, at which something begins, is in the new
// one.
func behind(cuts []cut, at int) int {
	grown := 0
	for i := range cuts {
		if cuts[i].to <= at {
			grown += cuts[i].grows
		}
	}
	return at + grown
}

// within is behind for a place at which something ends.
func within(cuts []cut, at int) int {
	grown := 0
	for i := range cuts {
		if cuts[i].from < at {
			grown += cuts[i].grows
		}
	}
	return at + grown
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
