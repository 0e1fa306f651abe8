// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strconv"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/spelling"
)

// foreignKey is a key that other programs read in such a file.
type foreignKey struct {
	name string
	// A passed key does not change how a server is reached, and is ignored with a note.
	// Other keys are rejected, because ignoring them would silently drop what they
	// request.
	passed bool
	// about describes the purpose of a passed key, or is the hint for a rejected one.
	about string
	// means is the gateway's key with the same meaning, if there is one.
	means string
}

// unknownKey reports a key that the gateway does not have.
func (r *reader) unknownKey(name string, mapping place, known []string, others []foreignKey) {
	p := mapping.key(name)
	for _, other := range others {
		switch {
		case other.name != name:
			continue
		case other.passed:
			r.note(p.as(code.FileDialect), "", "%q is ignored: %s", name, other.about)
		default:
			r.meant[mapping.key(other.means).path] = true
			r.report(p, other.about, "unknown key %q", name)
		}
		return
	}
	if word := spelling.Nearest(name, known); word != "" {
		r.meant[mapping.key(word).path] = true
	}
	r.report(p, spelling.DidYouMean(name, known), "unknown key %q", name)
}

// foreignServerKeys returns the keys that clients and editors write into a server's entry.
func foreignServerKeys() []foreignKey {
	const (
		approval = "it lists what a client may call without asking its user"
		display  = "it specifies how a client shows the server"
	)
	return []foreignKey{
		// Passed keys concern the user of a client, and not the server. Rejecting them
		// would force people to keep two copies of a file.
		{"description", true, display, ""},
		{"alwaysAllow", true, approval, ""},
		{"autoApprove", true, approval, ""},
		{"trust", true, approval, ""},
		{"alwaysLoad", true, "it specifies when a client shows the tools to its model", ""},
		{"gallery", true, "it records from where an editor has the entry", ""},
		{"version", true, "it records from where an editor has the entry", ""},
		{"dev", true, "it is used when developing the server in an editor", ""},

		// Other names of the gateway's keys; see keyAliases.
		{"serverUrl", false, `write "url"`, "url"},
		{"httpUrl", false, `write "url"`, "url"},
		{"transport", false, `write "type"`, "type"},
		{"transportType", false, `write "type"`, "type"},
		{"enabled", false, `write "disabled" for the opposite`, "disabled"}, // see convertEnabled
		{"tools", false, `write "include"`, "include"},
		{"includeTools", false, `write "include"`, "include"},
		{"excludeTools", false, `write "exclude"`, "exclude"},
		{"disabledTools", false, `write "exclude"`, "exclude"},
		{"networkTimeout", false, `write "timeout"`, "timeout"},
		// What the server would otherwise receive from a file, a program or a sign-in.
		// Without it the server would start, and fail later for an unclear reason.
		{"auth", false, `write "oauth", or an Authorization header in "headers"`, "oauth"},
		// A protection must never be dropped silently.
		{"sandbox", false, "the gateway runs the command unchanged; put a sandbox into the command", ""},
		{"sandboxEnabled", false, "the gateway runs the command unchanged; put a sandbox into the command", ""},
		{"watchPaths", false, "the gateway does not restart a server when files change; remove it", ""},
	}
}

// keyAliases returns the keys of other programs that are read as a key of the gateway,
// unless the entry has a different value under the gateway's key. Then the meaning would
// depend on the program, and the alias is rejected.
func keyAliases() map[string]string {
	return map[string]string{"serverUrl": "url", "httpUrl": "url", "transport": "type", "transportType": "type"}
}

