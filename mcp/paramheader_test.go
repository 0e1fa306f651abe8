// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// H11+ 2026-07-28 basic/transports/streamable-http: "Nested object properties are
// permitted as long as every step in the chain is a properties key."
func TestParamHeaders(t *testing.T) {
	for _, tt := range []struct {
		name, schema string
		want         []ParamHeader
	}{
		{"the specification's example", `{"type":"object","properties":{
			"region":{"type":"string","description":"The region to execute the query in","x-mcp-header":"Region"},
			"query":{"type":"string"}},"required":["region","query"]}`,
			[]ParamHeader{{"Region", []string{"region"}, "string"}}},
		{"all types, in their order", `{"properties":{"z":{"x-mcp-header":"Z","type":"integer"},"a":{"type":"boolean","x-mcp-header":"A"},"m":{"type":"string","x-mcp-header":"!#$%&'*+-.^_` + "`" + `|~09az"}}}`,
			[]ParamHeader{{"Z", []string{"z"}, "integer"}, {"A", []string{"a"}, "boolean"}, {"!#$%&'*+-.^_`|~09az", []string{"m"}, "string"}}},
		{"nested", `{"properties":{"a":{"type":"object","properties":{"b":{"properties":{"c":{"type":"string","x-mcp-header":"C"}}},"d":{"type":"string","x-mcp-header":"D"}}}}}`,
			[]ParamHeader{{"C", []string{"a", "b", "c"}, "string"}, {"D", []string{"a", "d"}, "string"}}},
		{"escaped", `{"properties":{"\u0061":{"type":"strin\u0067","x\u002dmcp-header":"\u0041"}}}`,
			[]ParamHeader{{"A", []string{"a"}, "string"}}},
		{"a property of that name", `{"properties":{"x-mcp-header":{"type":"string"}}}`, nil},
		{"a definition of that name", `{"$defs":{"x-mcp-header":{"type":"string"}}}`, nil},
		{"data of that name", `{"default":{"x-mcp-header":"A"},"properties":{"a":{"enum":[{"x-mcp-header":1}],"const":{"x-mcp-header":1},"examples":[{"x-mcp-header":1}]}}}`, nil},
		{"text of that name", `{"description":"see x-mcp-header"}`, nil},
		{"none", `{"type":"object"}`, nil},
		{"properties that are none", `{"properties":["x-mcp-header",true]}`, nil},
		{"nothing", ``, nil},
		{"schemas that are true", `{"properties":{"a":true,"x":{"x-mcp-header":"X","type":"string"}},"additionalProperties":false,"allOf":[],"required":[]}`,
			[]ParamHeader{{"X", []string{"x"}, "string"}}},
	} {
		got, err := ParamHeaders([]byte(tt.schema))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// "The chain MUST NOT pass through items (or any other array keyword),
// composition keywords (oneOf, anyOf, allOf, not), conditional keywords
// (if/then/else), or $ref. [...] An x-mcp-header annotation anywhere else makes
// the annotation - and thus the tool definition - invalid" (2026-07-28,
// basic/transports/streamable-http, "Schema Extension"): H11.
//
// H11- 2026-07-28 basic/transports/streamable-http: "An x-mcp-header annotation
// anywhere else makes the annotation — and thus the tool definition — invalid."
func TestParamHeadersUnreachable(t *testing.T) {
	const annotated = `{"type":"string","x-mcp-header":"A"}`
	for _, schema := range []string{
		`{"x-mcp-header":"A","type":"string"}`,
		`{"properties":{"p":{"items":` + annotated + `}}}`,
		`{"properties":{"p":{"items":{"properties":{"q":` + annotated + `}}}}}`,
		`{"properties":{"p":{"prefixItems":[{},` + annotated + `]}}}`,
		`{"properties":{"p":{"contains":` + annotated + `}}}`,
		`{"oneOf":[{"properties":{"p":` + annotated + `}}]}`,
		`{"anyOf":[{"properties":{"p":` + annotated + `}}]}`,
		`{"allOf":[{"properties":{"p":` + annotated + `}}]}`,
		`{"not":{"properties":{"p":` + annotated + `}}}`,
		`{"if":{"properties":{"p":` + annotated + `}}}`,
		`{"then":{"properties":{"p":` + annotated + `}}}`,
		`{"else":{"properties":{"p":` + annotated + `}}}`,
		`{"$defs":{"d":` + annotated + `},"properties":{"p":{"$ref":"#/$defs/d"}}}`,
		`{"definitions":{"d":{"properties":{"p":` + annotated + `}}}}`,
		`{"additionalProperties":` + annotated + `}`,
		`{"patternProperties":{"^p":` + annotated + `}}`,
		`{"dependentSchemas":{"p":{"properties":{"q":` + annotated + `}}}}`,
		`{"propertyNames":` + annotated + `}`,
		`{"x-unknown":{"deep":[[` + annotated + `]]}}`,
		`[` + annotated + `]`,
	} {
		got, err := ParamHeaders([]byte(schema))
		if err == nil || !strings.Contains(err.Error(), "only an argument reached through properties alone can be mirrored") || got != nil {
			t.Errorf("%s: %v, %v", schema, got, err)
		}
	}
}

// The other constraints of the same section: H11.
//
// H11- 2026-07-28 basic/transports/streamable-http: "MUST be case-insensitively unique
// among all x-mcp-header values in the inputSchema"
//
// H11- 2026-07-28 basic/transports/streamable-http: "Parameters with type number are
// not permitted."
func TestParamHeadersRefuses(t *testing.T) {
	property := func(p string) string { return `{"properties":{"a":{"b":{}},"p":` + p + `}}` }
	for _, tt := range []struct{ schema, want string }{
		{property(`{"type":"string","x-mcp-header":""}`), `x-mcp-header at "p": the header's name is empty`},
		{property(`{"type":"string","x-mcp-header":7}`), `x-mcp-header at "p": the header's name is an integer, not a string`},
		{property(`{"type":"string","x-mcp-header":null}`), `x-mcp-header at "p": the header's name is null, not a string`},
		{property(`{"type":"string","x-mcp-header":"A B"}`), `x-mcp-header at "p": the header's name "A B" is not a token (RFC 9110)`},
		{property(`{"type":"string","x-mcp-header":"A\r\nX: y"}`), `x-mcp-header at "p": the header's name "A\r\nX: y" is not a token (RFC 9110)`},
		{property(`{"type":"string","x-mcp-header":"Ä"}`), `x-mcp-header at "p": the header's name "\u00c4" is not a token (RFC 9110)`},
		{property(`{"type":"string","x-mcp-header":"A:"}`), `x-mcp-header at "p": the header's name "A:" is not a token (RFC 9110)`},
		{property(`{"type":"number","x-mcp-header":"A"}`), `x-mcp-header at "p": only type string, integer or boolean can be mirrored`},
		{property(`{"type":"object","x-mcp-header":"A"}`), `x-mcp-header at "p": only type string, integer or boolean can be mirrored`},
		{property(`{"type":["string","null"],"x-mcp-header":"A"}`), `x-mcp-header at "p": only type string, integer or boolean can be mirrored`},
		{property(`{"x-mcp-header":"A"}`), `x-mcp-header at "p": only type string, integer or boolean can be mirrored`},
		{`{"properties":{"p":{"type":"string","x-mcp-header":"Ab"},"q":{"properties":{"r":{"type":"string","x-mcp-header":"aB"}}}}}`,
			`x-mcp-header at "q.r": the header's name "aB" is already taken`},
		{`{"properties":{"p":{"type":"string","x-mcp-header":""},"q":{"type":"number","x-mcp-header":"Q"}}}`,
			`x-mcp-header at "p": the header's name is empty` + "\n" + `x-mcp-header at "q": only type string, integer or boolean can be mirrored`},
		{property(`{"type":"string","type":"string","x-mcp-header":"A"}`), `x-mcp-header at "p": duplicate member "type"`},
		{`{"properties":{"p":{"type":"string","x-mcp-header":"A"},"p":{}}}`, `x-mcp-header at the root: duplicate property "p"`},
		{`{"x-mcp-header":`, `input schema: the JSON text ends too early at byte 16; expected a value`},
		{`{"x-mcp-header"}`, `input schema: unexpected '}' at byte 15; expected ':' after a member's name`},
		{`{"x-mcp-header":1;}`, `input schema: unexpected ';' at byte 17; expected ',' or '}' after a member`},
		{`{"properties":{"x-mcp-header"}}`, `input schema: unexpected '}' at byte 29; expected ':' after a member's name`},
		{`{"properties":{"x-mcp-header":{]}}`, `input schema: unexpected ']' at byte 31; expected a member's name in double quotes`},
		{`{"oneOf":["x-mcp-header" 1]}`, `input schema: unexpected '1' at byte 25; expected ',' or ']' after an element`},
		{`{"oneOf":["x-mcp-header",]}`, `input schema: unexpected ']' at byte 25; expected a value`},
		{`{"properties":` + strings.Repeat(`{"a":{"properties":`, 63) + `{"x-mcp-header":{}` + strings.Repeat("}", 200), `input schema: nesting is deeper than 128 at byte 1227; send a flatter message`},
		{`{"x-mcp-header":1} 2`, `input schema: unexpected '2' after the end of the JSON text at byte 19; send one value`},
		{strings.Repeat(`{"x-mcp-header":`, 200), `input schema: nesting is deeper than 128 at byte 2048; send a flatter message`},
		{strings.Repeat(`{"properties":`, 200) + annotationKey, `input schema: nesting is deeper than 128 at byte 1792; send a flatter message`},
	} {
		got, err := ParamHeaders([]byte(tt.schema))
		if err == nil || err.Error() != tt.want || got != nil {
			t.Errorf("%.90s:\n got %v\nwant %s", tt.schema, err, tt.want)
		}
	}
}

// Duplicate names are errors if only some readers see an annotation, and are ignored in
// a schema without annotations.
func TestParamHeadersDuplicatesWithoutAnnotation(t *testing.T) {
	for _, schema := range []string{
		`{"description":"caf\u00e9","properties":{"a":{"type":"string"},"a":{}}}`,
		`{"description":"see x-mcp-header","type":"object","type":"object"}`,
		`{"properties":{"x-mcp-header":{},"x-mcp-header":{}}}`,
	} {
		if got, err := ParamHeaders([]byte(schema)); err != nil || got != nil {
			t.Errorf("%s: %v, %v", schema, got, err)
		}
	}
}

func properties(n int, format string) []byte {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"p%d":`+format, i, i)
	}
	return []byte(`{"properties":{` + b.String()[1:] + `}}`)
}

// Servers do not accept hundreds of headers, and an error does not name hundreds of
// faults.
func TestParamHeadersMany(t *testing.T) {
	const good, bad = `{"type":"string","x-mcp-header":"H%d"}`, `{"type":"number","x-mcp-header":"H%d"}`
	got, err := ParamHeaders(properties(maxParamHeaders, good))
	if err != nil || len(got) != maxParamHeaders {
		t.Errorf("%d headers: %d, %v", maxParamHeaders, len(got), err)
	}
	want := `x-mcp-header at "p128": more than 128 arguments are mirrored`
	if got, err := ParamHeaders(properties(maxParamHeaders+1, good)); got != nil || err == nil || err.Error() != want {
		t.Errorf("one more: %d headers, %v; want %s", len(got), err, want)
	}
	if _, err := ParamHeaders(properties(maxFaults, bad)); err == nil || strings.Count(err.Error(), "\n") != maxFaults-1 {
		t.Errorf("%d faults: %v", maxFaults, err)
	}
	// As many as a message can hold: comparing them with each other must not take
	// quadratic time.
	_, err = ParamHeaders(properties(30_000, bad))
	if err == nil || strings.Count(err.Error(), "\n") != maxFaults || !strings.HasSuffix(err.Error(), "\nand 29984 more") {
		t.Errorf("30,000 faults: %.2000v", err)
	}
}

// "string: Use the value as-is; integer: Convert to decimal string
// representation; boolean: Convert to lowercase" (2026-07-28,
// basic/transports/streamable-http, "Value Encoding"). "If no value is present
// at that path in the call arguments, the header is omitted" ("Schema
// Extension").
func TestParamHeaderValue(t *testing.T) {
	p := ParamHeader{Name: "Region", Path: []string{"a", "b"}, Type: "string"}
	for _, tt := range []struct {
		arguments, want string
		present         bool
		err             string
	}{
		{`{"a":{"b":"us-west1"}}`, "us-west1", true, ""},
		{`{"a":{"x":1,"\u0062":" \u00e4 "}}`, " ä ", true, ""},
		{`{"a":{"b":""}}`, "", true, ""},
		{`{"a":{"b":42}}`, "42", true, ""},
		{`{"a":{"b":-7}}`, "-7", true, ""},
		{`{"a":{"b":42.0}}`, "42", true, ""},
		{`{"a":{"b":4.2e1}}`, "42", true, ""},
		{`{"a":{"b":true}}`, "true", true, ""},
		{`{"a":{"b":false}}`, "false", true, ""},
		{`{"a":{"b":null}}`, "", false, ""},
		{`{"a":{}}`, "", false, ""},
		{`{"a":null}`, "", false, ""},
		{`{"a":["b"]}`, "", false, ""},
		{`{"b":1}`, "", false, ""},
		{`[]`, "", false, ""},
		{``, "", false, ""},
		{`{"a":{"b":1.5}}`, "", false, `argument "a.b" is a number with a fraction or an exponent, which a header cannot mirror`},
		{`{"a":{"b":9007199254740992}}`, "", false, `argument "a.b" is an integer, which a header cannot mirror`},
		{`{"a":{"b":{}}}`, "", false, `argument "a.b" is an object, which a header cannot mirror`},
		{`{"a":{"b":[1]}}`, "", false, `argument "a.b" is an array, which a header cannot mirror`},
		{`{"a":{"b":"\ud800"}}`, "", false, `argument "a.b" is a string, which a header cannot mirror`},
		{`{"a":{"b":1,"b":1}}`, "", false, `argument "b": duplicate member in the arguments`},
		{`{"a":{"b":1},"\u0061":2}`, "", false, `argument "a": duplicate member in the arguments`},
		{`{"a":{"b"}}`, "", false, `argument "a": unexpected '}' at byte 9; expected ':' after a member's name`},
		{`{"a" 1`, "", false, `argument "a": unexpected '1' at byte 5; expected ':' after a member's name`},
		{`{"a":1;`, "", false, `argument "a": unexpected ';' at byte 6; expected ',' or '}' after a member`},
	} {
		got, present, err := p.Value([]byte(tt.arguments))
		if got != tt.want || present != tt.present || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("Value(%s) = %q, %v, %v; want %q, %v, %s", tt.arguments, got, present, err, tt.want, tt.present, tt.err)
		}
	}
	if p.Header() != "Mcp-Param-Region" || (ParamHeader{Name: "my-REGION_x"}).Header() != "Mcp-Param-My-Region_x" {
		t.Errorf("header names %q, %q", p.Header(), ParamHeader{Name: "my-REGION_x"}.Header())
	}
}

