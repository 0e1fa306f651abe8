// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// listResult changes the items of a list that a client of the revision would reject,
// together with the whole list.
func listResult(v mcp.Version, raw []byte) []byte {
	if v >= mcp.V20260728 {
		return raw
	}
	return jsonscan.RewriteMembers(raw, func(name string, value []byte) []byte {
		switch name {
		case "tools", "prompts", "resources", "resourceTemplates":
			return jsonscan.RewriteElements(value, func(item []byte) []byte { return listItem(v, item) })
		default:
			return value
		}
	})
}

func listItem(v mcp.Version, item []byte) []byte {
	return jsonscan.RewriteMembers(item, func(name string, value []byte) []byte {
		switch name {
		case "icons":
			// Clients ignore unknown members, except this one: some older clients
			// implement a draft in which sizes has another type.
			if v < mcp.V20251125 {
				return nil
			}
		case "inputSchema":
			if hasForeignDialect(value) {
				return value
			}
			return objectSchema(value)
		case "outputSchema":
			return outputSchema(value)
		}
		return value
	})
}

// outputSchema returns the schema for structured content in a form that the legacy era
// supports, or nil for none, which promises less but is true.
func outputSchema(raw []byte) []byte {
	types := schemaTypes(raw)
	switch {
	case hasForeignDialect(raw):
		return nil // its meaning is unknown
	case len(types) == 1 && types[0] == "object":
		return objectSchema(raw)
	case len(types) == 0 || slices.Contains(types, "object") || mayHaveRefs(raw):
		// The schema may or may not describe objects, which a value alone does not
		// show; or it has references to its own parts, which move when it is wrapped.
		return nil
	default:
		return wrapSchema(raw)
	}
}

// hasForeignDialect reports whether a schema has a dialect other than JSON Schema's
// own: the meaning of its members is unknown, so it cannot be converted.
func hasForeignDialect(raw []byte) bool {
	value := jsonscan.Member(raw, "$schema")
	dialect := jsonscan.TextOf(value)
	return value != nil && !strings.HasPrefix(dialect, "https://json-schema.org/") && !strings.HasPrefix(dialect, "http://json-schema.org/")
}

// schemaTypes returns the types in the schema's own type member.
func schemaTypes(raw []byte) []string {
	value := jsonscan.Member(raw, "type")
	if one, ok := jsonscan.DecodeText(value); ok {
		return []string{one}
	}
	var types []string
	for one := range jsonscan.Elements(value) {
		types = append(types, jsonscan.TextOf(one))
	}
	return types
}

// mayHaveRefs reports whether a schema may contain references.
func mayHaveRefs(raw []byte) bool {
	return slices.ContainsFunc([]string{`"$ref"`, `"$dynamicRef"`, `"$recursiveRef"`, `\u`}, func(word string) bool { return bytes.Contains(raw, []byte(word)) })
}

// wrapSchema returns a schema for the results of wrapValue. $schema stays at the top,
// where readers look for it.
func wrapSchema(raw []byte) []byte {
	out := []byte(`{`)
	if value := jsonscan.Member(raw, "$schema"); value != nil {
		out = append(append(append(out, `"$schema":`...), value...), ',')
	}
	out = append(out, `"type":"object","properties":{"result":`...)
	return append(append(out, raw...), `},"required":["result"]}`...)
}

// objectSchema replaces true and false among the properties by equivalent objects:
// boolean schemas are older than the protocol, but its legacy revisions do not allow
// them.
func objectSchema(raw []byte) []byte {
	return jsonscan.RewriteMembers(raw, func(name string, value []byte) []byte {
		if name != "properties" {
			return value
		}
		return jsonscan.RewriteMembers(value, func(_ string, schema []byte) []byte {
			switch string(schema) {
			case "true":
				return []byte(`{}`)
			case "false":
				return []byte(`{"not":{}}`)
			default:
				return schema
			}
		})
	})
}
