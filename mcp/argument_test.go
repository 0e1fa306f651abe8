// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// refArgument finds one argument with the oracle's reader.
func refArgument(t testing.TB, raw []byte, path []string) ([]byte, error) {
	for _, name := range path {
		if len(raw) == 0 || raw[0] != '{' {
			return nil, nil
		}
		var values [][]byte
		for _, m := range pairs(t, raw) {
			if m.name == name {
				values = append(values, m.value)
			}
		}
		switch len(values) {
		case 0:
			return nil, nil
		case 1:
			raw = values[0]
		default:
			return nil, errArgumentTwice
		}
	}
	return raw, nil
}

// checkArguments compares one pass for all headers with a search for each.
func checkArguments(t testing.TB, headers []ParamHeader, arguments []byte) {
	t.Helper()
	values := ParamValues(headers, arguments)
	for i, p := range headers {
		raw, err := refArgument(t, arguments, p.Path)
		got := values[i]
		switch {
		case errors.Is(err, errArgumentTwice):
			if !errors.Is(got.Err, errArgumentTwice) || got.Present {
				t.Fatalf("%q in %s: %+v, want %v", p.Path, arguments, got, err)
			}
			continue
		case raw == nil || string(raw) == "null":
			if got != (ParamValue{}) {
				t.Fatalf("%q in %s: %+v, want nothing", p.Path, arguments, got)
			}
			continue
		}
		text, ok := mirrored(raw)
		if got.Present != ok || got.Text != text || (got.Err == nil) != ok {
			t.Fatalf("%q in %s: %+v, want %q, %v", p.Path, arguments, got, text, ok)
		}
		alone, present, err := p.Value(arguments)
		if alone != got.Text || present != got.Present || (err == nil) != (got.Err == nil) {
			t.Fatalf("%q in %s: alone %q, %v, %v; among others %+v", p.Path, arguments, alone, present, err, got)
		}
	}
}

// randomArguments returns arguments with frequently repeated names, some of them
// duplicates.
func randomArguments(r *rand.Rand, depth int) string {
	names := []string{`"a"`, `"b"`, `"\u0061"`, `"c"`, `""`}
	var b strings.Builder
	for i := range r.IntN(5) {
		if i > 0 {
			b.WriteString(" , ")
		}
		value := []string{`1`, `"x"`, `null`, `true`, `[{"a":1}]`, `1.5`, `{}`}[r.IntN(7)]
		if depth > 0 && r.IntN(2) == 0 {
			value = randomArguments(r, depth-1)
		}
		b.WriteString(names[r.IntN(len(names))] + ":" + value)
	}
	return "{" + b.String() + "}"
}

func randomHeaders(r *rand.Rand) []ParamHeader {
	names := []string{"a", "b", "c", ""}
	headers := make([]ParamHeader, r.IntN(6))
	for i := range headers {
		path := make([]string, 1+r.IntN(3))
		for j := range path {
			path[j] = names[r.IntN(len(names))]
		}
		headers[i] = ParamHeader{Name: fmt.Sprint("H", i), Path: path, Type: "string"}
	}
	return headers
}

// One pass for any arguments and any number of headers finds the same as a search for
// each header.
func TestParamValuesRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(2026, 7))
	for range 2_000 {
		checkArguments(t, randomHeaders(r), []byte(randomArguments(r, 3)))
	}
}

// A hundred headers with paths of a hundred objects in a large call: a search for each
// of them would read the same bytes ten thousand times.
func TestParamValuesReadsOnce(t *testing.T) {
	const deep = 100
	path := strings.Split(strings.Repeat("a", deep), "")
	headers := make([]ParamHeader, maxParamHeaders)
	for i := range headers {
		headers[i] = ParamHeader{Name: fmt.Sprint("H", i), Path: append(path[:deep:deep], fmt.Sprint("p", i)), Type: "string"}
	}
	arguments := strings.Repeat(`{"a":`, deep) + `{"p0":"first","pad":"` + strings.Repeat("x", 2<<20) + `","p127":"last"}` + strings.Repeat("}", deep)
	values := ParamValues(headers, []byte(arguments))
	for i, v := range values {
		want := map[int]string{0: "first", 127: "last"}[i]
		if v.Text != want || v.Present != (want != "") || v.Err != nil {
			t.Errorf("header %d: %+v, want %q", i, v, want)
		}
	}
	if err := CheckParamHeaders(headers, map[string][]string{"Mcp-Param-H0": {"first"}, "Mcp-Param-H127": {"last"}}, []byte(arguments)); err != nil {
		t.Error(err)
	}
}

