// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "time"

// limitKeys are the limits, with the defaults that suit one machine.
func limitKeys() []key[Limits] {
	return append(sizeKeys(), append(countKeys(), timeKeys()...)...)
}

func sizeKeys() []key[Limits] {
	return []key[Limits]{
		field("requestBody", size(), func(l *Limits) *int64 { return &l.RequestBody }, "4MiB",
			"The body of a client's request."),
		field("requestHeaders", size(), func(l *Limits) *int64 { return &l.RequestHeaders }, "64KiB",
			"The header of a client's request."),
		field("backendMessage", size(), func(l *Limits) *int64 { return &l.BackendMessage }, "16MiB",
			"One message of a backend."),
		field("schema", size(), func(l *Limits) *int64 { return &l.Schema }, "256KiB",
			"The schema of one tool. A tool with a larger one is not offered."),
		field("logLine", size(), func(l *Limits) *int64 { return &l.LogLine }, "8KiB",
			"One line that a backend writes to its standard error. The rest of a longer one is dropped."),
	}
}

func countKeys() []key[Limits] {
	return []key[Limits]{
		field("depth", count(), func(l *Limits) *int { return &l.Depth }, "128",
			"How deep the values of a message may nest."),
		field("members", count(), func(l *Limits) *int { return &l.Members }, "100000",
			"How many members the objects of a message may have in all."),
		field("batch", count(), func(l *Limits) *int { return &l.Batch }, "100",
			"How many messages a batch may have."),
		field("toolsPerBackend", count(), func(l *Limits) *int { return &l.ToolsPerBackend }, "2000",
			"How many tools of a backend are offered, and how many resources, templates and prompts."),
		field("pages", count(), func(l *Limits) *int { return &l.Pages }, "200",
			"How many pages of a backend's list are fetched."),
		field("rounds", count(), func(l *Limits) *int { return &l.Rounds }, "10",
			"How often a backend may ask for input during one call."),
		field("sessions", count(), func(l *Limits) *int { return &l.Sessions }, "20000",
			"How many sessions there may be."),
		field("sessionsPerPrincipal", count(), func(l *Limits) *int { return &l.SessionsPerPrincipal }, "100",
			"How many sessions one principal may have."),
		field("streamsPerSession", count(), func(l *Limits) *int { return &l.StreamsPerSession }, "16",
			"How many open streams a session may have."),
		field("inFlightPerSession", count(), func(l *Limits) *int { return &l.InFlightPerSession }, "64",
			"How many requests of a session may be in flight."),
		field("inFlightPerPrincipal", count(), func(l *Limits) *int { return &l.InFlightPerPrincipal }, "1024",
			"How many requests without a session one principal may have in flight, and how many subscriptions besides. Without \"auth\" everybody is one principal."),
		field("backendSessions", count(), func(l *Limits) *int { return &l.BackendSessions }, "64",
			"How many sessions or processes of one legacy backend may be open for clients without sessions."),
		field("processes", count(), func(l *Limits) *int { return &l.Processes }, "64",
			"How many processes of one stdio server there may be at a time."),
	}
}

func timeKeys() []key[Limits] {
	return []key[Limits]{
		field("sessionIdle", duration(), func(l *Limits) *time.Duration { return &l.SessionIdle }, "30m",
			"How long a session lives without a request or an open stream."),
		field("sessionUninitialized", duration(), func(l *Limits) *time.Duration { return &l.SessionUninitialized }, "30s",
			"How long a session lives whose client does not complete the handshake."),
		field("callIdle", duration(), func(l *Limits) *time.Duration { return &l.CallIdle }, "60s",
			"How long a call may go without a sign of life from the backend. It stands still while a client is asked something."),
		field("callMax", duration(), func(l *Limits) *time.Duration { return &l.CallMax }, "10m",
			"The longest that a call may take in all."),
		field("firstList", duration(), func(l *Limits) *time.Duration { return &l.FirstList }, "2s",
			"How long the first list waits for backends that have not answered yet."),
		field("connect", duration(), func(l *Limits) *time.Duration { return &l.Connect }, "10s",
			"How long reaching a backend may take."),
		field("write", duration(), func(l *Limits) *time.Duration { return &l.Write }, "10s",
			"How long writing one piece of an answer may take before its client counts as gone."),
		field("headerRead", duration(), func(l *Limits) *time.Duration { return &l.HeaderRead }, "5s",
			"How long a client may take to send the header of a request."),
	}
}
