// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "time"

// limitKeys returns the keys of limits. The defaults suit a single machine.
func limitKeys() []key[Limits] {
	return append(sizeKeys(), append(countKeys(), timeKeys()...)...)
}

// sizeKeys returns the limits of sizes. Each default is far above what MCP tools send, and
// low enough that the permitted number of messages fits into memory.
func sizeKeys() []key[Limits] {
	return []key[Limits]{
		// An argument may be a whole file, but hardly a larger one. Other MCP servers have
		// the same limit.
		field("requestBody", size(), func(l *Limits) *int64 { return &l.RequestBody }, "4MiB",
			"The size of the body of a client's request."),
		// The header has tokens with many claims, and mirrored arguments of a call.
		field("requestHeaders", size(), func(l *Limits) *int64 { return &l.RequestHeaders }, "64KiB",
			"The size of the header of a client's request."),
		// Enough for a list of a thousand tools with schemas, or one picture in base64.
		field("backendMessage", size(), func(l *Limits) *int64 { return &l.BackendMessage }, "16MiB",
			"The size of a message of a backend."),
		// Clients send it to a model with every question, so a larger schema is a mistake or
		// an attack, even if memory suffices.
		field("schema", size(), func(l *Limits) *int64 { return &l.Schema }, "256KiB",
			"The size of the schema of a tool. A tool with a larger schema is not offered."),
		// A longer line is data that a program prints.
		field("logLine", size(), func(l *Limits) *int64 { return &l.LogLine }, "8KiB",
			"The length of a line that a backend writes to standard error. A longer line is cut in the log, with the length of the rest."),
		// Responses for a client that has lost its connection, until it resumes.
		field("eventLog", size(), func(l *Limits) *int64 { return &l.EventLog }, "1MiB",
			"The size of the events kept of a session's streams for a client that loses its connection and resumes. The latest result is kept in addition, whatever its size."),
		// A quarter of a small machine; most sessions keep little or nothing.
		field("eventLogTotal", size(), func(l *Limits) *int64 { return &l.EventLogs }, "256MiB",
			"The size of these events in all sessions. If it is exceeded, each principal (without \"auth\" each client address) may keep an equal share, and each of its sessions an equal share of that."),
		// The garbage collector needs the same amount again, and a small machine has 1 GiB.
		field("pending", size(), func(l *Limits) *int64 { return &l.Pending }, "128MiB",
			"The size of responses in memory that clients have not read yet. At the limit, backends are read more slowly, new requests are rejected, and a response that does not fit is replaced by an error."),
		// Four of the largest responses, for a client on a slow line.
		field("pendingPerPrincipal", size(), func(l *Limits) *int64 { return &l.PendingPerPrincipal }, "64MiB",
			"The size of these responses for one principal. Without \"auth\" all clients are one principal."),
	}
}

