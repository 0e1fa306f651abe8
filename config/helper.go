// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"time"
)

// HeadersHelper is a program that prints headers for the requests to a server, as a JSON object
// such as {"headers": {"Authorization": "Bearer abc"}, "expires": "2026-11-26T10:00:00Z"}.
type HeadersHelper struct {
	// Command is the program and its arguments. Env is added to the few variables that every
	// program inherits.
	Command []string          `json:"command"`
	Env     map[string]Secret `json:"env"`
	// Every is how long the headers are used at most; zero means 10 minutes.
	Every time.Duration `json:"every"`
}

// helperKeys returns the keys of headersHelper.
func helperKeys() []key {
	return []key{
		// A list, so that there is no shell.
		{"command", listOf(expanded()), "", "The program and its arguments. It is started without a shell, has 10 seconds, and prints an object such as {\"headers\": {\"Authorization\": \"Bearer abc\"}, \"expires\": \"2026-11-26T10:00:00Z\"}."},
		{"env", mapOf(secret()), "", "Environment variables of the program, in addition to the few that every program inherits. Their values are never printed."},
		{"every", duration(), "", "How long the headers are used at most before the program is run again. The default is 10m. It is also run again shortly before \"expires\", and after a response with status 401."},
	}
}

// checkHelper rejects a program that cannot be run, and headers that would contradict others.
func checkHelper(s *Backend, p place, r *reader) {
	h, at := s.HeadersHelper, p.key("headersHelper")
	if h == nil || r.has(at) {
		return
	}
	switch command := at.key("command"); {
	case s.Command != "" || r.has(p.key("command")):
		r.report(at, "remove it", "%q has no meaning beside %q", at.name, "command")
	case s.OAuth != nil:
		r.report(at, "remove one of them", "%q has both %q and %q", p.name, "oauth", at.name)
	case r.hasOrMeant(command):
	case len(h.Command) == 0 || strings.TrimSpace(h.Command[0]) == "":
		r.report(at, `write "command" with the program and its arguments`, "%q has no program", at.name)
	}
	checkWithoutNUL(h.Command, at.key("command"), r)
	checkVariables(h.Env, at.key("env"), r)
}
