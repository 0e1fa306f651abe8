// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// configKeys returns the keys of a file, in the order of the documents.
func configKeys() []key {
	return []key{
		// Accepted, because editors use it.
		{"$schema", text(), "", "The address of the JSON Schema of this file, for editors."},
		// The name that most clients use, so that their files are valid configurations.
		{"mcpServers", servers(), "", "The backends by name, as clients and editors write them. A file has either this key or \"servers\"."},

		// A path for each, because every client can write an address (docs/adr/0049).
		{profilesKey, profiles(), "", "Parts of what the gateway offers, by name. Each is served below \"path\" at /p/NAME, besides everything at \"path\" itself."},

		// Loopback, so that trying out the gateway opens nothing to the network.
		{"listen", expanded(), "127.0.0.1:7777", "The address on which HTTP is served. An address beyond loopback requires \"auth\", or explicitly \"allowUnauthenticated\"."},
		// As in the official examples.
		{"path", text(), "/mcp", "The URL path of the MCP endpoint."},
		// Files, which the programs that renew certificates write.
		{"tls", optional(tlsForm()), "", "The certificate of the listener, which serves HTTPS then. Without it, it serves plain HTTP, for this machine or for a proxy. The files are read again when they have changed."},
		// Configured, since what a request names as its host is chosen by the sender.
		{"publicURL", expanded(), "", "The scheme and host at which clients reach the gateway, such as https://mcp.example.com. With \"path\" it is the URL that access tokens are for. Its host is accepted as Host. It is required with \"auth.issuers\", and if the gateway listens beyond loopback and users sign in to a server with \"oauth\"."},
		// A page that rebinds a name to this machine sends that name as its Host, which is
		// the only difference to requests of a client.
		{"allowedHosts", listOf(expanded()), "", "Additional accepted values of the Host header, as host or host:port. Those of the listener itself are always accepted."},
		// Browsers set it, and pages cannot forge it.
		{"allowedOrigins", listOf(expanded()), "", "Origins of web pages that may send requests, such as https://app.example.com. Those of the listener itself are always accepted."},
		// A mapping, since there may be other kinds of authentication in the future.
		{"auth", object(authKeys(), nil), "", "Authentication of clients. Without it, every client that reaches the listener is accepted."},
		{"allowUnauthenticated", boolean(), "", "Accept every client on a listener beyond loopback. For networks in which something else authenticates clients."},

		// A condition of its own: a policy is about items, and these pages about the gateway.
		{operatorsKey, operators(), "", "A CEL expression about the principal, such as '\"platform\" in principal.claims.groups'. If it is true, a caller may read /status and /metrics. Without it, all callers may, and with a \"policy\" only those on this machine."},
		// A list, because each is for other items.
		{quotasKey, listOf(object(quotaKeys(), nil)), "", "How many calls may be made in a time, by each principal or by all together. A call needs the permission of each of them."},

		{"name", text(), "signalbox", "The gateway's name, as sent to clients."},
		// For products that embed the gateway and have a version of their own.
		{"version", text(), "", "The gateway's version, as sent to clients, instead of the version of the program."},
		{"instructions", text(), "", "Instructions for the use of the tools, sent to clients instead of the joined instructions of the backends."},
		// Hidden, because a name that silently changes its server is the worse surprise of the
		// two (docs/adr/0005).
		{"conflict", oneOf("hide", "first"), "hide", "Which backend gets a name that several backends offer: none (hide), or the first in the file (first)."},
		// Guarded: a writer of the file could run any program (docs/adr/0041).
		{"reload", oneOf("guarded", "auto", "manual"), "guarded", "Which changes of this file are applied automatically: all (auto), none (manual), or changes that run nothing new, and others only if neither a backend nor another user can write the file (guarded). All other changes wait for `signalbox reload` or SIGHUP."},
		// None by default: each resumption costs the client a request, and most networks
		// permit responses of any duration.
		{"streamLife", duration(), "", "How long one response carries a stream before the client has to resume it with a new request, for networks that cut long responses. It applies to clients of 2025-11-25, which support this. Without it, a response lasts as long as its stream."},

		// Mappings, each with a table in the documents.
		{"pins", object(pinKeys(), nil), "", "What becomes of tools, prompts and instructions that differ from those that were approved with `signalbox lock`."},
		{"apps", appsForm(), "", "What becomes of apps (io.modelcontextprotocol/ui), the pages that servers have for their tools. Clients that render them are offered them; false hides them from all."},
		{"search", object(searchKeys(), nil), "", "When profiles with \"view\": \"auto\" show find_tool and call_tool."},
		{resultsKey, object(resultsKeys(), nil), "", "What becomes of large results of tools. Without \"max\" they are sent whole."},
		{"limits", object(limitKeys(), nil), "", "Limits on the resources that clients and backends can use."},
		{"state", object(stateKeys(), nil), "", "How data that clients keep for the gateway is protected: states of requests that wait for input, and task IDs."},
		{"credentials", object(credentialsKeys(), nil), "", "Where the gateway keeps credentials that authorization servers have given it, and how they are protected."},
		{"drain", object(drainKeys(), nil), "", "How the gateway shuts down."},
		{"log", object(logKeys(), nil), "", "The log on standard error."},
		{"metrics", object(metricsKeys(), nil), "", "The metrics at /metrics."},
		{policyKey, policyForm(), "", "Rules about which callers may use which items, and see them. Without it, all may use everything."},
		// A list, because their order counts.
		{filtersKey, listOf(object(filterKeys(), nil)), "", "What must not be in arguments or results. Filters replace text in results, mark it as that of a server, or refuse calls by their arguments."},
		{"audit", auditRecord(), "", "The audit record of calls and of attempts to access what belongs to another principal. Without it, such attempts are logged, and calls are not recorded."},
	}
}

