// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// schemaLimit ends the reason of a tool with a schema that is larger than the limit.
const schemaLimit = " (limits.schema)"

// dropOutputSchema removes the output schema of a tool.
func (e *Entry) dropOutputSchema() {
	before := len(e.item)
	e.item = jsonscan.RewriteMembers(e.item, func(name string, value []byte) []byte {
		if name == "outputSchema" {
			return nil
		}
		return value
	})
	e.IsUntyped = len(e.item) < before
}

// checkSchema returns the reason why a tool with this schema cannot be offered, or "".
// The schema is not validated. It is checked that it neither overloads its readers nor
// makes them fetch other documents (2026-07-28, basic, "JSON Schema Usage").
func checkSchema(member string, raw []byte, most int) string {
	switch {
	case !jsonscan.IsObject(raw):
		return fmt.Sprintf("its %s is not an object", member)
	case len(raw) > most:
		return fmt.Sprintf("its %s has %d bytes, more than the limit of %d%s", member, len(raw), most, schemaLimit)
	}
	switch ref, ok := externalRef(raw); {
	case !ok:
		return fmt.Sprintf("its %s has references and is nested deeper than the %d levels that are searched for them", member, maxSchemaDepth)
	case ref != "":
		return fmt.Sprintf("its %s has an external reference: %s", member, quote(ref))
	}
	return ""
}

// checkType returns the reason why a schema is not one for arguments, which are an
// object, or "".
func checkType(member string, raw []byte) string {
	for name, value := range jsonscan.Members(raw) {
		if name == "type" && jsonscan.TextOf(value) != "object" {
			return fmt.Sprintf("its %s is not of type object", member)
		}
	}
	return ""
}

// maxSchemaDepth bounds the JSON nesting of a schema with references: each level is
// scanned once more than the one around it ("Implementations SHOULD apply reasonable
// bounds, such as a maximum schema depth": 2026-07-28, basic, "Composition-Keyword
// Resource Use"). Real schemas use a fraction of it.
const maxSchemaDepth = 64

// externalRef returns a reference that leads out of the schema, or "". References to an
// $id inside it, and to the schemas of JSON Schema itself, which every validator has,
// are not external. It reports false if the schema is too deep to check.
func externalRef(raw []byte) (ref string, ok bool) {
	if !mayRefer(raw) {
		return "", true
	}
	w := refWalk{ids: map[string]bool{"": true}, id: idKeyword(raw)}
	w.schema(raw, &url.URL{}, 0)
	for _, ref := range w.refs {
		if !w.ids[ref] && !isMetaSchema(ref) {
			return ref, true
		}
	}
	return "", !w.truncated
}

// idKeyword returns the id keyword of the schema's dialect: "id" in draft-03 and
// draft-04.
func idKeyword(raw []byte) string {
	for name, value := range jsonscan.Members(raw) {
		dialect, _, _ := strings.Cut(jsonscan.TextOf(value), "#")
		if name == "$schema" && (dialect == "http://json-schema.org/draft-03/schema" || dialect == "http://json-schema.org/draft-04/schema") {
			return "id"
		}
	}
	return "$id"
}

// foreignDialect returns a message if a tool's schemas use a dialect other than JSON
// Schema's own, or "". Handling it is up to the validator, but the operator is informed
// ("handle unsupported dialects gracefully by returning an appropriate error":
// 2026-07-28, basic, "JSON Schema Usage").
func (e *Entry) foreignDialect() string {
	if e.Kind != Tools {
		return ""
	}
	for member, schema := range jsonscan.Members(e.item) {
		if member != "inputSchema" && member != "outputSchema" {
			continue
		}
		for name, value := range jsonscan.Members(schema) {
			if name != "$schema" {
				continue
			}
			dialect := string(value)
			if isString(value) {
				dialect = jsonscan.TextOf(value)
			}
			if !isMetaSchema(dialect) {
				return fmt.Sprintf("its %s is of the dialect %s, which is not supported here", member, quote(dialect))
			}
		}
	}
	return ""
}

// mayRefer quickly excludes references: neither their keywords occur nor an escape that
// could hide them.
func mayRefer(raw []byte) bool {
	return bytes.Contains(raw, []byte("Ref")) || bytes.Contains(raw, []byte("$ref")) || bytes.Contains(raw, []byte(`\u`))
}

// isMetaSchema reports whether ref is a schema that validators have built in.
func isMetaSchema(ref string) bool {
	return strings.HasPrefix(ref, "https://json-schema.org/") || strings.HasPrefix(ref, "http://json-schema.org/")
}

// refWalk collects the schemas that a schema contains and those that it refers to, as
// absolute URIs where possible.
type refWalk struct {
	id        string // the id keyword
	ids       map[string]bool
	refs      []string
	truncated bool // deeper parts were skipped
}

// schema collects the ids and references of one schema. It reads $id before the other
// keywords, because references are relative to it, whatever the order of the keywords.
func (w *refWalk) schema(raw []byte, base *url.URL, depth int) {
	if depth > maxSchemaDepth {
		w.truncated = true
		return
	}
	for name, value := range jsonscan.Members(raw) {
		if name == w.id && isString(value) {
			base = resolve(jsonscan.TextOf(value), base)
			w.ids[base.String()] = true
		}
	}
	for name, value := range jsonscan.Members(raw) {
		w.keyword(name, value, base, depth)
	}
	for value := range jsonscan.Elements(raw) {
		w.schema(value, base, depth+1)
	}
}

// keyword reads one member of a schema. It skips names that are data (a property may be
// called $ref) and values that are data.
func (w *refWalk) keyword(name string, value []byte, base *url.URL, depth int) {
	switch name {
	case "$ref", "$dynamicRef", "$recursiveRef":
		if isString(value) {
			w.refs = append(w.refs, resolve(jsonscan.TextOf(value), base).String())
		}
	case "const", "enum", "default", "examples":
		// Data.
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		for _, sub := range jsonscan.Members(value) {
			w.schema(sub, base, depth+2)
		}
	default:
		w.schema(value, base, depth+1)
	}
}

// resolve returns the reference resolved against base, without its fragment: a pointer
// into a schema is where the schema is. An invalid URL is returned as it is, and
// matches no id.
func resolve(ref string, base *url.URL) *url.URL {
	ref, _, _ = strings.Cut(ref, "#")
	if ref == "" {
		return base
	}
	parse := url.Parse
	if *base != (url.URL{}) {
		parse = base.Parse
	}
	u, err := parse(ref)
	if err != nil {
		return &url.URL{Opaque: ref}
	}
	return u
}

func isString(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }
