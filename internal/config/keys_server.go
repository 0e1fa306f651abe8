// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// serverKeys are the keys of one server: first what other programs write, then
// what is the gateway's own.
func serverKeys() []key[Server] {
	return []key[Server]{
		// Most files leave it out. Those that have it mean to be exact, and so it is compared
		// with what else the entry says.
		field("type", typeName(), func(s *Server) *Type { return &s.Type }, "",
			"How the server is spoken to. Without it \"command\" means stdio and \"url\" means http; streamable-http, streamableHttp and streamable_http are other names of http, sse the transport of 2024-11-05."),
		// Not to come to nothing by its variables: an entry without a command is another kind
		// of server.
		field("command", filled(), func(s *Server) *string { return &s.Command }, "",
			"The program to start. It is started as it is, without a shell."),
		// An element that is empty stays one: to some programs that is an argument.
		field("args", listOf(expanded()), func(s *Server) *[]string { return &s.Args }, "",
			"The program's arguments."),
		// All of them are secrets, since nobody can tell from outside which are.
		field("env", mapOf(secret()), func(s *Server) *map[string]Secret { return &s.Env }, "",
			"Environment variables of the program, besides the few that every program gets. They are not printed."),
		// Read into env, so that all that holds for a variable there holds for one of the file.
		field("envFile", pathname(), func(s *Server) *string { return &s.EnvFile }, "",
			"A file with more variables of the program, a line NAME=value for each, relative to the folder of the config. A variable that is in \"env\", too, has the value from there."),
		// Relative to the file and not to where somebody stood when he started the gateway.
		field("cwd", pathname(), func(s *Server) *string { return &s.Cwd }, "",
			"The folder to start the program in, relative to the folder of the config; without it that of the gateway."),
		field("url", filled(), func(s *Server) *string { return &s.URL }, "",
			"The address of a server that runs elsewhere, http or https."),
		// Secrets too: where one stands, it is most often a credential.
		field("headers", mapOf(secret()), func(s *Server) *map[string]Secret { return &s.Headers }, "",
			"Header fields that go with each request to the address. They are not printed."),
		// Read for its form only, so that a half-written entry can wait for its secrets.
		field("disabled", boolean(), func(s *Server) *bool { return &s.Disabled }, "",
			"Leaves the server out. Its variables need not be set then."),

		// A pointer: to say that there is none is not the same as to say nothing.
		field("prefix", optional(text()), func(s *Server) **string { return &s.Prefix }, "",
			"What stands before the names of the server's tools and prompts, separator included; may be empty. Without it the server's name and two underscores."),
		// Without the prefix, because this is for names that something else already knows.
		field("rename", mapOf(text()), func(s *Server) *map[string]string { return &s.Rename }, "",
			"Other names for single tools or prompts, by the server's own names. The new name is offered as it is, without the prefix."),
		// By the server's own names, which are those in its documents.
		field("include", listOf(text()), func(s *Server) *[]string { return &s.Include }, "",
			"The only tools and prompts to offer, by the server's own names. An asterisk stands for any characters."),
		// It has the last word: who forbids something has thought of it.
		field("exclude", listOf(text()), func(s *Server) *[]string { return &s.Exclude }, "",
			"Tools and prompts not to offer, written like \"include\", which it overrules."),
		// For one slow server: to raise the limit for all would hide that another one hangs.
		field("timeout", duration(), func(s *Server) *time.Duration { return &s.Timeout }, "",
			"The longest that a call to the server may take, instead of \"limits.callMax\"."),
		// Nothing that a server says tells whether it keeps state for a session, and to guess
		// wrong would show one client what is another's.
		field("share", boolean(), func(s *Server) *bool { return &s.Share }, "",
			"Your word that the server keeps no state for a client, so that all clients can share one session or process of it."),
		// For servers that answer the question of which they are in a misleading way.
		field("era", oneOf(eras()...), func(s *Server) *string { return &s.Era }, "auto",
			"Pins how the server is spoken to, instead of finding out: legacy with initialize and sessions, modern without, or one revision of the protocol."),
	}
}

// The eras by name; the other values of a pin are revisions.
const (
	eraAuto   = "auto"
	eraLegacy = "legacy"
	eraModern = "modern"
)

func eras() []string {
	return []string{eraAuto, eraLegacy, eraModern, "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}
}

// isModern reports whether a pin excludes the legacy revisions.
func isModern(era string) bool { return era == eraModern || era >= "2026-07-28" && era < "3" }

// servers is the map of servers. Its order is kept, because it decides who owns
// what several servers offer.
func servers() form[[]Server] {
	one := object(serverKeys(), foreignServerKeys())
	// A mapping of our own and not mapOf: a Go map would forget the order.
	return form[[]Server]{
		want: "a mapping of names to servers",
		read: func(r *reader, n node, p place, into *[]Server) {
			// Not nil, also when it is empty: a file that says {} has said that there are none.
			list := make([]Server, 0, len(n.members))
			r.eachMember(n, p, "write each server by its name below it, or {} for none", func(name string, n node, p place) {
				server := Server{Name: name}
				n = r.withOwnNames(r.withDisabled(n, p), p)
				// Looked at before the entry is read, because it decides how.
				disabled, _ := n.member("disabled")
				r.formOnly = meansTrue(disabled)
				one.read(r, n, p, &server)
				r.withEnvFile(&server, n, p)
				// As it was read, also where the value was no boolean: that has been said, and what
				// a disabled entry lacks is not to be said besides.
				server.Disabled, r.formOnly = r.formOnly, false
				list = append(list, server)
			})
			*into = list
		},
		schema: func() *jsonschema.Schema {
			return &jsonschema.Schema{
				Type:                 "object",
				PropertyNames:        &jsonschema.Schema{Pattern: serverNamePattern},
				AdditionalProperties: &jsonschema.Schema{Ref: "#/$defs/server"},
			}
		},
		fill: func(into *[]Server) {
			filled := make([]Server, len(*into)) // the caller's servers stay as they are
			copy(filled, *into)
			for i := range filled {
				one.fill(&filled[i])
			}
			*into = filled
		},
		rows: func(prefix string) []row { return one.rows(prefix + ".NAME") },
	}
}