func authKeys() []key {
	return []key{
		// A list, so that a token can be replaced while the old one is still accepted.
		{"tokens", listOf(bearerToken()), "", "The accepted bearer tokens. The tokens themselves are in environment variables or files."},
		// Tokens are verified here, without a request for each (docs/adr/0060).
		{"issuers", listOf(issuerEntry()), "", "The identity providers whose signed access tokens (JWT) are accepted."},
		{"certificates", optional(object(certificatesKeys(), nil)), "", "How client certificates identify callers. It requires \"tls.clientCAs\"."},
		{"proxy", optional(object(proxyKeys(), nil)), "", "A proxy that identifies callers by plain headers, which count from its own addresses only."},
		{"browser", optional(object(browserKeys(), nil)), "", "The gateway's client at one of the issuers, with which the pages to sign in identify their user (OpenID Connect). Without it, users enter the token of their client there."},
	}
}

func tokenKeys() []key {
	return []key{
		// Not named after the token: metrics and records outlive it.
		{"principal", text(), "", "The identity of a caller with this token. Several tokens may have the same principal."},
		// The token itself is never in the file, which is shared and kept in repositories.
		{"env", text(), "", "The environment variable with the token."},
		// For secrets mounted as files. Unlike a variable, a file is not inherited by other
		// processes.
		{"file", pathname(), "", "The file with the token, relative to the folder of the config. Other users must not be able to read it."},
		// Of the token and not of the principal, so that one principal can have a token for
		// each of its programs.
		{profilesKey, listOf(text()), "", "The only profiles that a caller with this token can use. Everything else, including \"path\" itself, is answered like an unknown path. Without it, a caller can use everything."},
	}
}

// profileKeys returns the keys of a profile.
func profileKeys() []key {
	return []key{
		// Disabled servers may be named, so that a server can be disabled by one key.
		{"servers", listOf(text()), "", "The servers of the profile, by their names. The default is all."},
		// By the names that clients see: those of different servers differ, and a rename of the
		// operator counts.
		{"include", listOf(text()), "", "The only tools and prompts to offer, by the names that clients see, with prefix. An asterisk matches any characters."},
		{"exclude", listOf(text()), "", "Tools and prompts that are not offered, written like \"include\". It has precedence over \"include\"."},
		// What is shown, and never what may be called.
		{"view", oneOf(ViewFull, ViewSearch, ViewAuto), "", "What the list of tools has: all tools (full, the default), or find_tool and call_tool, with which a model finds and calls the others (search). With auto, clients that search tools themselves are sent all of them, and so are all clients while the list is shorter than \"search.above\"; others are sent find_tool and call_tool. All tools of the profile can be called in each view."},
		{"always", listOf(text()), "", "Tools that are listed besides find_tool and call_tool, written like \"include\"."},
		{"split", boolean(), "", "Also offer call_tool_readonly, which calls only tools with readOnlyHint, so that a user can allow it for good."},
		// For servers that share names, and for apps, which call tools by the server's own names.
		{"names", oneOf(NamesPrefixed, NamesOwn), "", "The names of tools and prompts, and URIs: those of the whole gateway (prefixed, the default), or for a profile of one server those of the server itself (own)."},
		// Never for several servers: nothing in an unknown method names the one that it is for.
		{"extensions", oneOf(ExtensionsKnown, ExtensionsPass), "", "Which extensions of the protocol clients and servers can use: those that the gateway translates (known, the default), or in a profile with \"names\": \"own\" all (pass). Then the gateway forwards methods that it cannot read."},
	}
}

