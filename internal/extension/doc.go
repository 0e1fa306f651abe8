// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extension is what the gateway knows of extensions of the protocol: which ones it
// translates, and the members and URIs that they add to messages of the core.
//
// A server and a client agree to an extension by naming it in both their capabilities, in
// the member "extensions". The gateway is the other party of each of them, so it declares
// only what it can translate: names, owners, hidden items, and both eras
// (docs/adr/0070-known-extensions-are-translated.md).
//
// The package is pure. It does not know the connection or the revision of a message.
package extension

import "github.com/signalbox-mcp/signalbox/internal/jsonscan"

// The extensions that the gateway translates.
const (
	Tasks  = "io.modelcontextprotocol/tasks"  // of modern revisions; legacy ones have tasks of their own
	UI     = "io.modelcontextprotocol/ui"     // MCP Apps
	Skills = "io.modelcontextprotocol/skills" // SEP-2640
)

// Member is the member of capabilities that has the extensions.
const Member = "extensions"

// IsTranslated reports whether the gateway translates the extension between a client and a
// server of any revision.
func IsTranslated(name string) bool { return name == UI || name == Skills }

// Cut returns the value of Member with only those extensions for which IsTranslated is true.
// It returns nil if none is left, or the value is not an object.
func Cut(declared []byte) []byte {
	if len(declared) == 0 || declared[0] != '{' {
		return nil
	}
	n := 0
	cut := jsonscan.RewriteMembers(declared, func(name string, value []byte) []byte {
		if !IsTranslated(name) {
			return nil
		}
		n++
		return value
	})
	if n == 0 {
		return nil
	}
	return cut
}

// Declares reports whether a capabilities object, of a client or a server, declares an
// extension, which takes an object as its value. The object must be valid JSON.
func Declares(capabilities []byte, name string) (ok bool) {
	for member, all := range jsonscan.Members(capabilities) {
		if member != Member {
			continue
		}
		for extension, value := range jsonscan.Members(all) {
			if extension == name {
				ok = isObject(value)
			}
		}
	}
	return ok
}

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }
