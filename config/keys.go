// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"time"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// configKeys returns the keys of a file, in the order of the documents.
func configKeys() []key[Config] {
	return []key[Config]{
		// Accepted, because editors use it.
		field("$schema", text(), func(c *Config) *string { return &c.Schema }, "",
			"The address of the JSON Schema of this file, for editors."),
		// The name that most clients use, so that their files are valid configurations.
		field("mcpServers", servers(), func(c *Config) *[]Backend { return &c.Servers }, "",
			"The backends by name, as clients and editors write them. A file has either this key or \"servers\"."),

		// Loopback, so that trying out the gateway opens nothing to the network.
		field("listen", expanded(), func(c *Config) *string { return &c.Listen }, "127.0.0.1:7777",
			"The address on which HTTP is served. An address beyond loopback requires \"auth\", or explicitly \"allowUnauthenticated\"."),
		// As in the official examples.
		field("path", text(), func(c *Config) *string { return &c.Path }, "/mcp",
			"The URL path of the MCP endpoint."),
		// A page that rebinds a name to this machine sends that name as its Host, which is
		// the only difference to requests of a client.
		field("allowedHosts", listOf(expanded()), func(c *Config) *[]string { return &c.AllowedHosts }, "",
			"Additional accepted values of the Host header, as host or host:port. Those of the listener itself are always accepted."),
		// Browsers set it, and pages cannot forge it.
		field("allowedOrigins", listOf(expanded()), func(c *Config) *[]string { return &c.AllowedOrigins }, "",
			"Origins of web pages that may send requests, such as https://app.example.com. Those of the listener itself are always accepted."),
		// A mapping, since there may be other kinds of authentication in the future.
		field("auth", object(authKeys(), nil), func(c *Config) *Auth { return &c.Auth }, "",
			"Authentication of clients. Without it, every client that reaches the listener is accepted."),
		field("allowUnauthenticated", boolean(), func(c *Config) *bool { return &c.AllowUnauthenticated }, "",
			"Accept every client on a listener beyond loopback. For networks in which something else authenticates clients."),

		field("name", text(), func(c *Config) *string { return &c.Name }, "signalbox",
			"The gateway's name, as sent to clients."),
		// For products that embed the gateway and have a version of their own.
		field("version", text(), func(c *Config) *string { return &c.Version }, "",
			"The gateway's version, as sent to clients, instead of the version of the program."),
		field("instructions", text(), func(c *Config) *string { return &c.Instructions }, "",
			"Instructions for the use of the tools, sent to clients instead of the joined instructions of the backends."),
		// Hidden, because a name that silently changes its server is the worse surprise of the
		// two (docs/adr/0005).
		field("conflict", oneOf(ConflictHide, ConflictFirst), func(c *Config) *Conflict { return &c.Conflict }, "hide",
			"Which backend gets a name that several backends offer: none (hide), or the first in the file (first)."),
		// Guarded: a writer of the file could run any program (docs/adr/0041).
		field("reload", oneOf(ReloadGuarded, ReloadAuto, ReloadManual), func(c *Config) *ReloadPolicy { return &c.Reload }, "guarded",
			"Which changes of this file are applied automatically: all (auto), none (manual), or changes that run nothing new, and others only if neither a backend nor another user can write the file (guarded). All other changes wait for `signalbox reload` or SIGHUP."),
		// None by default: each resumption costs the client a request, and most networks
		// permit responses of any duration.
		field("streamLife", duration(), func(c *Config) *time.Duration { return &c.StreamLife }, "",
			"How long one response carries a stream before the client has to resume it with a new request, for networks that cut long responses. It applies to clients of 2025-11-25, which support this. Without it, a response lasts as long as its stream."),

		// Mappings, each with a table in the documents.
		field("limits", object(limitKeys(), nil), func(c *Config) *Limits { return &c.Limits }, "",
			"Limits on the resources that clients and backends can use."),
		field("state", object(stateKeys(), nil), func(c *Config) *State { return &c.State }, "",
			"How data that clients keep for the gateway is protected: states of requests that wait for input, and task IDs."),
		field("drain", object(drainKeys(), nil), func(c *Config) *Drain { return &c.Drain }, "",
			"How the gateway shuts down."),
		field("log", object(logKeys(), nil), func(c *Config) *Log { return &c.Log }, "",
			"The log on standard error."),
		field("audit", auditRecord(), func(c *Config) *Audit { return &c.Audit }, "",
			"The audit record of calls and of attempts to access what belongs to another principal. Without it, such attempts are logged, and calls are not recorded."),
	}
}

