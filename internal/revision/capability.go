// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import "github.com/signalbox-mcp/signalbox/mcp"

// ServerCapabilities returns what of a server's capabilities a client of the revision
// can make something of. What is advertised must be honoured, which a capability of
// another revision never is. No bytes are {}.
func ServerCapabilities(v mcp.Version, raw []byte) []byte {
	return only(raw, func(name string, _ []byte) bool {
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

// ClientCapabilities returns what a server of revision to is told that a client of
// revision from can do: all that the client has declared, known to either revision or
// not. Left out is what no message can pass for between the two: extensions where the
// server is legacy (ADR 0026), tasks of the client and changes of roots where either is
// modern. No bytes are {}.
func ClientCapabilities(from, to mcp.Version, raw []byte) []byte {
	legacy := from.Era() == mcp.EraLegacy && to.Era() == mcp.EraLegacy
	out := only(raw, func(name string, _ []byte) bool {
		return (name != "tasks" || legacy) && (name != "extensions" || to.Era() != mcp.EraLegacy)
	})
	if legacy {
		return out
	}
	return mcp.RewriteMembers(out, func(name string, value []byte) []byte {
		if name != "roots" {
			return value
		}
		return only(value, func(name string, _ []byte) bool { return name != "listChanged" })
	})
}

// only returns the object with the members that are wanted.
func only(raw []byte, wanted func(name string, value []byte) bool) []byte {
	if len(raw) == 0 || raw[0] != '{' {
		return []byte("{}")
	}
	return mcp.RewriteMembers(raw, func(name string, value []byte) []byte {
		if !wanted(name, value) {
			return nil
		}
		return value
	})
}
