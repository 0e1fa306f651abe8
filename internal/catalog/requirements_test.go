// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// offers builds a catalog of one tool with this input schema, and returns whether it is
// listed unmodified, and its problems.
func offers(t *testing.T, schema string) (listed bool, said string) {
	t.Helper()
	c := Build([]Backend{backend("a").with(Tools, `{"name":"x","inputSchema":`+schema+`}`)}, Options{})
	if c.sections[Tools].len == 0 {
		return false, problems(c)
	}
	res, err := c.List(Tools, "")
	if err != nil || !strings.Contains(string(res.Bytes()), `"inputSchema":`+schema+`}`) {
		t.Errorf("listed as %.300s, %v; want the schema as it came: %.300s", res.Bytes(), err, schema)
	}
	return true, problems(c)
}

// nested returns a schema with the given number of levels, and bottom at the innermost.
func nested(levels int, bottom string) string {
	return strings.Repeat(`{"anyOf":[`, levels) + bottom + strings.Repeat(`]}`, levels)
}

// Schemas made to be expensive take linear time: they are passed on, or left out with a
// reason, quickly.
//
// K3+ 2026-07-28 basic/index: "Composition keywords (`anyOf`, `oneOf`, `allOf`,
// `if`/`then`/`else`) and `$defs` enable expressive schemas"
//
// K3- 2026-07-28 basic/index: "Implementations SHOULD apply reasonable bounds, such as a
// maximum schema depth, a cap on the total number of subschemas, or a per-validation
// time budget"
func TestSchemasAreReadWithinBounds(t *testing.T) {
	wide := func(n int) string { return strings.TrimSuffix(strings.Repeat(`{"$ref":"#"},`, n), ",") }
	tests := []struct{ name, schema, reason string }{
		{"as deep as anybody writes", nested(25, `{"$ref":"#"}`), ""},
		{"refers to itself", `{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#"}]}}}`, ""},
		{"an expression that takes for ever", `{"properties":{"a":{"pattern":"^(a+)+$"}},"patternProperties":{"^(([a-z])+.)+[A-Z]([a-z])+$":{"$ref":"#"}}}`, ""},
		{"many parts", `{"anyOf":[` + wide(15_000) + `]}`, ""},
		{"many parts, as many ways", `{"$defs":{"a":` + strings.Repeat(`{"allOf":[{"$ref":"#"},`, 25) + `{}` + strings.Repeat(`]}`, 25) + `}}`, ""},
		{"as deep as is searched", nested(32, `{"$ref":"#"}`), ""},
		{"one level deeper", `{"items":` + nested(32, `{"$ref":"#"}`) + `}`, "has references and is nested deeper than"},
		{"deeper", nested(40, wide(18_000)), "has references and is nested deeper than"},
		{"deeper, by properties", strings.Repeat(`{"properties":{"a":`, 40) + `{"anyOf":[` + wide(18_000) + `]}` + strings.Repeat(`}}`, 40), "has references and is nested deeper than"},
		{"deeper than JSON may be", nested(1<<15, `{}`), "nest"},
		{"large", `{"description":"` + strings.Repeat("x", 10<<20) + `"}`, "more than the limit of"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			listed, reason := offers(t, strings.Replace(tt.schema, "{", `{"type":"object",`, 1))
			if listed != (tt.reason == "") || !strings.Contains(reason, tt.reason) {
				t.Errorf("listed %v, %.300s; want %q", listed, reason, tt.reason)
			}
		})
	}
}

