// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

type goodMessage struct {
	in     string
	kind   Kind
	id     string
	method string
}

func goodMessages() []goodMessage {
	return []goodMessage{
		{jsontest.SmallCall, KindRequest, "42", "tools/call"},
		{jsontest.ModernCall, KindRequest, `"3f2b8c51-9d0e-4c1f-8a77-d1a40b5e6f90"`, "tools/call"},
		{` {"jsonrpc":"2.0","id":1,"method":"ping"}` + "\r\n\t", KindRequest, "1", "ping"},
		{`{"method":"ping","id":1,"jsonrpc":"2.0"}`, KindRequest, "1", "ping"},
		{`{"jsonrpc":"\u0032.0","i\u0064":1,"m\u0065thod":"\u0070ing"}`, KindRequest, "1", "ping"},
		{`{"jsonrpc":"2.0","id":"\"","method":"foo\/bar"}`, KindRequest, `"\""`, "foo/bar"},
		{`{"jsonrpc":"2.0","id":1,"method":""}`, KindRequest, "1", ""},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, KindNotification, "", "notifications/initialized"},
		{`{"jsonrpc":"2.0","method":"x","params":{"_meta":7,"ref":[1],"name":null}}`, KindNotification, "", "x"},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, KindResult, "1", ""},
		{`{"jsonrpc":"2.0","id":1,"result":{"Name":1,"nAme":2,"_meta":{"PROGRESSTOKEN":1}}}`, KindResult, "1", ""},
		{`{"jsonrpc":"2.0","id":"a","error":{"code":-32600,"message":"no"}}`, KindError, `"a"`, ""},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`, KindError, "", ""},
		{`{"jsonrpc":"2.0","error":{}}`, KindError, "", ""},
		{`{"jsonrpc":"2.0","id":1,"method":"x","trace":[{"a":1,"a":2}],"Trace":0}`, KindRequest, "1", "x"},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":{"arguments":{"a":1,"a":2,"Name":"\ud800"}}}`, KindRequest, "1", "x"},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":{"n":-0.10e+7,"a":[true,false,null,[],{}],"s":"\b\f\n\r\t\/\\\""}}`, KindRequest, "1", "x"},
		{`{"jsonrpc":"2.0","id":1,"method":"x","params":{"s":"äß日本🎉\ud83c\udf89"}}`, KindRequest, "1", "x"},
	}
}

// J1+ 2026-07-28 basic/index: "All messages between MCP clients and servers **MUST**
// follow the [JSON-RPC 2.0](https://www.jsonrpc.org/specification) specification."
func TestParse(t *testing.T) {
	for _, tt := range goodMessages() {
		m, err := Parse([]byte(tt.in), Limits{})
		if err != nil {
			t.Errorf("Parse(%s): %v", tt.in, err)
			continue
		}
		if m.Kind != tt.kind || m.ID.String() != tt.id || m.Method != tt.method {
			t.Errorf("Parse(%s) = %v, id %s, method %q; want %v, %s, %q", tt.in, m.Kind, m.ID, m.Method, tt.kind, tt.id, tt.method)
		}
		checkAgainstOracle(t, []byte(tt.in))
	}
}

type badMessage struct {
	rule string // the requirement or invariant
	in   string
	code int64
	id   string // the id that could be read
	want string
}

func badMessages() []badMessage {
	const bad, text = CodeInvalidRequest, CodeParseError
	call := func(params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`
	}
	return []badMessage{
		// J1: one JSON text in valid UTF-8.
		{"J1", "", text, "", `missing JSON text at byte 0; send one JSON object`},
		{"J1", " \n", text, "", `missing JSON text at byte 2; send one JSON object`},
		{"J1", "\xEF\xBB\xBF{}", text, "", `byte order mark at byte 0; send UTF-8 without it`},
		{"J1", "\xFF\xFE{\x00}\x00", text, "", `this looks like UTF-16 or UTF-32 at byte 0; send UTF-8`},
		{"J1", "{\x00}\x00", text, "", `this looks like UTF-16 or UTF-32 at byte 0; send UTF-8`},
		{"J1", call(`{"a":"` + "\x80" + `"}`), text, "1", `invalid UTF-8 at byte 61; JSON text is UTF-8, without overlong forms and surrogates`},
		{"J1", call(`{"a":"abc` + "\xC0\x80" + `"}`), text, "1", `invalid UTF-8 at byte 64; JSON text is UTF-8, without overlong forms and surrogates`},
		{"J1", call(`{"a":"` + "\xED\xA0\x80" + `"}`), text, "1", `invalid UTF-8 at byte 61; JSON text is UTF-8, without overlong forms and surrogates`},
		{"J1", call(`{"` + "\xF4\x90\x80\x80" + `":1}`), text, "1", `invalid UTF-8 at byte 57; JSON text is UTF-8, without overlong forms and surrogates`},
		{"J1", call(`{"a":"` + "\x00" + `"}`), text, "1", `control character '\x00' in a string at byte 61; escape it`},
		{"J1", call(`{"a\u000":1}`), text, "1", `unknown escape in a string at byte 58; JSON has \" \\ \/ \b \f \n \r \t and \u with four hexadecimal digits`},
		{"J1", call(`{"a":"\x"}`), text, "1", `unknown escape in a string at byte 61; JSON has \" \\ \/ \b \f \n \r \t and \u with four hexadecimal digits`},
		{"J1", call(`{"a":01}`), text, "1", `unexpected '1' at byte 61; expected ',' or '}' after a member`},
		{"J1", call(`{"a":[01]}`), text, "1", `unexpected '1' at byte 62; expected ',' or ']' after an element`},
		{"J1", call(`{"a":{"b":1]}}`), text, "1", `unexpected ']' at byte 66; expected ',' or '}' after a member`},
		{"J1", call(`{"a":-}`), text, "1", `unexpected '}' at byte 61; expected a digit`},
		{"J1", call(`{"a":1.}`), text, "1", `unexpected '}' at byte 62; expected a digit`},
		{"J1", call(`{"a":1e+}`), text, "1", `unexpected '}' at byte 63; expected a digit`},
		{"J1", call(`{"a":tru}`), text, "1", `unknown literal at byte 60; expected true, false or null`},
		{"J1", call(`{"a":nulL}`), text, "1", `unknown literal at byte 60; expected true, false or null`},
		{"J1", call(`{"a":fals}`), text, "1", `unknown literal at byte 60; expected true, false or null`},
		{"J1", call(`{"a":[1,]}`), text, "1", `unexpected ']' at byte 63; expected a value`},
		{"J1", call(`{"a":1,}`), text, "1", `unexpected '}' at byte 62; expected a member's name in double quotes`},
		{"J1", call(`{a:1}`), text, "1", `unexpected 'a' at byte 56; expected a member's name in double quotes`},
		{"J1", call(`{"a" 1}`), text, "1", `unexpected '1' at byte 60; expected ':' after a member's name`},
		{"J1", call(`{"a":` + "\xE9" + `}`), text, "1", `unexpected byte 0xe9 at byte 60; expected a value`},
		{"J1", `{"jsonrpc":"2.0","id":1`, text, "1", `the JSON text ends too early at byte 23; expected ',' or '}' after a member`},
		{"J1", `{"jsonrpc":"2.0","id":1,"method":"x`, text, "1", `the JSON text ends too early at byte 35; expected the closing quote of a string`},
		{"J1", `{"jsonrpc":"2.0","id":1,"method":"x\`, text, "1", `the JSON text ends too early at byte 36; expected an escape`},
		{"J1", `{"jsonrpc":"2.0","id":1,"method":"x"} {}`, text, "1", `unexpected '{' after the end of the JSON text at byte 38; send one value`},
		{"J1", `{"jsonrpc":"2.0","id":1,"method":"x"}` + "\x00", text, "1", `unexpected '\x00' after the end of the JSON text at byte 37; send one value`},
		{"J1", call(`{"a":1` + "\u00a0" + `}`), text, "1", `unexpected byte 0xc2 at byte 61; expected ',' or '}' after a member`},

		// Unpaired surrogates cannot be compared, so they are allowed only where
		// nothing is compared.
		{"I42", `{"jsonrpc":"2.0","id":1,"method":"\ud800"}`, text, "1", `member "method" has an unpaired surrogate at byte 33; send both halves of the pair`},
		{"I42", `{"jsonrpc":"2.0","id":"\udc00\ud800","method":"x"}`, text, "", `the id has an unpaired surrogate at byte 22; send both halves of the pair`},
		{"I42", call(`{"\ud800":1}`), text, "1", `the name of a member has an unpaired surrogate at byte 56; send both halves of the pair`},

		// J2: valid ids.
		{"J2", `{"jsonrpc":"2.0","id":null,"method":"x"}`, bad, "", `the id is null at byte 22; an id is a string or an integer`},
		{"J2", `{"jsonrpc":"2.0","id":1.5,"method":"x"}`, bad, "", `the id is a number with a fraction or an exponent at byte 22; an id is a string or an integer`},
		{"J2", `{"jsonrpc":"2.0","id":1e3,"method":"x"}`, bad, "", `the id is a number with a fraction or an exponent at byte 22; an id is a string or an integer`},
		{"J2", `{"jsonrpc":"2.0","id":true,"method":"x"}`, bad, "", `the id is a boolean at byte 22; an id is a string or an integer`},
		{"J2", `{"jsonrpc":"2.0","id":{},"method":"x"}`, bad, "", `the id is an object at byte 22; an id is a string or an integer`},
		{"J2", `{"jsonrpc":"2.0","id":[],"method":"x"}`, bad, "", `the id is an array at byte 22; an id is a string or an integer`},
		{"J2", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1023) + `","method":"x"}`, bad, "", `the id is longer than 1024 bytes at byte 22; send a shorter id`},
		{"J2", `{"jsonrpc":"2.0","id":null,"result":{}}`, bad, "", `the id is null at byte 22; an id is a string or an integer`},

		// J6: result XOR error, and their forms.
		{"J6", `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, bad, "1", `the message has a result and an error at byte 44; send only one of them`},
		{"J6", `{"jsonrpc":"2.0","id":1}`, bad, "1", `the message has no method, no result and no error at byte 0; send one of them`},
		{"J6", `{"jsonrpc":"2.0","id":1,"method":"x","result":{}}`, bad, "1", `the message has a method and a result at byte 46; send only one of them`},
		{"J6", `{"jsonrpc":"2.0","id":1,"method":"x","error":{}}`, bad, "1", `the message has a method and an error at byte 45; send only one of them`},
		{"J6", `{"jsonrpc":"2.0","result":{}}`, bad, "", `the message has a result and no id at byte 0; send the id of the request`},
		{"J6", `{"jsonrpc":"2.0","id":1,"result":null}`, bad, "1", `member "result" is null at byte 33; send an object`},
		{"J6", `{"jsonrpc":"2.0","id":1,"result":[]}`, bad, "1", `member "result" is an array at byte 33; send an object`},
		{"J6", `{"jsonrpc":"2.0","id":1,"error":"x"}`, bad, "1", `member "error" is a string at byte 32; send an object`},
		{"J6", `{"jsonrpc":"2.0","id":1,"params":{}}`, bad, "1", `the message has params and no method at byte 33; name the method`},

		// The envelope of JSON-RPC.
		{"J1", `[]`, bad, "", `the message is an array at byte 0; send one JSON object`},
		{"J1", ` "x"`, bad, "", `the message is a string at byte 1; send one JSON object`},
		{"J1", `7`, bad, "", `the message is an integer at byte 0; send one JSON object`},
		{"J1", `[1`, text, "", `the JSON text ends too early at byte 2; expected ',' or ']' after an element`},
		{"J1", `{"id":1,"method":"x"}`, bad, "1", `member "jsonrpc" is missing at byte 0; send "jsonrpc":"2.0"`},
		{"J1", `{"jsonrpc":2.0,"id":1,"method":"x"}`, bad, "1", `member "jsonrpc" is not "2.0" at byte 11; send "jsonrpc":"2.0"`},
		{"J1", `{"jsonrpc":"1.0","id":1,"method":"x"}`, bad, "1", `member "jsonrpc" is not "2.0" at byte 11; send "jsonrpc":"2.0"`},
		{"J1", `{"jsonrpc":"2.0","id":1,"method":7}`, bad, "1", `member "method" is an integer at byte 33; send a string`},
		{"J1", call(`[1]`), bad, "1", `member "params" is an array at byte 55; send an object, or leave the member out`},
		{"J1", call(`null`), bad, "1", `member "params" is null at byte 55; send an object, or leave the member out`},
		{"J1", call(`3`), bad, "1", `member "params" is an integer at byte 55; send an object, or leave the member out`},

		// J16: member names are case-sensitive, and variants are rejected.
		{"J16", `{"jsonrpc":"2.0","id":1,"Method":"x"}`, bad, "1", `member "Method" differs from "method" in letter case only at byte 24; names are case-sensitive`},
		{"J16", `{"jsonrpc":"2.0","id":1,"method":"x","PARAMS":{}}`, bad, "1", `member "PARAMS" differs from "params" in letter case only at byte 37; names are case-sensitive`},
		{"J16", `{"jsonrpc":"2.0","id":1,"method":"x","param` + "\u017f" + `":{}}`, bad, "1", `member "param\u017f" differs from "params" in letter case only at byte 37; names are case-sensitive`},
		{"J16", `{"jsonrpc":"2.0","id":1,"method":"x","param\u017F":{}}`, bad, "1", `member "param\u017f" differs from "params" in letter case only at byte 37; names are case-sensitive`},
		{"J16", `{"jsonrpc":"2.0","Id":1,"method":"x"}`, bad, "", `member "Id" differs from "id" in letter case only at byte 17; names are case-sensitive`},
		{"J16", call(`{"name":"a","Name":"b"}`), bad, "1", `member "Name" differs from "name" in letter case only at byte 67; names are case-sensitive`},
		{"J16", call(`{"ta` + "\u017f\u212a" + `":1}`), bad, "1", `member "ta\u017f\u212a" differs from "task" in letter case only at byte 56; names are case-sensitive`},
		{"J16", call(`{"ref":{"NAME":1}}`), bad, "1", `member "NAME" differs from "name" in letter case only at byte 63; names are case-sensitive`},

		// J17: no interpreted member has a duplicate.
		{"J17", `{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, bad, "1", `duplicate member "method" at byte 37; send it once`},
		{"J17", `{"jsonrpc":"2.0","id":1,"id":2,"method":"b"}`, bad, "", `duplicate member "id" at byte 24; send it once`},
		{"J17", `{"jsonrpc":"2.0","id":1,"method":"b","x":1,"x":2}`, bad, "1", `duplicate member "x" at byte 43; send it once`},
		{"J17", call(`{"name":"a","name":"a"}`), bad, "1", `duplicate member "name" at byte 67; send it once`},
		{"J17", call(`{"name":"a","na\u006de":"a"}`), bad, "1", `duplicate member "name" at byte 67; send it once`},
		{"J17", call(`{"\u0078":"a","x":"a"}`), bad, "1", `duplicate member "x" at byte 69; send it once`},
		{"J17", call(`{"_meta":{},"_meta":{}}`), bad, "1", `duplicate member "_meta" at byte 67; send it once`},
		{"J17", call(`{"_meta":{"progressToken":1,"progressToken":1}}`), bad, "1", `duplicate member "progressToken" at byte 83; send it once`},
		{"J17", call(`{"_meta":{"a":1,"a":1}}`), bad, "1", `duplicate member "a" at byte 71; send it once`},
		{"J17", call(`{"capabilities":{"roots":{},"roots":{}}}`), bad, "1", `duplicate member "roots" at byte 83; send it once`},
		{"J17", call(`{"capabilities":{"tasks":{"requests":{"a":1,"a":1}}}}`), bad, "1", `duplicate member "a" at byte 99; send it once`},
		{"J17", call(`{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"sampling":{},"sampling":null}}}`), bad, "1", `duplicate member "sampling" at byte 125; send it once`},
		{"J17", call(`{"ref":{"type":1,"type":1}}`), bad, "1", `duplicate member "type" at byte 72; send it once`},
		{"J17", `{"jsonrpc":"2.0","id":1,"result":{"content":[],"content":[]}}`, bad, "1", `duplicate member "content" at byte 47; send it once`},
		{"J17", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":2,"message":""}}`, bad, "1", `duplicate member "code" at byte 42; send it once`},
	}
}

// Each rule for messages, with the error for a violation and the id as far as it could
// be read; nothing is added to the id.
//
// J1- 2026-07-28 basic/index: "All messages between MCP clients and servers **MUST**
// follow the [JSON-RPC 2.0](https://www.jsonrpc.org/specification) specification."
//
// J1- 2025-11-25 basic/transports: "JSON-RPC messages **MUST** be UTF-8 encoded."
//
// J2- 2026-07-28 basic/index: "Requests **MUST** include a string or integer ID."
//
// J6- 2026-07-28 basic/index: "Result responses **MUST** include a `result` field."
//
// J16- own: "A name that another parser could read as a member of the envelope is not
// ignored."
//
// J17- own: "A member that occurs twice, in the envelope or in the parameters that we
// act upon, makes the message invalid."
func TestParseRefuses(t *testing.T) {
	for _, tt := range badMessages() {
		m, err := Parse([]byte(tt.in), Limits{})
		pe, ok := errors.AsType[*ParseError](err)
		if !ok {
			t.Errorf("%s: Parse(%q): error %v, want a ParseError", tt.rule, tt.in, err)
			continue
		}
		if pe.Error() != tt.want || pe.Code != tt.code || m.ID.String() != tt.id {
			t.Errorf("%s: Parse(%q):\n got %d %s, id %q\nwant %d %s, id %q", tt.rule, tt.in, pe.Code, pe, m.ID, tt.code, tt.want, tt.id)
		}
		if m.Kind != KindInvalid || !m.Params.IsZero() || !m.Result.IsZero() || m.Error != nil {
			t.Errorf("%s: Parse(%q) returned parts of a message: %v", tt.rule, tt.in, m.Kind)
		}
		checkAgainstOracle(t, []byte(tt.in))
	}
}

// Every proper prefix of a message is an error, and none causes a panic.
func TestParseTruncated(t *testing.T) {
	for _, tt := range goodMessages() {
		in := strings.TrimSpace(tt.in)
		for n := range len(in) {
			if m, err := Parse([]byte(in[:n]), Limits{}); err == nil {
				t.Errorf("Parse(%q) = %v, want an error", in[:n], m.Kind)
			}
		}
	}
}

// Each byte of a message replaced by each of some others, compared with the oracle.
func TestParseMutated(t *testing.T) {
	const others = "\x00\x1f \"\\{}[],:0-.eEuntf\x80\xC3\xED\xF4\xFF"
	for _, tt := range goodMessages() {
		if len(tt.in) > 120 {
			continue
		}
		for i := range len(tt.in) {
			for _, c := range []byte(others) {
				checkAgainstOracle(t, []byte(tt.in[:i]+string([]byte{c})+tt.in[i+1:]))
			}
		}
	}
}

func nested(depth int) string {
	return `{"jsonrpc":"2.0","method":"ping","params":{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `},"id":7}`
}

func TestParseDepth(t *testing.T) {
	// The envelope and params are two of the 128.
	if _, err := Parse([]byte(nested(126)), Limits{}); err != nil {
		t.Errorf("depth 128: %v", err)
	}
	for _, tt := range []struct {
		in   string
		lim  Limits
		want string
	}{
		{nested(127), Limits{}, "nesting is deeper than 128 at byte 173; send a flatter message"},
		{nested(100_000), Limits{}, "nesting is deeper than 128 at byte 173; send a flatter message"},
		{nested(1), Limits{Depth: 2}, "nesting is deeper than 2 at byte 47; send a flatter message"},
		{nested(0)[:46] + `0},"id":7}`, Limits{Depth: 1}, "nesting is deeper than 1 at byte 42; send a flatter message"},
		{nested(100_000), Limits{Depth: 1 << 30}, "nesting is deeper than 1024 at byte 1069; send a flatter message"},
		{strings.ReplaceAll(nested(200), "[", `{"":`)[:600], Limits{}, "nesting is deeper than 128 at byte 551; send a flatter message"},
	} {
		m, err := Parse([]byte(tt.in), tt.lim)
		if err == nil || err.Error() != tt.want {
			t.Errorf("Parse of %d bytes, %+v: error %v, want %s", len(tt.in), tt.lim, err, tt.want)
		}
		// The error has the id that the sender waits for, although it is after the text
		// that could not be read.
		if want := "7"; strings.HasSuffix(tt.in, `"id":7}`) && m.ID.String() != want {
			t.Errorf("Parse of %d bytes, %+v: id %q, want %q", len(tt.in), tt.lim, m.ID, want)
		}
	}
}

func TestParseMembers(t *testing.T) {
	var b strings.Builder
	for i := range 20 {
		fmt.Fprintf(&b, `,"m%d":{}`, i)
	}
	in := []byte(`{"jsonrpc":"2.0","id":7,"method":"x","params":{"n":1` + b.String() + `}}`)
	if _, err := Parse(in, Limits{Members: 25}); err != nil {
		t.Errorf("25 members of 25: %v", err)
	}
	m, err := Parse(in, Limits{Members: 24})
	want := "the message has too many members at byte 214; send a smaller message"
	if err == nil || err.Error() != want || m.ID.String() != "7" {
		t.Errorf("25 members of 24: error %v, id %s; want %s", err, m.ID, want)
	}
}

// FAULTS 8: the length of a member's name is bounded everywhere.
func TestParseLongName(t *testing.T) {
	for _, in := range []string{
		`{"jsonrpc":"2.0","id":7,"method":"x","%s":0}`,
		`{"jsonrpc":"2.0","id":7,"method":"x","params":{"%s":0}}`,
		`{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":[{"%s":0}]}}`,
		`{"jsonrpc":"2.0","id":7,"result":{"a":{"%s":0}}}`,
	} {
		at := strings.Index(in, `"%s`)
		if _, err := Parse([]byte(fmt.Sprintf(in, strings.Repeat("k", (64<<10)-2))), Limits{}); err != nil {
			t.Errorf("%s with as long a name as may be: %v", in, err)
		}
		m, err := Parse([]byte(fmt.Sprintf(in, strings.Repeat("k", (64<<10)-1))), Limits{})
		want := fmt.Sprintf("a member's name is longer than 65536 bytes at byte %d; send a shorter name", at)
		if err == nil || err.Error() != want || m.ID.String() != "7" {
			t.Errorf("%s with a longer one: error %v, id %s; want %s", in, err, m.ID, want)
		}
	}
}