// renameAliases replaces the aliases in a server's entry by the gateway's keys.
func (r *reader) renameAliases(server configfile.Node, p place) configfile.Node {
	if server.Kind != configfile.Mapping {
		return server
	}
	var members []configfile.Member
	for _, m := range server.Members {
		own, ok := keyAliases()[m.Key]
		if !ok || m.Value.Kind != configfile.Text || own == "type" && !slices.Contains(slices.Concat(typeNames(), streamableSpellings()), m.Value.Text) {
			members = append(members, m)
			continue
		}
		known, found := configfile.Node{Members: members}.Member(own)
		if !found {
			known, found = server.Member(own)
		}
		switch {
		case !found:
			r.note(p.key(m.Key).withAt(m.At).as(code.FileDialect), "", "%q is read as %q", m.Key, own)
			m.Key = own
			members = append(members, m)
		case known.Kind == configfile.Text && known.Text == m.Value.Text:
			r.note(p.key(m.Key).withAt(m.At).as(code.FileDialect), "", "%q means the same as %q", m.Key, own)
		default:
			members = append(members, m) // rejected as an unknown key
		}
	}
	server.Members = members
	return server
}

// convertEnabled replaces "enabled" in a server's entry by "disabled", which means the
// opposite.
func (r *reader) convertEnabled(server configfile.Node, p place) configfile.Node {
	at := slices.IndexFunc(server.Members, func(m configfile.Member) bool { return m.Key == "enabled" })
	if at < 0 {
		return server
	}
	m := server.Members[at]
	p = p.key(m.Key).withAt(m.At)
	known, both := server.Member("disabled")
	members := slices.DeleteFunc(slices.Clone(server.Members[at+1:]), func(again configfile.Member) bool {
		if again.Key == m.Key {
			r.report(p.withAt(again.At), "", "duplicate key %q, first on line %d", m.Key, m.At.Line)
		}
		return again.Key == m.Key
	})
	members = slices.Concat(server.Members[:at], members)
	switch {
	case m.Value.Kind != configfile.Bool:
		r.wrongKind(m.Value, p, "true or false", booleanHint(m.Value))
		// Disabled as intended, so that missing parts of the entry are not reported besides.
		if !both && booleanHint(m.Value) == "write false" {
			members = append(members, configfile.Member{Key: "disabled", At: m.At, Value: configfile.Node{At: m.Value.At, Kind: configfile.Bool, Text: "true"}})
		}
	case both && known.Kind == configfile.Bool && known.Text == m.Value.Text:
		r.report(p, "remove one of them", `"enabled" and "disabled" are both %s, and contradict each other`, known.Text)
	case both && known.Kind == configfile.Bool:
		r.note(p.as(code.FileDialect), "", `"enabled" means the same as "disabled"`)
	case both: // the value of "disabled" is rejected
	default:
		r.note(p.as(code.FileDialect), "", `"enabled" is read as the opposite of "disabled"`)
		m.Key, m.Value.Text = "disabled", strconv.FormatBool(m.Value.Text != "true")
		members = slices.Insert(members, at, m)
	}
	server.Members = members
	return server
}

// foreignConfigKeys returns the keys of other programs beside the servers.
func foreignConfigKeys() []foreignKey {
	others := []foreignKey{
		// The list itself requests nothing. A reference to it does, and is rejected
		// where it is used.
		{"inputs", true, "they are values for which an editor asks its user", ""},
		{"globalShortcut", true, "it is a client's setting", ""},
		{"preferences", true, "it is a client's setting", ""},
		{"mcp", false, `write the map inside it as "mcpServers"`, "mcpServers"},
		{"context_servers", false, `put the servers below "mcpServers"`, "mcpServers"},
		{"tokens", false, `write it below "auth"`, "auth"},
	}
	// Examples on web pages are often a server without a name.
	for _, name := range []string{"command", "args", "env", "cwd", "url", "headers", "type"} {
		others = append(others, foreignKey{name, false, `a server must be below "mcpServers" with a name of its own`, serversKey})
	}
	return others
}

// foreignTokenKeys returns the keys for a token written into the file.
func foreignTokenKeys() []foreignKey {
	const cure = `a token must not be in the config itself: write "env" with the name of a variable, or "file" with a path`
	var others []foreignKey
	for _, name := range []string{"token", "value", "secret", "bearer", "password"} {
		others = append(others, foreignKey{name, false, cure, "env"})
	}
	return others
}