// A duplicate member on the path leaves its headers without a value, at any depth;
// other headers are not affected.
func TestParamValuesDuplicate(t *testing.T) {
	headers := []ParamHeader{
		{Name: "Ab", Path: []string{"a", "b"}}, {Name: "Ac", Path: []string{"a", "c"}},
		{Name: "A", Path: []string{"a"}}, {Name: "D", Path: []string{"d"}}, {Name: "None", Path: []string{"x"}},
	}
	for _, tt := range []struct {
		arguments string
		twice     string // the names of the headers without a value
	}{
		{`{"a":{"b":1,"c":2},"d":3}`, ""},
		{`{"a":{"b":1,"b":1,"c":2},"d":3}`, "Ab"},
		{`{"a":{"b":1},"d":3,"a":{"c":2}}`, "Ab Ac A"},
		{`{"a":1,"d":3,"\u0061":null}`, "Ab Ac A"},
		{`{"a":1,"a":2,"a":{"b":1}}`, "Ab Ac A"},
		{`{"a":{"b":1},"d":3,"d":3}`, "D"},
		{`{"y":1,"y":2,"a":{"z":1,"z":2}}`, ""},
		{`{"a":[{"b":1,"b":2}]}`, ""},
	} {
		var got []string
		for i, v := range ParamValues(headers, []byte(tt.arguments)) {
			if errors.Is(v.Err, errArgumentTwice) {
				got = append(got, headers[i].Name)
			}
		}
		if strings.Join(got, " ") != tt.twice {
			t.Errorf("%s: %q have no value, want %q", tt.arguments, got, tt.twice)
		}
		checkArguments(t, headers, []byte(tt.arguments))
	}
}

func TestParamValuesEmpty(t *testing.T) {
	if got := ParamValues(nil, []byte(`{"a":1}`)); len(got) != 0 {
		t.Errorf("no headers: %v", got)
	}
	headers := []ParamHeader{{Name: "A", Path: []string{"a"}}, {Name: "B", Path: []string{"b", "c"}}}
	for _, arguments := range []string{``, `null`, `[]`, `"a"`, `{}`, `{"b":null}`, `{"b":[{"c":1}]}`} {
		for i, v := range ParamValues(headers, []byte(arguments)) {
			if v != (ParamValue{}) {
				t.Errorf("%s: header %d is %+v", arguments, i, v)
			}
		}
	}
}

// Arguments that are not JSON invalidate all headers, because the tool may read them
// differently.
func TestParamValuesInvalidJSON(t *testing.T) {
	headers := []ParamHeader{{Name: "A", Path: []string{"a"}}, {Name: "B", Path: []string{"b"}}}
	for _, arguments := range []string{`{"a":1`, `{"a":1;`, `{"a" 1}`, `{"a":{"x"}}`, `{"a":1,"b":tru}`} {
		for i, v := range ParamValues(headers, []byte(arguments)) {
			if v.Err == nil || v.Present {
				t.Errorf("%s: header %d is %+v, want an error", arguments, i, v)
			}
		}
	}
}

func BenchmarkParamValues(b *testing.B) {
	schema := `{"properties":{"location":{"type":"string","x-mcp-header":"Location"},"unit":{"properties":{"name":{"type":"string","x-mcp-header":"Unit"}}}}}`
	headers, err := ParamHeaders([]byte(schema))
	if err != nil {
		b.Fatal(err)
	}
	arguments := []byte(`{"location":"Seattle, WA","unit":{"name":"celsius"},"text":"` + strings.Repeat("x", 10<<10) + `"}`)
	b.SetBytes(int64(len(arguments)))
	b.ReportAllocs()
	for b.Loop() {
		if v := ParamValues(headers, arguments); !v[0].Present || !v[1].Present {
			b.Fatal(v)
		}
	}
}

// Most tools mirror nothing, so the check must cost next to nothing for them.
func BenchmarkCheckParamHeadersNone(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if err := CheckParamHeaders(nil, map[string][]string{}, []byte(`{"a":1}`)); err != nil {
			b.Fatal(err)
		}
	}
}
