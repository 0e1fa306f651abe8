// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"math"
	"slices"
)

// An Edit is a set of changes to the known members of an [Object], made by splicing:
// all other bytes keep their text and order. The zero value changes nothing. The later
// of two changes to one member counts, and a change to _meta or ref as a whole undoes
// the earlier ones inside it.
//
// An Edit may be applied to any number of objects, also concurrently once it is
// complete.
type Edit struct {
	few  [6]change // more are rare
	n    int       // of few
	many []change  // all changes, once few is full
}

// all returns the changes; the slice is valid until the next Set.
func (e *Edit) all() []change {
	if e.many != nil {
		return e.many
	}
	return e.few[:e.n]
}

// change is the new value of a field, or an empty one to delete it.
type change struct {
	field  Field
	isText bool
	value  []byte // the JSON text, unless isText
	text   string // encoded only when the change is applied
}

func (c *change) deletes() bool { return !c.isText && len(c.value) == 0 }

// size is the approximate length of the value.
func (c *change) size() int { return len(c.value) + len(c.text) + len(`""`) }

func (c *change) appendTo(dst []byte) []byte {
	if c.isText {
		return AppendString(dst, c.text)
	}
	return append(dst, c.value...)
}

// Set replaces the member's value by a JSON text. If the member is absent, Set appends
// it, and creates the _meta or ref that contains it. It keeps value. An empty value
// deletes the member.
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

// without removes the changes that a later one of the field f undoes.
func without(changes []change, f Field) []change {
	kept := changes[:0]
	for _, c := range changes {
		if c.field != f && (f == FieldNone || c.field.parent() != f) {
			kept = append(kept, c)
		}
	}
	return kept
}

// Delete removes the member if it is present. A _meta that becomes empty remains.
func (e *Edit) Delete(f Field) { e.Set(f, nil) }

// IsZero reports whether there are no changes.
func (e *Edit) IsZero() bool { return len(e.all()) == 0 }

// Apply returns the changed object. It fails if a value that was set is not valid JSON.
func (e *Edit) Apply(o *Object) (Object, error) {
	if e.IsZero() {
		return *o, nil
	}
	var room [8]change
	var cutRoom [8]cut
	changes := e.flatten(room[:0], o)
	text, cuts := splice(make([]byte, 0, e.length(o)), textOf(o), o, changes, cutRoom[:0], new(uncopied))
	if !areSimple(changes) || uint64(len(text)) > math.MaxUint32 {
		return o.WithBytes(text)
	}
	return relocate(text, o, changes, cuts), nil
}

// areSimple reports whether the changes cannot make an object invalid or change its
// nested objects: deletions, and strings that are encoded here. Then the positions of
// all members are known without another scan.
func areSimple(changes []change) bool {
	for i := range changes {
		c := &changes[i]
		if !c.deletes() && (!c.isText || c.field == FieldMeta || c.field == FieldRef) {
			return false
		}
	}
	return true
}

// length bounds the length of the changed object.
func (e *Edit) length(o *Object) int {
	n := len(o.raw) + e.growth()
	if o.override != nil {
		n += o.override.size()
	}
	return n
}

// growth bounds the growth of an object.
func (e *Edit) growth() int {
	n := len(`{"_meta":{},"ref":{}}`)
	changes := e.all()
	for i := range changes {
		n += len(changes[i].field.Key()) + len(`"":,`) + changes[i].size()
	}
	return n
}

// AppendTo appends the JSON text of the changed object. The zero Object counts as {}.
// New members are appended to the end of their object, in the order in which they were
// set.
func (e *Edit) AppendTo(dst []byte, o *Object) []byte {
	return e.appendTo(withCapacity(dst, e.length(o)), o, new(uncopied))
}

// Pieces returns the text before, the changed object, and the text after as one text in
// up to three pieces. A long run of the object that is unchanged is the second piece, in
// o's memory, and must not be changed. The others share memory of their own. If there is
// no such run, the text is the first piece.
func (e *Edit) Pieces(before []byte, o *Object, after []byte) [3][]byte {
	room := len(before) + e.length(o) + len(after)
	if len(o.raw) >= longRun {
		room -= len(o.raw) - runOverhead
	}
	left := uncopied{min: longRun}
	dst := e.appendTo(append(make([]byte, 0, room), before...), o, &left)
	dst = append(dst, after...)
	if left.run == nil {
		return [3][]byte{dst}
	}
	return [3][]byte{dst[:left.at:left.at], left.run, dst[left.at:]}
}

// appendTo is AppendTo with left, which may omit a run of unchanged text.
func (e *Edit) appendTo(dst []byte, o *Object, left *uncopied) []byte {
	if e.IsZero() && !o.IsZero() && o.override == nil {
		return left.append(dst, o.raw)
	}
	var room [8]change
	var cuts [8]cut
	dst, _ = splice(dst, textOf(o), o, e.flatten(room[:0], o), cuts[:0], left)
	return dst
}

// uncopied is the first long run of unchanged text, which is not copied. The zero value
// omits nothing.
type uncopied struct {
	min int // minimum length of the run; 0 for none
	run []byte
	at  int // offset of the run in the copy
}

// longRun is the length from which a run is not copied, and runOverhead the usual amount
// of other text.
const (
	longRun     = 32 << 10
	runOverhead = 1 << 10
)

// append appends a run or omits it.
func (l *uncopied) append(dst, run []byte) []byte {
	if l.min == 0 || l.run != nil || len(run) < l.min {
		return append(dst, run...)
	}
	l.run, l.at = run, len(dst)
	return dst
}

