// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/valid"
)

// The maximum lengths of names: of a server, which leaves space for a tool's name after it,
// and of a tool (server/tools, "Tool Names").
const (
	maxServerName = 64
	maxToolName   = 128
)

// isNameByte reports whether a byte is permitted in the name of a tool (server/tools, "Tool
// Names").
func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_-.", c) >= 0
}

// isName reports whether text consists of the characters of tool names.
func isName(text string, longest int) bool {
	for i := range len(text) {
		if !isNameByte(text[i]) {
			return false
		}
	}
	return len(text) <= longest
}

func checkServers(c *Config, r *reader) {
	seen := make(map[string]bool)
	for i := range c.Servers {
		s := &c.Servers[i]
		p := s.place()
		// Also if the server has another prefix: the name is in logs, metrics and headings of
		// instructions.
		if s.Name == "" || !isName(s.Name, maxServerName) {
			const hint = "names of tools begin with it: letters, digits, _ - . and up to 64 of them"
			r.report(p, hint, "%.80q cannot be the name of a server", s.Name)
		}
		if seen[s.Name] {
			r.report(p, "", "two servers have the name %q", s.Name)
		}
		seen[s.Name] = true
		if s.Disabled || r.has(p) {
			continue // only its form was checked, or it was rejected
		}
		for _, check := range []func(*Backend, place, *reader){
			checkTransport, checkCommand, checkURL, checkHeaders, checkOAuth, checkHelper, checkEnv, checkEra, checkPrefix, notePlaceholders, checkFilters, checkRenames,
		} {
			check(s, p, r)
		}
	}
}

// checkTransport requires that a server has either a command or a URL.
func checkTransport(s *Backend, p place, r *reader) {
	checkWord(r, p.key("type"), s.Type, TypeStdio, TypeHTTP, TypeStreamableHTTP, TypeSSE)
	isProgram := s.Command != "" || r.hasOrMeant(p.key("command"))
	isAddress := s.URL != "" || r.hasOrMeant(p.key("url"))
	switch {
	// Other programs that read the file differ in this case.
	case isProgram && isAddress:
		r.report(p, "remove one of them", `%q has both "command" and "url"`, p.name)
	case !isProgram && !isAddress:
		r.report(p, "", `%q has neither "command" nor "url"`, p.name)
	case s.Type == TypeStdio && isAddress:
		r.report(p.key("type"), `write "http"`, `the type %q needs a "command", and %q has a "url"`, s.Type, p.name)
	case s.Type != "" && s.Type != TypeStdio && isProgram:
		r.report(p.key("type"), `write "stdio"`, `the type %q needs a "url", and %q has a "command"`, s.Type, p.name)
	case isAddress:
		checkUnused(s, p, `beside "url"`, r, "args", "env", "envFile", "cwd", "idle", "memory", "launch")
	default:
		checkUnused(s, p, `beside "command"`, r, "headers")
	}
}

// checkUnused reports keys of a mapping without a meaning. of is a pointer to what was read of
// it.
func checkUnused(of any, p place, why string, r *reader, keys ...string) {
	for _, k := range keys {
		field := key{name: k}.field(reflect.ValueOf(of).Elem())
		isEmpty := field.IsZero() || field.Kind() == reflect.Map && field.Len() == 0 || field.Kind() == reflect.Slice && field.Len() == 0
		if !isEmpty || r.has(p.key(k)) {
			r.report(p.key(k), "remove it", "%q has no meaning %s", k, why)
		}
	}
}