// Many names at a level without duplicates do not cause quadratic work.
func TestParseManyNames(t *testing.T) {
	var b strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&b, `"member%d":0,`, i)
	}
	in := `{"jsonrpc":"2.0","id":7,"method":"x","params":{` + b.String() + `"%s":0}}`
	if _, err := Parse([]byte(fmt.Sprintf(in, "last")), Limits{}); err != nil {
		t.Error(err)
	}
	for _, twice := range []string{"member0", "member7", "member8", "member9999"} {
		_, err := Parse([]byte(fmt.Sprintf(in, twice)), Limits{})
		if err == nil || !strings.Contains(err.Error(), `duplicate member "`+twice+`"`) {
			t.Errorf("%s twice among many: error %v", twice, err)
		}
	}
}

// The id for an answer is found after an error that leaves the text readable; with two
// candidates the id is zero.
func TestParseSalvagesID(t *testing.T) {
	const deep = `"params":{"id":5,"a":` // followed by too many brackets
	over := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for _, tt := range []struct{ in, want string }{
		{`{` + deep + over + `},"id":"a\"b"}`, `"a\"b"`},
		{`{` + deep + over + `},"i\u0064" : -3 }`, "-3"},
		{`{"id":1,` + deep + over + `}}`, "1"},
		{`{"id":1,` + deep + over + `},"id":2}`, ""},
		{`{` + deep + over + `},"id":null}`, ""},
		{`{` + deep + over + `},"id":1.5}`, ""},
		{`{` + deep + over + `},"x":"id","id"`, ""},
		{`{` + deep + over + `},"id":"unfinished`, ""},
		{`{` + deep + over + `},"x":"\q","id":1}`, ""},
		{`[{"id":1},` + over + `]`, ""},
	} {
		m, err := Parse([]byte(tt.in), Limits{})
		if err == nil || m.ID.String() != tt.want {
			t.Errorf("Parse(%s): id %q, error %v; want id %q", tt.in, m.ID, err, tt.want)
		}
	}
}

