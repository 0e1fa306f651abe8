// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// listResult changes the items of a list that a client of the revision would refuse,
// and the whole list with them.
func listResult(v mcp.Version, raw []byte) []byte {
	if v >= mcp.V20260728 {
		return raw
	}
	return mcp.RewriteMembers(raw, func(name string, value []byte) []byte {
		switch name {
		case "tools", "prompts", "resources", "resourceTemplates":
			return mcp.RewriteElements(value, func(item []byte) []byte { return listItem(v, item) })
		default:
			return value
		}
	})
}

func listItem(v mcp.Version, item []byte) []byte {
	return mcp.RewriteMembers(item, func(name string, value []byte) []byte {
		switch name {
		case "icons":
			// Members that a client does not know do no harm, but for these: readers of
			// the time before the revision that has them knew a draft of them, in which
			// sizes were of another type.
			if v < mcp.V20251125 {
				return nil
			}
		case "inputSchema":
			if isForeign(value) {
				return value
			}
			return objectSchema(value)
		case "outputSchema":
			return outputSchema(value)
		}
		return value
	})
}

// outputSchema returns what the legacy era can take of a schema that describes
// structured content, or nil for none, which promises less and is true.
func outputSchema(raw []byte) []byte {
	types := schemaTypes(raw)
	switch {
	case isForeign(raw):
		return nil // whatever it says
	case len(types) == 1 && types[0] == "object":
		return objectSchema(raw)
	case len(types) == 0 || slices.Contains(types, "object") || refers(raw):
		// It may be of objects or not, which a value does not say; or it refers to parts
		// of itself, which stand elsewhere once it is wrapped.
		return nil
	default:
		return wrapSchema(raw)
	}
}

// isForeign reports whether a schema is of a dialect that is none of JSON Schema's own:
// what its members mean is not known here, and nothing can be made of them.
func isForeign(raw []byte) bool {
	for name, value := range mcp.Members(raw) {
		if name == "$schema" {
			dialect := textOf(value)
			return !strings.HasPrefix(dialect, "https://json-schema.org/") && !strings.HasPrefix(dialect, "http://json-schema.org/")
		}
	}
	return false
}

// schemaTypes returns what the schema's own type member names, if it has one.
func schemaTypes(raw []byte) []string {
	var types []string
	for name, value := range mcp.Members(raw) {
		if name != "type" {
			continue
		}
		if value[0] == '"' {
			return []string{textOf(value)}
		}
		for one := range mcp.Elements(value) {
			types = append(types, textOf(one))
		}
	}
	return types
}

// refers reports whether there may be references in a schema.
func refers(raw []byte) bool {
	for _, word := range []string{`"$ref"`, `"$dynamicRef"`, `"$recursiveRef"`, `\u`} {
		if bytes.Contains(raw, []byte(word)) {
			return true
		}
	}
	return false
}

// wrapSchema describes what wrapValue makes. A dialect is declared where readers
// look for it.
func wrapSchema(raw []byte) []byte {
	out := []byte(`{`)
	for name, value := range mcp.Members(raw) {
		if name == "$schema" {
			out = append(append(append(out, `"$schema":`...), value...), ',')
		}
	}
	out = append(out, `"type":"object","properties":{"result":`...)
	return append(append(out, raw...), `},"required":["result"]}`...)
}

// objectSchema says true and false among the properties as objects: schemas of two
// words are older than the protocol, but its legacy revisions do not have them.
func objectSchema(raw []byte) []byte {
	return mcp.RewriteMembers(raw, func(name string, value []byte) []byte {
		if name != "properties" {
			return value
		}
		return mcp.RewriteMembers(value, func(_ string, schema []byte) []byte {
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
