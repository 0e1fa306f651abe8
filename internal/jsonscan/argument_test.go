// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// refArgument finds one argument with the oracle's reader.
func refArgument(t testing.TB, raw []byte, path []string) ([]byte, error) {
	for _, name := range path {
		if len(raw) == 0 || raw[0] != '{' {
			return nil, nil
		}
		var values [][]byte
		for _, m := range jsontest.Pairs(t, raw) {
			if m.Name == name {
				values = append(values, m.Value)
			}
		}
		switch len(values) {
		case 0:
			return nil, nil
		case 1:
			raw = values[0]
		default:
			return nil, ErrDuplicate
		}
	}
	return raw, nil
}

// checkArguments compares one pass for all paths with a search for each.
func checkArguments(t testing.TB, paths [][]string, arguments []byte) {
	t.Helper()
	values := Arguments(paths, arguments)
	for i, path := range paths {
		raw, err := refArgument(t, arguments, path)
		got := values[i]
		switch {
		case errors.Is(err, ErrDuplicate):
			if !errors.Is(got.Err, ErrDuplicate) || got.Present {
				t.Fatalf("%q in %s: %+v, want %v", path, arguments, got, err)
			}
			continue
		case raw == nil || string(raw) == "null":
			if got != (Argument{}) {
				t.Fatalf("%q in %s: %+v, want nothing", path, arguments, got)
			}
			continue
		}
		text, ok := mirrored(raw)
		if got.Present != ok || got.Text != text || (got.Err == nil) != ok {
			t.Fatalf("%q in %s: %+v, want %q, %v", path, arguments, got, text, ok)
		}
		alone := Arguments([][]string{path}, arguments)[0]
		if alone.Text != got.Text || alone.Present != got.Present || (alone.Err == nil) != (got.Err == nil) {
			t.Fatalf("%q in %s: alone %+v; among others %+v", path, arguments, alone, got)
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

func randomPaths(r *rand.Rand) [][]string {
	names := []string{"a", "b", "c", ""}
	paths := make([][]string, r.IntN(6))
	for i := range paths {
		paths[i] = make([]string, 1+r.IntN(3))
		for j := range paths[i] {
			paths[i][j] = names[r.IntN(len(names))]
		}
	}
	return paths
}

// One pass for any arguments and any number of paths finds the same as a search for
// each path.
func TestArgumentsRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(2026, 7))
	for range 2_000 {
		checkArguments(t, randomPaths(r), []byte(randomArguments(r, 3)))
	}
}

// A hundred paths of a hundred objects in a large call: a search for each
// of them would read the same bytes ten thousand times.
func TestArgumentsReadsOnce(t *testing.T) {
	const deep = 100
	path := strings.Split(strings.Repeat("a", deep), "")
	paths := make([][]string, 128)
	for i := range paths {
		paths[i] = append(path[:deep:deep], fmt.Sprint("p", i))
	}
	arguments := strings.Repeat(`{"a":`, deep) + `{"p0":"first","pad":"` + strings.Repeat("x", 2<<20) + `","p127":"last"}` + strings.Repeat("}", deep)
	for i, v := range Arguments(paths, []byte(arguments)) {
		want := map[int]string{0: "first", 127: "last"}[i]
		if v.Text != want || v.Present != (want != "") || v.Err != nil {
			t.Errorf("path %d: %+v, want %q", i, v, want)
		}
	}
}

// A duplicate member on the path leaves its paths without a value, at any depth;
// other paths are not affected.
func TestArgumentsDuplicate(t *testing.T) {
	paths := [][]string{{"a", "b"}, {"a", "c"}, {"a"}, {"d"}, {"x"}}
	for _, tt := range []struct {
		arguments string
		twice     string // the paths without a value
	}{
		{`{"a":{"b":1,"c":2},"d":3}`, ""},
		{`{"a":{"b":1,"b":1,"c":2},"d":3}`, "a.b"},
		{`{"a":{"b":1},"d":3,"a":{"c":2}}`, "a.b a.c a"},
		{`{"a":1,"d":3,"\u0061":null}`, "a.b a.c a"},
		{`{"a":1,"a":2,"a":{"b":1}}`, "a.b a.c a"},
		{`{"a":{"b":1},"d":3,"d":3}`, "d"},
		{`{"y":1,"y":2,"a":{"z":1,"z":2}}`, ""},
		{`{"a":[{"b":1,"b":2}]}`, ""},
	} {
		var got []string
		for i, v := range Arguments(paths, []byte(tt.arguments)) {
			if errors.Is(v.Err, ErrDuplicate) {
				got = append(got, strings.Join(paths[i], "."))
			}
		}
		if strings.Join(got, " ") != tt.twice {
			t.Errorf("%s: %q have no value, want %q", tt.arguments, got, tt.twice)
		}
		checkArguments(t, paths, []byte(tt.arguments))
	}
}

// FuzzArguments does the same for paths that come from a seed, in any JSON text.
func FuzzArguments(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1,"c":null},"b":4.2e1,"a":2}`), uint64(1))
	f.Add([]byte(`{"":{"\u0061":"x"},"c":[{"a":1}]}`), uint64(2))
	f.Fuzz(func(t *testing.T, arguments []byte, seed uint64) {
		if jsontest.IsJSON(arguments) {
			checkArguments(t, randomPaths(jsontest.Seeded(seed)), bytes.TrimSpace(arguments))
		}
	})
}

func TestArgumentsEmpty(t *testing.T) {
	if got := Arguments(nil, []byte(`{"a":1}`)); len(got) != 0 {
		t.Errorf("no paths: %v", got)
	}
	paths := [][]string{{"a"}, {"b", "c"}}
	for _, arguments := range []string{``, `null`, `[]`, `"a"`, `{}`, `{"b":null}`, `{"b":[{"c":1}]}`} {
		for i, v := range Arguments(paths, []byte(arguments)) {
			if v != (Argument{}) {
				t.Errorf("%s: path %d is %+v", arguments, i, v)
			}
		}
	}
}

// Arguments that are not JSON invalidate all paths, because the tool may read them
// differently.
func TestArgumentsInvalidJSON(t *testing.T) {
	paths := [][]string{{"a"}, {"b"}}
	for _, arguments := range []string{`{"a":1`, `{"a":1;`, `{"a" 1}`, `{"a":{"x"}}`, `{"a":1,"b":tru}`} {
		for i, v := range Arguments(paths, []byte(arguments)) {
			if v.Err == nil || v.Present {
				t.Errorf("%s: path %d is %+v, want an error", arguments, i, v)
			}
		}
	}
}

func BenchmarkArguments(b *testing.B) {
	paths := [][]string{{"location"}, {"unit", "name"}}
	arguments := []byte(`{"location":"Seattle, WA","unit":{"name":"celsius"},"text":"` + strings.Repeat("x", 10<<10) + `"}`)
	b.SetBytes(int64(len(arguments)))
	b.ReportAllocs()
	for b.Loop() {
		if v := Arguments(paths, arguments); !v[0].Present || !v[1].Present {
			b.Fatal(v)
		}
	}
}
