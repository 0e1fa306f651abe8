// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"time"
)

// Server is one backend: a program that is started (Command) or an address that
// is called (URL), never both.
type Server struct {
	// Name is the key in the file. It is made of the characters that a tool name
	// may have.
	Name string `json:"-"`

	// Type is how it is spoken to; empty for what Command or URL imply.
	Type Type `json:"type"`

	// Command, Args, Env and Cwd start a program. Env is added to the few
	// variables that every program gets. A relative Cwd of a file has been joined
	// to that file's folder.
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]Secret `json:"env"`
	Cwd     string            `json:"cwd"`
	// EnvFile is the file that some of Env was read from. Only Parse and Load read it.
	EnvFile string `json:"envFile"`

	// URL and Headers call an address.
	URL     string            `json:"url"`
	Headers map[string]Secret `json:"headers"`

	// Disabled leaves the server out. The rest of its entry has been read for its
	// form only: variables in it are not expanded.
	Disabled bool `json:"disabled"`

	// Prefix stands before the name of each of its tools and prompts. Nil is the
	// default, the server's name and two underscores; see NamePrefix.
	Prefix *string `json:"prefix"`
	// Rename gives single tools or prompts another name, by the server's own
	// names for them. Include, if not empty, lists the only ones that are
	// offered, and Exclude those that are not; see Offers.
	Rename  map[string]string `json:"rename"`
	Include []string          `json:"include"`
	Exclude []string          `json:"exclude"`

	// Timeout is the longest that a call may take; zero is Limits.CallMax.
	Timeout time.Duration `json:"timeout"`
	// Share is the operator's word that the server keeps no state for a client.
	Share bool `json:"share"`
	// Era pins how the server is spoken to: auto, legacy, modern, or a revision
	// of the protocol. Empty is auto.
	Era string `json:"era"`
}

// Type is how a server is spoken to.
type Type string

// The types that a file may name. TypeHTTP and TypeStreamableHTTP are two
// names of one thing; Transport returns the first.
const (
	TypeStdio          Type = "stdio"
	TypeHTTP           Type = "http"
	TypeStreamableHTTP Type = "streamable-http"
	TypeSSE            Type = "sse"
)

// Transport returns TypeStdio, TypeHTTP or TypeSSE: what Type says, or where it
// is empty what Command and URL imply.
func (s *Server) Transport() Type {
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

// NamePrefix returns what stands before the names of the server's tools and
// prompts, the separator included.
func (s *Server) NamePrefix() string {
	if s.Prefix != nil {
		return *s.Prefix
	}
	return s.Name + "__"
}

// Offers reports whether Include and Exclude leave a tool or prompt visible, by
// the server's own name for it. Exclude wins.
func (s *Server) Offers(name string) bool {
	matches := func(pattern string) bool { return match(pattern, name) }
	if slices.ContainsFunc(s.Exclude, matches) {
		return false
	}
	return s.includes(name)
}

// includes reports whether Include leaves a tool or prompt visible.
func (s *Server) includes(name string) bool {
	// No include is every name and not none: a file that says nothing offers everything.
	return len(s.Include) == 0 || slices.ContainsFunc(s.Include, func(pattern string) bool { return match(pattern, name) })
}
