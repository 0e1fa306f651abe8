// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Appended messages parse.
func TestAppend(t *testing.T) {
	for _, tt := range []struct {
		got  []byte
		want string
		kind mcp.Kind
	}{
		{AppendRequest(nil, NumberID(7), "tools/call", []byte(`{"name":"a"}`)),
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a"}}`, mcp.KindRequest},
		{AppendRequest(nil, StringID("a\"b"), "x\ny", nil),
			`{"jsonrpc":"2.0","id":"a\"b","method":"x\ny"}`, mcp.KindRequest},
		{AppendNotification(nil, "notifications/progress", []byte(`{}`)),
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`, mcp.KindNotification},
		{AppendNotification(nil, "notifications/initialized", nil),
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`, mcp.KindNotification},
		{AppendResult(nil, NumberID(0), []byte(`{"a":1}`)),
			`{"jsonrpc":"2.0","id":0,"result":{"a":1}}`, mcp.KindResult},
		{AppendResult(nil, StringID(""), nil),
			`{"jsonrpc":"2.0","id":"","result":{}}`, mcp.KindResult},
		{AppendError(nil, NumberID(1), mcp.Errorf(mcp.CodeInvalidParams, "no %q", "x")),
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no \"x\""}}`, mcp.KindError},
		{AppendError(nil, NumberID(1), &mcp.Error{Code: 5, Message: "m", Data: []byte(`[1]`)}),
			`{"jsonrpc":"2.0","id":1,"error":{"code":5,"message":"m","data":[1]}}`, mcp.KindError},
		{AppendError(nil, NumberID(1), &mcp.Error{Code: 5, Raw: []byte(`{"message":"m", "code":5,"x":0}`)}),
			`{"jsonrpc":"2.0","id":1,"error":{"message":"m", "code":5,"x":0}}`, mcp.KindError},
		// "Error responses MUST include the same ID [...] (except in error cases
		// where the ID could not be read due a malformed request)" (2026-07-28,
		// basic, "Error Responses").
		{AppendError(nil, mcp.ID{}, mcp.Errorf(mcp.CodeParseError, "m")),
			`{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}`, mcp.KindError},
	} {
		if string(tt.got) != tt.want {
			t.Errorf("got  %s\nwant %s", tt.got, tt.want)
		}
		if m, err := mcp.Parse(tt.got, mcp.Limits{}); err != nil || m.Kind != tt.kind {
			t.Errorf("Parse(%s) = %v, %v; want %v", tt.got, m.Kind, err, tt.kind)
		}
		if !jsontest.IsJSON(tt.got) {
			t.Errorf("%s is no JSON text", tt.got)
		}
	}
	if got := string(AppendResult([]byte("data: "), NumberID(1), nil)); got != `data: {"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("appended: %s", got)
	}
}

// A message is one allocation, whatever its size and that of its id.
func TestMessagesAreOneAllocation(t *testing.T) {
	for _, id := range []mcp.ID{NumberID(math.MaxInt64), StringID(strings.Repeat("i", 21)), StringID(strings.Repeat("i", 500))} {
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
		o := &mcp.Object{}
		if params != "" {
			parsed, err := mcp.ParseObject([]byte(params))
			if err != nil {
				t.Fatal(err)
			}
			o = &parsed
		}
		var none, some, all mcp.Edit
		some.Delete(mcp.FieldName)
		all.SetText(mcp.FieldName, "b\"")
		all.Set(mcp.MetaClientInfo, []byte(`{"name":"c"}`))
		for _, e := range []*mcp.Edit{&none, &some, &all} {
			want := AppendRequest(nil, StringID("i"), "tools/call", e.AppendTo(nil, o))
			got := EditedRequest(StringID("i"), "tools/call", e, o)
			if string(got[0]) != string(want) || got.Len() != len(want) {
				t.Errorf("%s: got  %s\nwant %s", params, got, want)
			}
			if _, err := mcp.Parse(got[0], mcp.Limits{}); err != nil {
				t.Errorf("%s: %v", got, err)
			}
			of := testing.AllocsPerRun(100, func() { e.AppendTo(make([]byte, 0, 1<<10), o) }) // capacity on the stack
			if n := testing.AllocsPerRun(100, func() { EditedRequest(NumberID(1), "tools/call", e, o) }); n > of+1 {
				t.Errorf("%s: %v allocations, want at most %v", params, n, of+1)
			}
		}
	}
}

// A peer that parses the result of ToWire gets the same error.
func TestToWireRoundTrip(t *testing.T) {
	for _, err := range []error{
		mcp.Errorf(mcp.CodeInvalidParams, "a \"quoted\" name\n"),
		&mcp.Error{Code: 7, Message: "", Data: []byte(`[1,{"a":null}]`)},
		&mcp.Error{Code: -32002, Raw: []byte(`{ "code" : -32002 , "message":"x", "more":{} }`)},
		&mcp.Fault{Code: mcp.CodeDeadline, Outcome: mcp.Unknown, Backend: "b\"\x00", Message: "it did not answer in 30s"},
		errors.Join(errors.New("a"), &mcp.Fault{Code: mcp.CodeLimit, Outcome: mcp.NotDispatched, Message: "too many"}),
		fmt.Errorf("read: %w", io.ErrUnexpectedEOF),
	} {
		want := mcp.ToWire(err)
		m, parseErr := mcp.Parse(AppendError(nil, NumberID(1), want), mcp.Limits{})
		if parseErr != nil || m.Kind != mcp.KindError {
			t.Errorf("%v: %v, %v", err, m.Kind, parseErr)
			continue
		}
		got, wireErr := m.WireError()
		if wireErr != nil || got.Code != want.Code {
			t.Errorf("%v came back as %v, %v", err, got, wireErr)
			continue
		}
		if want.Raw == nil && (got.Message != want.Message || string(got.Data) != string(want.Data)) {
			t.Errorf("%v came back as %q with data %s", err, got.Message, got.Data)
		}
		if want.Raw != nil && string(got.Raw) != string(want.Raw) {
			t.Errorf("%v came back as %s", err, got.Raw)
		}
	}
}