// last returns the last byte of the text that is not white space; dst is the copy of
// the text.
func (l *uncopied) last(dst []byte) byte {
	for _, part := range [...][]byte{dst[l.at:], l.run, dst[:l.at]} {
		if part = bytes.TrimRight(part, " \t\r\n"); len(part) > 0 {
			return part[len(part)-1]
		}
	}
	return 0
}

//nolint:gochecknoglobals // never written to
var empty = []byte("{}")

// textOf returns the text of an object, {} for the zero Object.
func textOf(o *Object) []byte {
	if o.IsZero() {
		return empty
	}
	return o.raw
}

// flatten appends the changes to dst so that no two of them concern the same part of
// the object: those at its top, and those inside its ref and its _meta if these are
// objects that remain. Otherwise the changes inside become one change of the whole. The
// object's own replacement text (o.over) comes first, unless another change undoes it.
func (e *Edit) flatten(dst []change, o *Object) []change {
	if o.override != nil && !slices.ContainsFunc(e.all(), func(c change) bool { return c.field == o.override.field }) {
		dst = append(dst, *o.override)
	}
	for _, c := range e.all() {
		if c.field.parent() == FieldNone && c.field != FieldNone && c.field < numFields {
			dst = append(dst, c)
		}
	}
	return e.flattenNested(e.flattenNested(dst, FieldRef, o), FieldMeta, o)
}

func (e *Edit) flattenNested(dst []change, parent Field, o *Object) []change {
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
	case o.IsObject(parent):
		return append(dst, inner...)
	}
	switch {
	case members == nil:
		return dst // invalid JSON was set, which Apply reports
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
	value, _ := splice(make([]byte, 0, len(raw)+e.growth()), raw, members, inner, cuts[:0], new(uncopied))
	return append(dst, change{field: parent, value: value})
}

// scanNested returns the members of a _meta or ref that was itself set, or nil if it is
// invalid.
func scanNested(raw []byte, parent Field) *Object {
	l := LevelMeta
	if parent == FieldRef {
		l = LevelResultRef
	}
	if len(raw) == 0 || raw[0] != '{' {
		return &Object{}
	}
	o, err := ParseObject(raw, l)
	if err != nil {
		return nil
	}
	return &o
}

// cut is a part of an object's text that is replaced; an empty one is the position of a
// new member.
type cut struct {
	from, to   int
	by         int // index of the change that replaces it, or deleted
	grows      int // growth of the text
	value, end int // of a new member: position of its value in the new text, if that is complete
}

const deleted = -1

// splice appends the object with text raw and the changes applied, except for the run
// that left omits. It also returns the replaced parts, appended to cuts. o has the
// positions of the members in raw.
//
// New members are appended, so that readers from the front find the same as before and
// a change moves nothing else.
func splice(dst, raw []byte, o *Object, changes []change, cuts []cut, left *uncopied) ([]byte, []cut) {
	for i := range changes {
		c := &changes[i]
		m, ok := o.find(c.field)
		switch {
		case ok && c.deletes():
			cuts = append(cuts, cut{from: int(m.key), to: int(m.end), by: deleted})
		case ok:
			cuts = append(cuts, cut{from: int(m.value), to: int(m.end), by: i})
		case !c.deletes():
			end := closingBrace(raw, o, c.field.parent())
			cuts = append(cuts, cut{from: end, to: end, by: i})
		}
	}
	slices.SortStableFunc(cuts, func(a, b cut) int { return a.from - b.from })
	cuts = includeCommas(raw, cuts)
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

// closingBrace returns the offset of the closing brace of the object that contains the
// members of parent.
func closingBrace(raw []byte, o *Object, parent Field) int {
	if parent != FieldNone && o.IsObject(parent) {
		return o.End(parent) - len("}")
	}
	return bytes.LastIndexByte(raw, '}')
}

// appendKey begins a member of the object that is open at the end of dst. No value ends
// with an opening brace, so one there is the object's own and the member is its first.
func appendKey(dst []byte, f Field, left *uncopied) []byte {
	if left.last(dst) != '{' {
		dst = append(dst, ',')
	}
	return append(AppendString(dst, f.Key()), ':')
}

// relocate returns the object made from o by simple changes, with the positions of its
// members computed from the cuts.
func relocate(text []byte, o *Object, changes []change, cuts []cut) Object {
	out := Object{raw: text, beside: o.beside}
	for _, members := range [][]member{o.few[:o.n], o.many} {
		for _, m := range members {
			if o.Present(m.field) && !isDeleted(m.field, changes) {
				out.add(m.field, mapStart(cuts, int(m.key)), mapStart(cuts, int(m.value)), mapEnd(cuts, int(m.end)))
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

// mapStart maps an offset at which something begins from the old text to the new one.
func mapStart(cuts []cut, at int) int {
	grown := 0
	for i := range cuts {
		if cuts[i].to <= at {
			grown += cuts[i].grows
		}
	}
	return at + grown
}

// mapEnd is like mapStart for an offset at which something ends.
func mapEnd(cuts []cut, at int) int {
	grown := 0
	for i := range cuts {
		if cuts[i].from < at {
			grown += cuts[i].grows
		}
	}
	return at + grown
}

// includeCommas widens the cuts that delete members, so that each includes a comma:
// neighbours are deleted as one, with the comma after them, or, at the end of the
// object, with the one before.
func includeCommas(raw []byte, cuts []cut) []cut {
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

// skipSpaceBack returns the offset of the last byte before i that is not white space.
func skipSpaceBack(raw []byte, i int) int {
	for i--; isSpace(raw[i]); i-- {
	}
	return i
}
