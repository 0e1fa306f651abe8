// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "time"

// configKeys are the keys of a file. The order is that of the documents.
func configKeys() []key[Config] {
	return []key[Config]{
		// Read, because a file that names it for its editor must not be refused for it.
		field("$schema", text(), func(c *Config) *string { return &c.Schema }, "",
			"The address of the JSON Schema of this file, for editors."),
		// The name that most programs of this field have for it, so that their file is one of
		// ours as it stands.
		field("mcpServers", servers(), func(c *Config) *[]Server { return &c.Servers }, "",
			"The backends by their names, as clients and editors write them. A file has either this key or \"servers\"."),

		// Loopback: whoever tries it out has opened nothing to anybody.
		field("listen", expanded(), func(c *Config) *string { return &c.Listen }, "127.0.0.1:7777",
			"The address to serve HTTP on. Beyond loopback it needs \"auth\", or the deliberate \"allowUnauthenticated\"."),
		// What the official examples have, and what people guess.
		field("path", text(), func(c *Config) *string { return &c.Path }, "/mcp",
			"The URL path of the MCP endpoint."),
		// A page that rebinds a name to this machine sends that name as its Host, and is
		// told from a client by nothing else.
		field("allowedHosts", listOf(expanded()), func(c *Config) *[]string { return &c.AllowedHosts }, "",
			"Values of the Host header that are served besides those of the listener itself, as host or host:port."),
		// Browsers send it and no page can forge it, so that this is who may call from a page.
		field("allowedOrigins", listOf(expanded()), func(c *Config) *[]string { return &c.AllowedOrigins }, "",
			"Origins of web pages that may call besides those of the listener itself, such as https://app.example.com."),
		// A mapping of its own, since there will be other ways than tokens to say who one is.
		field("auth", object(authKeys(), nil), func(c *Config) *Auth { return &c.Auth }, "",
			"Who may call. Without it everybody may who reaches the listener."),
		field("allowUnauthenticated", boolean(), func(c *Config) *bool { return &c.AllowUnauthenticated }, "",
			"Lets a listener beyond loopback serve everybody who reaches it. For networks where something else checks who calls."),

		field("name", text(), func(c *Config) *string { return &c.Name }, "signalbox",
			"The gateway's name, as clients see it."),
		// For whoever embeds the gateway in a product that has a version of its own.
		field("version", text(), func(c *Config) *string { return &c.Version }, "",
			"The gateway's version, as clients see it, instead of the program's own."),
		field("instructions", text(), func(c *Config) *string { return &c.Instructions }, "",
			"What clients are told about the use of the tools, instead of the joined instructions of the backends."),
		// Nobody, because a name that is quietly another server's than yesterday is the worse
		// surprise of the two (docs/adr/0005).
		field("conflict", oneOf(ConflictHide, ConflictFirst), func(c *Config) *Conflict { return &c.Conflict }, "hide",
			"Who gets a name that several backends offer: nobody (hide), or the first backend of the file (first)."),
		// Guarded: whoever can write the file could have any program run (docs/adr/0041).
		field("reload", oneOf(ReloadGuarded, ReloadAuto, ReloadManual), func(c *Config) *Reload { return &c.Reload }, "guarded",
			"Which changes of this file are put to work at once: every one (auto), none (manual), or those that run nothing new, and others only if neither a backend nor another user can write the file (guarded). The rest waits for `signalbox reload` or SIGHUP."),
		// None by default: each coming back costs a client a request, and most networks carry a
		// response for as long as it takes.
		field("streamLife", duration(), func(c *Config) *time.Duration { return &c.StreamLife }, "",
			"How long one response carries a stream before the client is told to come back for the rest, where something on the way breaks long responses. It applies to clients of 2025-11-25, which know of that. Without it a response lasts as long as its stream."),

		// The rest are mappings, each with a table in the documents.
		field("limits", object(limitKeys(), nil), func(c *Config) *Limits { return &c.Limits }, "",
			"What clients and backends can make the gateway spend."),
		field("state", object(stateKeys(), nil), func(c *Config) *State { return &c.State }, "",
			"How what clients keep for the gateway is protected: states of requests that wait for input, and ids of tasks."),
		field("drain", object(drainKeys(), nil), func(c *Config) *Drain { return &c.Drain }, "",
			"How the gateway stops."),
		field("log", object(logKeys(), nil), func(c *Config) *Log { return &c.Log }, "",
			"What is logged, on standard error."),
		field("audit", auditRecord(), func(c *Config) *Audit { return &c.Audit }, "",
			"The record of calls, and of what somebody tried that is not theirs. Without it the latter stands in the log, and calls are not recorded."),
	}
}

