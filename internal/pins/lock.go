// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package pins

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Server is what a server was when it was approved. Nothing follows from a change.
type Server struct {
	Name, Version string // as it names itself
	Package       string // that runs it, with the version as configured, or ""
}

// Lock is the content of a lock file: what a person has approved. A nil Lock is that of no file. It must not be changed
// while it is used.
type Lock struct {
	servers map[string]Server
	pins    map[Key]Digest
}

// NewLock returns a Lock in which nothing is approved.
func NewLock() *Lock { return &Lock{servers: make(map[string]Server), pins: make(map[Key]Digest)} }

// Clone returns a copy that may be changed. The copy of nil is that of NewLock.
func (l *Lock) Clone() *Lock {
	if l == nil {
		return NewLock()
	}
	return &Lock{maps.Clone(l.servers), maps.Clone(l.pins)}
}

// Approve sets the digest of a definition.
func (l *Lock) Approve(key Key, d Digest) { l.pins[key] = d }

// SetServer sets what a server is.
func (l *Lock) SetServer(name string, is Server) { l.servers[name] = is }

// Remove removes the definitions for which gone returns true.
func (l *Lock) Remove(gone func(Key) bool) {
	maps.DeleteFunc(l.pins, func(k Key, _ Digest) bool { return gone(k) })
}

// RemoveServer removes a server and all that was approved of it.
func (l *Lock) RemoveServer(name string) {
	delete(l.servers, name)
	l.Remove(func(k Key) bool { return k.Server == name })
}

// Digest returns what is approved for a key.
func (l *Lock) Digest(key Key) (Digest, bool) {
	if l == nil {
		return Digest{}, false
	}
	d, ok := l.pins[key]
	return d, ok
}

// Compared returns the digest of the definition that one with the key is compared with: that of Digest, or else, for a UI
// key, that of the Plain one.
func (l *Lock) Compared(key Key) (Digest, bool) {
	d, ok := l.Digest(key)
	if !ok && key.Face == UI {
		return l.Digest(key.plain())
	}
	return d, ok
}

// Approves reports whether a definition with the key and the digest is approved. The approved Plain definition of
// a tool is so for clients that render apps, too: a server may list it to them again.
func (l *Lock) Approves(key Key, d Digest) bool {
	if approved, ok := l.Digest(key); ok && approved == d {
		return true
	}
	plain, ok := l.Digest(key.plain())
	return key.Face == UI && ok && plain == d
}

// Keys returns the keys in the order of the file.
func (l *Lock) Keys() []Key {
	if l == nil {
		return nil
	}
	return slices.SortedFunc(maps.Keys(l.pins), compare)
}

// Servers returns the servers that the lock is about.
func (l *Lock) Servers() []string {
	if l == nil {
		return nil
	}
	all := maps.Clone(l.servers)
	for k := range l.pins {
		if _, ok := all[k.Server]; !ok {
			all[k.Server] = Server{}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func compare(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Face, b.Face))
}

// head is the beginning of a lock file.
const head = "# What the servers offered when it was approved. signalbox approve changes this file.\n"

// Format returns the text of a lock file: a line for each server and for each definition, in a fixed order, so that
// a difference of two files shows what has changed. The line of a UI definition has the word ui in front of the digest.
func (l *Lock) Format() []byte {
	var b bytes.Buffer
	b.WriteString(head)
	keys := l.Keys()
	for _, name := range l.Servers() {
		is := l.servers[name]
		fmt.Fprintf(&b, "\nserver %s %s %s", quote(name), quote(is.Name), quote(is.Version))
		if is.Package != "" {
			b.WriteString(" " + quote(is.Package))
		}
		b.WriteByte('\n')
		for _, k := range keys {
			if k.Server == name {
				face := ""
				if k.Face != Plain {
					face = " " + string(k.Face)
				}
				fmt.Fprintf(&b, "%s %s%s %s\n", k.Kind, quote(k.Name), face, l.pins[k])
			}
		}
	}
	return b.Bytes()
}

// quote returns a word as it is, and any other text in quotes.
func quote(s string) string {
	isPlain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-.:/@{}*?=&+,", r)
	}
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !isPlain(r) }) {
		return strconv.QuoteToASCII(s)
	}
	return s
}

// SyntaxError is the error of a lock file that cannot be understood.
type SyntaxError struct {
	Line    int // counted from 1
	Message string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// Parse reads a lock file. The error is a *SyntaxError: nothing of a damaged file is used. An empty file
// is damaged, because a program may be writing it.
func Parse(text []byte) (*Lock, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, &SyntaxError{1, "the file is empty: restore it, or remove it"}
	}
	l := NewLock()
	server, inServer := "", false
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		words, ok := fields(line)
		var wrong string
		switch {
		case !ok:
			wrong = "it has a word that is not closed"
		case words[0] == "server" && (len(words) == 4 || len(words) == 5):
			server, inServer = words[1], true
			if _, twice := l.servers[server]; twice {
				wrong = fmt.Sprintf("the server %q is in it twice", server)
			}
			is := Server{Name: words[2], Version: words[3]}
			if len(words) == 5 {
				is.Package = words[4]
			}
			l.servers[server] = is
		case !inServer:
			wrong = "the first line must be about a server"
		default:
			wrong = l.parsePin(server, words)
		}
		if wrong != "" {
			return nil, &SyntaxError{number, wrong}
		}
	}
	return l, nil
}

// parsePin reads the line of a definition, and returns what is wrong with it, or "".
func (l *Lock) parsePin(server string, words []string) (wrong string) {
	key := Key{Server: server, Kind: Kind(words[0])}
	if key.Kind == Tool && len(words) == 4 && words[2] == string(UI) {
		key.Face, words = UI, slices.Delete(words, 2, 3)
	}
	if len(words) != 3 || !slices.Contains([]Kind{Tool, Prompt, Template, Instructions, Skill, Page}, key.Kind) {
		return "a line is a kind, a name and a digest: tool NAME sha256:..., or tool NAME ui sha256:..."
	}
	key.Name = words[1]
	d, ok := ParseDigest(words[2])
	if !ok {
		return "the digest is not sha256: and 64 hexadecimal digits"
	}
	if _, twice := l.pins[key]; twice {
		return key.String() + " is in it twice"
	}
	l.pins[key] = d
	return ""
}

// fields splits a line into words, some of them in quotes.
func fields(line string) (words []string, ok bool) {
	for line = strings.TrimLeft(line, " \t"); line != ""; line = strings.TrimLeft(line, " \t") {
		word := line
		if i := strings.IndexAny(line, " \t"); line[0] != '"' && i >= 0 {
			word = line[:i]
		}
		if line[0] == '"' {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, false
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, false
			}
			words, line = append(words, text), line[len(quoted):]
			if line != "" && line[0] != ' ' && line[0] != '\t' {
				return nil, false
			}
			continue
		}
		words, line = append(words, word), line[len(word):]
	}
	return words, len(words) > 0
}
