// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// repair repairs an item for strict clients, which reject a whole list if one item
// violates the schema. That harms the server that wrote it and, through a gateway, all
// other servers too. So two mistakes that are known from real servers, and can mean
// only one thing, are corrected. It also removes icons that clients must not open.
func repair(obj mcp.Object) mcp.Object {
	raw := jsonscan.RewriteMembers(obj.Bytes(), func(name string, value []byte) []byte {
		switch {
		case string(value) == "null" && isOptional(name):
			return nil // absent
		case name == "inputSchema" && jsonscan.IsObject(value) && jsonscan.Member(value, "type") == nil:
			return jsonscan.WithMember(value, "type", []byte(`"object"`)) // arguments are always an object
		case name == "icons":
			return jsonscan.RewriteElements(value, safeIcon)
		default:
			return value
		}
	})
	if len(raw) == 0 || &raw[0] == &obj.Bytes()[0] {
		return obj
	}
	mended, err := mcp.ParseObject(raw)
	if err != nil {
		return obj // impossible: nothing is nested more deeply than before
	}
	return mended
}

// safeIcon removes an icon with an address that no client may open: "Clients MUST
// reject icon URIs that use unsafe schemes and redirects, such as javascript:, file:,
// ftp:, ws:, or local app URI schemes" (2026-07-28, basic, "icons"). The schemes that
// the specification allows for icons pass.
func safeIcon(icon []byte) []byte {
	for name, value := range jsonscan.Members(icon) {
		if name != "src" || !isString(value) {
			continue
		}
		// Each src, because readers differ in which one of several they take.
		scheme, _, _ := strings.Cut(jsonscan.TextOf(value), ":")
		if !slices.Contains([]string{"https", "http", "data"}, strings.ToLower(scheme)) {
			return nil
		}
	}
	return icon
}

// isOptional reports whether a member is optional in some kind of item; none of these
// may be null (2025-11-25 and 2026-07-28, schema).
func isOptional(name string) bool {
	switch name {
	case "title", "description", "icons", "annotations", "_meta", "outputSchema", "execution", "arguments", "mimeType", "size":
		return true
	default:
		return false
	}
}