func searchKeys() []key {
	return []key{
		// From about here on lists cost more than the requests that find tools.
		{"above", count(), "10000", "The number of tokens, as a quarter of the bytes, up to which all tools are listed."},
	}
}

func stateKeys() []key {
	return []key{
		// No fixed default, as it would be public.
		{"keys", listOf(stateKey()), "", "Secrets of at least 32 characters, preferably given as variables. The first one seals, and all of them open, so that one can be replaced. Processes with the same keys can open what the others have sealed. Without keys, sealed data is lost at a restart."},
	}
}

func credentialsKeys() []key {
	return []key{
		{"dir", pathname(), "", "The folder of the records, relative to the folder of the config. It is created for the user of the gateway alone (mode 0700). The default is a folder in the state folder of the user."},
		{"keys", listOf(stateKey()), "", "Secrets of at least 32 characters, preferably given as variables. The first one seals, and all of them open, so that one can be replaced. Without keys, one is made and kept in the keyring of the system, or else in a file of mode 0600."},
		{"orphans", oneOf("refuse", OrphansAllow), "", "A start with records in the folder that none of the keys opens: it is refused (refuse, the default), or their owners have to sign in again (allow)."},
	}
}

func drainKeys() []key {
	return []key{
		// Load balancers check every second or two, and need several failures.
		{"delay", duration(), "5s", "How long requests are still accepted while /readyz already fails, so that load balancers notice. A listener on loopback has no delay unless it is configured."},
		{"spread", duration(), "30s", "The time over which open streams are closed, so that clients do not all reconnect at once. A listener on loopback closes them at once unless this is configured."},
		// After that time the official clients have given up by default.
		{"timeout", duration(), "60s", "How long running calls may take to end before they are canceled."},
	}
}

func metricsKeys() []key {
	return []key{
		// Not by default: backends choose the names, and each has its own series.
		{"tools", boolean(), "", "Add the name of the tool to the durations of calls, as the label gen_ai_tool_name."},
	}
}

func logKeys() []key {
	return []key{
		// Enough to investigate a problem later.
		{"level", oneOf("debug", "info", "warn", "error"), "info", "The lowest level of records that are written."},
		// Text for terminals; JSON for log collectors.
		{"format", oneOf("text", "json"), "text", "The format of the records. On a terminal, records are shortened unless it is set."},
		{"calls", boolean(), "", "Write a record of level info for each call. Without it, that is done only where the log is a terminal."},
	}
}

// auditRecord is the form of audit. It requires "file": without it the record would be
// expected in a file that does not exist.
func auditRecord() form {
	f := object(auditKeys(), []foreignKey{{"path", false, `write "file"`, "file"}})
	return f.then(func(r *reader, n configfile.Node, p place, _ reflect.Value) {
		if _, found := n.Member("file"); !found && !r.hasOrMeant(p, p.key("file")) {
			r.report(p, `add "file", or remove it to have the entries in the log`, "%q does not specify where to write the record", p.name)
		}
	})
}

func auditKeys() []key {
	return []key{
		{"file", auditFile(), "", "The file to which the record is appended, relative to the folder of the config."},
	}
}

