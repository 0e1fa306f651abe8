// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clients is the table of MCP clients: the files in which they keep their servers,
// how those files are written, and what a client needs after a change. No other package
// knows a client by its name.
//
// Each fact has a source and the day on which it was read. A fact without a source is
// unknown, and says so: an unknown effect is Unknown, unknown transports are nil, and a file
// without a source is a place worth looking at, in which nothing should be written.
package clients

import "slices"

// Client is one program that uses MCP servers.
type Client struct {
	ID   string // as on the command line
	Name string // as its vendor writes it

	Dialect Dialect
	// Key is the key of the servers in its files.
	Key string

	Files      []File
	Transports Fact[[]Transport]
	// After is what the client needs until it uses a changed file.
	After Fact[Effect]

	// Off is how an entry is disabled in its files.
	Off Fact[Switch]
	// Ended reports that the client is no longer developed. Its servers can be imported.
	Ended bool
}

// Fact is a value with its source.
type Fact[T any] struct {
	Value  T
	Source Source
}

// Switch is a key of an entry, and its value for a server that is disabled.
type Switch struct {
	Key   string
	Value bool
}

// Source is where a fact was read. The zero Source means that it is unknown.
type Source struct {
	URL string
	Day string // on which the page was read, such as 2026-11-25
}

// IsKnown reports whether there is a source.
func (s Source) IsKnown() bool { return s.URL != "" }

// Dialect is how a client writes its servers.
type Dialect string

// The dialects. Those of clients that differ in a unit or in the meaning of a key are
// dialects of their own.
const (
	MCPServers Dialect = "mcpServers" // a map with this name; the dialect of pasted text, too
	Claude     Dialect = "claude"     // the same, with projects
	Cursor     Dialect = "cursor"
	VSCode     Dialect = "vscode" // "servers" and "inputs"
	Windsurf   Dialect = "windsurf"
	Gemini     Dialect = "gemini"
	Codex      Dialect = "codex" // TOML
	Zed        Dialect = "zed"
	Cline      Dialect = "cline"
	Continue   Dialect = "continue" // YAML, a list
	Goose      Dialect = "goose"    // YAML, "extensions"
	OpenCode   Dialect = "opencode"
	Crush      Dialect = "crush"
	Amp        Dialect = "amp"
	AmazonQ    Dialect = "amazonq"
	Kiro       Dialect = "kiro"
	Copilot    Dialect = "copilot"
	Roo        Dialect = "roo"
)

// Transport is a transport of MCP.
type Transport string

// The transports. SSE is that of 2024-11-05.
const (
	Stdio Transport = "stdio"
	HTTP  Transport = "http"
	SSE   Transport = "sse"
)

// Effect is what a client needs after a change of its file.
type Effect string

// The effects.
const (
	Unknown Effect = ""
	Nothing Effect = "nothing" // it reads the file again by itself
	Reload  Effect = "reload"  // its user reloads the servers in it
	Restart Effect = "restart" // it has to be ended and started
)

// Scope is for what a file holds.
type Scope string

// The scopes.
const (
	User    Scope = "user"
	Project Scope = "project"
)

// File is one place of a client's servers.
type File struct {
	Scope Scope
	// Path is where the file is on the systems in On, or on all if On is empty. It begins
	// with ~/ for the home folder, with <config>/ for the folder that the system has for
	// configurations, or with <xdg>/ for ~/.config or XDG_CONFIG_HOME, on each system. In
	// the scope Project it is relative to the project. Its last element may be a pattern.
	Path string
	On   []System
	// Env is a variable that replaces the folder of the file, or the whole path if
	// EnvIsFile is set.
	Env       string
	EnvIsFile bool
	// Reserved is set for a file that only the client may make: it has the client's state, or
	// settings without which the client does not start.
	Reserved bool
	// Former is set for a place that the client has given up. Its servers can be imported.
	Former bool
	Source Source
}

// System is an operating system, named as in runtime.GOOS.
type System string

// The systems for which the table has paths.
const (
	Linux   System = "linux"
	MacOS   System = "darwin"
	Windows System = "windows"
)

// isOn reports whether the file exists on a system. What is neither macOS nor Windows has the
// paths of Linux.
func (f File) isOn(system System) bool {
	if system != MacOS && system != Windows {
		system = Linux
	}
	return len(f.On) == 0 || slices.Contains(f.On, system)
}

// ByID returns a client of the table.
func ByID(id string) (Client, bool) {
	for _, c := range All() {
		if c.ID == id {
			return c, true
		}
	}
	return Client{}, false
}

// IDs returns the IDs of all clients, in the order of the table.
func IDs() []string {
	var ids []string
	for _, c := range All() {
		ids = append(ids, c.ID)
	}
	return ids
}
