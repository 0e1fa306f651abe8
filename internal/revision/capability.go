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

// ClientCapabilities returns what of a client's capabilities there is in the revision:
// what a client that speaks it can have meant, and what a server that speaks it can be
// told. No bytes are {}.
func ClientCapabilities(v mcp.Version, raw []byte) []byte {
	out := only(raw, func(name string, value []byte) bool {
		switch name {
		case "roots", "sampling", "experimental":
			return true
		case "elicitation":
			// Before there were two modes, to declare elicitation was to declare forms.
			return v >= mcp.V20251125 || v == mcp.V20250618 && hasForms(value)
		case "tasks":
			return v == mcp.V20251125
		case "extensions":
			return v >= mcp.V20260728
		default:
			return false
		}
	})
	return mcp.RewriteMembers(out, func(name string, value []byte) []byte {
		plain := v < mcp.V20251125 && (name == "sampling" || name == "elicitation") ||
			v >= mcp.V20260728 && name == "roots" // whose changes nobody can announce any more
		if !plain {
			return value
		}
		return only(value, func(string, []byte) bool { return false })
	})
}

// hasForms reports whether an elicitation capability includes forms, which an empty
// one does (2025-11-25, client/elicitation, "Capabilities").
func hasForms(raw []byte) bool {
	form, other := false, false
	for name := range mcp.Members(raw) {
		form = form || name == "form"
		other = other || name == "url"
	}
	return form || !other
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
