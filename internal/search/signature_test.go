// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestSignature(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object"}`:                 `{}`,
		`{"type":"object","properties":{}}`: `{  }`,
		`{"type":"object","properties":{"q":{"type":"string","description":"What to find.\nMore."},"n":{"type":"integer"}},"required":["q"]}`: `{ q: string /* What to find. */; n?: number }`,
		`{"type":"object","properties":{"a-b":{"enum":["x","y",1]},"2":{"const":null}}}`:                                                      `{ "a-b"?: "x" | "y" | 1; "2"?: null }`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":["string","null"]}}}}`:                                            `{ a?: Array<string | null> }`,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"boolean"},{"$ref":"#/$defs/n"}]}},"$defs":{"n":{"type":"number"}}}`:            `{ a?: boolean | number }`,
		`{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"string"}},"o":{"type":"object"}}}`:               `{ m?: Record<string, string>; o?: Record<string, unknown> }`,
		`{"type":"object","properties":{"r":{"$ref":"https://example.com/x"},"s":true}}`:                                                      `{ r?: unknown; s?: unknown }`,
		`{"type":"object","properties":{"c":{"type":"string","description":"ends */ here"}}}`:                                                 `{ c?: string /* ends * / here */ }`,
		`{"properties":{"t":{"type":"array"}}}`: `{ t?: unknown[] }`,
		`true`:                                  `unknown`,
		``:                                      `unknown`,
	} {
		if got := Signature([]byte(schema)); got != want {
			t.Errorf("%s\n got %s\nwant %s", schema, got, want)
		}
	}
}

// A schema that refers to itself, or doubles at each level, ends.
func TestSignatureEnds(t *testing.T) {
	loop := `{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"x":{"$ref":"#/$defs/a"},"y":{"$ref":"#/$defs/a"},"z":{"$ref":"#/$defs/a"}}}}}`
	if got := Signature([]byte(loop)); len(got) > 2*maxSignature || !strings.Contains(got, "unknown") {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
}

// Many or long values, and many descriptions, do not make a long signature.
func TestSignatureIsShort(t *testing.T) {
	property := `{"type":"string","description":"` + strings.Repeat("d", maxComment) + `"}`
	for _, schema := range []string{
		`{"properties":{"e":{"enum":["v"` + strings.Repeat(`,"v"`, 20_000) + `]}}}`,
		`{"properties":{"e":{"enum":["` + strings.Repeat("v", 50_000) + `","w"]}}}`,
		`{"properties":{"c":{"const":"` + strings.Repeat("v", 50_000) + `"}}}`,
		`{"properties":{"a":` + property + strings.Repeat(`,"a":`+property, 500) + `}}`,
	} {
		if got := Signature([]byte(schema)); len(got) > 2*maxSignature || !strings.Contains(got, "unknown") {
			t.Errorf("%.60s: %d bytes: %.200s", schema, len(got), got)
		}
	}
}

func FuzzSignature(f *testing.F) {
	f.Add(`{"type":"object","properties":{"q":{"type":"string","description":"d"},"n":{"$ref":"#/$defs/n"}},"required":["q"],"$defs":{"n":{"anyOf":[{"type":"array","items":{}}]}}}`)
	f.Fuzz(func(t *testing.T, schema string) {
		if !jsontext.Value(schema).IsValid() {
			return
		}
		if got := Signature([]byte(schema)); len(got) > len(schema)*200+maxSignature {
			t.Errorf("%d bytes for %d", len(got), len(schema))
		}
	})
}
