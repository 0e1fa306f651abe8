// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/spelling"
	"github.com/signalbox-mcp/signalbox/internal/valid"
)

// entry is one server while its keys are read.
type entry struct {
	Server
	container
	src  Source
	line int

	approvals []string // keys that list what needs no approval
	unknown   []string
	unset     []string // variables and headers with placeholders
	builtIn   bool
}

func (e *entry) note(line int, format string, args ...any) {
	e.Notes = append(e.Notes, Note{Line: line, Text: fmt.Sprintf(format, args...)})
}

// entry reads one server, and adds it to the result.
func (r *reader) entry(c container, name string, line int, n configfile.Node) {
	e := &entry{container: c, src: r.src, line: line}
	e.Origins = []Origin{{r.src.Client, r.src.File, line}}
	e.Original = name
	switch {
	case n.Kind == configfile.Text && isAddress(n.Text):
		e.URL = n.Text
	case n.Kind != configfile.Mapping:
		r.note(line, "%q is %s, and no server", name, n.Kind)
		return
	default:
		e.keys(n)
	}
	if e.builtIn {
		r.builtIn++
		return
	}
	if problem := e.finish(); problem != "" {
		r.note(line, "%q is not imported: %s", name, problem)
		return
	}
	r.result.Servers = append(r.result.Servers, e.Server)
}

// keys reads all keys of an entry.
func (e *entry) keys(n configfile.Node) {
	for _, m := range n.Members {
		e.key(m)
	}
	if len(e.approvals) > 0 {
		e.note(e.line, "%s not imported: a client decides which calls its user has to approve", isOrAre(e.approvals))
	}
	if len(e.unknown) > 0 {
		hint := ""
		if near := spelling.Nearest(e.unknown[0], []string{"command", "args", "env", "url", "headers", "cwd", "disabled"}); near != "" {
			hint = fmt.Sprintf(" (did you mean %q?)", near)
		}
		e.note(e.line, "%s not imported: unknown%s", isOrAre(e.unknown), hint)
	}
}

func isOrAre(keys []string) string {
	quoted := make([]string, len(keys))
	for i, key := range keys {
		quoted[i] = strconv.Quote(key)
	}
	if len(keys) == 1 {
		return quoted[0] + " is"
	}
	return strings.Join(quoted[:len(quoted)-1], ", ") + " and " + quoted[len(quoted)-1] + " are"
}

// key reads one key of an entry.
func (e *entry) key(m configfile.Member) {
	n, line := m.Value, m.At.Line
	if n.Kind == configfile.Null {
		return
	}
	switch m.Key {
	case "command", "cmd":
		e.command(n)
	case "args", "arguments":
		e.Args = append(e.Args, e.list(m)...)
	case "env", "envs", "environment":
		e.Env = append(e.Env, e.pairs(m)...)
	case "env_vars", "env_keys":
		e.passed(n)
	case "envFile":
		e.EnvFile = n.Text
	case "cwd", "workingDirectory":
		e.Cwd = n.Text
	case "url", "uri", "serverUrl", "httpUrl":
		if e.URL != "" && e.URL != n.Text {
			e.note(line, "%q is not imported: there is another address already", m.Key)
			return
		}
		e.URL = n.Text
	case "headers", "http_headers":
		e.Headers = append(e.Headers, e.pairs(m)...)
	case "env_http_headers":
		for _, p := range e.pairs(m) {
			e.Headers = append(e.Headers, Pair{p.Name, "${" + p.Value + "}"})
		}
	case "bearer_token_env_var":
		e.Headers = append(e.Headers, Pair{"Authorization", "Bearer ${" + n.Text + "}"})
	case "bearer_token", "apiKey":
		e.Headers = append(e.Headers, Pair{"Authorization", "Bearer " + n.Text})
	case "requestOptions":
		if headers, ok := n.Member("headers"); ok {
			e.Headers = append(e.Headers, e.pairs(configfile.Member{Key: "headers", At: m.At, Value: headers})...)
		}
	case "type", "transport", "transportType":
		e.kind(n)
	case "config":
		if n.Kind == configfile.Mapping && e.dialect == clients.Goose {
			for _, inner := range n.Members {
				e.key(inner)
			}
			return
		}
		e.unknown = append(e.unknown, m.Key)
	default:
		e.setting(m)
	}
}