// serverKeys returns the keys of a server: first those of other programs, then the gateway's
// own.
func serverKeys() []key {
	return []key{
		// Optional. If it is there, it must agree with the other keys of the entry.
		{"type", typeName(), "", "The transport of the server. By default \"command\" means stdio and \"url\" means http. streamable-http, streamableHttp and streamable_http are other names of http; sse is the transport of 2024-11-05."},
		// It must not become empty by its variables: without a command it is another kind of
		// server.
		{"command", nonEmpty(), "", "The program to start. It is started directly, without a shell."},
		// Empty elements are kept: they may be arguments.
		{"args", listOf(expanded()), "", "The program's arguments."},
		// All are secrets, since it is unknown which of them are.
		{"env", mapOf(secret()), "", "Environment variables of the program, in addition to the few that every program inherits. Their values are never printed."},
		// Read into env, so that the same rules apply.
		{"envFile", pathname(), "", "A file with further variables of the program, one NAME=value per line, relative to the folder of the config. A variable in \"env\" has precedence."},
		// Relative to the file, and not to the directory in which the gateway was started.
		{"cwd", pathname(), "", "The working directory of the program, relative to the folder of the config. The default is that of the gateway."},
		{"url", nonEmpty(), "", "The URL of a remote server, http or https."},
		// Secrets: most headers are credentials.
		{"headers", mapOf(secret()), "", "Headers sent with each request to the URL. Their values are never printed."},
		// A pointer: an empty mapping differs from none. The keys that clients have are the same.
		{"oauth", optional(object(oauthKeys(), nil)), "", "Access tokens for the URL, obtained by OAuth. An empty mapping means that users sign in."},
		// A mapping: the string of other programs is a command line for a shell.
		{"headersHelper", optional(object(helperKeys(), nil)), "", "A program that prints headers for requests to the URL, such as a token that lives for minutes."},
		// Only the form of the entry is checked, so that it can lack its secrets.
		{"disabled", boolean(), "", "Ignore the server. Its variables do not have to be set."},

		// A pointer: an empty prefix differs from no prefix key.
		{"prefix", optional(text()), "", "The prefix of the names of the server's tools and prompts, including a separator; may be empty. The default is the server's name and two underscores. If it is empty, URIs of apps and skills are those of the server."},
		// Without the prefix, because renaming serves names that are already known elsewhere.
		{"rename", mapOf(text()), "", "New names for individual tools or prompts, by the server's own names. The new name is offered without the prefix."},
		// By the server's own names, which its documentation has.
		{"include", listOf(text()), "", "The only tools and prompts to offer, by the server's own names. An asterisk matches any characters."},
		// It has precedence: what is excluded is excluded on purpose.
		{"exclude", listOf(text()), "", "Tools and prompts that are not offered, written like \"include\". It has precedence over \"include\"."},
		// A pointer: neither is the default.
		{"apps", boolean(), "", "Whether the server has apps: false hides them, and true requests its lists for clients that render apps although the other lists show none. The default is what its lists show."},
		// For a single slow server: a higher limit for all would hide that others hang.
		{"timeout", duration(), "", "How long a call to the server may take in total, instead of \"limits.callMax\"."},
		// A server does not declare whether it keeps state for a session, and a wrong guess
		// would show one client's data to another.
		{"share", boolean(), "", "Declares that the server keeps no state per client, so that all clients can share one session or process."},
		// Twenty servers are configured, and one is used. What a client has done in a session of
		// its own cannot be repeated, so without the key such a process is kept.
		{"idle", duration(), "", "How long a process may serve no client before it is ended. Its lists stay offered, and the next call starts it. The default is 10m. Unless the key is set, a process in which a client has made calls is ended only with the session of that client. With it, such a process is ended as well, and what it has kept for the client is lost. A process with a running task or a subscription is never ended. none keeps all processes."},
		// A server that leaks would take the memory of all others.
		{"memory", size(), "", "How much resident memory a process may use, together with what it has started, such as 512MiB. It is measured every 5 seconds, but not on Windows. A process that uses more is killed; the outcome of its calls is unknown."},
		// For a server with large results that are worth their tokens, or with none.
		{resultsKey, optional(object(serverResultsKeys(), nil)), "", "What becomes of large results of the server's tools, instead of \"results\" of the file."},
		// npx takes longer to start, and more memory, than many of the servers that it starts.
		{"launch", oneOf("runner", "direct"), "", "How a server of npx is started: by npx (runner, the default), or by node itself (direct), which takes less time and memory. The latter needs a package with an exact version that npx has installed before, and no options but -y; otherwise npx is used."},
		// For servers that respond misleadingly when their revision is probed.
		{"era", oneOf(eras()...), "auto", "The protocol era or revision of the server, instead of probing: legacy (initialize and sessions), modern (without), or one revision."},
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
func servers() form {
	one := object(serverKeys(), foreignServerKeys())
	return form{
		want: "a mapping of names to servers",
		elem: &one,
		read: func(r *reader, n configfile.Node, p place, into reflect.Value) {
			// Not nil, even if it is empty: {} in a file means that there are no servers.
			list := make([]Backend, 0, len(n.Members))
			r.eachMember(n, p, "write each server by its name below it, or {} for none", func(name string, n configfile.Node, p place) {
				server := Backend{Name: name}
				n = r.renameAliases(r.convertEnabled(n, p), p)
				// Before the entry is read, because it decides how to read it.
				disabled, _ := n.Member("disabled")
				r.formOnly = meansTrue(disabled)
				r.secrets.used = nil
				one.read(r, n, p, reflect.ValueOf(&server).Elem())
				server.Secrets = r.secrets.used
				r.withEnvFile(&server, p)
				// Kept even if the value was invalid, which has been reported: missing parts
				// of a disabled entry must not be reported besides.
				server.Disabled, r.formOnly = r.formOnly, false
				list = append(list, server)
			})
			into.Set(reflect.ValueOf(list))
		},
	}
}

// limitKeys returns the keys of limits. The defaults suit a single machine.
func limitKeys() []key {
	return []key{
		// Sizes. Each default is far above what MCP tools send, and low enough that the
		// permitted number of messages fits into memory.

		// An argument may be a whole file, but hardly a larger one. Other MCP servers have
		// the same limit.
		{"requestBody", size(), "4MiB", "The size of the body of a client's request."},
		// The header has tokens with many claims, and mirrored arguments of a call.
		{"requestHeaders", size(), "64KiB", "The size of the header of a client's request."},
		// Enough for a list of a thousand tools with schemas, or one picture in base64.
		{"backendMessage", size(), "16MiB", "The size of a message of a backend."},
		// Clients send it to a model with every question, so a larger schema is a mistake or
		// an attack, even if memory suffices.
		{"schema", size(), "256KiB", "The size of the schema of a tool. A tool with a larger schema is not offered."},
		// A longer line is data that a program prints.
		{"logLine", size(), "8KiB", "The length of a line that a backend writes to standard error. A longer line is cut in the log, with the length of the rest."},
		// Responses for a client that has lost its connection, until it resumes.
		{"eventLog", size(), "1MiB", "The size of the events kept of a session's streams for a client that loses its connection and resumes. The latest result is kept in addition, whatever its size."},
		// A quarter of a small machine; most sessions keep little or nothing.
		{"eventLogTotal", size(), "256MiB", "The size of these events in all sessions. If it is exceeded, each principal (without \"auth\" each client address) may keep an equal share, and each of its sessions an equal share of that."},
		// The garbage collector needs the same amount again, and a small machine has 1 GiB.
		{"pending", size(), "128MiB", "The size of responses in memory that clients have not read yet. At the limit, backends are read more slowly, new requests are rejected, and a response that does not fit is replaced by an error."},
		// Four of the largest responses, for a client on a slow line.
		{"pendingPerPrincipal", size(), "64MiB", "The size of these responses for one principal. Without \"auth\" all clients are one principal."},

		// Numbers of what costs memory, time or a process each.

		// Recursive parsers and validators run out of stack far below the limits of sizes.
		{"depth", count(), "128", "How deep the values of a message may nest."},
		// Each member costs more memory than its bytes, in every reader of the message.
		{"members", count(), "100000", "How many members all objects of a message may have together."},
		// Only 2025-03-26 has batches, and clients send no large ones.
		{"batch", count(), "100", "How many messages a batch may have."},
		// No client can use more, and an endless list would be kept completely.
		{"toolsPerBackend", count(), "2000", "How many tools of a backend are offered; the same number applies to resources, templates and prompts."},
		// Ends a list with cursors that form a loop.
		{"pages", count(), "200", "How many pages of a backend's list are fetched."},
		// Ends a call if the server asks for more input after each response, so that users are
		// not asked until they agree.
		{"rounds", count(), "10", "How many times a backend may ask for input during one call."},
		// Bounds the memory of all sessions; a single principal has fewer.
		{"sessions", count(), "20000", "How many sessions there may be. At the limit, a new session replaces one that has been idle for a while, of the principal with the most sessions. If no session is idle, the new one is rejected."},
		// A client that forgets its session at each start must not block the others.
		{"sessionsPerPrincipal", count(), "100", "How many sessions one principal may have, with the same replacement. Without \"auth\" it has no effect."},
		// A client needs one or two. One that loses connections leaves some that are not yet
		// known to be closed.
		{"streamsPerSession", count(), "16", "How many GET requests may carry one stream of a session, which is its standalone stream or that of a request that a client has resumed. A new GET takes over the stream; the previous one counts until it has ended."},
		// A model calls a handful of tools at once.
		{"inFlightPerSession", count(), "64", "How many requests of one session may be in flight."},
		// For requests without sessions, this is the only limit per caller. A principal may be
		// a whole team with one token.
		{"inFlightPerPrincipal", count(), "1024", "How many requests without a session one principal may have in flight, and separately how many subscriptions. Without \"auth\" all clients are one principal."},
		// More than any UI shows; each costs the backend an entry, and the gateway some KiB.
		{"subscriptions", count(), "1000", "How many resources a session may subscribe to, or how many resources and tasks one subscription of a client without sessions may have."},
		// Each holds a request of a backend, and most often a backend session that nothing
		// else can use.
		{"parked", count(), "1000", "How many requests of modern clients may wait for input for a backend. One principal may have a quarter of them; without \"auth\" all clients together may have all."},
		// Each is a process or a connection of a third-party server.
		{"backendSessions", count(), "64", "How many sessions or processes of one legacy backend may be open for clients without sessions. One principal may use three quarters of what others leave for sessions that wait for input, and always one; more questions are rejected. Without \"auth\" all of them may wait."},
		// Clients' sessions start processes, so this limits what clients can start.
		{"processes", count(), "64", "How many processes of one stdio server there may be at a time, in addition to one for its lists. At the limit, a new process replaces the process of the client that has been idle longest."},

		// How long clients and backends may take.

		// Users return to the same window after a break. A client without its session begins
		// a new one.
		{"sessionIdle", duration(), "30m", "How long a session lives without a request or an open stream."},
		// A handshake is two requests of a program.
		{"sessionUninitialized", duration(), "30s", "How long a session lives if the client does not complete the handshake."},
		// Enough for a tunnel, or a laptop that changes networks.
		{"eventRetention", duration(), "5m", "How long the stream of a completed request is kept for a client that has lost its connection."},
		// The default timeout of the official clients: a later response is of no use.
		{"callIdle", duration(), "60s", "How long a call may take without a message from the backend. The time is stopped while the client is asked for input."},
		// Progress may continue without end.
		{"callMax", duration(), "10m", "How long a call may take in total. The time is stopped while the client is asked for input."},
		// Time for a user to read a question, look something up and answer. Later the window
		// has most likely been closed.
		{"inputWait", duration(), "10m", "How long a client may take to answer a question of a backend. After that the question fails, and the request of a modern client, which is not retried, is canceled at the backend."},
		// A client that lists only once receives the items of all backends that start in time.
		{"firstList", duration(), "", "How long a list waits for backends that are starting. The default is `handshake`."},
		// Longer than name resolution and handshakes take on a bad line.
		{"connect", duration(), "10s", "How long connecting to a backend may take."},
		// A server that is downloaded and installed at its first start does so before it
		// responds.
		{"handshake", duration(), "1m", "How long a backend may take to complete the handshake, once it is connected or started. A process that takes longer is ended, and started again for the next call."},
		// A client that does not read occupies memory with what was sent.
		{"write", duration(), "10s", "How long a client may take to read 16 KiB of a response before its connection is closed."},
		// A slower client is most likely an attack.
		{"headerRead", duration(), "5s", "How long a client may take to send the header of a request."},
	}
}
