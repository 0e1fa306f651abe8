// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// mend takes from an item what would cost a client more than this item. Strict clients
// refuse a whole list for one item in it that is not of the schema, which directly
// harms the one server that wrote it, and through a gateway everybody else's: so two
// mistakes that are known in the field, and can mean only one thing, are put right. And
// it takes the icons that nobody may open.
func mend(obj mcp.Object) mcp.Object {
	raw := mcp.RewriteMembers(obj.Bytes(), func(name string, value []byte) []byte {
		switch {
		case string(value) == "null" && isOptional(name):
			return nil // there is none
		case name == "inputSchema" && isObject(value) && member(value, "type") == nil:
			return mcp.WithMember(value, "type", []byte(`"object"`)) // as arguments are in any case
		case name == "icons":
			return mcp.RewriteElements(value, safeIcon)
		default:
			return value
		}
	})
	if len(raw) == 0 || &raw[0] == &obj.Bytes()[0] {
		return obj
	}
	mended, err := mcp.ParseObject(raw)
	if err != nil {
		return obj // cannot be: nothing of it stands deeper than before
	}
	return mended
}

// safeIcon leaves out an icon with an address that no client may open: "Clients MUST
// reject icon URIs that use unsafe schemes and redirects, such as javascript:, file:,
// ftp:, ws:, or local app URI schemes" (2026-07-28, basic, "icons"). Those that the
// specification has icons at pass.
func safeIcon(icon []byte) []byte {
	if !isObject(icon) {
		return icon
	}
	src := member(icon, "src")
	if !isString(src) {
		return icon // it has no address
	}
	scheme, _, _ := strings.Cut(text(src), ":")
	if !slices.Contains([]string{"https", "http", "data"}, strings.ToLower(scheme)) {
		return nil
	}
	return icon
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
