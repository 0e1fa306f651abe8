// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Headers that are equal without decoding are equal when decoded; and values with more
// than one spelling are decoded.
func TestPlainHeadersAreComparedUndecoded(t *testing.T) {
	tests := []struct {
		header, body string
		want         bool
	}{
		{"echo", `"echo"`, true},
		{"2026-07-28", `"2026-07-28"`, true},
		{"file:///a/b_c.txt", `"file:///a/b_c.txt"`, true},
		{"echo", `"Echo"`, false},
		{"echo", `"ech"`, false},
		{"ech", `"echo"`, false},
		{"", `""`, false},
		{"", ``, false},
		{"1", `1`, false},
		{"null", `null`, false},
		{`a\nb`, `"a\nb"`, false}, // a line break in the body
		{"a b", `"a b"`, false},   // a space may not belong to the value
		{"=?base64?YQ==?=", `"=?base64?YQ==?="`, false},
		{"=?base64?YQ==?=", `"a"`, false},
		{"é", `"é"`, false},
	}
	for _, tt := range tests {
		h := http.Header{nameHeader: {tt.header}}
		got := mirrors(h, nameHeader, []byte(tt.body))
		if got != tt.want {
			t.Errorf("header %q, body %s: %t, want %t", tt.header, tt.body, got, tt.want)
		}
		if !got {
			continue
		}
		m, err := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":`+tt.body+`}}`), mcp.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		name, _ := m.Params.Text(mcp.FieldName)
		for _, encoded := range []bool{false, true} {
			if err := checkHeader(h, nameHeader, name, encoded); err != nil {
				t.Errorf("header %q, body %s: %v", tt.header, tt.body, err)
			}
		}
	}
	for name, h := range map[string]http.Header{"none": {}, "two": {nameHeader: {"echo", "echo"}}} {
		if mirrors(h, nameHeader, []byte(`"echo"`)) {
			t.Errorf("%s: accepted as equal", name)
		}
	}
}

// The Handler gets a map, even if no header mirrors an argument; and that map never
// changes.
func TestParamHeadersAreNeverNil(t *testing.T) {
	none := map[string][]string{}
	for name, h := range map[string]http.Header{
		"none":         {},
		"others":       {"Accept": {"x"}, "Mcp-Param": {"y"}},
		"others, shut": {"Connection": {"close, Mcp-Param-A"}},
		"taken away":   {"Connection": {"mcp-param-a"}, "Mcp-Param-A": {"1"}},
	} {
		if got := paramHeaders(h, none); got == nil || len(got) != 0 {
			t.Errorf("%s: %v, want an empty map", name, got)
		}
	}
	h := http.Header{"Mcp-Param-A": {"1"}, "Mcp-Param-B": {"2", "3"}, "Connection": {"Mcp-Param-A"}}
	if got := paramHeaders(h, none); len(got) != 1 || len(got["Mcp-Param-B"]) != 2 {
		t.Errorf("got %v, want only the header that is not limited to this connection", got)
	}
	if len(none) != 0 {
		t.Errorf("the shared map was changed: %v", none)
	}
}
