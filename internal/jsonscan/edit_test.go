// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// op is one call of a method of Edit; an empty value deletes.
type op struct {
	field Field
	value string
}

func editOf(ops ...op) *Edit {
	var e Edit
	for _, o := range ops {
		e.Set(o.field, []byte(o.value))
	}
	return &e
}

func TestEdit(t *testing.T) {
	const meta = `{"name":"a","_meta":{"progressToken":1,"x":2},"z":0}`
	for _, tt := range []struct {
		name, in, want string
		ops            []op
	}{
		{"nothing", ` {"name" : "a"} `, `{"name" : "a"}`, nil},
		{"nothing of nothing", ``, `{}`, nil},
		{"replace", `{ "x":1 , "name" : "a" , "y":2 }`, `{ "x":1 , "name" : "bb" , "y":2 }`, []op{{FieldName, `"bb"`}}},
		{"replace trims", `{"name":1}`, `{"name":2}`, []op{{FieldName, " 2\n"}}},
		{"escaped name", `{"na\u006de":1}`, `{"na\u006de":2}`, []op{{FieldName, "2"}}},
		{"insert", `{"x":1}`, `{"x":1,"name":"b"}`, []op{{FieldName, `"b"`}}},
		{"insert into empty", `{}`, `{"name":"b"}`, []op{{FieldName, `"b"`}}},
		{"insert into empty with space", "{ \n }", "{ \n \"name\":\"b\"}", []op{{FieldName, `"b"`}}},
		{"insert before space", `{"x":1 }`, `{"x":1 ,"name":"b"}`, []op{{FieldName, `"b"`}}},
		{"insert into none", ``, `{"name":"b","uri":"u"}`, []op{{FieldName, `"b"`}, {FieldURI, `"u"`}}},
		{"insert behind a brace in text", `{"x":"{"}`, `{"x":"{","name":1}`, []op{{FieldName, "1"}}},
		{"delete first", `{"name":1,"x":2}`, `{"x":2}`, []op{{FieldName, ""}}},
		{"delete middle", `{"x":2,"name":1 , "y":3}`, `{"x":2, "y":3}`, []op{{FieldName, ""}}},
		{"delete last", `{"x":2 , "name":1 }`, `{"x":2  }`, []op{{FieldName, ""}}},
		{"delete only", `{ "name":1 }`, `{  }`, []op{{FieldName, ""}}},
		{"delete absent", `{"x":2}`, `{"x":2}`, []op{{FieldName, ""}}},
		{"delete neighbours", `{"a":0,"name":1,"uri":2,"b":3}`, `{"a":0,"b":3}`, []op{{FieldName, ""}, {FieldURI, ""}}},
		{"delete neighbours at the end", `{"a":0 ,"name":1, "uri":2}`, `{"a":0 }`, []op{{FieldURI, ""}, {FieldName, ""}}},
		{"delete all", `{"uri":2,"name":1}`, `{}`, []op{{FieldName, ""}, {FieldURI, ""}}},
		{"delete around", `{"uri":2,"a":0,"name":1}`, `{"a":0}`, []op{{FieldName, ""}, {FieldURI, ""}}},
		{"delete and replace", `{"name":1,"uri":2,"mode":3}`, `{"uri":9}`, []op{{FieldName, ""}, {FieldURI, "9"}, {FieldMode, ""}}},
		{"delete all and insert", `{ "name":1 }`, `{  "uri":2}`, []op{{FieldName, ""}, {FieldURI, "2"}}},
		{"delete last and insert", `{"a":1,"name":1}`, `{"a":1,"uri":2}`, []op{{FieldName, ""}, {FieldURI, "2"}}},
		{"the later counts", `{"name":1}`, `{"name":3}`, []op{{FieldName, "2"}, {FieldName, ""}, {FieldName, "3"}}},
		{"set then delete", `{"name":1,"x":0}`, `{"x":0}`, []op{{FieldName, "2"}, {FieldName, ""}}},

		{"meta replace", meta, `{"name":"a","_meta":{"progressToken":7,"x":2},"z":0}`, []op{{MetaProgressToken, "7"}}},
		{"meta insert", meta, `{"name":"a","_meta":{"progressToken":1,"x":2,"io.modelcontextprotocol/logLevel":"info"},"z":0}`, []op{{MetaLogLevel, `"info"`}}},
		{"meta delete", meta, `{"name":"a","_meta":{"x":2},"z":0}`, []op{{MetaProgressToken, ""}}},
		{"meta delete last of it", `{"_meta":{"progressToken":1}}`, `{"_meta":{}}`, []op{{MetaProgressToken, ""}}},
		{"meta whole delete", meta, `{"name":"a","z":0}`, []op{{FieldMeta, ""}}},
		{"meta whole delete and set", meta, `{"name":"a","_meta":{"progressToken":5},"z":0}`, []op{{FieldMeta, ""}, {MetaProgressToken, "5"}}},
		{"meta set and whole delete", meta, `{"name":"a","z":0}`, []op{{MetaProgressToken, "5"}, {FieldMeta, ""}}},
		{"meta whole set and change", meta, `{"name":"a","_meta":{"y":1,"progressToken":6},"z":0}`, []op{{FieldMeta, `{"y":1,"progressToken":5}`}, {MetaProgressToken, "6"}}},
		{"meta missing", `{}`, `{"_meta":{"progressToken":5}}`, []op{{MetaProgressToken, "5"}}},
		{"meta missing, nothing to delete", `{"x":1}`, `{"x":1}`, []op{{MetaProgressToken, ""}}},
		{"meta no object", `{"_meta":null}`, `{"_meta":{"progressToken":5}}`, []op{{MetaProgressToken, "5"}}},
		{"meta no object, nothing to delete", `{"_meta":[1]}`, `{"_meta":[1]}`, []op{{MetaProgressToken, ""}}},
		{"meta set to no object, nothing to delete", `{}`, `{"_meta":7}`, []op{{FieldMeta, "7"}, {MetaProgressToken, ""}}},
		{"ref and meta", `{"ref":{"type":"ref/prompt","name":"p"}}`, `{"ref":{"type":"ref/prompt","name":"q"},"_meta":{"progressToken":5}}`, []op{{MetaProgressToken, "5"}, {FieldRefName, `"q"`}}},
		{"ref insert and delete", `{"ref":{ "type":"ref/prompt","name":"p"}}`, `{"ref":{ "name":"p","uri":"u"}}`, []op{{FieldRefType, ""}, {FieldRefURI, `"u"`}}},
		{"no field undoes nothing", `{"name":1}`, `{"uri":2}`, []op{{FieldName, ""}, {FieldURI, "2"}, {FieldNone, ""}}},
		{"no field", `{"x":1}`, `{"x":1}`, []op{{FieldNone, "1"}, {FieldMethod, "1"}, {200, "1"}}},
	} {
		o := parsed(t, tt.in)
		e := editOf(tt.ops...)
		if got := string(e.AppendTo([]byte("{"), o)); got != "{"+tt.want {
			t.Errorf("%s: got %s, want {%s", tt.name, got, tt.want)
		}
		changed, err := e.Apply(o)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if tt.in != "" || len(tt.ops) > 0 {
			checkObject(t, &changed, []byte(tt.want))
		}
	}
}

