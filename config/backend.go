// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/glob"
)

// Backend is one entry of mcpServers: either a program to start (Command) or a URL.
type Backend struct {
	// Name is the key in the file. It consists of characters that a tool name may
	// have.
	Name string `json:"-"`

	// Type is the transport; empty means the one that Command or URL imply.
	Type Type `json:"type"`

	// Command, Args, Env and Cwd start a program. Env is added to the few variables
	// that every program inherits. A relative Cwd has been joined to the folder of the
	// file.
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]Secret `json:"env"`
	Cwd     string            `json:"cwd"`
	// EnvFile is the file from which part of Env was read. Only Parse and Load read it.
	EnvFile string `json:"envFile"`

	// Secrets are the values in the entry that are from the file with secrets. They are
	// removed from logs and errors, whatever they look like. Only Parse and Load set it.
	Secrets []Secret `json:"-"`

	// URL and Headers are those of a remote server.
	URL     string            `json:"url"`
	Headers map[string]Secret `json:"headers"`
	// OAuth is how access tokens for the URL are obtained; nil means not at all.
	OAuth *OAuth `json:"oauth"`
	// HeadersHelper is a program that prints more headers; nil means none.
	HeadersHelper *HeadersHelper `json:"headersHelper"`

	// Disabled excludes the server. Only the form of the rest of its entry has been
	// checked: its variables are not expanded.
	Disabled bool `json:"disabled"`

	// Prefix is the prefix of the names of its tools and prompts. Nil means the
	// default, the server's name and two underscores; see NamePrefix.
	Prefix *string `json:"prefix"`
	// Rename maps the server's own names of tools or prompts to new ones. Include, if
	// not empty, lists the only ones that are offered, and Exclude those that are not;
	// see Offers.
	Rename  map[string]string `json:"rename"`
	Include []string          `json:"include"`
	Exclude []string          `json:"exclude"`

	// Apps is whether the server has MCP Apps: false hides them, and true requests its lists for
	// clients that render apps whatever its other lists show. Nil is as they show.
	Apps *bool `json:"apps"`

	// Timeout bounds a call in total; zero means Limits.CallMax.
	Timeout time.Duration `json:"timeout"`
	// Share declares that the server keeps no state per client.
	Share bool `json:"share"`
	// Idle is how long a process may serve no client before it is ended; the next call
	// starts it again. Negative means that it is not ended. Zero is DefaultIdle, for
	// processes in which no open session of a client has made calls.
	Idle time.Duration `json:"idle"`
	// Memory is how much memory each process may use, together with what it has started,
	// in bytes. Zero and negative are no limit.
	Memory int64 `json:"memory"`

	// Launch is how a server of npx is started: "runner" or "direct"; "" means "runner".
	Launch string `json:"launch"`
	// Era is auto, legacy, modern, or a revision of the protocol, which replaces
	// probing. Empty means auto.
	Era string `json:"era"`
}

// DefaultIdle is the default of Backend.Idle.
const DefaultIdle = 10 * time.Minute

// Type is a transport.
type Type string

// The types that a file may have. TypeHTTP and TypeStreamableHTTP mean the same; Transport
// returns the former.
const (
	TypeStdio          Type = "stdio"
	TypeHTTP           Type = "http"
	TypeStreamableHTTP Type = "streamable-http"
	TypeSSE            Type = "sse"
)

// Transport returns TypeStdio, TypeHTTP or TypeSSE: Type, or if it is empty, what Command
// and URL imply.
func (s *Backend) Transport() Type {
	switch {
	case s.Type == TypeStreamableHTTP:
		return TypeHTTP
	case s.Type != "":
		return s.Type
	case s.URL != "":
		return TypeHTTP
	default:
		return TypeStdio
	}
}

// NamePrefix returns the prefix of the names of the server's tools and prompts, including a
// separator.
func (s *Backend) NamePrefix() string {
	if s.Prefix != nil {
		return *s.Prefix
	}
	return s.Name + "__"
}

// Offers reports whether Include and Exclude permit a tool or prompt, by the server's own
// name. Exclude has precedence.
func (s *Backend) Offers(name string) bool {
	matches := func(pattern string) bool { return glob.Match(pattern, name) }
	if slices.ContainsFunc(s.Exclude, matches) {
		return false
	}
	return s.includes(name)
}

// includes reports whether Include permits a tool or prompt.
func (s *Backend) includes(name string) bool {
	// Without include everything is offered.
	return len(s.Include) == 0 || slices.ContainsFunc(s.Include, func(pattern string) bool { return glob.Match(pattern, name) })
}
