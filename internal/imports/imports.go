// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package imports reads the files in which MCP clients keep their servers, in any dialect,
// and text that was pasted, and writes the servers into a configuration file of the gateway.
//
// What cannot be carried over is a note and no error: a line with the cause and a cure. No
// note has the value of a variable, a header or an argument.
//
//	Read > Result > Merge > AddTo
package imports

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/clients"
)

// Source describes a text to read.
type Source struct {
	// File is the path of the text for messages, and its extension determines the syntax.
	// Without it the text was pasted: it can also be a command line or an address.
	File string
	// Client is the ID of the client, or "" if it is unknown.
	Client string
	// Dialect is that of the client. If it is empty, it is recognized.
	Dialect clients.Dialect
	// Project is the folder for which the servers hold, or "". Relative paths of programs
	// and arguments belong to it.
	Project string
	// Home is the user's home folder, which replaces ~ and ${userHome}, or "".
	Home string
	// Exists reports whether there is a file, such as one of variables. If it is nil, there
	// is none.
	Exists func(path string) bool
}

// Result is what a text contains.
type Result struct {
	Source  Source
	Servers []Server
	// Notes are about the text as a whole, or about entries that were not imported.
	Notes []Note
}

// Note is a remark for the user, in one line.
type Note struct {
	Line int // in the source, or 0
	Text string
	// Short is whether the text is a few words without a cure.
	Short bool
}

// Server is one server, with values in the syntax of the gateway's configuration.
type Server struct {
	// Name can be a server's name in a configuration. Original is the name in the source.
	Name, Original string

	Type    string // sse, or "" for what the command or the URL imply
	Command string
	Args    []string
	Env     []Pair
	EnvFile string
	Cwd     string
	URL     string
	Headers []Pair
	OAuth   *OAuth // nil for none, and for one that is not known

	Disabled         bool
	Include, Exclude []string
	Timeout          time.Duration

	// Origins are the places of the server: several if clients share it. Differs is whether
	// the variables or headers differ between them.
	Origins []Origin
	Differs bool
	Notes   []Note
	// Variables are the variables that the entry needs, sorted.
	Variables []string
	// Placeholders are the variables that MoveSecrets has put in the place of placeholders.
	// Unfinished is whether other values have to be written into the configuration.
	Placeholders []string
	Unfinished   bool
}

// Pair is one variable or header, in the order of the source.
type Pair struct{ Name, Value string }

// Origin is where a server was found.
type Origin struct {
	Client string
	File   string
	Line   int
}

// String returns the origin as file:line, or the client if there is no file.
func (o Origin) String() string {
	if o.File == "" {
		return cmp.Or(o.Client, "pasted text")
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}

// Read reads the servers of a text. The error is one line: the text cannot be read at all.
// A text without servers is no error, unless it was pasted.
func Read(src Source, data []byte) (*Result, error) {
	r := &reader{result: &Result{Source: src}, src: src}
	if src.File == "" {
		if err := r.pasted(data); err != nil {
			return nil, err
		}
		if len(r.result.Servers) == 0 && len(r.result.Notes) == 0 {
			return nil, fmt.Errorf("no MCP server in the text (paste a map of servers, one server, a command such as \"claude mcp add ...\", or an address)")
		}
		return r.result, nil
	}
	root, err := parse(data, syntaxOf(src.File, data))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", src.File, err)
	}
	r.file(root)
	return r.result, nil
}

// reader collects the servers of one text.
type reader struct {
	src     Source
	result  *Result
	builtIn int // the number of extensions of a collection that are parts of their client
}

func (r *reader) note(line int, format string, args ...any) {
	r.result.Notes = append(r.result.Notes, Note{Line: line, Text: fmt.Sprintf(format, args...)})
}

// key identifies what a server is, for a comparison of servers: where it is started or
// reached. lookup replaces variables that are set.
func (s *Server) key(lookup func(string) (string, bool)) string {
	parts := []string{s.Command, s.Cwd, strings.TrimSuffix(s.URL, "/")}
	parts = append(parts, s.Args...)
	for i := range parts {
		parts[i] = replaceSet(parts[i], lookup)
	}
	return strings.Join(parts, "\x00")
}

// replaceSet replaces the references to variables that are set.
func replaceSet(text string, lookup func(string) (string, bool)) string {
	if lookup == nil {
		return text
	}
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "${")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		reference, rest, _ := strings.Cut(after, "}")
		name, _, _ := strings.Cut(reference, ":-")
		if value, set := lookup(name); set {
			out.WriteString(value)
		} else {
			out.WriteString("${" + reference + "}")
		}
		text = rest
	}
}

// Summary describes in a few words what runs or is reached, without secrets.
func (s *Server) Summary() string {
	if s.URL != "" {
		address, _, _ := strings.Cut(s.URL, "?")
		return address
	}
	words := []string{filepath.Base(strings.ReplaceAll(s.Command, `\`, "/"))}
	for i, arg := range s.Args {
		switch {
		case strings.HasPrefix(arg, "-"), i > 0 && takesValue(s.Args[i-1]), isSecretArg(s.Args, i):
			continue
		case len(words) > 3:
			return strings.Join(append(words, "…"), " ")
		default:
			words = append(words, shortened(arg))
		}
	}
	return strings.Join(words, " ")
}

// takesValue reports whether a flag is followed by a value. Those that start programs from
// packages are not.
func takesValue(flag string) bool {
	return strings.HasPrefix(flag, "-") && !strings.Contains(flag, "=") &&
		!slices.Contains([]string{"-y", "--yes", "-m", "-i", "--rm", "-it", "--no-install", "--quiet", "-q", "--stdio"}, flag)
}

func shortened(arg string) string {
	runes := []rune(arg)
	if len(runes) > 48 {
		return string(runes[:47]) + "…"
	}
	return arg
}