func TestEditText(t *testing.T) {
	var e Edit
	if !e.IsZero() {
		t.Error("the zero Edit changes something")
	}
	e.SetText(FieldName, "a\"b\x00\xff")
	e.Delete(FieldURI)
	o, err := e.Apply(parsed(t, `{"uri":1}`))
	if got := string(o.Bytes()); err != nil || got != `{"name":"a\"b\u0000`+"\uFFFD"+`"}` || e.IsZero() {
		t.Errorf("%s, %v", got, err)
	}
}

// An edit of a few changes needs no memory of its own, and the changed object is one
// allocation.
func TestEditAllocations(t *testing.T) {
	name := strings.Repeat("name", 20)
	o := parsed(t, `{"name":"a","uri":"b","_meta":{"progressToken":1}}`)
	got := testing.AllocsPerRun(20, func() {
		var e Edit
		e.SetText(FieldName, name)
		e.SetText(MetaVersion, name)
		e.SetText(FieldName, name)
		e.Delete(MetaLogLevel)
		e.Delete(FieldURI)
		if _, err := e.Apply(o); err != nil {
			t.Fatal(err)
		}
	})
	if got > 1 {
		t.Errorf("%v allocations, want 1", got)
	}
}

// Large arguments are not copied, wherever they are, neither by a rename nor for a
// message; everything else is one allocation.
func TestLargeArgumentsAreNotCopied(t *testing.T) {
	args := `{"x":"` + strings.Repeat("x", 1<<20) + `"}`
	for _, in := range []string{
		`{"name":"a","arguments":` + args + `,"_meta":{"progressToken":1}}`,
		`{"_meta":{"progressToken":1},"arguments":` + args + `,"name":"a"}`,
		`{"arguments":` + args + `,"_meta":{"progressToken":1},"name":"a"}`,
		`{"name":"a","arguments":` + args + `}`,
		`{"name":"a", "arguments":` + args + ` }`,
		`{"name":"a","_meta":{},"arguments":` + args + `}`,
	} {
		o := parsed(t, in)
		named := o.WithText(FieldName, "another name")
		if &named.Raw(FieldArguments)[0] != &o.Raw(FieldArguments)[0] {
			t.Errorf("%.40s: the arguments were copied", in)
		}
		var e Edit
		e.Set(MetaProgressToken, []byte("2"))
		msg := e.Pieces([]byte(`{"params":`), &named, []byte{'}'})
		want := e.AppendTo([]byte(`{"params":`), &named)
		if got := bytes.Join(msg[:], nil); string(got) != string(want)+"}" {
			t.Errorf("%.40s: %d bytes that are not the %d of the whole", in, len(got), len(want)+1)
		}
		if cap(msg[0]) != len(msg[0]) {
			t.Errorf("%.40s: the first piece has room, in the last one", in)
		}
		if n := len(msg[0]) + len(msg[2]); n > 300 || !strings.Contains(string(msg[1]), args[:len(args)-1]) {
			t.Errorf("%.40s: %d bytes are copied", in, n)
		}
		if n := testing.AllocsPerRun(5, func() { e.Pieces([]byte(`{"params":`), &named, []byte{'}'}) }); n > 2 {
			t.Errorf("%.40s: a message takes %v pieces of memory, want one, and one for what it has in a new _meta", in, n)
		}
	}
}

