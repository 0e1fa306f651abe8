// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package configedit changes one thing in the text of a configuration file, and keeps all
// other bytes: comments, order, indentation, quotes and line ends. The file is that of the
// gateway, or one of another program, then also in TOML.
//
// A file is never decoded and encoded. It is parsed for positions, the change is made in the
// text, and the result is parsed again: if anything differs that was not meant to change,
// the change is an error.
package configedit

import (
	"fmt"
	"net/http"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/spelling"
)

// The sizes of the largest files that can be read: a configuration, and a file in which
// another program may keep its state, too.
const (
	MaxSize    = configfile.MaxSize
	MaxForeign = configfile.MaxLarge
)

// File is a configuration file. Its methods return the changed text, and do not modify Text.
// Their errors have type *Error.
type File struct {
	// Name decides the syntax, as for config.Parse, and begins errors.
	Name string
	// Text is the content. An empty one is a new file.
	Text []byte
	// Foreign is set for a file of another program: it may be in TOML, and in JSON it may be
	// as large as [MaxForeign].
	Foreign bool
}

// Entry is a mapping with its keys in order. The type of a value is string, bool, int,
// []string, Entry or []Entry.
type Entry []Field

// Field is one key of an Entry.
type Field struct {
	Key   string
	Value any
}

// Error is why a file was not changed.
type Error struct {
	File string
	At   configfile.Position // zero if the error has no place in the file
	// Message is the cause, and Hint the cure, which may be empty.
	Message, Hint string
}