// countKeys returns the limits of numbers of what costs memory, time or a process each.
func countKeys() []key[Limits] {
	return []key[Limits]{
		// Recursive parsers and validators run out of stack far below the limits of sizes.
		field("depth", count(), func(l *Limits) *int { return &l.Depth }, "128",
			"How deep the values of a message may nest."),
		// Each member costs more memory than its bytes, in every reader of the message.
		field("members", count(), func(l *Limits) *int { return &l.Members }, "100000",
			"How many members all objects of a message may have together."),
		// Only 2025-03-26 has batches, and clients send no large ones.
		field("batch", count(), func(l *Limits) *int { return &l.Batch }, "100",
			"How many messages a batch may have."),
		// No client can use more, and an endless list would be kept completely.
		field("toolsPerBackend", count(), func(l *Limits) *int { return &l.ToolsPerBackend }, "2000",
			"How many tools of a backend are offered; the same number applies to resources, templates and prompts."),
		// Ends a list with cursors that form a loop.
		field("pages", count(), func(l *Limits) *int { return &l.Pages }, "200",
			"How many pages of a backend's list are fetched."),
		// Ends a call if the server asks for more input after each response, so that users are
		// not asked until they agree.
		field("rounds", count(), func(l *Limits) *int { return &l.Rounds }, "10",
			"How many times a backend may ask for input during one call."),
		// Bounds the memory of all sessions; a single principal has fewer.
		field("sessions", count(), func(l *Limits) *int { return &l.Sessions }, "20000",
			"How many sessions there may be. At the limit, a new session replaces one that has been idle for a while, of the principal with the most sessions. If no session is idle, the new one is rejected."),
		// A client that forgets its session at each start must not block the others.
		field("sessionsPerPrincipal", count(), func(l *Limits) *int { return &l.SessionsPerPrincipal }, "100",
			"How many sessions one principal may have, with the same replacement. Without \"auth\" it has no effect."),
		// A client needs one or two. One that loses connections leaves some that are not yet
		// known to be closed.
		field("streamsPerSession", count(), func(l *Limits) *int { return &l.StreamsPerSession }, "16",
			"How many GET requests may carry one stream of a session, which is its standalone stream or that of a request that a client has resumed. A new GET takes over the stream; the previous one counts until it has ended."),
		// A model calls a handful of tools at once.
		field("inFlightPerSession", count(), func(l *Limits) *int { return &l.InFlightPerSession }, "64",
			"How many requests of one session may be in flight."),
		// For requests without sessions, this is the only limit per caller. A principal may be
		// a whole team with one token.
		field("inFlightPerPrincipal", count(), func(l *Limits) *int { return &l.InFlightPerPrincipal }, "1024",
			"How many requests without a session one principal may have in flight, and separately how many subscriptions. Without \"auth\" all clients are one principal."),
		// More than any UI shows; each costs the backend an entry, and the gateway some KiB.
		field("subscriptions", count(), func(l *Limits) *int { return &l.Subscriptions }, "1000",
			"How many resources a session may subscribe to, or how many resources and tasks one subscription of a client without sessions may have."),
		// Each holds a request of a backend, and most often a backend session that nothing
		// else can use.
		field("parked", count(), func(l *Limits) *int { return &l.Parked }, "1000",
			"How many requests of modern clients may wait for input for a backend. One principal may have a quarter of them; without \"auth\" all clients together may have all."),
		// Each is a process or a connection of a third-party server.
		field("backendSessions", count(), func(l *Limits) *int { return &l.BackendSessions }, "64",
			"How many sessions or processes of one legacy backend may be open for clients without sessions. One principal may use three quarters of what others leave for sessions that wait for input, and always one; more questions are rejected. Without \"auth\" all of them may wait."),
		// Clients' sessions start processes, so this limits what clients can start.
		field("processes", count(), func(l *Limits) *int { return &l.Processes }, "64",
			"How many processes of one stdio server there may be at a time, in addition to one for its lists. At the limit, a new process replaces the process of the client that has been idle longest."),
	}
}

// timeKeys returns the limits of how long clients and backends may take.
func timeKeys() []key[Limits] {
	return []key[Limits]{
		// Users return to the same window after a break. A client without its session begins
		// a new one.
		field("sessionIdle", duration(), func(l *Limits) *time.Duration { return &l.SessionIdle }, "30m",
			"How long a session lives without a request or an open stream."),
		// A handshake is two requests of a program.
		field("sessionUninitialized", duration(), func(l *Limits) *time.Duration { return &l.SessionUninitialized }, "30s",
			"How long a session lives if the client does not complete the handshake."),
		// Enough for a tunnel, or a laptop that changes networks.
		field("eventRetention", duration(), func(l *Limits) *time.Duration { return &l.EventRetention }, "5m",
			"How long the stream of a completed request is kept for a client that has lost its connection."),
		// The default timeout of the official clients: a later response is of no use.
		field("callIdle", duration(), func(l *Limits) *time.Duration { return &l.CallIdle }, "60s",
			"How long a call may take without a message from the backend. The time is stopped while the client is asked for input."),
		// Progress may continue without end.
		field("callMax", duration(), func(l *Limits) *time.Duration { return &l.CallMax }, "10m",
			"How long a call may take in total. The time is stopped while the client is asked for input."),
		// Time for a user to read a question, look something up and answer. Later the window
		// has most likely been closed.
		field("inputWait", duration(), func(l *Limits) *time.Duration { return &l.InputWait }, "10m",
			"How long a client may take to answer a question of a backend. After that the question fails, and the request of a modern client, which is not retried, is canceled at the backend."),
		// A client that lists only once receives the items of all backends that start in time.
		field("firstList", duration(), func(l *Limits) *time.Duration { return &l.FirstList }, "",
			"How long a list waits for backends that are starting. The default is `handshake`."),
		// Longer than name resolution and handshakes take on a bad line.
		field("connect", duration(), func(l *Limits) *time.Duration { return &l.Connect }, "10s",
			"How long connecting to a backend may take."),
		// A server that is downloaded and installed at its first start does so before it
		// responds.
		field("handshake", duration(), func(l *Limits) *time.Duration { return &l.Handshake }, "1m",
			"How long a backend may take to complete the handshake, once it is connected or started. A process that takes longer is ended, and started again for the next call."),
		// A client that does not read occupies memory with what was sent.
		field("write", duration(), func(l *Limits) *time.Duration { return &l.Write }, "10s",
			"How long a client may take to read 16 KiB of a response before its connection is closed."),
		// A slower client is most likely an attack.
		field("headerRead", duration(), func(l *Limits) *time.Duration { return &l.HeaderRead }, "5s",
			"How long a client may take to send the header of a request."),
	}
}
