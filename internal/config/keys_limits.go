// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "time"

// limitKeys are the limits, with the defaults that suit one machine.
func limitKeys() []key[Limits] {
	return append(sizeKeys(), append(countKeys(), timeKeys()...)...)
}

// What a message may weigh. Each bound is far above what the tools of this field
// send, and low enough that as many of them as may be in flight fit into memory.
func sizeKeys() []key[Limits] {
	return []key[Limits]{
		// An argument can be a whole file; more than this is no argument any more. Other
		// servers of the field draw the line here, too.
		field("requestBody", size(), func(l *Limits) *int64 { return &l.RequestBody }, "4MiB",
			"The body of a client's request."),
		// Tokens with many claims and the mirrored arguments of a call stand there.
		field("requestHeaders", size(), func(l *Limits) *int64 { return &l.RequestHeaders }, "64KiB",
			"The header of a client's request."),
		// A list of a thousand tools with their schemas, or one picture in base64.
		field("backendMessage", size(), func(l *Limits) *int64 { return &l.BackendMessage }, "16MiB",
			"One message of a backend."),
		// A client shows it to a model for every question, so a larger one is a mistake or
		// an attack before it is a problem of memory.
		field("schema", size(), func(l *Limits) *int64 { return &l.Schema }, "256KiB",
			"The schema of one tool. A tool with a larger one is not offered."),
		// What is longer is not a line but data that a program prints.
		field("logLine", size(), func(l *Limits) *int64 { return &l.LogLine }, "8KiB",
			"One line that a backend writes to its standard error. Of the rest of a longer one the log has the length."),
		// The answers of a client that has lost its connection, while it comes back.
		field("eventLog", size(), func(l *Limits) *int64 { return &l.EventLog }, "1MiB",
			"What is kept of a session's streams for a client that loses its connection and comes back. The latest result is kept besides, whatever its size."),
		// A quarter of a small machine; most sessions keep nothing, or very little.
		field("eventLogTotal", size(), func(l *Limits) *int64 { return &l.EventLogs }, "256MiB",
			"What is kept so of all sessions. Where it is more, each principal may keep an equal part, without \"auth\" each address, and of that each of its sessions one."),
		// The garbage collector needs as much again, and a small machine has 1 GiB.
		field("pending", size(), func(l *Limits) *int64 { return &l.Pending }, "128MiB",
			"How many bytes of answers may be in memory that clients have not read yet. At the limit backends are read more slowly, new requests are refused, and an answer that finds no room is replaced by an error that says so."),
		// Four of the largest answers, for a client on a slow line.
		field("pendingPerPrincipal", size(), func(l *Limits) *int64 { return &l.PendingPerPrincipal }, "64MiB",
			"How many of these bytes may be for one principal. Without \"auth\" everybody is one principal."),
	}
}

// How many there may be of what costs memory, time or a process for each.
func countKeys() []key[Limits] {
	return []key[Limits]{
		// Parsers and validators that call themselves for each level run out of stack far
		// below their bound of bytes.
		field("depth", count(), func(l *Limits) *int { return &l.Depth }, "128",
			"How deep the values of a message may nest."),
		// Each member costs more memory than its bytes, in whatever reads the message.
		field("members", count(), func(l *Limits) *int { return &l.Members }, "100000",
			"How many members the objects of a message may have in all."),
		// Only 2025-03-26 has batches, and nothing in the field sends large ones.
		field("batch", count(), func(l *Limits) *int { return &l.Batch }, "100",
			"How many messages a batch may have."),
		// No client works with as many; a list that never ends would be kept whole.
		field("toolsPerBackend", count(), func(l *Limits) *int { return &l.ToolsPerBackend }, "2000",
			"How many tools of a backend are offered, and how many resources, templates and prompts."),
		// A server whose cursor leads back to itself ends here.
		field("pages", count(), func(l *Limits) *int { return &l.Pages }, "200",
			"How many pages of a backend's list are fetched."),
		// A server that asks for more input after each answer ends here, and the person who
		// is asked is not worn out until the answer is yes.
		field("rounds", count(), func(l *Limits) *int { return &l.Rounds }, "10",
			"How often a backend may ask for input during one call."),
		// A bound of memory for all of them together; one principal has fewer.
		field("sessions", count(), func(l *Limits) *int { return &l.Sessions }, "20000",
			"How many sessions there may be. A new one takes the place of one that has been idle for a while, of whoever has most; where there is none it is refused."),
		// One that forgets its session on each start must not lock out the others.
		field("sessionsPerPrincipal", count(), func(l *Limits) *int { return &l.SessionsPerPrincipal }, "100",
			"How many sessions one principal may have, counted in the same way. Without \"auth\" it bounds nobody."),
		// A client needs one or two; one that loses its connections leaves some behind that
		// are not yet known to be dead.
		field("streamsPerSession", count(), func(l *Limits) *int { return &l.StreamsPerSession }, "16",
			"How many GETs may carry one stream of a session, its standalone one or that of a request which a client has come back for. A new one takes over from the one before, which counts until it has ended."),
		// A model calls a handful of tools at once.
		field("inFlightPerSession", count(), func(l *Limits) *int { return &l.InFlightPerSession }, "64",
			"How many requests of a session may be in flight."),
		// Without sessions this is the only bound for one caller. One principal can be a
		// whole team behind one token.
		field("inFlightPerPrincipal", count(), func(l *Limits) *int { return &l.InFlightPerPrincipal }, "1024",
			"How many requests without a session one principal may have in flight, and how many subscriptions besides. Without \"auth\" everybody is one principal."),
		// More than any window shows; each costs a backend an entry, and us a few kilobytes.
		field("subscriptions", count(), func(l *Limits) *int { return &l.Subscriptions }, "1000",
			"How many resources a session, or resources and tasks one subscription of a client without sessions, may be subscribed to."),
		// Each holds a request of a backend, and most often a session there that nobody else
		// can use meanwhile.
		field("parked", count(), func(l *Limits) *int { return &l.Parked }, "1000",
			"How many requests of modern clients may wait for input that a backend has asked for. One principal may have a quarter of them; without \"auth\" everybody together has them all."),
		// Each is a process or a connection of a server that nobody here has written.
		field("backendSessions", count(), func(l *Limits) *int { return &l.BackendSessions }, "64",
			"How many sessions or processes of one legacy backend may be open for clients without sessions. One principal may have three quarters of them waiting for input, or of those that others leave, and always one; a question beyond that is refused. Without \"auth\" all of them may wait."),
		// Sessions of clients start them, so that this bounds what strangers can start.
		field("processes", count(), func(l *Limits) *int { return &l.Processes }, "64",
			"How many processes of one stdio server there may be at a time, besides one for its lists. A new one takes the place of one whose client has been idle longest."),
	}
}