func TestParseErrorWire(t *testing.T) {
	m, err := Parse([]byte(`{"jsonrpc":"2.0","id":9,"method":"x","method":"y"}`), Limits{})
	pe, ok := errors.AsType[*ParseError](err)
	if !ok {
		t.Fatalf("error %v, want a ParseError", err)
	}
	want := `duplicate member "method" at byte 37; send it once`
	if got := pe.Wire(); m.ID.String() != "9" || got.Code != CodeInvalidRequest || got.Message != want {
		t.Errorf("id %s, %d %s; want 9, %d %s", m.ID, got.Code, got.Message, CodeInvalidRequest, want)
	}
}

func TestKindString(t *testing.T) {
	for kind, want := range map[Kind]string{
		KindInvalid: "invalid", KindRequest: "request", KindNotification: "notification",
		KindResult: "result", KindError: "error", 99: "invalid",
	} {
		if kind.String() != want {
			t.Errorf("%d: %q, want %q", kind, kind, want)
		}
	}
}

// Parsing does not allocate for a message with a known method, except once for
// undefined members of the envelope.
func TestParseAllocates(t *testing.T) {
	const unknown = `{"jsonrpc":"2.0","id":1,"method":"ping","trace":0,"params":{"a":1,"naming":2,"uris":3,"_meta":{"b":4}}}`
	for _, in := range []string{jsontest.SmallCall, unknown, jsontest.TextResult(10 << 10), jsontest.DenseResult(10 << 10), jsontest.ToolsResult(10 << 10)} {
		data, want := []byte(in), 0.0
		if in == unknown {
			want = 1
		}
		if n := testing.AllocsPerRun(20, func() {
			if _, err := Parse(data, Limits{}); err != nil {
				t.Fatal(err)
			}
		}); n != want {
			t.Errorf("Parse(%.60s...): %v allocations, want %v", in, n, want)
		}
	}
}