// Changes beyond the first few count like those before, and undo them.
func TestEditOfManyChanges(t *testing.T) {
	var e Edit
	fields := []Field{FieldName, FieldURI, FieldCursor, FieldLevel, FieldReason, FieldMode, FieldTaskID}
	for range 2 {
		for _, f := range fields {
			e.SetText(f, f.Key())
		}
	}
	e.Delete(FieldLevel)
	e.Set(FieldName, []byte("1"))
	const want = `{"uri":"uri","cursor":"cursor","reason":"reason","mode":"mode","taskId":"taskId","name":1}`
	if got := string(e.AppendTo(nil, &Object{})); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEditRefuses(t *testing.T) {
	o := parsed(t, `{"name":1}`)
	for _, ops := range [][]op{
		{{FieldName, "{"}},
		{{FieldMeta, "{"}, {MetaProgressToken, "1"}},
		{{FieldMeta, `{"a":1,"a":2}`}},
		{{FieldName, `1,"name":2`}},
		{{MetaVersion, `"\q"`}},
	} {
		if got, err := editOf(ops...).Apply(o); err == nil || !got.IsZero() {
			t.Errorf("%v: %s, want an error", ops, got.Bytes())
		}
	}
	if got := string(o.Bytes()); got != `{"name":1}` {
		t.Errorf("the object was changed: %s", got)
	}
}

// model applies operations one after the other by decoding, changing and encoding,
// which an Edit replaces. It loses the order of members. An operation that is undone by
// a later one is ignored.
func model(t testing.TB, in []byte, ops []op) string {
	members := decoded(t, in)
	for i, o := range ops {
		parent := o.field.parent()
		undone := slices.ContainsFunc(ops[i+1:], func(later op) bool {
			return later.field == o.field || parent != FieldNone && later.field == parent
		})
		if undone {
			continue
		}
		if parent == FieldNone {
			put(members, o.field, o.value)
			continue
		}
		whole := members[parent.Key()]
		if !strings.HasPrefix(whole, "{") {
			if o.value == "" {
				continue
			}
			whole = "{}"
		}
		inner := decoded(t, []byte(whole))
		put(inner, o.field, o.value)
		members[parent.Key()] = encoded(inner)
	}
	return canonical(t, []byte(encoded(members)))
}

func put(members map[string]string, f Field, value string) {
	if value == "" {
		delete(members, f.Key())
		return
	}
	members[f.Key()] = value
}

func decoded(t testing.TB, in []byte) map[string]string {
	members := map[string]string{}
	if len(in) == 0 {
		return members
	}
	for _, m := range jsontest.Pairs(t, in) {
		members[m.Name] = string(m.Value)
	}
	return members
}

func encoded(members map[string]string) string {
	out := []byte("{")
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(AppendString(out, name), ':')
		out = append(out, members[name]...)
	}
	return string(append(out, '}'))
}

