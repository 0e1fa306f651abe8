// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"strconv"
	"strings"
	"testing"
)

// endOfFields is the field after the last.
const endOfFields = MetaRelatedTask + 1

// parentOf returns the member that contains f, or FieldNone.
func parentOf(f Field) Field {
	switch {
	case f >= MetaProgressToken:
		return FieldMeta
	case f >= FieldRefType:
		return FieldRef
	default:
		return FieldNone
	}
}

func parsed(t testing.TB, raw string) *Object {
	t.Helper()
	o, err := ParseObject([]byte(raw))
	if err != nil {
		t.Fatalf("ParseObject(%s): %v", raw, err)
	}
	return &o
}

// Every field is found in its place only.
func TestObjectFields(t *testing.T) {
	for f := FieldName; f < endOfFields; f++ {
		key := strconv.Quote(f.Key())
		in := `{"before":0,` + key + ` : "x" }`
		if parent := parentOf(f); parent != FieldNone {
			in = `{"` + parent.Key() + `":` + in + `}`
		}
		o, err := ParseObject([]byte(in))
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		for g := FieldName; g < endOfFields; g++ {
			want := g == f || g == parentOf(f)
			if o.Has(g) != want || (o.Raw(g) != nil) != want {
				t.Errorf("%s: has %s (%d): %v, want %v", in, g.Key(), g, o.Has(g), want)
			}
		}
		if text, ok := o.Text(f); !ok || text != "x" {
			t.Errorf("%s: text of %s: %q, %v", in, f.Key(), text, ok)
		}
		checkObject(t, &o, []byte(in))
	}
}

// All fields at once, more than an Object holds without an allocation.
func TestObjectAllFields(t *testing.T) {
	groups := map[Field]*strings.Builder{FieldNone: {}, FieldMeta: {}, FieldRef: {}}
	for f := FieldName; f < endOfFields; f++ {
		if f != FieldMeta && f != FieldRef {
			b := groups[parentOf(f)]
			b.WriteString(`,"` + f.Key() + `":"` + f.Key() + `"`)
		}
	}
	in := `{"_meta":{` + groups[FieldMeta].String()[1:] + `},"ref":{` + groups[FieldRef].String()[1:] + `}` + groups[FieldNone].String() + `}`
	o, err := ParseObject([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	checkObject(t, &o, []byte(in))
}

func TestObjectAccess(t *testing.T) {
	o := parsed(t, ` { "name" : "a\u0062\n\ud83c\udf89" , "uri":"x:y","cursor":"\ud800","taskId":null,
		"progress":12,"ttlMs":-0,"progressToken":1.0,"level":9223372036854775808,"isError":true,"data":false,"task":{"a":1} } `)
	if got := string(o.Bytes()); got[0] != '{' || got[len(got)-1] != '}' {
		t.Errorf("Bytes: %q", got)
	}
	type text struct {
		s  string
		ok bool
	}
	for f, want := range map[Field]text{
		FieldName: {"ab\n🎉", true}, FieldURI: {"x:y", true}, FieldCursor: {}, FieldTaskID: {}, FieldProgress: {}, FieldMode: {},
	} {
		if s, ok := o.Text(f); s != want.s || ok != want.ok {
			t.Errorf("Text(%s) = %q, %v; want %q, %v", f.Key(), s, ok, want.s, want.ok)
		}
	}
	type integer struct {
		n  int64
		ok bool
	}
	for f, want := range map[Field]integer{
		FieldProgress: {12, true}, FieldTTL: {0, true}, FieldProgressToken: {}, FieldLevel: {}, FieldName: {}, FieldMode: {}, FieldTask: {},
	} {
		if n, ok := o.Int(f); ok != want.ok || ok && n != want.n {
			t.Errorf("Int(%s) = %d, %v; want %d, %v", f.Key(), n, ok, want.n, want.ok)
		}
	}
	for f, want := range map[Field][2]bool{FieldIsError: {true, true}, FieldData: {false, true}, FieldName: {}, FieldMode: {}} {
		if v, ok := o.Bool(f); v != want[0] || ok != want[1] {
			t.Errorf("Bool(%s) = %v, %v; want %v", f.Key(), v, ok, want)
		}
	}
	if !o.Has(FieldTaskID) || string(o.Raw(FieldTaskID)) != "null" {
		t.Error("a member that is null is there")
	}
	if o.Has(endOfFields) || o.Has(FieldNone) || o.Raw(200) != nil {
		t.Error("an object has a field that is nobody's")
	}
	raw := o.Raw(FieldTask)
	if _ = append(raw, "!!!"...); !strings.HasSuffix(string(o.Bytes()), `{"a":1} }`) {
		t.Errorf("appending to a member changed the object: %s", o.Bytes())
	}
}

func TestZeroObject(t *testing.T) {
	for _, in := range [][]byte{nil, {}} {
		o, err := ParseObject(in)
		if err != nil || !o.IsZero() || o.Bytes() != nil || o.Has(FieldName) || o.Raw(FieldName) != nil {
			t.Errorf("ParseObject(%v) = %q, %v", in, o.Bytes(), err)
		}
		if _, ok := o.Text(FieldName); ok {
			t.Error("no object has a text")
		}
	}
	if o := parsed(t, "{}"); o.IsZero() || string(o.Bytes()) != "{}" {
		t.Errorf("the empty object: %q", o.Bytes())
	}
}

func TestParseObjectRefuses(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{" ", "missing JSON text at byte 1; send one JSON object"},
		{"null", "not a JSON object at byte 0; send {...}"},
		{" [1]", "not a JSON object at byte 1; send {...}"},
		{"[1", "the JSON text ends too early at byte 2; expected ',' or ']' after an element"},
		{"{} x", "unexpected 'x' after the end of the JSON text at byte 3; send one value"},
		{`{"a":1,"a":1}`, `duplicate member "a" at byte 7; send it once`},
		{`{"_meta":{"a":1,"a":1}}`, `duplicate member "a" at byte 16; send it once`},
		{`{"a":1;}`, `unexpected ';' at byte 6; expected ',' or '}' after a member`},
		{`{"a":` + strings.Repeat("[", 1024), "nesting is deeper than 1024 at byte 1028; send a flatter message"},
	} {
		if o, err := ParseObject([]byte(tt.in)); err == nil || err.Error() != tt.want || !o.IsZero() {
			t.Errorf("ParseObject(%.40s): %q, %v; want %s", tt.in, o.Bytes(), err, tt.want)
		}
	}
	// Results may have names that route nothing in any letter case; params may not.
	const variant = `{"Name":"a"}`
	if _, err := NewResult([]byte(variant)); err != nil {
		t.Error(err)
	}
	const want = `member "Name" differs from "name" in letter case only at byte 1; names are case-sensitive`
	if _, err := NewRequest("tools/call", []byte(variant)); err == nil || err.Error() != want {
		t.Errorf("NewRequest: error %v, want %s", err, want)
	}
	if _, err := NewNotification("notifications/message", []byte(variant)); err == nil || err.Error() != want {
		t.Errorf("NewNotification: error %v, want %s", err, want)
	}
}

func TestTextAllocatesOnce(t *testing.T) {
	o := parsed(t, `{"name":"a name of some length, so that it has to be allocated"}`)
	if n := testing.AllocsPerRun(20, func() { o.Text(FieldName) }); n > 1 {
		t.Errorf("Text: %v allocations, want 1", n)
	}
}
