// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import "testing"

// "Implementations MUST NOT automatically dereference $ref values that resolve to
// a network URI. ... Schemas that fail to validate due to an unresolved external
// $ref SHOULD be rejected rather than silently treated as permissive."
// (2026-07-28, basic, "$ref Resolution")
//
// K1+ 2026-07-28 basic/index: "JSON Schema 2020-12 permits `$ref` to point at an
// absolute URI."
//
// K2+ 2026-07-28 basic/index: "Schemas that fail to validate due to an unresolved
// external `$ref` SHOULD be rejected rather than silently treated as permissive."
func TestExternalRef(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"no references", `{"type":"object","properties":{"a":{"type":"string"}}}`, ""},
		{"a pointer", `{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{}}}`, ""},
		{"an anchor", `{"$ref":"#a","$defs":{"x":{"$anchor":"a"}}}`, ""},
		{"a pointer to nothing is the validator's business", `{"$ref":"#/nowhere"}`, ""},
		{"itself by its id", `{"$id":"https://example.com/s","$ref":"https://example.com/s#/$defs/a"}`, ""},
		{"inside by an id", `{"$ref":"https://example.com/a","$defs":{"a":{"$id":"https://example.com/a"}}}`, ""},
		{"inside by a relative id", `{"$id":"https://example.com/s","items":{"$ref":"a"},"$defs":{"a":{"$id":"/a"}}}`, ""},
		{"relative ids without a root", `{"items":{"$ref":"a"},"$defs":{"a":{"$id":"a"}}}`, ""},
		{"relative to the id around it", `{"$id":"https://example.com/s","$defs":{"a":{"$id":"https://other.org/x/","$ref":"y"},"b":{"$id":"https://other.org/x/y"}}}`, ""},
		{"a sibling of the id, whichever comes first", `{"$ref":"b","$id":"https://example.com/a","$defs":{"b":{"$id":"b"}}}`, ""},
		{"the meta-schema", `{"$schema":"https://json-schema.org/draft/2020-12/schema","items":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}`, ""},
		{"a dialect is no reference", `{"$schema":"https://example.com/my-dialect"}`, ""},
		{"a property of that name", `{"properties":{"$ref":{"type":"string"},"$dynamicRef":{}}}`, ""},
		{"data of that form", `{"const":{"$ref":"http://a/"},"enum":[{"$ref":"http://a/"}],"default":{"$ref":"http://a/"},"examples":[{"$ref":"http://a/"}]}`, ""},
		{"a reference that is no string", `{"$ref":{"$ref":1}}`, ""},

		{"network", `{"$ref":"https://example.com/a.json"}`, "https://example.com/a.json"},
		{"with a fragment", `{"$ref":"https://example.com/a.json#/x"}`, "https://example.com/a.json"},
		{"file", `{"items":{"$ref":"file:///etc/passwd"}}`, "file:///etc/passwd"},
		{"relative", `{"items":{"$ref":"../a.json"}}`, "../a.json"},
		{"relative to an id", `{"$id":"https://example.com/s/t","items":{"$ref":"a"}}`, "https://example.com/s/a"},
		{"no URL", `{"$ref":"http://[::1"}`, "http://[::1"},
		{"escaped keyword", `{"\u0024ref":"http://a/"}`, "http://a/"},
		{"escaped value", `{"$ref":"htt\u0070://a/"}`, "http://a/"},
		{"dynamic", `{"$dynamicRef":"http://a/#x"}`, "http://a/"},
		{"in a list", `{"allOf":[{},{"anyOf":[{"$ref":"http://a/"}]}]}`, "http://a/"},
		{"a property named default", `{"properties":{"default":{"$ref":"http://a/"},"enum":{"items":[]}}}`, "http://a/"},
		{"a property named properties", `{"properties":{"properties":{"$ref":"http://a/"}}}`, "http://a/"},
		{"pattern properties", `{"patternProperties":{"^a":{"$ref":"http://a/"}}}`, "http://a/"},
		{"definitions", `{"definitions":{"a":{"$ref":"http://a/"}}}`, "http://a/"},
		{"if, then, not, prefixItems", `{"if":{"then":{"not":{"prefixItems":[{"$ref":"http://a/"}]}}}}`, "http://a/"},
		{"unknown keyword", `{"x-vendor":{"$ref":"http://a/"}}`, "http://a/"},
		{"an id of the same text elsewhere", `{"$id":"https://a/","items":{"$ref":"x"},"$defs":{"y":{"$id":"https://b/","$defs":{"x":{"$id":"x"}}}}}`, "https://a/x"},
		{"the second of two", `{"$ref":"#","items":{"$ref":"http://a/"}}`, "http://a/"},
	}
	for _, tt := range tests {
		if got, ok := externalRef([]byte(tt.schema)); got != tt.want || !ok {
			t.Errorf("%s: %s leads to %q, want %q", tt.name, tt.schema, got, tt.want)
		}
	}
}