// canonical returns an object with its members, and those of its _meta and its ref,
// sorted by name.
func canonical(t testing.TB, in []byte) string {
	members := decoded(t, in)
	for _, name := range []string{"_meta", "ref"} {
		if v := members[name]; strings.HasPrefix(v, "{") {
			members[name] = encoded(decoded(t, []byte(v)))
		}
	}
	return encoded(members)
}

// untouched returns the members that no operation names, as they are in the text, in
// order.
func untouched(t testing.TB, in []byte, ops []op) []string {
	var out []string
	if len(in) == 0 {
		return nil
	}
	for _, m := range jsontest.Pairs(t, in) {
		touches := func(o op) bool { return o.field.Key() == m.Name || o.field.parent().Key() == m.Name }
		if !slices.ContainsFunc(ops, touches) {
			out = append(out, m.Name+":"+string(m.Value))
		}
	}
	return out
}

func checkEdit(t testing.TB, in []byte, ops []op) {
	t.Helper()
	o, err := ParseObject(in, LevelResult)
	if err != nil {
		return
	}
	got := editOf(ops...).AppendTo(nil, &o)
	for _, long := range []int{1, 2, 5, 20} {
		checkUncopied(t, editOf(ops...), &o, long, got)
	}
	if !jsontest.IsJSON(got) {
		t.Fatalf("%v of %q: %q is no JSON text", ops, in, got)
	}
	if g, w := canonical(t, got), model(t, o.Bytes(), ops); g != w {
		t.Fatalf("%v of %q: %q\nmeans %s\nwant  %s", ops, in, got, g, w)
	}
	if g, w := untouched(t, got, ops), untouched(t, o.Bytes(), ops); !slices.Equal(g, w) {
		t.Fatalf("%v of %q: others changed from %q to %q", ops, in, w, g)
	}
	changed, err := editOf(ops...).Apply(&o)
	if err != nil {
		t.Fatalf("%v of %q: %v", ops, in, err)
	}
	if !changed.IsZero() {
		checkObject(t, &changed, got)
	}
	checkTextEdit(t, &o, ops)
	for _, f := range [...]Field{FieldName, FieldURI, FieldMeta, FieldRef, FieldRefName, MetaVersion} {
		checkWithText(t, &o, f, "a\"b", ops)
		checkWithText(t, &o, f, "a\xffb", ops)
	}
}

// checkUncopied omits long runs, and compares the pieces with the whole.
func checkUncopied(t testing.TB, e *Edit, o *Object, long int, want []byte) {
	t.Helper()
	const before = "before "
	left := uncopied{min: long}
	got := e.appendTo([]byte(before), o, &left)
	whole := string(got[:left.at]) + string(left.run) + string(got[left.at:])
	if left.run == nil {
		whole = string(got)
	}
	if whole != before+string(want) || left.run != nil && len(left.run) < long {
		t.Fatalf("%q of %q is left out at %d of %q, want %q", left.run, o.Bytes(), left.at, got, want)
	}
}