// The table of "Server Behavior for Custom Headers" (2026-07-28,
// basic/transports/streamable-http), and "servers SHOULD compare the header value
// and the body value numerically rather than as strings (e.g., 42.0 and 42 are
// considered equal)" ("Server Validation"): H8.
//
// H8+ 2026-07-28 basic/transports/streamable-http: "servers SHOULD compare the header
// value and the body value numerically rather than as strings (e.g., 42.0 and 42 are
// considered equal)."
//
// H8- 2026-07-28 basic/transports/streamable-http: "Servers MUST reject requests with
// a recognized Mcp-Param-{Name} header that contains invalid characters"
func TestCheckParamHeaders(t *testing.T) {
	schema := `{"properties":{"s":{"type":"string","x-mcp-header":"S"},"i":{"type":"integer","x-mcp-header":"I"},"b":{"type":"boolean","x-mcp-header":"B"}}}`
	want, err := ParamHeaders([]byte(schema))
	if err != nil {
		t.Fatal(err)
	}
	one := func(name, value string) map[string][]string { return map[string][]string{"Mcp-Param-" + name: {value}} }
	for _, tt := range []struct {
		got       map[string][]string
		arguments string
		want      string
	}{
		{nil, `{"s":"a"}`, ""}, // without headers
		{one("S", "a"), `{"s":"a"}`, ""},
		{one("S", " a\t"), `{"s":"a"}`, ""},
		{one("S", "=?base64?YQ==?="), `{"s":"a"}`, ""},
		{one("S", "=?base64?w6Q=?="), `{"s":"ä"}`, ""},
		{one("S", "=?BASE64?YQ==?="), `{"s":"=?BASE64?YQ==?="}`, ""},
		{one("S", ""), `{"s":""}`, ""},
		{one("S", "42"), `{"s":42}`, ""}, // a string by the schema: up to the tool
		{one("I", "42"), `{"i":42}`, ""},
		{one("I", "42.0"), `{"i":42}`, ""},
		{one("I", "42"), `{"i":42.0}`, ""},
		{one("I", "4.2e1"), `{"i":42}`, ""},
		{one("I", "-0"), `{"i":0}`, ""},
		{one("I", "abc"), `{"i":"abc"}`, ""},
		{one("B", "true"), `{"b":true}`, ""},
		{map[string][]string{}, `{"s":null}`, ""},
		{map[string][]string{}, `{}`, ""},
		{map[string][]string{}, ``, ""},
		{map[string][]string{}, `{"i":1.5}`, ""}, // not representable in a header
		{map[string][]string{}, `{"s":{}}`, ""},
		{one("Unknown", "x"), `{}`, ""},

		{map[string][]string{}, `{"s":"a"}`, `header mismatch: Mcp-Param-S is missing; the body has "a" in argument "s"`},
		{one("s", "a"), `{"s":"a"}`, `header mismatch: Mcp-Param-S is missing; the body has "a" in argument "s"`}, // not canonical
		{one("S", "b"), `{"s":"a"}`, `header mismatch: Mcp-Param-S "b" does not match the body's "a" in argument "s"`},
		{one("S", "A"), `{"s":"a"}`, `header mismatch: Mcp-Param-S "A" does not match the body's "a" in argument "s"`},
		{one("S", "42.0"), `{"s":"42"}`, `header mismatch: Mcp-Param-S "42.0" does not match the body's "42" in argument "s"`},
		{one("S", "a"), `{"s":null}`, `header mismatch: Mcp-Param-S "a" does not match the body, which has no argument "s"`},
		{one("S", "a"), `{}`, `header mismatch: Mcp-Param-S "a" does not match the body, which has no argument "s"`},
		{one("S", "=?base64?!?="), `{"s":"a"}`, `header mismatch: Mcp-Param-S is malformed: header value: invalid base64 between =?base64? and ?=`},
		{one("S", "\x01"), `{"s":"a"}`, `header mismatch: Mcp-Param-S is malformed: header value: invalid character '\x01' at byte 0`},
		{map[string][]string{"Mcp-Param-S": {"a", "a"}}, `{"s":"a"}`, `header mismatch: Mcp-Param-S appears more than once`},
		{one("S", "a"), `{"s":"a","s":"b"}`, `argument "s": duplicate member in the arguments; the header Mcp-Param-S can mirror only one: send it once`},
		{map[string][]string{}, `{"s":"a","s":"b"}`, `argument "s": duplicate member in the arguments; the header Mcp-Param-S can mirror only one: send it once`},
		{nil, `{"s":"a","s":"b"}`, `argument "s": duplicate member in the arguments; the header Mcp-Param-S can mirror only one: send it once`},
		{one("I", "43"), `{"i":42}`, `header mismatch: Mcp-Param-I "43" does not match the body's "42" in argument "i"`},
		{one("I", "0x2a"), `{"i":42}`, `header mismatch: Mcp-Param-I "0x2a" does not match the body's "42" in argument "i"`},
		{one("I", "9007199254740993"), `{"i":9007199254740992}`, `header mismatch: Mcp-Param-I "9007199254740993" does not match the body: argument "i" is an integer, which a header cannot mirror`},
		{one("I", "1"), `{"i":[1]}`, `header mismatch: Mcp-Param-I "1" does not match the body: argument "i" is an array, which a header cannot mirror`},
		{one("B", "True"), `{"b":true}`, `header mismatch: Mcp-Param-B "True" does not match the body's "true" in argument "b"`},
		{one("S", "=?base64?G1swbQ==?="), `{"s":"a"}`, `header mismatch: Mcp-Param-S "\x1b[0m" does not match the body's "a" in argument "s"`},
	} {
		err := CheckParamHeaders(want, tt.got, []byte(tt.arguments))
		if err == nil {
			if tt.want != "" {
				t.Errorf("%v, %s: no error, want %s", tt.got, tt.arguments, tt.want)
			}
			continue
		}
		e, ok := errors.AsType[*Error](err)
		code := int64(CodeHeaderMismatch)
		if strings.Contains(tt.want, "duplicate member in the arguments") {
			code = CodeInvalidParams
		}
		if !ok || e.Code != code || e.Message != tt.want {
			t.Errorf("%v, %s: %v; want %s with code %d", tt.got, tt.arguments, err, tt.want, code)
		}
	}
}

