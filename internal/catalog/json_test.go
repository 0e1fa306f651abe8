// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
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

// FuzzMembers holds the walk over members and elements against the standard
// library.
func FuzzMembers(f *testing.F) {
	for _, s := range jsonSeeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		raw = bytes.TrimSpace(raw)
		if inList := append(append([]byte(`{"a":`), raw...), '}'); !json.Valid(raw) || !parses(inList) {
			return
		}
		checkMembers(t, raw)
		checkElements(t, raw)
	})
}

func parses(raw []byte) bool {
	_, err := mcp.ParseObject(raw)
	return err == nil
}

func checkMembers(t *testing.T, raw []byte) {
	t.Helper()
	got := make(map[string]string)
	for name, value := range members(raw) {
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
	for value := range elements(raw) {
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
	for range members([]byte(`{"a":1,"b":2}`)) {
		n++
		break
	}
	for range elements([]byte(`[1,2]`)) {
		n++
		break
	}
	if n != 2 {
		t.Errorf("%d steps, want 2", n)
	}
	for range members(nil) {
		t.Error("there are no members of nothing")
	}
	for range elements(nil) {
		t.Error("there are no elements of nothing")
	}
}