// Error returns one line, in the form of a config.Problem.
func (e *Error) Error() string {
	text := e.File + ": " + e.Message
	if e.At != (configfile.Position{}) {
		text = fmt.Sprintf("%s:%d:%d: %s", e.File, e.At.Line, e.At.Column, e.Message)
	}
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Add adds a server after the last one. The entry is written in the style of the one before
// it.
func (f File) Add(name string, entry Entry) ([]byte, error) {
	d, err := parse(f)
	if err != nil {
		return nil, err
	}
	servers, key := d.serversNode()
	if i := indexOf(servers, name); i >= 0 {
		return nil, d.refuse(servers.Members[i].At, "remove it first, or choose another name", "there is a server %q already", name)
	}
	return d.insertAt([]string{key, name}, entry)
}

// Remove removes a server with its comments on the same lines and inside of its entry, and
// takes its name out of the profiles. The comments above it stay. A mapping without servers
// becomes {}.
func (f File) Remove(name string) ([]byte, error) {
	d, servers, m, err := f.server(name)
	if err != nil {
		return nil, err
	}
	_, key := d.serversNode()
	edits, want, err := d.removeFromProfiles(servers.remove(m), without(d.root, []string{key, name}), name)
	if err != nil {
		return nil, err
	}
	return d.take(edits, want)
}

// Rename changes the name of a server, also in the profiles: in their servers, and unless the
// server has a "prefix", at the beginning of the names of its tools.
func (f File) Rename(old, name string) ([]byte, error) {
	d, servers, m, err := f.server(old)
	if err != nil {
		return nil, err
	}
	if other, found := servers.member(name); found {
		return nil, d.refuse(other.At, "", "there is a server %q already", name)
	}
	_, key := d.serversNode()
	s := servers.style()
	s.quoteKeys = s.json || d.text[m.key.start] == '"' || d.text[m.key.start] == '\''
	if s.quoteKeys && !s.json {
		s.quote = d.text[m.key.start]
	}
	edits, want := []edit{{m.key.start, m.key.end, s.key(name, servers.flow)}}, renamed(d.root, []string{key, old}, name)
	_, hasPrefix := m.Value.Member("prefix")
	if edits, want, err = d.renameInProfiles(edits, want, old, name, !hasPrefix); err != nil {
		return nil, err
	}
	return d.result(edits, want)
}

// Set sets a key of a server's entry, at the end of it if the key is new.
func (f File) Set(name, key string, value any) ([]byte, error) {
	d, entry, err := f.entry(name)
	if err != nil {
		return nil, err
	}
	_, servers := d.serversNode()
	want := with(d.root, []string{servers, name, key}, node(value))
	if m, found := entry.member(key); found {
		if err := entry.refuseTwice(m); err != nil {
			return nil, err
		}
		return d.result(entry.replace(m, value), want)
	}
	return d.result(entry.insert(key, value), want)
}

// Unset removes a key of a server's entry.
func (f File) Unset(name, key string) ([]byte, error) {
	d, entry, err := f.entry(name)
	if err != nil {
		return nil, err
	}
	m, found := entry.member(key)
	if !found {
		return nil, d.refuse(entry.node.At, "", "the server %q has no %q", name, key)
	}
	if err := entry.refuseTwice(m); err != nil {
		return nil, err
	}
	_, servers := d.serversNode()
	return d.take(entry.remove(m), without(d.root, []string{servers, name, key}))
}

// Disable disables a server. The result is Text if it is disabled.
func (f File) Disable(name string) ([]byte, error) { return f.setDisabled(name, true) }

// Enable enables a server. The result is Text if it is enabled.
func (f File) Enable(name string) ([]byte, error) { return f.setDisabled(name, false) }

// Enabled reports whether the file has a server and does not disable it.
func (f File) Enabled(name string) bool {
	_, entry, err := f.entry(name)
	return err == nil && !isDisabled(entry.node)
}

// isDisabled reports whether an entry has one of the keys with which a server is disabled.
func isDisabled(entry configfile.Node) bool {
	disabled, _ := entry.Member("disabled")
	enabled, _ := entry.Member("enabled")
	return isBool(disabled, true) || isBool(enabled, false)
}

// Literals returns the texts of the file that may be credentials: variables as NAME=value,
// headers, and texts that may be URLs. Other secrets are listed like variables. References to
// variables are not replaced. It returns nothing for an invalid file.
func (f File) Literals() (env []string, headers http.Header, urls []string) {
	headers = make(http.Header)
	d, err := parse(f)
	if err != nil {
		return nil, headers, nil
	}
	servers, _ := d.serversNode()
	for _, server := range servers.Members {
		for _, m := range server.Value.Members {
			switch {
			case m.Value.Kind == configfile.Text:
				urls = append(urls, m.Value.Text)
			case m.Key == "headers":
				for _, field := range m.Value.Members {
					headers.Add(field.Key, field.Value.Text)
				}
			default:
				env = appendTexts(env, m.Value, func(string) bool { return true })
			}
		}
	}
	for _, m := range d.root.Members {
		if m.Key == serversKey || m.Key == editorsKey {
			continue
		}
		env = appendTexts(env, m.Value, func(key string) bool { return key == "clientSecret" || key == "clientKey" })
		keys, _ := m.Value.Member("keys") // of state and credentials
		for _, key := range keys.Items {
			env = append(env, "STATE_KEY="+key.Text)
		}
	}
	return env, headers, urls
}

// appendTexts appends the texts below a node with some keys, as KEY=text.
func appendTexts(texts []string, n configfile.Node, is func(key string) bool) []string {
	for _, m := range n.Members {
		if m.Value.Kind == configfile.Text && is(m.Key) {
			texts = append(texts, m.Key+"="+m.Value.Text)
		}
		texts = appendTexts(texts, m.Value, is)
	}
	for _, item := range n.Items {
		texts = appendTexts(texts, item, is)
	}
	return texts
}

// setDisabled sets "disabled", and also "enabled" if the entry has it: other programs write
// that key, and a config accepts it.
func (f File) setDisabled(name string, disabled bool) ([]byte, error) {
	_, entry, err := f.entry(name)
	if err != nil {
		return nil, err
	}
	enabled, hasEnabled := entry.node.Member("enabled")
	if hasEnabled && !isBool(enabled, !disabled) {
		if f.Text, err = f.Set(name, "enabled", !disabled); err != nil {
			return nil, err
		}
	}
	value, has := entry.node.Member("disabled")
	switch {
	case has && isBool(value, disabled):
	case has && !disabled:
		return f.Unset(name, "disabled")
	case has || disabled && !hasEnabled:
		return f.Set(name, "disabled", true)
	}
	return f.Text, nil
}

func isBool(n configfile.Node, want bool) bool {
	return n.Kind == configfile.Bool && (n.Text == "true") == want
}

// The keys of the servers; config reads the second like the first.
const (
	serversKey = "mcpServers"
	editorsKey = "servers"
)

// serversNode returns the mapping of the servers, and its key in this file.
func (d *document) serversNode() (configfile.Node, string) {
	for _, key := range []string{serversKey, editorsKey} {
		if n, found := d.root.Member(key); found {
			return n, key
		}
	}
	return configfile.Node{}, serversKey
}

// server returns the mapping of the servers and a member of it.
func (f File) server(name string) (*document, *mapping, member, error) {
	d, err := parse(f)
	if err != nil {
		return nil, nil, member{}, err
	}
	node, key := d.serversNode()
	if indexOf(node, name) < 0 {
		return nil, nil, member{}, d.refuse(configfile.Position{}, spelling.DidYouMean(name, keysOf(node)), "there is no server %q", name)
	}
	root, err := d.rootMapping()
	if err != nil {
		return nil, nil, member{}, err
	}
	parent, _ := root.member(key)
	servers, err := root.below(parent)
	if err != nil {
		return nil, nil, member{}, err
	}
	m, _ := servers.member(name)
	return d, servers, m, servers.refuseTwice(m)
}

// entry returns the entry of a server.
func (f File) entry(name string) (*document, *mapping, error) {
	d, servers, m, err := f.server(name)
	if err != nil {
		return nil, nil, err
	}
	entry, err := servers.below(m)
	return d, entry, err
}
