// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import "github.com/signalbox-mcp/signalbox/mcp"

// Passes reports whether Result would leave a result as it is of which only the
// beginning is there, but for what Passes says on the result itself.
//
// The server is taken at its word here: what the revision does not have that it speaks
// is not looked for in its results.
func Passes(v mcp.Version, method string, a *mcp.Arriving) bool {
	if v < mcp.V20250618 && v < a.From && method != "resources/read" {
		return false // a type of content that the revision does not know may be in it
	}
	if method != "tools/call" {
		// What else it may turn out to be has members that can be large.
		return a.From.Era() == mcp.EraLegacy || a.Head().Has(mcp.FieldResultType)
	}
	// Nothing but a complete result has content; and where structured content stands
	// alone, content is made of it.
	if !a.Has(mcp.FieldContent) {
		return false
	}
	if v < mcp.V20260728 {
		a.Wrap(mcp.FieldStructuredContent)
	}
	return true
}
