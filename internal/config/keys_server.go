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
		field("type", oneOf(TypeStdio, TypeHTTP, TypeStreamableHTTP, TypeSSE), func(s *Server) *Type { return &s.Type }, "",
			"How the server is spoken to. Without it \"command\" means stdio and \"url\" means http; streamable-http is another name of http, sse the transport of 2024-11-05."),
		field("command", filled(), func(s *Server) *string { return &s.Command }, "",
			"The program to start. It is started as it is, without a shell."),
		field("args", listOf(expanded()), func(s *Server) *[]string { return &s.Args }, "",
			"The program's arguments."),
		field("env", mapOf(secret()), func(s *Server) *map[string]Secret { return &s.Env }, "",
			"Environment variables of the program, besides the few that every program gets. They are not printed."),
		field("cwd", pathname(), func(s *Server) *string { return &s.Cwd }, "",
			"The folder to start the program in, relative to the folder of the config; without it that of the gateway."),
		field("url", filled(), func(s *Server) *string { return &s.URL }, "",
			"The address of a server that runs elsewhere, http or https."),
		field("headers", mapOf(secret()), func(s *Server) *map[string]Secret { return &s.Headers }, "",
			"Header fields that go with each request to the address. They are not printed."),
		field("disabled", boolean(), func(s *Server) *bool { return &s.Disabled }, "",
			"Leaves the server out. Its variables need not be set then."),

		field("prefix", optional(text()), func(s *Server) **string { return &s.Prefix }, "",
			"What stands before the names of the server's tools and prompts, separator included; may be empty. Without it the server's name and two underscores."),
		field("rename", mapOf(text()), func(s *Server) *map[string]string { return &s.Rename }, "",
			"Other names for single tools or prompts, by the server's own names. The new name is offered as it is, without the prefix."),
		field("include", listOf(text()), func(s *Server) *[]string { return &s.Include }, "",
			"The only tools and prompts to offer, by the server's own names. An asterisk stands for any characters."),
		field("exclude", listOf(text()), func(s *Server) *[]string { return &s.Exclude }, "",
			"Tools and prompts not to offer, written like \"include\", which it overrules."),
		field("timeout", duration(), func(s *Server) *time.Duration { return &s.Timeout }, "",
			"The longest that a call to the server may take, instead of \"limits.callMax\"."),
		field("share", boolean(), func(s *Server) *bool { return &s.Share }, "",
			"Your word that the server keeps no state for a client, so that all clients can share one session or process of it."),
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
				// Looked at before the entry is read, because it decides how.
				disabled, _ := n.member("disabled")
				r.formOnly = meansTrue(disabled)
				one.read(r, n, p, &server)
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
