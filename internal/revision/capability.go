// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"github.com/signalbox-mcp/signalbox/internal/extension"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// ServerCapabilities returns the capabilities of a server that a client of the revision
// can use. A declared capability must be honoured, which is impossible for one of
// another revision. Of the extensions, which are younger than the legacy revisions and are
// negotiated in initialize as well, a legacy client is declared those that are translated
// (ADR 0070). Empty text gives {}.
func ServerCapabilities(v mcp.Version, raw []byte) []byte {
	return changeMembers(raw, func(name string, value []byte) []byte {
		known := false
		switch name {
		case "tools", "resources", "prompts", "logging", "experimental":
			known = true
		case "completions":
			known = v >= mcp.V20250326
		case "tasks":
			known = v == mcp.V20251125
		case extension.Member:
			return extensions(v, value)
		}
		if !known {
			return nil
		}
		return value
	})
}

// ClientCapabilities returns the capabilities to declare to a server of revision to for
// a client of revision from: all that the client declared, whether or not either
// revision knows them. It removes those without messages that could pass between the
// two: extensions that are not translated if the server is legacy (ADR 0070), tasks of the
// client and changes of roots if either is modern. Empty text gives {}.
func ClientCapabilities(from, to mcp.Version, raw []byte) []byte {
	legacy := from.Era() == mcp.EraLegacy && to.Era() == mcp.EraLegacy
	out := changeMembers(raw, func(name string, value []byte) []byte {
		switch {
		case name == "tasks" && !legacy:
			return nil
		case name == extension.Member:
			return extensions(to, value)
		default:
			return value
		}
	})
	if legacy {
		return out
	}
	return jsonscan.RewriteMembers(out, func(name string, value []byte) []byte {
		if name != "roots" {
			return value
		}
		return changeMembers(value, func(name string, value []byte) []byte {
			if name == "listChanged" {
				return nil
			}
			return value
		})
	})
}

// extensions returns the extensions to declare to a peer of the revision, or nil.
func extensions(v mcp.Version, declared []byte) []byte {
	if v.Era() != mcp.EraLegacy {
		return declared
	}
	return extension.Cut(declared)
}

// changeMembers is jsonscan.RewriteMembers for a value that may be missing or of another type,
// which gives {}.
func changeMembers(raw []byte, change func(name string, value []byte) []byte) []byte {
	if !jsonscan.IsObject(raw) {
		return []byte("{}")
	}
	return jsonscan.RewriteMembers(raw, change)
}
