// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// mend takes from an item what would cost a client more than this item. Strict clients
// refuse a whole list for one item in it that is not of the schema, which directly
// harms the one server that wrote it, and through a gateway everybody else's: so two
// mistakes that are known in the field, and can mean only one thing, are put right.
func mend(obj mcp.Object) mcp.Object {
	raw := mcp.RewriteMembers(obj.Bytes(), func(name string, value []byte) []byte {
		switch {
		case string(value) == "null" && isOptional(name):
			return nil // there is none
		case name == "inputSchema" && isObject(value) && !hasMember(value, "type"):
			return withType(value)
		default:
			return value
		}
	})
	if len(raw) == 0 || &raw[0] == &obj.Bytes()[0] {
		return obj
	}
	mended, err := mcp.ParseObject(raw)
	if err != nil {
		return obj // it has become too deep; whoever reads it has to see
	}
	return mended
}

// isOptional reports whether a member of some kind of item need not be there; none of
// them may be null (2025-11-25 and 2026-07-28, schema).
func isOptional(name string) bool {
	switch name {
	case "title", "description", "icons", "annotations", "_meta", "outputSchema", "execution", "arguments", "mimeType", "size":
		return true
	default:
		return false
	}
}

// withType says of a schema for arguments what it must say, since arguments are an
// object in any case.
func withType(schema []byte) []byte {
	rest := bytes.TrimLeft(schema[1:], " \t\r\n")
	out := []byte(`{"type":"object"`)
	if rest[0] != '}' {
		out = append(out, ',')
	}
	return append(out, rest...)
}

func hasMember(raw []byte, name string) bool {
	for n := range mcp.Members(raw) {
		if n == name {
			return true
		}
	}
	return false
}