func authKeys() []key[Auth] {
	return []key[Auth]{
		// A list, so that a token can be replaced while the old one is still accepted.
		field("tokens", listOf(bearerToken()), func(a *Auth) *[]Token { return &a.Tokens }, "",
			"The accepted bearer tokens. The tokens themselves are in environment variables or files."),
	}
}

func tokenKeys() []key[Token] {
	return []key[Token]{
		// Not named after the token: metrics and records outlive it.
		field("principal", text(), func(t *Token) *string { return &t.Principal }, "",
			"The identity of a caller with this token. Several tokens may have the same principal."),
		// The token itself is never in the file, which is shared and kept in repositories.
		field("env", text(), func(t *Token) *string { return &t.Env }, "",
			"The environment variable with the token."),
		// For secrets mounted as files. Unlike a variable, a file is not inherited by other
		// processes.
		field("file", pathname(), func(t *Token) *string { return &t.File }, "",
			"The file with the token, relative to the folder of the config. Other users must not be able to read it."),
	}
}

func stateKeys() []key[State] {
	return []key[State]{
		// No fixed default, as it would be public.
		field("keys", listOf(stateKey()), func(s *State) *[]Secret { return &s.Keys }, "",
			"Secrets of at least 32 characters, preferably given as variables. The first one seals, and all of them open, so that one can be replaced. Processes with the same keys can open what the others have sealed. Without keys, sealed data is lost at a restart."),
	}
}

func drainKeys() []key[Drain] {
	return []key[Drain]{
		// Load balancers check every second or two, and need several failures.
		field("delay", duration(), func(d *Drain) *time.Duration { return &d.Delay }, "5s",
			"How long requests are still accepted while /readyz already fails, so that load balancers notice. A listener on loopback has no delay unless it is configured."),
		field("spread", duration(), func(d *Drain) *time.Duration { return &d.Spread }, "30s",
			"The time over which open streams are closed, so that clients do not all reconnect at once. A listener on loopback closes them at once unless this is configured."),
		// After that time the official clients have given up by default.
		field("timeout", duration(), func(d *Drain) *time.Duration { return &d.Timeout }, "60s",
			"How long running calls may take to end before they are canceled."),
	}
}

func logKeys() []key[Log] {
	return []key[Log]{
		// Enough to investigate a problem later.
		field("level", oneOf("debug", "info", "warn", "error"), func(l *Log) *string { return &l.Level }, "info",
			"The lowest level of records that are written."),
		// Text for terminals; JSON for log collectors.
		field("format", oneOf("text", "json"), func(l *Log) *string { return &l.Format }, "text",
			"The format of the records."),
	}
}

// auditRecord is the form of audit. It requires "file": without it the record would be
// expected in a file that does not exist.
func auditRecord() form[Audit] {
	f := object(auditKeys(), []foreignKey{{"path", false, `write "file"`, "file"}})
	record := f.read
	f.read = func(r *reader, n configfile.Node, p place, into *Audit) {
		record(r, n, p, into)
		if _, found := n.Member("file"); !found && !r.rejected.hasAnyOrMeant(p, p.key("file")) {
			r.report(n.At, p, `add "file", or remove it to have the entries in the log`, "%q does not specify where to write the record", p.name)
		}
	}
	return f
}

func auditKeys() []key[Audit] {
	return []key[Audit]{
		field("file", auditFile(), func(a *Audit) *string { return &a.File }, "",
			"The file to which the record is appended, relative to the folder of the config."),
	}
}