// checkWithText changes a member's text with an edit and with WithText, and compares
// the two objects and the results of further edits of them.
func checkWithText(t testing.TB, o *Object, f Field, text string, ops []op) {
	t.Helper()
	var e Edit
	e.SetText(f, text)
	want, err := e.Apply(o)
	if err != nil {
		t.Fatalf("%s of %q: %v", f.Key(), o.Bytes(), err)
	}
	before := bytes.Clone(o.Bytes())
	got := o.WithText(f, text)
	if !bytes.Equal(o.Bytes(), before) {
		t.Fatalf("%s of %q: the object is now %q", f.Key(), before, o.Bytes())
	}
	for f := range Field(numFields) {
		if got.Has(f) != want.Has(f) || !bytes.Equal(got.Raw(f), want.Raw(f)) {
			t.Fatalf("%q has %s: %v, %q; want %v, %q", want.Bytes(), f.Key(), got.Has(f), got.Raw(f), want.Has(f), want.Raw(f))
		}
	}
	gotText, ok := got.Text(f)
	if wantText, isText := want.Text(f); gotText != wantText || ok != isText {
		t.Fatalf("%s of %q: %q, %v; want %q, %v", f.Key(), want.Bytes(), gotText, ok, wantText, isText)
	}
	if raw := got.Raw(f); cap(raw) != len(raw) {
		t.Fatalf("%s of %q has room that others could write to", f.Key(), before)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Fatalf("%s of %q: %q, want %q", f.Key(), before, got.Bytes(), want.Bytes())
	}
	edit := editOf(ops...)
	if g, w := edit.AppendTo(nil, &got), edit.AppendTo(nil, &want); !bytes.Equal(g, w) {
		t.Fatalf("%v of %q: %q, want %q", ops, want.Bytes(), g, w)
	}
	g, gerr := edit.Apply(&got)
	w, werr := edit.Apply(&want)
	if !bytes.Equal(g.Bytes(), w.Bytes()) || g.has != w.has || (gerr == nil) != (werr == nil) {
		t.Fatalf("%v of %q: %q, %v; want %q, %v", ops, want.Bytes(), g.Bytes(), gerr, w.Bytes(), werr)
	}
	other := Field(FieldURI)
	if f == other {
		other = FieldName
	}
	both := got.WithText(other, "c")
	if text, ok := both.Text(other); !ok || text != "c" || !bytes.Equal(both.Raw(f), want.Raw(f)) {
		t.Fatalf("%s of %q, and %s: %q", f.Key(), before, other.Key(), both.Bytes())
	}
	if all, err := ParseObject(both.Bytes(), LevelResult); err != nil || !bytes.Equal(all.Raw(other), both.Raw(other)) || !bytes.Equal(all.Raw(f), both.Raw(f)) {
		t.Fatalf("%s of %q, and %s: %q, %v", f.Key(), before, other.Key(), both.Bytes(), err)
	}
	again := got.WithText(f, "c")
	if text, ok := again.Text(f); !ok || text != "c" {
		t.Fatalf("%s of %q: %q", f.Key(), got.Bytes(), text)
	}
}

// checkTextEdit sets texts instead, and compares the positions of the changed object's
// members with those that a scan finds.
func checkTextEdit(t testing.TB, o *Object, ops []op) {
	t.Helper()
	var e Edit
	for _, op := range ops {
		if op.value == "" {
			e.Delete(op.field)
		} else {
			e.SetText(op.field, op.value)
		}
	}
	got, err := e.Apply(o)
	if err != nil {
		t.Fatalf("%v of %q: %v", ops, o.Bytes(), err)
	}
	want, err := ParseObject(e.AppendTo(nil, o), LevelResult)
	if err != nil {
		t.Fatalf("%v of %q is not found to be wrong: %v", ops, o.Bytes(), err)
	}
	if e.IsZero() {
		return
	}
	if !bytes.Equal(got.raw, want.raw) || got.has != want.has {
		t.Fatalf("%v of %q: %q with %b, want %q with %b", ops, o.Bytes(), got.raw, got.has, want.raw, want.has)
	}
	for f := range Field(numFields) {
		g, gok := got.find(f)
		if w, ok := want.find(f); g != w || gok != ok {
			t.Fatalf("%v of %q: %s stands at %v, want %v, in %q", ops, o.Bytes(), f.Key(), g, w, got.raw)
		}
	}
}