// checkCommand reports what no system can start. Neither the command nor its arguments are
// shown: a variable in them may be a secret.
func checkCommand(s *Backend, p place, r *reader) {
	at := p.key("command")
	switch {
	case s.Command == "" || r.has(at):
	case strings.TrimSpace(s.Command) == "":
		r.report(at, "write the program to start", "%q is blank", at.name)
	case strings.Contains(s.Command, " ") && !strings.ContainsAny(s.Command, `/\`):
		r.note(at.as(code.StartOneString), `write what follows the program in "args"`, "%q has a space in it, but must be the name of one program", at.name)
	default:
		if problem, hint, as := notAPath(s.Command); problem != "" {
			r.report(at.as(as), hint, "%q %s", at.name, problem)
		}
	}
	checkWithoutNUL(s.Args, p.key("args"), r)
}

// checkWithoutNUL rejects words that no program can be given.
func checkWithoutNUL(words []string, list place, r *reader) {
	for i, word := range words {
		if at := list.item(i); strings.ContainsRune(word, 0) {
			r.report(at, "remove it", "%q has a NUL in it", at.name)
		}
	}
}

// checkURL never shows the URL: a variable in it may be a secret.
func checkURL(s *Backend, p place, r *reader) {
	p = p.key("url")
	if s.URL == "" || r.has(p) {
		return
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		r.report(p, urlHint, "%q is not a URL", p.name)
	case u.Scheme != "http" && u.Scheme != "https":
		r.report(p, urlHint, "%q must begin with http:// or https://", p.name)
	case u.Hostname() == "":
		r.report(p, urlHint, "%q names no host", p.name)
	case !valid.IsPort(u.Port()):
		r.report(p, "", "%q needs a port from 1 to 65535", p.name)
	// It would appear in logs, errors and the status.
	case u.User != nil:
		r.report(p, `write an Authorization header in "headers"`, "%q has a user or password in it", p.name)
	// Most often an unescaped character of a secret.
	case u.Fragment != "":
		r.report(p, "remove it", "%q has a fragment (#), which is never sent", p.name)
	}
}

func checkHeaders(s *Backend, p place, r *reader) {
	p = p.key("headers")
	seen := make(map[string]bool)
	// Sorted, so that a Config always has the same problems.
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		at, lower := p.key(name), strings.ToLower(name)
		switch {
		case !valid.IsToken(name):
			r.report(at, `write NAME: "VALUE"`, "%q cannot be the name of a header", validPrefix(name, valid.IsTokenRune))
		// A fixed session, revision or length would be wrong for every request but one.
		case valid.IsReservedHeader(name):
			r.report(at, "remove it", "the header %s is set by the gateway", name)
		// A server would see one header with one of the two values, or both.
		case seen[lower]:
			r.report(at, "", "duplicate header %s, in two spellings", name)
		}
		if strings.ContainsFunc(s.Headers[name].Reveal(), valid.IsControl) {
			shown := validPrefix(name, valid.IsTokenRune)
			r.report(at, "", "the value of the header %s has a line break or another control character in it", shown)
		}
		seen[lower] = true
	}
}

func isVariableRune(r rune) bool { return r != '=' && r != 0 }

// validPrefix returns the valid beginning of a name. The rest is often the value, written into
// the key by mistake, and must not be shown.
func validPrefix(name string, fits func(rune) bool) string {
	end := strings.IndexFunc(name, func(r rune) bool { return !fits(r) })
	if end < 0 {
		return name
	}
	return name[:end] + "..."
}

const urlHint = `such as "https://example.com/mcp"`

func checkEnv(s *Backend, p place, r *reader) { checkVariables(s.Env, p.key("env"), r) }

func checkVariables(env map[string]Secret, p place, r *reader) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			const cure = `write NAME: "VALUE"`
			r.report(p.key(name), cure, "%q cannot be the name of an environment variable", validPrefix(name, isVariableRune))
		}
		if strings.ContainsRune(env[name].Reveal(), 0) {
			r.report(p.key(name), "", "the value of the variable %s has a NUL in it", validPrefix(name, isVariableRune))
		}
	}
}

// checkEra rejects an era that the transport does not have.
func checkEra(s *Backend, p place, r *reader) {
	checkWord(r, p.key("era"), s.Era, eras()...)
	// The transport sse belongs to 2024-11-05 only.
	if s.Type == TypeSSE && isModern(s.Era) {
		r.report(p.key("era"), "", "the type sse belongs to the legacy era, and cannot be pinned to %s", s.Era)
	}
}

func checkPrefix(s *Backend, p place, r *reader) {
	if s.Prefix != nil && !isName(*s.Prefix, maxServerName) {
		const hint = "letters, digits, _ - . and up to 64 of them"
		r.report(p.key("prefix"), hint, `"prefix" cannot begin the name of a tool`)
		return
	}
	const hint = `give it a short "prefix"`
	switch prefix := s.NamePrefix(); {
	case strings.Contains(prefix, "."):
		r.note(p.as(code.NameLong), hint, "the names of its tools begin with %q, but model providers reject names with a dot", prefix)
	case len(prefix) > maxPrefix:
		r.note(p.as(code.NameLong), hint, "the names of its tools begin with %q, which leaves %d of the 64 characters that model providers accept", prefix, max(0, 64-len(prefix)))
	}
}

// maxPrefix is the length of prefixes that leaves space for names of the usual length.
const maxPrefix = 40