// Every method of the specification is returned as a shared string.
func TestMethodNames(t *testing.T) {
	for _, name := range []string{
		"completion/complete", "elicitation/create", "initialize", "logging/setLevel", "ping",
		"prompts/get", "prompts/list", "resources/list", "resources/read", "resources/subscribe",
		"resources/templates/list", "resources/unsubscribe", "roots/list", "sampling/createMessage",
		"server/discover", "subscriptions/listen", "tasks/cancel", "tasks/get", "tasks/list",
		"tasks/result", "tasks/update", "tools/call", "tools/list",
		"notifications/cancelled", "notifications/elicitation/complete", "notifications/initialized",
		"notifications/message", "notifications/progress", "notifications/prompts/list_changed",
		"notifications/resources/list_changed", "notifications/resources/updated",
		"notifications/roots/list_changed", "notifications/subscriptions/acknowledged",
		"notifications/tasks/status", "notifications/tools/list_changed",
	} {
		token := []byte(name)
		if got := methodName(token); got != name {
			t.Errorf("methodName(%q) = %q", name, got)
		}
		if n := testing.AllocsPerRun(1, func() { methodName(token) }); n != 0 {
			t.Errorf("methodName(%q) allocates", name)
		}
	}
	if got := methodName([]byte("acme/frobnicate")); got != "acme/frobnicate" {
		t.Errorf("an unknown method: %q", got)
	}
}
