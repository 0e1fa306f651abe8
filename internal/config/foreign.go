// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strconv"
)

// foreign is a key that other programs read in a file of this form.
type foreign struct {
	name string
	// passed keys change nothing about how a server is reached: they are passed
	// over with a note. The others are refused, because what they ask for would
	// silently not happen.
	passed bool
	// about says what the key is for (passed), or is the hint what to write.
	about string
	// means is the key of ours that is missing where this one stands, if there is one.
	means string
}

// unknownKey tells what is known about a key of a mapping that is not ours.
func (r *reader) unknownKey(name string, mapping place, known []string, others []foreign) {
	p := mapping.key(name)
	at := r.where[p.path]
	for _, other := range others {
		switch {
		case other.name != name:
			continue
		case other.passed:
			r.note(at, p, "%q is not used here: %s", name, other.about)
		default:
			r.unread.guess(mapping.key(other.means))
			r.tell(at, p, other.about, "unknown key %q", name)
		}
		return
	}
	if word := nearest(name, known); word != "" {
		r.unread.guess(mapping.key(word))
	}
	r.tell(at, p, didYouMean(name, known), "unknown key %q", name)
}

// foreignServerKeys are the keys of a server that clients and editors write.
func foreignServerKeys() []foreign {
	const (
		approval = "it says what a client may call without asking its user"
		display  = "it says how a client shows the server"
	)
	return []foreign{
		// What is passed over is about the user of a client, not about the server. To refuse
		// it would make people keep two files that say the same.
		{"description", true, display, ""},
		{"alwaysAllow", true, approval, ""},
		{"autoApprove", true, approval, ""},
		{"trust", true, approval, ""},
		{"alwaysLoad", true, "it says when a client shows the tools to its model", ""},
		{"gallery", true, "it says where an editor has the entry from", ""},
		{"version", true, "it says where an editor has the entry from", ""},
		{"dev", true, "it is for developing the server in an editor", ""},

		// Other names of what is read here; see otherNames.
		{"serverUrl", false, `write "url"`, "url"},
		{"httpUrl", false, `write "url"`, "url"},
		{"transport", false, `write "type"`, "type"},
		{"transportType", false, `write "type"`, "type"},
		{"enabled", false, `write "disabled" for the opposite`, "disabled"}, // see withDisabled
		{"tools", false, `write "include"`, "include"},
		{"includeTools", false, `write "include"`, "include"},
		{"excludeTools", false, `write "exclude"`, "exclude"},
		{"disabledTools", false, `write "exclude"`, "exclude"},
		{"networkTimeout", false, `write "timeout"`, "timeout"},
		// What the server would get, elsewhere, from a file, a program or a sign-in. Without
		// it the server starts and fails much later, for a reason that nobody sees.
		{"headersHelper", false, `write "headers"; ${NAME} takes a value from the environment`, "headers"},
		{"oauth", false, `the gateway does not sign in for you; write an Authorization header in "headers"`, "headers"},
		{"auth", false, `the gateway does not sign in for you; write an Authorization header in "headers"`, "headers"},
		// To drop a protection in silence would be the worst answer of all.
		{"sandbox", false, "the gateway runs the command as it is; put a sandbox into the command", ""},
		{"sandboxEnabled", false, "the gateway runs the command as it is; put a sandbox into the command", ""},
		{"watchPaths", false, "the gateway does not restart a server when files change; remove it", ""},
	}
}

// otherNames are keys of other programs that are read as a key of ours, where the entry
// does not say something else under that key: then it would depend on the reader which
// of the two counts, and the other name is refused.
func otherNames() map[string]string {
	return map[string]string{"serverUrl": "url", "httpUrl": "url", "transport": "type", "transportType": "type"}
}

// withOwnNames gives the members of a server that have another name their own.
func (r *reader) withOwnNames(server node, p place) node {
	if server.kind != kindMapping {
		return server
	}
	var members []member
	for _, m := range server.members {
		own, ok := otherNames()[m.key]
		if !ok || m.value.kind != kindText || own == "type" && !isTypeName(m.value.text) {
			members = append(members, m)
			continue
		}
		known, found := node{members: members}.member(own)
		if !found {
			known, found = server.member(own)
		}
		switch {
		case !found:
			r.note(m.at, p.key(m.key), "%q is read as %q", m.key, own)
			m.key = own
			members = append(members, m)
		case known.kind == kindText && known.text == m.value.text:
			r.note(m.at, p.key(m.key), "%q says the same as %q", m.key, own)
		default:
			members = append(members, m) // is refused as a key that is not known
		}
	}
	server.members = members
	return server
}

// withDisabled gives a server that is "enabled" or not the key that is read here, which
// says the opposite.
func (r *reader) withDisabled(server node, p place) node {
	at := slices.IndexFunc(server.members, func(m member) bool { return m.key == "enabled" })
	if at < 0 {
		return server
	}
	m := server.members[at]
	p = p.key(m.key)
	known, both := server.member("disabled")
	members := slices.DeleteFunc(slices.Clone(server.members[at+1:]), func(again member) bool {
		if again.key == m.key {
			r.tell(again.at, p, "", "the key %q stands here twice, first on line %d", m.key, m.at.line)
		}
		return again.key == m.key
	})
	members = slices.Concat(server.members[:at], members)
	switch {
	case m.value.kind != kindBool:
		r.wrongKind(m.value, p, "true or false", booleanHint(m.value))
		// As it was meant, so that what a disabled entry lacks is not told besides.
		if !both && booleanHint(m.value) == "write false" {
			members = append(members, member{"disabled", m.at, node{at: m.value.at, kind: kindBool, text: "true"}})
		}
	case both && known.kind == kindBool && known.text == m.value.text:
		r.tell(m.at, p, "remove one of them", `"enabled" and "disabled" are both %s, and contradict each other`, known.text)
	case both && known.kind == kindBool:
		r.note(m.at, p, `"enabled" says the same as "disabled"`)
	case both: // what stands there is refused
	default:
		r.note(m.at, p, `"enabled" is read as the opposite of "disabled"`)
		m.key, m.value.text = "disabled", strconv.FormatBool(m.value.text != "true")
		members = slices.Insert(members, at, m)
	}
	server.members = members
	return server
}

// foreignConfigKeys are the keys beside the servers.
func foreignConfigKeys() []foreign {
	others := []foreign{
		// The list itself asks for nothing; a reference to it does, and is refused where it
		// stands.
		{"inputs", true, "they are what an editor asks its user for", ""},
		{"globalShortcut", true, "it is a client's setting", ""},
		{"preferences", true, "it is a client's setting", ""},
		{"mcp", false, `write the map inside it as "mcpServers"`, "mcpServers"},
		{"context_servers", false, `put the servers below "mcpServers"`, "mcpServers"},
		{"tokens", false, `write it below "auth"`, "auth"},
		{"tls", false, "the gateway speaks plain HTTP; let a proxy in front of it end TLS", ""},
	}
	// A server without a name around it is what people paste from a page.
	for _, name := range []string{"command", "args", "env", "cwd", "url", "headers", "type"} {
		others = append(others, foreign{name, false, `a server stands below "mcpServers" with a name of its own`, serversKey})
	}
	return others
}

// foreignTokenKeys are where a token itself would be written.
func foreignTokenKeys() []foreign {
	const cure = `a token does not stand in the config itself: write "env" with the name of a variable, or "file" with a path`
	var others []foreign
	for _, name := range []string{"token", "value", "secret", "bearer", "password"} {
		others = append(others, foreign{name, false, cure, "env"})
	}
	return others
}
