// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package canned

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestScan(t *testing.T) {
	tests := []struct {
		name, in                         string
		id, method, tool, cursor, tokens string
	}{
		{name: "a call", in: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","arguments":{}}}`,
			id: `7`, method: "tools/call", tool: "a"},
		{name: "an id that is a text, behind the rest", in: `{"method":"tools/list","params":{"cursor":"12"},"id":"x\"y"}`,
			id: `"x\"y"`, method: "tools/list", cursor: "12"},
		{name: "names that are not the tool's", in: `{"id":1,"method":"tools/call","params":{"_meta":{"clientInfo":{"name":"no"},"progressToken":"t"},` +
			`"arguments":{"name":"no","deep":[{"name":"}"},"]"]},"name":"yes"}}`,
			id: `1`, method: "tools/call", tool: "yes", tokens: `"t"`},
		{name: "a notification", in: `{"jsonrpc":"2.0","method":"notifications/initialized"}`, method: "notifications/initialized"},
		{name: "white space", in: " {\n\t\"id\" : 1 ,\r\n\"method\" : \"ping\" , \"params\" : { } } ", id: "1", method: "ping"},
		{name: "words and numbers", in: `{"a":true,"b":null,"c":-1.5e3,"d":[],"e":{},"id":-2,"method":"m"}`, id: "-2", method: "m"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := scan([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			for what, pair := range map[string][2]string{
				"id": {string(m.id), tt.id}, "method": {string(m.method), tt.method}, "name": {string(m.name), tt.tool},
				"cursor": {string(m.cursor), tt.cursor}, "token": {string(m.token), tt.tokens},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s = %q, want %q", what, pair[0], pair[1])
				}
			}
		})
	}
}

func TestScanRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"nothing":              ``,
		"no object":            `[]`,
		"no method":            `{"id":1}`,
		"a cut text":           `{"id":1,"method":"to`,
		"a cut escape":         `{"id":1,"method":"to\`,
		"a cut object":         `{"id":1,"method":"m","params":{"name":"x"`,
		"a cut value":          `{"method":"m","a":[1,{"b":2}`,
		"an escape in a name":  `{"id":1,"method":"tools/call","params":{"name":"\u0061"}}`,
		"params of a list":     `{"id":1,"method":"m","params":[]}`,
		"a method of a number": `{"id":1,"method":3}`,
		"no value":             `{"id":,"method":"m"}`,
		"no colon":             `{"id" 1}`,
		"no comma":             `{"id":1 "method":"m"}`,
	} {
		if m, err := scan([]byte(in)); err == nil {
			t.Errorf("%s: got %q, want an error", name, m.method)
		}
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	in := []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"text_100","arguments":{"path":"/srv","pattern":"x"}}}`)
	got := testing.AllocsPerRun(100, func() {
		if _, err := scan(in); err != nil {
			t.Fatal(err)
		}
	})
	// The closures that read the members; nothing that grows with the message.
	if got > 2 {
		t.Errorf("%v allocations, want at most 2", got)
	}
}

// FuzzScan compares the scanner with the standard library: if both accept a message, they
// must read the same values.
func FuzzScan(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":[1,"]"]},"arguments":{"n":"\\\""}}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := scan(in)
		var want struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		// encoding/json treats duplicate members, and members in another case, differently.
		if err != nil || json.Unmarshal(in, &want) != nil || bytes.Count(in, []byte(`"`)) > 60 || folded(in) {
			return
		}
		if string(m.method) != want.Method || string(m.name) != want.Params.Name {
			t.Errorf("got %q of %q, want %q of %q", m.method, m.name, want.Method, want.Params.Name)
		}
	})
}

// folded reports whether encoding/json reads a text differently: keys in another case,
// duplicate keys, keys with escapes, and null.
func folded(in []byte) bool {
	lower := bytes.ToLower(in)
	if !bytes.Equal(lower, in) || bytes.ContainsAny(in, "\\\x7f") || bytes.Contains(in, []byte("null")) {
		return true
	}
	for _, key := range []string{`"id"`, `"method"`, `"params"`, `"name"`} {
		if bytes.Count(in, []byte(key)) > 1 {
			return true
		}
	}
	for _, c := range in {
		if c < ' ' || c > '~' {
			return true
		}
	}
	return false
}