func authKeys() []key[Auth] {
	return []key[Auth]{
		// A list, so that one token can be replaced while the other still works.
		field("tokens", listOf(bearerToken()), func(a *Auth) *[]Token { return &a.Tokens }, "",
			"The bearer tokens that are accepted. The tokens themselves stand in environment variables or files."),
	}
}

func tokenKeys() []key[Token] {
	return []key[Token]{
		// Not the token's own name: what is counted and recorded has to outlive the token.
		field("principal", text(), func(t *Token) *string { return &t.Principal }, "",
			"Who calls with this token. Several tokens may name one principal."),
		// The token itself is never in the file, which is shown to colleagues and kept in
		// repositories.
		field("env", text(), func(t *Token) *string { return &t.Env }, "",
			"The environment variable that holds the token."),
		// For who mounts secrets as files: unlike a variable, a file is not in what the
		// process could hand on to others by mistake.
		field("file", pathname(), func(t *Token) *string { return &t.File }, "",
			"The file that holds the token, relative to the folder of the config. Others must not be able to read it."),
	}
}

func stateKeys() []key[State] {
	return []key[State]{
		// No default that is the same everywhere: it would be known to everybody.
		field("keys", listOf(stateKey()), func(s *State) *[]Secret { return &s.Keys }, "",
			"Secrets of at least 32 characters, best written as variables. The first one seals, and all of them open, so that one can be replaced; processes that share them understand what another has sealed. Without any, a restart forgets what it has sealed."),
	}
}

func drainKeys() []key[Drain] {
	return []key[Drain]{
		// A load balancer looks every second or two, and wants to see it more than once.
		field("delay", duration(), func(d *Drain) *time.Duration { return &d.Delay }, "5s",
			"How long requests are still taken while /readyz already fails, so that load balancers notice. A listener on loopback has none, unless the file says so."),
		field("spread", duration(), func(d *Drain) *time.Duration { return &d.Spread }, "30s",
			"The time over which open streams are closed, so that clients do not all come back at once. A listener on loopback closes them at once, unless the file says so."),
		// After that the official clients have given up by default.
		field("timeout", duration(), func(d *Drain) *time.Duration { return &d.Timeout }, "60s",
			"How long calls in flight may take to end before they are ended."),
	}
}

func logKeys() []key[Log] {
	return []key[Log]{
		// What one wants to read the day after.
		field("level", oneOf("debug", "info", "warn", "error"), func(l *Log) *string { return &l.Level }, "info",
			"The least important records that are written."),
		// Text is for a terminal. What collects logs reads the other.
		field("format", oneOf("text", "json"), func(l *Log) *string { return &l.Format }, "text",
			"How records are written."),
	}
}

// auditRecord wants a file of whoever wants a record: who leaves it out would look
// for a file that there is not.
func auditRecord() form[Audit] {
	f := object(auditKeys(), []foreign{{"path", false, `write "file"`, "file"}})
	record := f.read
	f.read = func(r *reader, n node, p place, into *Audit) {
		record(r, n, p, into)
		if _, found := n.member("file"); !found && !r.unread.someMeant(p, p.key("file")) {
			r.tell(n.at, p, `add "file", or remove it to have the entries in the log`, "%q does not say where the record goes", p.name)
		}
	}
	return f
}

func auditKeys() []key[Audit] {
	return []key[Audit]{
		field("file", auditFile(), func(a *Audit) *string { return &a.File }, "",
			"The file that the record is appended to, relative to the folder of the config."),
	}
}