// A schema may have any dialect. Its meaning is up to validators; the search for
// references follows the dialect.
//
// K4+ 2026-07-28 basic/index: "When a schema does not include a `$schema` field, it
// defaults to JSON Schema 2020-12"
//
// K4- 2026-07-28 basic/index: "They MUST handle unsupported dialects gracefully by
// returning an appropriate error indicating the dialect is not supported."
func TestSchemasOfEveryDialect(t *testing.T) {
	const (
		draft4 = `"$schema":"http://json-schema.org/draft-04/schema#"`
		draft7 = `"$schema":"http://json-schema.org/draft-07/schema#"`
		latest = `"$schema":"https://json-schema.org/draft/2020-12/schema"`
	)
	const foreign = "offered as it is: its "
	tests := []struct{ name, schema, said string }{
		{"2020-12", `{"type":"object",` + latest + `,"$defs":{"a":{"$anchor":"a","prefixItems":[{}]}},"properties":{"a":{"$ref":"#a"}},"unevaluatedProperties":false}`, ""},
		{"none", `{"type":"object","dependentRequired":{"a":["b"]},"if":{},"then":{},"else":false}`, ""},
		{"draft-07", `{"type":"object",` + draft7 + `,"definitions":{"a":{"$id":"#a"}},"properties":{"a":{"$ref":"#a"}}}`, ""},
		{"draft-04", `{"type":"object",` + draft4 + `,"id":"http://x/root","properties":{"a":{"$ref":"http://x/root#/definitions/a"}},"definitions":{"a":{"exclusiveMinimum":true,"minimum":1}}}`, ""},
		{"draft-04, with a part that has an id", `{"type":"object",` + draft4 + `,"id":"http://x/root","properties":{"a":{"$ref":"part"}},"definitions":{"a":{"id":"part"}}}`, ""},
		{"draft-04 behind what it says", `{"type":"object","id":"http://x/root","properties":{"a":{"$ref":"http://x/root"}},` + draft4 + `}`, ""},
		{"unknown", `{"type":"object","$schema":"https://example.com/dialect","x":[{"y":1}]}`, foreign + `inputSchema is of the dialect "https://example.com/dialect", which is not supported here`},
		{"no text", `{"type":"object","$schema":4}`, foreign + `inputSchema is of the dialect "4"`},
		{"unknown, of the output", `{"type":"object"},"outputSchema":{"$schema":"https://example.com/dialect"}`, foreign + `outputSchema is of the dialect "https://example.com/dialect"`},
		{"no dialect of a schema", `{"type":"object"},"_meta":{"$schema":"https://example.com/dialect"}`, ""},

		{"an id of draft-04 in 2020-12", `{"type":"object",` + latest + `,"id":"http://x/root","properties":{"a":{"$ref":"http://x/root"}}}`, "http://x/root"},
		{"an id of draft-04 without a dialect", `{"type":"object","id":"http://x/root","properties":{"a":{"$ref":"http://x/root"}}}`, "http://x/root"},
		{"a property of that name in draft-04", `{"type":"object",` + draft4 + `,"properties":{"id":{"type":"string"},"a":{"$ref":"http://x/root"}}}`, "http://x/root"},
		{"draft-04 elsewhere", `{"type":"object",` + draft4 + `,"id":"http://x/root","properties":{"a":{"$ref":"http://y/root"}}}`, "http://y/root"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			listed, said := offers(t, tt.schema)
			if listed != (tt.said == "" || strings.HasPrefix(tt.said, foreign)) || (said == "") != (tt.said == "") || !strings.Contains(said, tt.said) {
				t.Errorf("listed %v, %s; want %q", listed, said, tt.said)
			}
		})
	}
}

// author writes random schemas, with every keyword of JSON Schema and some unknown
// ones.
type author struct{ *rand.Rand }

func (a author) schema(depth int) string {
	if depth == 0 || a.IntN(8) == 0 {
		return []string{`true`, `false`, `{}`, `{ }`, `{"type":"string"}`, `{"type":["number","null"],"minimum":1.50e+3}`}[a.IntN(6)]
	}
	one := func() string { return a.schema(depth - 1) }
	list := func() string { return "[" + one() + " ," + one() + "]" }
	named := func() string { return `{"a":` + one() + `,"\u00e9 \/":` + one() + "}" }
	keywords := []func() string{
		func() string { return `"` + pick(a, "allOf", "anyOf", "oneOf", "prefixItems") + `":` + list() },
		func() string {
			return `"` + pick(a, "not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties") + `": ` + one()
		},
		func() string {
			return `"` + pick(a, "properties", "patternProperties", "$defs", "definitions", "dependentSchemas") + `":` + named()
		},
		func() string {
			return `"` + pick(a, "minimum", "maximum", "multipleOf", "exclusiveMinimum") + `":` + pick(a, "1", "1.0", "-0", "9007199254740993", "1E400")
		},
		func() string {
			return `"` + pick(a, "minLength", "maxItems", "minProperties", "maxContains") + `":` + strconv.Itoa(a.IntN(9))
		},
		func() string {
			return `"` + pick(a, "pattern", "format", "title", "description", "$comment", "contentEncoding") + `":"` + pick(a, "", "^(a+)+$", "\u2028", `\ud83d\ude00`, "ü") + `"`
		},
		func() string {
			return `"` + pick(a, "const", "default") + `":` + pick(a, "null", "[]", `{"$ref":"http://x/"}`, `"x"`)
		},
		func() string {
			return `"` + pick(a, "enum", "examples") + `":[` + pick(a, "1", "null", `{"$ref":"http://x/"}`) + `]`
		},
		func() string { return `"` + pick(a, "required", "dependentRequired", "x-vendor", "readOnly") + `":[]` },
		func() string {
			return `"` + pick(a, "$ref", "$dynamicRef") + `":"` + pick(a, "#", "#/$defs/a", "#anchor") + `"`
		},
		func() string { return `"$anchor":"anchor"` },
	}
	var members []string
	for _, i := range a.Perm(len(keywords))[:1+a.IntN(4)] {
		members = append(members, keywords[i]())
	}
	return "{" + strings.Join(members, pick(a, ",", ", ", "\n,\t")) + "}"
}

func pick(a author, texts ...string) string { return texts[a.IntN(len(texts))] }

// A thousand schemas, with everything that may be in one, are listed unmodified.
//
// K7+ own: "A schema is forwarded unmodified, whatever it contains."
//
// K7- own: "A schema is forwarded unmodified, whatever it contains."
func TestSchemasAreUnmodified(t *testing.T) {
	a := author{rand.New(rand.NewPCG(2106, 1))}
	for i := range 1000 {
		schema := fmt.Sprintf(`{"type":"object", "x%d":%s}`, i, a.schema(5))
		if listed, reason := offers(t, schema+`,"outputSchema":`+schema); !listed {
			t.Errorf("left out: %s: %s", reason, schema)
		}
	}
}
