// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Passes reports whether Result would leave a result unmodified, given its head only,
// apart from changes that Passes registers on a.
//
// It trusts the server to use only features of the revision that it declares.
func Passes(v mcp.Version, method string, a *jsonrpc.Arriving) bool {
	if v < mcp.V20250618 && v < a.From && method != "resources/read" {
		return false // the result may have a type of content that the revision does not know
	}
	if method != "tools/call" {
		// Other kinds of results have members that can be large.
		return a.From.Era() == mcp.EraLegacy || a.Head().Has(mcp.FieldResultType)
	}
	// Only a complete result has content; and if structured content is alone, content
	// must be made from it.
	if !a.Has(mcp.FieldContent) {
		return false
	}
	if v < mcp.V20260728 {
		a.Wrap(mcp.FieldStructuredContent)
	}
	return true
}