// How long somebody else may keep what is held for them.
func timeKeys() []key[Limits] {
	return []key[Limits]{
		// People leave for lunch and come back to the same window. A client whose session is
		// gone begins a new one.
		field("sessionIdle", duration(), func(l *Limits) *time.Duration { return &l.SessionIdle }, "30m",
			"How long a session lives without a request or an open stream."),
		// A handshake is two requests of one program.
		field("sessionUninitialized", duration(), func(l *Limits) *time.Duration { return &l.SessionUninitialized }, "30s",
			"How long a session lives whose client does not complete the handshake."),
		// A lift, a tunnel, or a laptop that is carried to another room.
		field("eventRetention", duration(), func(l *Limits) *time.Duration { return &l.EventRetention }, "5m",
			"How long the stream of a request is kept, once that has ended, for a client that lost its connection."),
		// Where the official clients give up by default: an answer after that reaches nobody.
		field("callIdle", duration(), func(l *Limits) *time.Duration { return &l.CallIdle }, "60s",
			"How long a call may go without a sign of life from the backend. It stands still while a client is asked something."),
		// Progress can go on for ever, and the slot of the call with it.
		field("callMax", duration(), func(l *Limits) *time.Duration { return &l.CallMax }, "10m",
			"The longest that a call may take in all. It stands still while a client is asked something."),
		// A person reads a question, looks something up, and answers. Who has not come back
		// by then has most likely closed the window.
		field("inputWait", duration(), func(l *Limits) *time.Duration { return &l.InputWait }, "10m",
			"How long a client may take to answer what a backend asks it. Then the question fails, and a request of a modern client, which nobody will come back for, is cancelled at the backend."),
		// A client that lists once has all that it would have had from each server itself.
		field("firstList", duration(), func(l *Limits) *time.Duration { return &l.FirstList }, "",
			"How long a list waits for backends that are starting. Without it that is `handshake`."),
		// Longer than a name service and a handshake take on a bad line.
		field("connect", duration(), func(l *Limits) *time.Duration { return &l.Connect }, "10s",
			"How long reaching a backend may take."),
		// A server that is fetched and installed when it is first started does that before
		// it says anything.
		field("handshake", duration(), func(l *Limits) *time.Duration { return &l.Handshake }, "1m",
			"How long a backend that was reached, or started, may take to say what it is. A process that has not by then is ended, and started anew for the next call."),
		// A client that reads nothing holds the memory of what it was sent.
		field("write", duration(), func(l *Limits) *time.Duration { return &l.Write }, "10s",
			"How long a client may take to read 16 KiB of what it is sent before it counts as gone."),
		// Slower than this is no network but somebody who wants to hold a connection.
		field("headerRead", duration(), func(l *Limits) *time.Duration { return &l.HeaderRead }, "5s",
			"How long a client may take to send the header of a request."),
	}
}