// For any schema and arguments, headers accepted by ParamHeaders have values, and a
// call with the correct headers passes the check.
func FuzzParamHeaders(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"integer","x-mcp-header":"C"}}}}}`), []byte(`{"a":"ä","b":{"c":42.0}}`))
	f.Add([]byte(`{"oneOf":[{"x-mcp-header":"A"}]}`), []byte(`{}`))
	f.Add([]byte(`{"properties":{"a":{"type":"boolean","x-mcp-header":"A"}}}`), []byte(`{"a":true,"a":false}`))
	f.Fuzz(func(t *testing.T, schema, arguments []byte) {
		headers, err := ParamHeaders(schema)
		if err != nil {
			return
		}
		if !jsontest.IsJSON(arguments) {
			arguments = nil
		}
		got := map[string][]string{}
		for _, p := range headers {
			if !isToken(p.Name) || len(p.Path) == 0 || got[p.Header()] != nil {
				t.Fatalf("ParamHeaders(%q): %+v", schema, headers)
			}
			text, present, err := p.Value(arguments)
			switch {
			case errors.Is(err, jsonscan.ErrDuplicate):
				return
			case present && err == nil:
				got[p.Header()] = []string{EncodeHeaderValue(text)}
			case present:
				t.Fatalf("Value(%q): a value and %v", arguments, err)
			}
		}
		if err := CheckParamHeaders(headers, got, arguments); err != nil {
			t.Fatalf("schema %q, arguments %q, headers %q: %v", schema, arguments, got, err)
		}
	})
}

// A hundred headers with paths of a hundred objects in a large call are checked in one
// pass: a search for each of them would read the same bytes ten thousand times.
func TestCheckParamHeadersReadsOnce(t *testing.T) {
	const deep = 100
	path := strings.Split(strings.Repeat("a", deep), "")
	headers := make([]ParamHeader, maxParamHeaders)
	for i := range headers {
		headers[i] = ParamHeader{Name: fmt.Sprint("H", i), Path: append(path[:deep:deep], fmt.Sprint("p", i)), Type: "string"}
	}
	arguments := strings.Repeat(`{"a":`, deep) + `{"p0":"first","pad":"` + strings.Repeat("x", 2<<20) + `","p127":"last"}` + strings.Repeat("}", deep)
	if err := CheckParamHeaders(headers, map[string][]string{"Mcp-Param-H0": {"first"}, "Mcp-Param-H127": {"last"}}, []byte(arguments)); err != nil {
		t.Error(err)
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
