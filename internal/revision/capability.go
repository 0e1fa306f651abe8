// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// ServerCapabilities returns the capabilities of a server that a client of the revision
// can use. A declared capability must be honoured, which is impossible for one of
// another revision. Empty text gives {}.
func ServerCapabilities(v mcp.Version, raw []byte) []byte {
	return filterMembers(raw, func(name string, _ []byte) bool {
		switch name {
		case "tools", "resources", "prompts", "logging", "experimental":
			return true
		case "completions":
			return v >= mcp.V20250326
		case "tasks":
			return v == mcp.V20251125
		case "extensions":
			return v >= mcp.V20260728
		default:
			return false
		}
	})
}

// ClientCapabilities returns the capabilities to declare to a server of revision to for
// a client of revision from: all that the client declared, whether or not either
// revision knows them. It removes those without messages that could pass between the
// two: extensions if the server is legacy (ADR 0026), tasks of the client and changes
// of roots if either is modern. Empty text gives {}.
func ClientCapabilities(from, to mcp.Version, raw []byte) []byte {
	legacy := from.Era() == mcp.EraLegacy && to.Era() == mcp.EraLegacy
	out := filterMembers(raw, func(name string, _ []byte) bool {
		return (name != "tasks" || legacy) && (name != "extensions" || to.Era() != mcp.EraLegacy)
	})
	if legacy {
		return out
	}
	return jsonscan.RewriteMembers(out, func(name string, value []byte) []byte {
		if name != "roots" {
			return value
		}
		return filterMembers(value, func(name string, _ []byte) bool { return name != "listChanged" })
	})
}

// filterMembers returns the object with the members for which wanted returns true.
func filterMembers(raw []byte, wanted func(name string, value []byte) bool) []byte {
	if len(raw) == 0 || raw[0] != '{' {
		return []byte("{}")
	}
	return jsonscan.RewriteMembers(raw, func(name string, value []byte) []byte {
		if !wanted(name, value) {
			return nil
		}
		return value
	})
}