// setting reads a key that does not concern how a server is started or reached.
func (e *entry) setting(m configfile.Member) {
	n, line := m.Value, m.At.Line
	switch m.Key {
	case "disabled":
		e.Disabled = e.Disabled || meansTrue(n)
	case "enabled":
		e.Disabled = e.Disabled || meansFalse(n)
	case "timeout", "tool_timeout_sec", "networkTimeout":
		e.timeout(m)
	case "includeTools", "enabled_tools", "available_tools", "allowedTools":
		e.Include = append(e.Include, e.list(m)...)
	case "excludeTools", "disabledTools", "disabled_tools":
		e.Exclude = append(e.Exclude, e.list(m)...)
	case "tools":
		if n.Kind == configfile.List {
			e.Include = append(e.Include, e.list(m)...)
			return
		}
		e.approvals = append(e.approvals, m.Key) // tables of Codex, with a mode for each tool
	case "autoApprove", "alwaysAllow", "trust", "default_tools_approval_mode":
		// Often empty, which means nothing.
		if n.Kind == configfile.List && len(n.Items) == 0 || n.Kind == configfile.Bool && n.Text == "false" {
			return
		}
		e.approvals = append(e.approvals, m.Key)
	case "startup_timeout_sec", "startup_timeout_ms", "connectionTimeout", "initTimeout":
		e.note(line, `%q is not imported: the times for the start are the same for all servers (set "limits.connect" and "limits.handshake")`, m.Key)
	case "oauth", "auth", "scopes", "oauth_resource", "authProviderType":
		e.signIn(m)
	case "headersHelper", "http_headers_helper":
		e.note(line, `%q is not imported: it is a line for a shell, and the gateway starts a program without one (write the program and its arguments in "headersHelper.command")`, m.Key)
	case "sandbox", "sandboxEnabled":
		if meansFalse(n) {
			return
		}
		e.Disabled = true
		e.note(line, "%q is not imported, and the server is disabled: the gateway starts the command as it is (put a sandbox into the command)", m.Key)
	case "watchPaths", "dev":
		e.note(line, "%q is not imported: the gateway does not restart a server when files change", m.Key)
	case "description", "name", "id", "display_name", "displayName", "title", "version", "gallery", "icon", "iconPath", "bundled", "source",
		"link", "homepage", "alwaysLoad", "required", "metadata", "settings", "provider", "registry", "tags":
		// They concern how a client shows or keeps the entry.
	default:
		if !strings.HasPrefix(m.Key, "_") && !strings.HasPrefix(m.Key, "//") && !strings.HasPrefix(m.Key, "$") {
			e.unknown = append(e.unknown, m.Key)
		}
	}
}

// command reads a command: a text, a list with its arguments, or a mapping with both.
func (e *entry) command(n configfile.Node) {
	switch n.Kind {
	case configfile.List:
		words := make([]string, len(n.Items))
		for i, item := range n.Items {
			words[i] = item.Text
		}
		if len(words) > 0 {
			e.Command = words[0]
			e.Args = append(words[1:], e.Args...)
		}
	case configfile.Mapping: // of Zed, before 2025
		for _, m := range n.Members {
			if m.Key == "path" {
				m.Key = "command"
			}
			e.key(m)
		}
	default:
		e.Command = n.Text
	}
}

// kind reads the transport. Some clients have a mapping with the whole server there.
func (e *entry) kind(n configfile.Node) {
	if n.Kind == configfile.Mapping {
		e.keys(n)
		return
	}
	switch n.Text {
	case "sse":
		e.Type = "sse"
	case "builtin", "platform", "frontend", "inline_python":
		e.builtIn = true
	case "stdio", "local", "http", "remote", "streamable-http", "streamableHttp", "streamable_http", "custom", "":
		// What the command or the URL imply.
	default:
		e.note(n.At.Line, "the type %.30q is not imported: unknown", n.Text)
	}
}

// passed reads names of variables that the program gets from the client's environment.
func (e *entry) passed(n configfile.Node) {
	for _, item := range n.Items {
		name := item.Text
		if inner, ok := item.Member("name"); ok {
			name = inner.Text
		}
		if valid.IsVariable(name) && !slices.ContainsFunc(e.Env, func(p Pair) bool { return p.Name == name }) {
			e.Env = append(e.Env, Pair{name, "${" + name + "}"})
		}
	}
}

// list reads a list of texts. A single text is split into words.
func (e *entry) list(m configfile.Member) []string {
	switch n := m.Value; n.Kind {
	case configfile.List:
		var texts []string
		for _, item := range n.Items {
			switch item.Kind {
			case configfile.List, configfile.Mapping, configfile.Null:
				e.note(item.At.Line, "an element of %q is not imported: it is %s", m.Key, item.Kind)
			default:
				texts = append(texts, item.Text)
			}
		}
		return texts
	case configfile.Mapping:
		if len(n.Members) > 0 {
			e.note(m.At.Line, "%q is not imported: it is a mapping, and no list", m.Key)
		}
		return nil
	default:
		words, err := Words(n.Text)
		if err != nil {
			return []string{n.Text}
		}
		if len(words) > 0 {
			e.note(m.At.Line, "%q is one text, and is read as %d words", m.Key, len(words))
		}
		return words
	}
}

