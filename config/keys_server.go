// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// serverKeys returns the keys of a server: first those of other programs, then the gateway's
// own.
func serverKeys() []key[Backend] {
	return []key[Backend]{
		// Optional. If it is there, it must agree with the other keys of the entry.
		field("type", typeName(), func(s *Backend) *Type { return &s.Type }, "",
			"The transport of the server. By default \"command\" means stdio and \"url\" means http. streamable-http, streamableHttp and streamable_http are other names of http; sse is the transport of 2024-11-05."),
		// It must not become empty by its variables: without a command it is another kind of
		// server.
		field("command", nonEmpty(), func(s *Backend) *string { return &s.Command }, "",
			"The program to start. It is started directly, without a shell."),
		// Empty elements are kept: they may be arguments.
		field("args", listOf(expanded()), func(s *Backend) *[]string { return &s.Args }, "",
			"The program's arguments."),
		// All are secrets, since it is unknown which of them are.
		field("env", mapOf(secret()), func(s *Backend) *map[string]Secret { return &s.Env }, "",
			"Environment variables of the program, in addition to the few that every program inherits. Their values are never printed."),
		// Read into env, so that the same rules apply.
		field("envFile", pathname(), func(s *Backend) *string { return &s.EnvFile }, "",
			"A file with further variables of the program, one NAME=value per line, relative to the folder of the config. A variable in \"env\" has precedence."),
		// Relative to the file, and not to the directory in which the gateway was started.
		field("cwd", pathname(), func(s *Backend) *string { return &s.Cwd }, "",
			"The working directory of the program, relative to the folder of the config. The default is that of the gateway."),
		field("url", nonEmpty(), func(s *Backend) *string { return &s.URL }, "",
			"The URL of a remote server, http or https."),
		// Secrets: most headers are credentials.
		field("headers", mapOf(secret()), func(s *Backend) *map[string]Secret { return &s.Headers }, "",
			"Headers sent with each request to the URL. Their values are never printed."),
		// Only the form of the entry is checked, so that it can lack its secrets.
		field("disabled", boolean(), func(s *Backend) *bool { return &s.Disabled }, "",
			"Ignore the server. Its variables do not have to be set."),

		// A pointer: an empty prefix differs from no prefix key.
		field("prefix", optional(text()), func(s *Backend) **string { return &s.Prefix }, "",
			"The prefix of the names of the server's tools and prompts, including a separator; may be empty. The default is the server's name and two underscores."),
		// Without the prefix, because renaming serves names that are already known elsewhere.
		field("rename", mapOf(text()), func(s *Backend) *map[string]string { return &s.Rename }, "",
			"New names for individual tools or prompts, by the server's own names. The new name is offered without the prefix."),
		// By the server's own names, which its documentation has.
		field("include", listOf(text()), func(s *Backend) *[]string { return &s.Include }, "",
			"The only tools and prompts to offer, by the server's own names. An asterisk matches any characters."),
		// It has precedence: what is excluded is excluded on purpose.
		field("exclude", listOf(text()), func(s *Backend) *[]string { return &s.Exclude }, "",
			"Tools and prompts that are not offered, written like \"include\". It has precedence over \"include\"."),
		// For a single slow server: a higher limit for all would hide that others hang.
		field("timeout", duration(), func(s *Backend) *time.Duration { return &s.Timeout }, "",
			"How long a call to the server may take in total, instead of \"limits.callMax\"."),
		// A server does not declare whether it keeps state for a session, and a wrong guess
		// would show one client's data to another.
		field("share", boolean(), func(s *Backend) *bool { return &s.Share }, "",
			"Declares that the server keeps no state per client, so that all clients can share one session or process."),
		// For servers that respond misleadingly when their revision is probed.
		field("era", oneOf(eras()...), func(s *Backend) *string { return &s.Era }, "auto",
			"The protocol era or revision of the server, instead of probing: legacy (initialize and sessions), modern (without), or one revision."),
	}
}

// The names of the eras. Other values of era are revisions.
const (
	eraAuto   = "auto"
	eraLegacy = "legacy"
	eraModern = "modern"
)

func eras() []string {
	return []string{eraAuto, eraLegacy, eraModern, "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}
}

// isModern reports whether era excludes the legacy revisions.
func isModern(era string) bool { return era == eraModern || era >= "2026-07-28" && era < "3" }

// servers is the map of servers. Its order is kept, because it decides which server owns a
// name or resource that several offer.
func servers() form[[]Backend] {
	one := object(serverKeys(), foreignServerKeys())
	// Not mapOf: a Go map has no order.
	return form[[]Backend]{
		want: "a mapping of names to servers",
		read: func(r *reader, n configfile.Node, p place, into *[]Backend) {
			// Not nil, even if it is empty: {} in a file means that there are no servers.
			list := make([]Backend, 0, len(n.Members))
			r.eachMember(n, p, "write each server by its name below it, or {} for none", func(name string, n configfile.Node, p place) {
				server := Backend{Name: name}
				n = r.renameAliases(r.convertEnabled(n, p), p)
				// Before the entry is read, because it decides how to read it.
				disabled, _ := n.Member("disabled")
				r.formOnly = meansTrue(disabled)
				one.read(r, n, p, &server)
				r.withEnvFile(&server, n, p)
				// Kept even if the value was invalid, which has been reported: missing parts
				// of a disabled entry must not be reported besides.
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
		fill: func(into *[]Backend) {
			filled := make([]Backend, len(*into)) // do not change the caller's servers
			copy(filled, *into)
			for i := range filled {
				one.fill(&filled[i])
			}
			*into = filled
		},
		rows: func(prefix string) []row { return one.rows(prefix + ".NAME") },
	}
}
