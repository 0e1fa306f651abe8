// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"math"
	"strings"
	"testing"
)

// A JSON text keeps the order of its members and the text of its numbers.
func TestJSONIsKept(t *testing.T) {
	tool := hello("a")
	tool.InputSchema = "{\n\t\"type\": \"object\", \"z\": 1.0, \"a\": 9007199254740993 }"
	equal(t, "list", answer(t, New(tool), "tools/list", ``),
		`{"tools":[{"name":"a","inputSchema":{"type":"object","z":1.0,"a":9007199254740993}}]}`)
}

func TestMustJSON(t *testing.T) {
	equal(t, "a map", string(MustJSON(map[string]any{"b": []int(nil), "a": "<>"})), `{"a":"<>","b":[]}`)
	equal(t, "a JSON", string(MustJSON(JSON(`{"x":1.0}`))), `{"x":1.0}`)
	for _, v := range []any{math.NaN(), func() {}, JSON(`{`), JSON(``)} {
		func() {
			defer func() {
				if err, ok := recover().(error); !ok || !strings.HasPrefix(err.Error(), "mux: ") {
					t.Errorf("%T has a JSON text, or an error that is not ours: %v", v, err)
				}
			}()
			MustJSON(v)
		}()
	}
}

// The JSON texts of an item are checked when it is added; the error names the item and
// the text.
func TestItemsAreChecked(t *testing.T) {
	with := func(edit func(*Tool)) Item {
		tool := hello("a")
		edit(&tool)
		return tool
	}
	resource := func(edit func(*Resource)) Item {
		r := note("x:y")
		edit(&r)
		return r
	}
	template := Template{URI: "x:{a}", Name: "t", Read: note("x:y").Read, Annotations: `"x"`}
	prompt := verse("v")
	prompt.Icons = `{}`
	for _, tt := range []struct {
		item Item
		want string
	}{
		{with(func(t *Tool) { t.InputSchema = `{"type":"array"}` }), `mux: tool "a": its input schema is not of the type "object"`},
		{with(func(t *Tool) { t.InputSchema = `{}` }), `mux: tool "a": its input schema is not of the type "object"`},
		{with(func(t *Tool) { t.InputSchema = `true` }), `mux: tool "a": its input schema is not an object`},
		{with(func(t *Tool) { t.InputSchema = `{"type":"object"` }), `mux: tool "a": its input schema is not valid JSON`},
		{with(func(t *Tool) { t.OutputSchema = `[]` }), `mux: tool "a": its output schema is not an object`},
		{with(func(t *Tool) { t.Annotations = `null` }), `mux: tool "a": its annotations is not an object`},
		{with(func(t *Tool) { t.Icons = `{}` }), `mux: tool "a": its icons is not an array`},
		{with(func(t *Tool) { t.Meta = ` ` }), `mux: tool "a": its _meta is not valid JSON`},
		{resource(func(r *Resource) { r.Annotations = `7` }), `mux: resource "x:y": its annotations is not an object`},
		{resource(func(r *Resource) { r.Meta = `{"a":1,"a":2}` }), `mux: resource "x:y": its _meta is not valid JSON`},
		{template, `mux: template "x:{a}": its annotations is not an object`},
		{prompt, `mux: prompt "v": its icons is not an array`},
	} {
		err := new(Mux).Add(tt.item)
		if err == nil || err.Error() != tt.want {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}