// pairs reads a mapping of texts, or a list of NAME=value.
func (e *entry) pairs(m configfile.Member) []Pair {
	n := m.Value
	var all []Pair
	add := func(p Pair) {
		all = slices.DeleteFunc(all, func(other Pair) bool { return other.Name == p.Name })
		all = append(all, p)
	}
	for _, item := range n.Items {
		name, value, ok := strings.Cut(item.Text, "=")
		if !ok {
			e.note(item.At.Line, "an element of %q is not imported: it is not NAME=value", m.Key)
			continue
		}
		add(Pair{name, value})
	}
	for _, inner := range n.Members {
		switch inner.Value.Kind {
		case configfile.List, configfile.Mapping:
			e.note(inner.At.Line, "%q is not imported: it is %s, and no text", inner.Key, inner.Value.Kind)
		case configfile.Null:
		default:
			add(Pair{inner.Key, inner.Value.Text})
		}
	}
	if n.Kind == configfile.Text && n.Text != "" {
		e.note(m.At.Line, "%q is not imported: it is a text, and no mapping", m.Key)
	}
	return all
}

// timeout reads how long a call may take, in the unit of the dialect.
func (e *entry) timeout(m configfile.Member) {
	n := m.Value
	if n.Kind == configfile.Mapping { // OpenCode has several times
		for _, inner := range n.Members {
			if inner.Key == "execution" || inner.Key == "request" || inner.Key == "tool" {
				e.timeout(inner)
			}
		}
		return
	}
	value, err := strconv.ParseFloat(n.Text, 64)
	if err != nil {
		if d, err := time.ParseDuration(n.Text); err == nil && d > 0 {
			e.Timeout = d
			return
		}
		e.note(m.At.Line, "%q is not imported: %.20q is no number", m.Key, n.Text)
		return
	}
	unit := time.Second
	switch {
	case m.Key == "tool_timeout_sec":
	case slices.Contains([]clients.Dialect{clients.Gemini, clients.OpenCode, clients.AmazonQ, clients.Kiro, clients.Claude, clients.Copilot}, e.dialect):
		unit = time.Millisecond
	case slices.Contains([]clients.Dialect{clients.Cline, clients.Roo, clients.Crush, clients.Goose, clients.Codex}, e.dialect):
	case value >= 1000:
		unit = time.Millisecond
		e.note(m.At.Line, "%q has no unit, and is read as milliseconds", m.Key)
	default:
		e.note(m.At.Line, "%q has no unit, and is read as seconds", m.Key)
	}
	if value <= 0 || value > 1e9 {
		return // none
	}
	e.Timeout = time.Duration(value * float64(unit)).Round(time.Millisecond)
}

func meansTrue(n configfile.Node) bool {
	return slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(n.Text))
}

func meansFalse(n configfile.Node) bool {
	return slices.Contains([]string{"false", "no", "off", "0"}, strings.ToLower(n.Text))
}

// finish completes an entry: what was read is checked, and made fit for a configuration. It
// returns why the entry cannot be imported, or "".
func (e *entry) finish() string {
	if e.Command != "" && e.URL != "" {
		if e.Type == "sse" || e.dialect == clients.OpenCode {
			e.note(e.line, `"command" is not imported: there is an address, too`)
			e.Command = ""
		} else {
			e.note(e.line, "the address is not imported: there is a command, too")
			e.URL = ""
		}
	}
	if strings.TrimSpace(e.Command) == "" && strings.TrimSpace(e.URL) == "" {
		if e.dialect == clients.Zed {
			return "it is an extension of the editor, without a command (add the command that the extension starts)"
		}
		return `it has neither a command nor an address` + e.meant()
	}
	if strings.ContainsRune(e.Command+e.Cwd+e.URL+e.EnvFile, 0) {
		return "it has a NUL in it"
	}
	if problem := cmp.Or(e.finishProgram(), e.finishAddress()); problem != "" {
		return problem
	}
	e.finishSignIn()
	e.finishFilters()
	if e.isSelf() {
		return "it is this gateway"
	}
	if e.off[e.Original] || e.allowed != nil && !e.allowed[e.Original] {
		e.Disabled = true
	}
	e.finishName()
	e.Variables = e.variables()
	if count := len(e.unset); count > 0 {
		e.Disabled = true
		text := e.unset[0] + " is a placeholder"
		if count > 1 {
			text = strings.Join(e.unset[:count-1], ", ") + " and " + e.unset[count-1] + " are placeholders"
		}
		e.Notes = append(e.Notes, Note{e.line, "disabled: " + text, true})
	}
	e.Notes = sortedNotes(e.Notes)
	return ""
}

// meant returns a hint if one of the unknown keys looks like a known one.
func (e *entry) meant() string {
	for _, key := range e.unknown {
		if near := spelling.Nearest(key, []string{"command", "url"}); near != "" {
			return fmt.Sprintf(" (did you mean %q by %q?)", near, key)
		}
	}
	return ""
}

func sortedNotes(notes []Note) []Note {
	slices.SortStableFunc(notes, func(a, b Note) int { return cmp.Compare(a.Line, b.Line) })
	return notes
}
