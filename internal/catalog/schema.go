// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// checkSchema says why a tool with such a schema cannot be offered, or "". The
// schema is not validated; what counts is that whoever reads it neither chokes on
// it nor is sent elsewhere by it (2026-07-28, basic, "JSON Schema Usage").
func checkSchema(member string, raw []byte, most int) string {
	switch {
	case !isObject(raw):
		return fmt.Sprintf("its %s is no object", member)
	case len(raw) > most:
		return fmt.Sprintf("its %s has %d bytes, more than the limit of %d (limits.schema)", member, len(raw), most)
	}
	switch ref, ok := externalRef(raw); {
	case !ok:
		return fmt.Sprintf("its %s has references, and nests deeper than the %d levels that are looked through for them", member, maxSchemaDepth)
	case ref != "":
		return fmt.Sprintf("its %s refers to %s, which is not inside of it", member, quote(ref))
	}
	return ""
}

// checkType says why a schema cannot be one for arguments, or "": those are an object.
func checkType(member string, raw []byte) string {
	for name, value := range mcp.Members(raw) {
		if name == "type" && (!isString(value) || text(value) != "object") {
			return fmt.Sprintf("its %s is not of type object", member)
		}
	}
	return ""
}

// maxSchemaDepth bounds how deep a schema with references may nest, as JSON: each
// level is looked through once more than the one around it ("Implementations SHOULD
// apply reasonable bounds, such as a maximum schema depth": 2026-07-28, basic,
// "Composition-Keyword Resource Use"). What people write has a part of it.
const maxSchemaDepth = 64

// externalRef returns a reference of the schema that leads out of it, or "".
// One that leads to an $id inside of it does not, nor one to a schema of JSON
// Schema itself, which every validator has. It reports false where the schema is too
// deep to tell.
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
	return "", !w.isCut
}

// idKeyword returns how the schema's dialect names what is an id: draft-03 and draft-04
// did without the dollar.
func idKeyword(raw []byte) string {
	for name, value := range mcp.Members(raw) {
		if name != "$schema" || !isString(value) {
			continue
		}
		switch dialect, _, _ := strings.Cut(text(value), "#"); dialect {
		case "http://json-schema.org/draft-03/schema", "http://json-schema.org/draft-04/schema":
			return "id"
		}
	}
	return "$id"
}

// foreignDialect says of which dialect a tool's schemas are, if it is none of JSON
// Schema's own, or "". What it means is for whoever validates by it; but whoever runs
// the gateway can be told, as each of its readers would have to be ("handle unsupported
// dialects gracefully by returning an appropriate error": 2026-07-28, basic, "JSON
// Schema Usage").
func (e *Entry) foreignDialect() string {
	if e.Kind != Tools {
		return ""
	}
	for member, schema := range mcp.Members(e.item) {
		if member != "inputSchema" && member != "outputSchema" {
			continue
		}
		for name, value := range mcp.Members(schema) {
			if name != "$schema" {
				continue
			}
			dialect := string(value)
			if isString(value) {
				dialect = text(value)
			}
			if !isMetaSchema(dialect) {
				return fmt.Sprintf("its %s is of the dialect %s, which is not supported here", member, quote(dialect))
			}
		}
	}
	return ""
}

// mayRefer rules out in one glance that there are references: their keywords do
// not occur, nor does an escape in which they could hide.
func mayRefer(raw []byte) bool {
	return bytes.Contains(raw, []byte("Ref")) || bytes.Contains(raw, []byte("$ref")) || bytes.Contains(raw, []byte(`\u`))
}

// isMetaSchema reports whether a validator has the schema by itself.
func isMetaSchema(ref string) bool {
	return strings.HasPrefix(ref, "https://json-schema.org/") || strings.HasPrefix(ref, "http://json-schema.org/")
}

// refWalk collects, as absolute as they get, the schemas that a schema contains
// and those that it refers to.
type refWalk struct {
	id    string // the keyword
	ids   map[string]bool
	refs  []string
	isCut bool // there is more, too deep
}

// schema looks for the id first: it holds for its siblings, wherever it stands
// among them.
func (w *refWalk) schema(raw []byte, base *url.URL, depth int) {
	if depth > maxSchemaDepth {
		w.isCut = true
		return
	}
	for name, value := range mcp.Members(raw) {
		if name == w.id && isString(value) {
			base = w.identify(text(value), base)
		}
	}
	for name, value := range mcp.Members(raw) {
		w.keyword(name, value, base, depth)
	}
	for value := range mcp.Elements(raw) {
		w.schema(value, base, depth+1)
	}
}

// keyword looks into one member of a schema. Where the names of the member's own
// members are data (a property may be called $ref) or all of it is, they are no
// keywords.
func (w *refWalk) keyword(name string, value []byte, base *url.URL, depth int) {
	switch name {
	case "$ref", "$dynamicRef", "$recursiveRef":
		if isString(value) {
			w.refs = append(w.refs, resolve(text(value), base).String())
		}
	case "const", "enum", "default", "examples":
		// Data.
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		for _, sub := range mcp.Members(value) {
			w.schema(sub, base, depth+2)
		}
	default:
		w.schema(value, base, depth+1)
	}
}

func (w *refWalk) identify(id string, base *url.URL) *url.URL {
	u := resolve(id, base)
	w.ids[u.String()] = true
	return u
}

// resolve returns the reference as seen from base, without its fragment: a
// pointer into a schema leads wherever the schema is. What is no URL stands for
// itself, and is known to nobody.
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
