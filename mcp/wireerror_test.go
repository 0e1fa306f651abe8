// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// "Error responses MUST include an error field with a code and message. Error
// codes MUST be integers" (2026-07-28, basic, "Error Responses"): J6.
//
// J6+ 2026-07-28 basic/index: "Error responses **MUST** include an `error` field with
// a `code` and `message`."
//
// J6- 2026-07-28 basic/index: "Error codes **MUST** be integers."
func TestWireError(t *testing.T) {
	for _, tt := range []struct {
		raw  string
		want *Error
		err  string
	}{
		{`{"code":-32602,"message":"no \u0062 \ud83c\udf89","data":{"x":[1]},"more":0}`,
			&Error{Code: -32602, Message: "no b 🎉", Data: json.RawMessage(`{"x":[1]}`)}, ""},
		{`{ "message":"" ,"code":0}`, &Error{}, ""},
		{`{"code":1,"message":"\ud800!"}`, &Error{Code: 1, Message: "\uFFFD!"}, ""},
		{`{"code":1,"message":"m","data":null}`, &Error{Code: 1, Message: "m", Data: json.RawMessage("null")}, ""},
		{`{}`, nil, "the error's code is missing, not an integer"},
		{`{"code":1.0,"message":"m"}`, nil, `the error's code is "1.0", not an integer`},
		{`{"code":1e2,"message":"m"}`, nil, `the error's code is "1e2", not an integer`},
		{`{"code":"1","message":"m"}`, nil, "the error's code is a string, not an integer"},
		{`{"code":null,"message":"m"}`, nil, `the error's code is "null", not an integer`},
		{`{"code":99999999999999999999,"message":"m"}`, nil, `the error's code is "99999999999999999999", not an integer`},
		{`{"code":1}`, nil, "the error's message is missing, not a string"},
		{`{"code":1,"message":{}}`, nil, "the error's message is an object, not a string"},
		{`{"code":1,"message":[]}`, nil, "the error's message is an array, not a string"},
		{`{"code":1,"message":true}`, nil, `the error's message is "true", not a string`},
	} {
		m, err := Parse([]byte(`{"jsonrpc":"2.0","id":1,"error":`+tt.raw+`}`), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if tt.want != nil {
			tt.want.Raw = json.RawMessage(tt.raw)
		}
		got, err := m.WireError()
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.raw, diff)
		}
		if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%s: error %v, want %s", tt.raw, err, tt.err)
		}
	}
	m := Message{Kind: KindResult}
	if _, err := m.WireError(); err == nil {
		t.Error("a result has an error")
	}
	m = Message{Kind: KindError, Error: []byte(`{"code":1,"code":2}`)}
	if _, err := m.WireError(); err == nil {
		t.Error("an error with two codes has one")
	}
}
