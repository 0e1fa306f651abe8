// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

// Appended messages parse.
func TestAppend(t *testing.T) {
	for _, tt := range []struct {
		got  []byte
		want string
		kind Kind
	}{
		{AppendRequest(nil, NumberID(7), "tools/call", []byte(`{"name":"a"}`)),
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a"}}`, KindRequest},
		{AppendRequest(nil, StringID("a\"b"), "x\ny", nil),
			`{"jsonrpc":"2.0","id":"a\"b","method":"x\ny"}`, KindRequest},
		{AppendNotification(nil, "notifications/progress", []byte(`{}`)),
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`, KindNotification},
		{AppendNotification(nil, "notifications/initialized", nil),
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`, KindNotification},
		{AppendResult(nil, NumberID(0), []byte(`{"a":1}`)),
			`{"jsonrpc":"2.0","id":0,"result":{"a":1}}`, KindResult},
		{AppendResult(nil, StringID(""), nil),
			`{"jsonrpc":"2.0","id":"","result":{}}`, KindResult},
		{AppendError(nil, NumberID(1), Errorf(CodeInvalidParams, "no %q", "x")),
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no \"x\""}}`, KindError},
		{AppendError(nil, NumberID(1), &Error{Code: 5, Message: "m", Data: []byte(`[1]`)}),
			`{"jsonrpc":"2.0","id":1,"error":{"code":5,"message":"m","data":[1]}}`, KindError},
		{AppendError(nil, NumberID(1), &Error{Code: 5, Raw: []byte(`{"message":"m", "code":5,"x":0}`)}),
			`{"jsonrpc":"2.0","id":1,"error":{"message":"m", "code":5,"x":0}}`, KindError},
		// "Error responses MUST include the same ID [...] (except in error cases
		// where the ID could not be read due a malformed request)" (2026-07-28,
		// basic, "Error Responses").
		{AppendError(nil, ID{}, Errorf(CodeParseError, "m")),
			`{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}`, KindError},
	} {
		if string(tt.got) != tt.want {
			t.Errorf("got  %s\nwant %s", tt.got, tt.want)
		}
		if m, err := Parse(tt.got, Limits{}); err != nil || m.Kind != tt.kind {
			t.Errorf("Parse(%s) = %v, %v; want %v", tt.got, m.Kind, err, tt.kind)
		}
		checkAgainstOracle(t, tt.got)
	}
	if got := string(AppendResult([]byte("data: "), NumberID(1), nil)); got != `data: {"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("appended: %s", got)
	}
}

// A message is one allocation, whatever its size and that of its id.
func TestMessagesAreOneAllocation(t *testing.T) {
	for _, id := range []ID{NumberID(math.MaxInt64), StringID(strings.Repeat("i", 21)), StringID(strings.Repeat("i", 500))} {
		for size := range 130 { // so that each is once as large as an allocation class
			params := []byte(`{"name":"` + strings.Repeat("a", size) + `"}`)
			for name, message := range map[string]func() []byte{
				"request":      func() []byte { return AppendRequest(nil, id, "tools/call", params) },
				"notification": func() []byte { return AppendNotification(nil, "notifications/progress", params) },
				"result":       func() []byte { return AppendResult(nil, id, params) },
			} {
				if n := testing.AllocsPerRun(5, func() { message() }); n > 1 {
					t.Fatalf("%s of %s, %d bytes: %v allocations, want 1", name, id, size, n)
				}
			}
		}
	}
}

// A request with edited params equals one made from the edited params, with one
// allocation besides those of the edit.
func TestEditedRequest(t *testing.T) {
	for _, params := range []string{``, `{}`, `{"name":"a"}`, ` { "name" : "a" , "_meta" : { "x" : 1 } } `} {
		o := &Object{}
		if params != "" {
			parsed, err := ParseObject([]byte(params))
			if err != nil {
				t.Fatal(err)
			}
			o = &parsed
		}
		var none, some, all Edit
		some.Delete(FieldName)
		all.SetText(FieldName, "b\"")
		all.Set(MetaClientInfo, []byte(`{"name":"c"}`))
		for _, e := range []*Edit{&none, &some, &all} {
			want := AppendRequest(nil, StringID("i"), "tools/call", e.AppendTo(nil, o))
			got := EditedRequest(StringID("i"), "tools/call", e, o)
			if string(got[0]) != string(want) || got.Len() != len(want) {
				t.Errorf("%s: got  %s\nwant %s", params, got, want)
			}
			if _, err := Parse(got[0], Limits{}); err != nil {
				t.Errorf("%s: %v", got, err)
			}
			of := testing.AllocsPerRun(100, func() { e.AppendTo(make([]byte, 0, 1<<10), o) }) // capacity on the stack
			if n := testing.AllocsPerRun(100, func() { EditedRequest(NumberID(1), "tools/call", e, o) }); n > of+1 {
				t.Errorf("%s: %v allocations, want at most %v", params, n, of+1)
			}
		}
	}
}

func TestAppendString(t *testing.T) {
	for in, want := range map[string]string{
		"":                   `""`,
		"plain":              `"plain"`,
		"\"\\/":              `"\"\\/"`,
		"\n\r\t\b\f\x00\x1f": `"\n\r\t\u0008\u000c\u0000\u001f"`,
		"äß日🎉\u2028\x7f":     "\"äß日🎉\u2028\x7f\"",
		"a\xffb\xc3":         "\"a\uFFFDb\uFFFD\"",
		"\uFFFD":             "\"\uFFFD\"",
		"\xed\xa0\x80":       "\"\uFFFD\uFFFD\uFFFD\"",
	} {
		got := AppendString(nil, in)
		if string(got) != want {
			t.Errorf("AppendString(%q) = %s, want %s", in, got, want)
		}
		var back string
		if err := json.Unmarshal(got, &back); err != nil || utf8.ValidString(in) && back != in {
			t.Errorf("AppendString(%q) = %s, which is %q, %v", in, got, back, err)
		}
	}
}
