// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "time"

// configKeys are the keys of a file. The order is that of the documents.
func configKeys() []key[Config] {
	return []key[Config]{
		field("$schema", text(), func(c *Config) *string { return &c.Schema }, "",
			"The address of the JSON Schema of this file, for editors."),
		field("mcpServers", servers(), func(c *Config) *[]Server { return &c.Servers }, "",
			"The backends by their names, as clients and editors write them. A file has either this key or \"servers\"."),

		field("listen", expanded(), func(c *Config) *string { return &c.Listen }, "127.0.0.1:7777",
			"The address to serve HTTP on. Beyond loopback it needs \"auth\", or the deliberate \"allowUnauthenticated\"."),
		field("path", text(), func(c *Config) *string { return &c.Path }, "/mcp",
			"The URL path of the MCP endpoint."),
		field("allowedHosts", listOf(expanded()), func(c *Config) *[]string { return &c.AllowedHosts }, "",
			"Values of the Host header that are served besides those of the listener itself, as host or host:port."),
		field("allowedOrigins", listOf(expanded()), func(c *Config) *[]string { return &c.AllowedOrigins }, "",
			"Origins of web pages that may call besides those of the listener itself, such as https://app.example.com."),
		field("auth", object(authKeys(), nil), func(c *Config) *Auth { return &c.Auth }, "",
			"Who may call. Without it everybody may who reaches the listener."),
		field("allowUnauthenticated", boolean(), func(c *Config) *bool { return &c.AllowUnauthenticated }, "",
			"Lets a listener beyond loopback serve everybody who reaches it. For networks where something else checks who calls."),

		field("name", text(), func(c *Config) *string { return &c.Name }, "signalbox",
			"The gateway's name, as clients see it."),
		field("version", text(), func(c *Config) *string { return &c.Version }, "",
			"The gateway's version, as clients see it, instead of the program's own."),
		field("instructions", text(), func(c *Config) *string { return &c.Instructions }, "",
			"What clients are told about the use of the tools, instead of the joined instructions of the backends."),
		field("conflict", oneOf(ConflictHide, ConflictFirst), func(c *Config) *Conflict { return &c.Conflict }, "hide",
			"Who gets a name that several backends offer: nobody (hide), or the first backend of the file (first)."),
		field("streamLife", duration(), func(c *Config) *time.Duration { return &c.StreamLife }, "",
			"How long one response carries a stream before the client is told to come back for the rest, where something on the way breaks long responses. It applies to clients of 2025-11-25, which know of that. Without it a response lasts as long as its stream."),

		field("limits", object(limitKeys(), nil), func(c *Config) *Limits { return &c.Limits }, "",
			"What clients and backends can make the gateway spend."),
		field("state", object(stateKeys(), nil), func(c *Config) *State { return &c.State }, "",
			"How what clients keep for the gateway is protected: states of requests that wait for input, and ids of tasks."),
		field("drain", object(drainKeys(), nil), func(c *Config) *Drain { return &c.Drain }, "",
			"How the gateway stops."),
		field("log", object(logKeys(), nil), func(c *Config) *Log { return &c.Log }, "",
			"What is logged, on standard error."),
		field("audit", auditRecord(), func(c *Config) *Audit { return &c.Audit }, "",
			"The record of what somebody tried that is not theirs. Without it these entries stand in the log."),
	}
}

func authKeys() []key[Auth] {
	return []key[Auth]{
		field("tokens", listOf(bearerToken()), func(a *Auth) *[]Token { return &a.Tokens }, "",
			"The bearer tokens that are accepted. The tokens themselves stand in environment variables or files."),
	}
}

func tokenKeys() []key[Token] {
	return []key[Token]{
		field("principal", text(), func(t *Token) *string { return &t.Principal }, "",
			"Who calls with this token. Several tokens may name one principal."),
		field("env", text(), func(t *Token) *string { return &t.Env }, "",
			"The environment variable that holds the token."),
		field("file", pathname(), func(t *Token) *string { return &t.File }, "",
			"The file that holds the token, relative to the folder of the config. Others must not be able to read it."),
	}
}

func stateKeys() []key[State] {
	return []key[State]{
		field("keys", listOf(stateKey()), func(s *State) *[]Secret { return &s.Keys }, "",
			"Secrets of at least 32 characters, best written as variables. The first one seals, and all of them open, so that one can be replaced; processes that share them understand what another has sealed. Without any, a restart forgets what it has sealed."),
	}
}

func drainKeys() []key[Drain] {
	return []key[Drain]{
		field("delay", duration(), func(d *Drain) *time.Duration { return &d.Delay }, "5s",
			"How long requests are still taken while /readyz already fails, so that load balancers notice. A listener on loopback has none, unless the file says so."),
		field("spread", duration(), func(d *Drain) *time.Duration { return &d.Spread }, "30s",
			"The time over which open streams are closed, so that clients do not all come back at once. A listener on loopback closes them at once, unless the file says so."),
		field("timeout", duration(), func(d *Drain) *time.Duration { return &d.Timeout }, "60s",
			"How long calls in flight may take to end before they are ended."),
	}
}

func logKeys() []key[Log] {
	return []key[Log]{
		field("level", oneOf("debug", "info", "warn", "error"), func(l *Log) *string { return &l.Level }, "info",
			"The least important records that are written."),
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
