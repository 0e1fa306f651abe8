// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func jsonSeeds() []string {
	return []string{
		`{}`, `{ }`, `[]`, `[ ]`, `null`, `"x"`, `12`,
		`{"a":1}`, "{ \"a\" :\t[ 1 , {\"b\" : [ ] } ] ,\r\n\"c\":\"}\" }",
		`{"a":"\\","b":"\"","c\\":"\\\"","\u0064":{}}`,
		`[1,-2.5e+3,true,false,null,"]",[[]],{"a":{}}]`,
		`{"a":"é","日本":"語","\ud83d\ude00":1}`,
	}
}

// FuzzMembers compares Members and Elements with the standard library.
func FuzzMembers(f *testing.F) {
	for _, s := range jsonSeeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		raw = bytes.TrimSpace(raw)
		if inList := append(append([]byte(`{"a":`), raw...), '}'); !json.Valid(raw) || !isParsed(inList) {
			return
		}
		checkMembers(t, raw)
		checkElements(t, raw)
		checkRewrites(t, raw)
	})
}

func isParsed(raw []byte) bool {
	_, err := ParseObject(raw, LevelResult)
	return err == nil
}

func checkMembers(t *testing.T, raw []byte) {
	t.Helper()
	got := make(map[string]string)
	for name, value := range Members(raw) {
		got[name] = string(value)
	}
	var want map[string]json.RawMessage
	if raw[0] == '{' {
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: got %d members, want %d", raw, len(got), len(want))
	}
	for name, value := range want {
		if got[name] != string(value) {
			t.Errorf("%s: member %q is %q, want %q", raw, name, got[name], value)
		}
	}
}

func checkElements(t *testing.T, raw []byte) {
	t.Helper()
	var want []json.RawMessage
	if raw[0] == '[' {
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
	}
	i := 0
	for value := range Elements(raw) {
		if i >= len(want) || string(value) != string(want[i]) {
			t.Fatalf("%s: element %d is %q", raw, i, value)
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%s: got %d elements, want %d", raw, i, len(want))
	}
}

func TestWalksStopEarly(t *testing.T) {
	n := 0
	for range Members([]byte(`{"a":1,"b":2}`)) {
		n++
		break
	}
	for range Elements([]byte(`[1,2]`)) {
		n++
		break
	}
	if n != 2 {
		t.Errorf("%d steps, want 2", n)
	}
	for range Members(nil) {
		t.Error("there are no members of nothing")
	}
	for range Elements(nil) {
		t.Error("there are no elements of nothing")
	}
}

// checkRewrites compares a rewrite with the same change of decoded JSON.
func checkRewrites(t *testing.T, raw []byte) {
	t.Helper()
	keep := func(_ string, value []byte) []byte { return value }
	if got := RewriteMembers(raw, keep); len(raw) > 0 && &got[0] != &raw[0] {
		t.Errorf("%s: nothing was changed, and it is copied: %s", raw, got)
	}
	n, names := 0, []string{}
	got := RewriteMembers(raw, func(name string, value []byte) []byte {
		n++
		switch n % 3 {
		case 0:
			return nil
		case 1:
			names = append(names, name)
			return []byte(`{"new":[]}`)
		default:
			names = append(names, name)
			return value
		}
	})
	if !json.Valid(got) {
		t.Fatalf("%s becomes %s", raw, got)
	}
	var left []string
	for name, value := range Members(got) {
		if len(left)%2 == 0 && string(value) != `{"new":[]}` {
			t.Errorf("%s becomes %s: member %q", raw, got, name)
		}
		left = append(left, name)
	}
	if strings.Join(left, "\n") != strings.Join(names, "\n") {
		t.Errorf("%s becomes %s: names %q, want %q", raw, got, left, names)
	}
}

func TestRewrite(t *testing.T) {
	for _, tt := range []struct{ in, change, to, want string }{
		{`{"a":1,"b" : 2, "c":3}`, "a", `{}`, `{"a":{},"b" : 2,"c":3}`},
		{`{"a":1,"b" : 2, "c":3}`, "b", `{}`, `{"a":1,"b" : {},"c":3}`},
		{`{ "a":1 ,"b":2 }`, "b", ``, `{ "a":1}`},
		{`{"a":1}`, "a", ``, `{}`},
		{`{"a":1,"b":2,"c":3}`, "a", ``, `{"b":2,"c":3}`},
		{`{"\u0061":1,"b":2}`, "a", `3`, `{"\u0061":3,"b":2}`},
		{`{"a\"":1,"b":2}`, `a"`, `3`, `{"a\"":3,"b":2}`},
		{`{ }`, "a", `1`, `{ }`},
		{`[1]`, "a", `1`, `[1]`},
	} {
		got := RewriteMembers([]byte(tt.in), func(name string, value []byte) []byte {
			if name == tt.change && tt.to == "" {
				return nil
			}
			if name == tt.change {
				return []byte(tt.to)
			}
			return value
		})
		if string(got) != tt.want {
			t.Errorf("%s with %s=%s is %s, want %s", tt.in, tt.change, tt.to, got, tt.want)
		}
	}
	got := RewriteElements([]byte(`[1, {"a":[2]} ,"]"]`), func(value []byte) []byte {
		switch value[0] {
		case '1':
			return nil
		case '{':
			return []byte("null")
		}
		return value
	})
	if want := `[null,"]"]`; string(got) != want {
		t.Errorf("elements: %s, want %s", got, want)
	}
}

func TestMember(t *testing.T) {
	const raw = `{"a":1,"\u0062": {"a":2},"a":3}`
	for name, want := range map[string]string{"a": "1", "b": `{"a":2}`, "c": ""} {
		if got := Member([]byte(raw), name); string(got) != want || (got == nil) != (want == "") {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for _, raw := range []string{"", "[]", `"a"`, "{}"} {
		if got := Member([]byte(raw), "a"); got != nil {
			t.Errorf("%s has %q", raw, got)
		}
	}
}