// script decodes operations from bytes, for fuzzing and random tests.
func script(code []byte) []op {
	fields := [...]Field{
		FieldName, FieldURI, FieldMeta, FieldRef, FieldRefName, FieldRefType,
		MetaProgressToken, MetaVersion, MetaLogLevel, FieldArguments,
	}
	values := [...]string{"", "", "", `"text"`, "7", "{}", `{"progressToken":1,"name":[2]}`, "null"}
	var ops []op
	for _, c := range code[:min(len(code), 12)] {
		ops = append(ops, op{fields[int(c)%len(fields)], values[int(c)/len(fields)%len(values)]})
	}
	return ops
}

func randomObject(r *rand.Rand, depth int) string {
	names := []string{"name", "uri", "arguments", "_meta", "ref", "type", "progressToken", "a", "b", Field(MetaLogLevel).Key(), Field(MetaVersion).Key()}
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	space := func() string { return []string{"", "", " ", "\n\t"}[r.IntN(4)] }
	var b strings.Builder
	b.WriteString("{" + space())
	for i, name := range names[:r.IntN(len(names))] {
		if i > 0 {
			b.WriteString("," + space())
		}
		value := []string{"1", `"}"`, "null", "[{}]"}[r.IntN(4)]
		if (name == "_meta" || name == "ref") && depth == 0 && r.IntN(4) > 0 {
			value = randomObject(r, 1)
		}
		b.WriteString(`"` + name + `"` + space() + ":" + space() + value + space())
	}
	return b.String() + "}"
}

// Any changes of any object have the result of decoding, changing and encoding, and
// leave all other text alone.
func TestEditRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(2026, 728))
	for range 1_500 {
		code := make([]byte, r.IntN(8))
		for i := range code {
			code[i] = byte(r.UintN(256))
		}
		checkEdit(t, []byte(randomObject(r, 0)), script(code))
	}
}

func FuzzEdit(f *testing.F) {
	f.Add([]byte(`{"name":"a","_meta":{"progressToken":1},"ref":{"type":"x","name":"y"}}`), []byte{0, 36, 6, 4})
	f.Add([]byte(` { "uri" : 1 , "x" : {} , "_meta" : [ ] } `), []byte{31, 2, 66, 77})
	f.Add([]byte(``), []byte{42, 68})
	f.Fuzz(func(t *testing.T, in, code []byte) { checkEdit(t, in, script(code)) })
}

func parsed(t testing.TB, raw string) *Object {
	t.Helper()
	o, err := ParseObject([]byte(raw), LevelResult)
	if err != nil {
		t.Fatalf("ParseObject(%s): %v", raw, err)
	}
	return &o
}

// checkObject compares an object with the members that the oracle finds.
func checkObject(t testing.TB, o *Object, raw []byte) {
	t.Helper()
	if !bytes.Equal(o.Bytes(), raw) {
		t.Fatalf("object %q, want %q", o.Bytes(), raw)
	}
	top := jsontest.Pairs(t, raw)
	inside := map[Field][]jsontest.Pair{FieldNone: top}
	for _, parent := range []Field{FieldMeta, FieldRef} {
		if v, ok := jsontest.Lookup(top, parent.Key()); ok && v[0] == '{' {
			inside[parent] = jsontest.Pairs(t, v)
		}
	}
	for f := Field(FieldName); f < numFields; f++ {
		want, has := jsontest.Lookup(inside[f.parent()], f.Key())
		if got := o.Raw(f); !bytes.Equal(got, want) || o.Has(f) != has {
			t.Fatalf("%s of %q: %q (present %v), want %q (%v)", f.Key(), raw, got, o.Has(f), want, has)
		}
	}
}
