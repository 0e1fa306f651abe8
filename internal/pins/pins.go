// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pins compares what servers offer to models with what a person has approved.
//
// A [Lock] has a digest for each approved definition: a tool, a prompt, a template of resources, the instructions of
// a server, or the HTML of an app. A tool that a server lists otherwise for clients that render apps has two. [Lock.Judge] decides what becomes of a definition: one that is approved is offered; if
// only its text has changed, the approved one is offered in its place; any other is held, so that it is neither listed
// nor called. [Hidden] finds text that people do not see, and an [Adviser] what a person should look at.
//
// The package does no I/O: the texts of approved definitions are given by a function.
package pins

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// Kind is what a definition is of.
type Kind string

// The kinds.
const (
	Tool         Kind = "tool"
	Prompt       Kind = "prompt"
	Template     Kind = "template"
	Instructions Kind = "instructions" // of a server; a JSON string
	Page         Kind = "page"         // of an app; see PageOf
)

// Face is which list of a server has a tool: a server may list other tools to clients that render apps
// (io.modelcontextprotocol/ui).
type Face string

// The faces. Definitions of all other kinds are Plain.
const (
	Plain Face = ""
	UI    Face = "ui" // the list for clients that render apps
)

// Key identifies a definition: the server by its name in the configuration, and its own name for the item.
type Key struct {
	Server string
	Kind   Kind
	Name   string // the URI template of a template; the URI of a page; "" for instructions
	Face   Face
}

// plain returns the key of the same name in the list for clients that do not render apps.
func (k Key) plain() Key {
	k.Face = Plain
	return k
}

// String returns the key in one line, for people.
func (k Key) String() string {
	if k.Kind == Instructions {
		return "instructions of " + k.Server
	}
	text := fmt.Sprintf("%s %s of %s", k.Kind, Spell(k.Name), k.Server)
	if k.Face == UI {
		text += " (for clients that render apps)"
	}
	return text
}

// Digest identifies the content of a definition.
type Digest [sha256.Size]byte

// String returns the digest as it is written in a lock file.
func (d Digest) String() string { return "sha256:" + hex.EncodeToString(d[:]) }

// ParseDigest is the reverse of String.
func ParseDigest(text string) (d Digest, ok bool) {
	rest, ok := strings.CutPrefix(text, "sha256:")
	if !ok || len(rest) != hex.EncodedLen(len(d)) {
		return d, false
	}
	_, err := hex.Decode(d[:], []byte(rest))
	return d, err == nil && d.String() == text
}

// Digester makes digests, and keeps the latest of them. It is safe for concurrent use.
type Digester struct {
	ignore []jsontext.Pointer

	mu    sync.Mutex
	known map[[sha256.Size]byte]Digest // by the bytes as they arrived
}

// maxKnown bounds the digests that a Digester keeps.
const maxKnown = 20_000

// NewDigester returns a Digester that leaves out the members at some places (RFC 6901, such as /_meta/x).
func NewDigester(ignore []string) *Digester {
	d := &Digester{known: make(map[[sha256.Size]byte]Digest)}
	for _, p := range ignore {
		d.ignore = append(d.ignore, jsontext.Pointer(p))
	}
	return d
}

// Of returns the digest of a definition: SHA-256 of its canonical form (RFC 8785), which has all members, also those
// that no revision of the protocol knows. Text that has no canonical form, such as an object with a member twice,
// is taken as it is.
func (d *Digester) Of(definition []byte) Digest {
	raw := sha256.Sum256(definition)
	d.mu.Lock()
	made, ok := d.known[raw]
	d.mu.Unlock()
	if ok {
		return made
	}
	made = sha256.Sum256(d.canonical(definition))
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= maxKnown {
		clear(d.known)
	}
	d.known[raw] = made
	return made
}

// canonical returns the text that is hashed.
func (d *Digester) canonical(definition []byte) []byte {
	v := jsontext.Value(bytes.Clone(definition))
	for _, p := range d.ignore {
		v = without(v, slices.Collect(p.Tokens()))
	}
	if err := v.Canonicalize(); err != nil {
		return definition
	}
	return v
}

// without returns an object without the member at a path.
func without(object []byte, path []string) []byte {
	if len(path) == 0 {
		return object
	}
	return jsonscan.RewriteMembers(object, func(name string, value []byte) []byte {
		switch {
		case name != path[0]:
			return value
		case len(path) == 1:
			return nil
		default:
			return without(value, path[1:])
		}
	})
}

// Policy is what becomes of definitions that are not approved. The zero value is the strictest.
type Policy struct {
	Changed     Change
	AllowNew    bool // offer definitions that the lock does not have
	AllowHidden bool // offer definitions with hidden text
	AllowPages  bool // offer pages that have changed, and new ones
}

// Change is what becomes of a definition that has changed.
type Change string

// The values of Change. Empty is Freeze.
const (
	Freeze Change = "freeze" // offer the approved one if its text alone has changed, and hold others
	Hold   Change = "hold"
	Warn   Change = "warn" // offer the changed one
)

// State is how a definition compares with the approved one.
type State string

// The states.
const (
	Approved State = "approved"
	Unpinned State = "unpinned" // there is no lock
	New      State = "new"      // the lock does not have it
	Changed  State = "changed"
	Frozen   State = "frozen" // changed, and the approved one is offered
)

// Verdict is what becomes of a definition.
type Verdict struct {
	State State
	Use   json.RawMessage // to offer: the definition, or the approved one; nil if it is held
	Sign  string          // the first hidden character, such as U+200B, or ""
}

// Held reports whether the item is neither listed nor called.
func (v *Verdict) Held() bool { return v.Use == nil }

// Texts returns the text of an approved definition, and reports whether it has it.
type Texts func(Digest) ([]byte, bool)

// Judge returns what becomes of a definition. A nil Lock has approved nothing and holds nothing but hidden text. An
// approved definition may have hidden text: a person has seen it spelt out. A page is offered or held, and may have any
// characters: they are for a browser.
//
// A UI definition is compared with that of its own line, or with the Plain one if it has none. It is also approved if
// it is the approved Plain one, with or without a line. A Plain definition is never compared with that of a UI line.
func (l *Lock) Judge(key Key, definition json.RawMessage, digests *Digester, texts Texts, p Policy) Verdict {
	v := Verdict{State: Unpinned, Use: definition}
	if l != nil {
		digest, known := l.Compared(key)
		switch {
		case !known:
			v.State = New
			if !p.AllowNew && (key.Kind != Page || !p.AllowPages) {
				v.Use = nil
			}
		case l.Approves(key, digests.Of(definition)):
			return Verdict{State: Approved, Use: definition}
		default:
			v = changed(key.Kind, definition, digest, digests, texts, p)
		}
	}
	if key.Kind == Page {
		return v
	}
	if sign, found := Hidden(definition); found {
		v.Sign = sign
		if v.State != Frozen && !p.AllowHidden {
			v.Use = nil
		}
	}
	return v
}

// changed is Judge for a definition that is not the approved one.
func changed(kind Kind, definition json.RawMessage, approved Digest, digests *Digester, texts Texts, p Policy) Verdict {
	v := Verdict{State: Changed}
	switch {
	case p.Changed == Warn, kind == Page && p.AllowPages:
		v.Use = definition
	case p.Changed == Hold, kind == Page:
	default:
		text, ok := texts(approved)
		// The text may have been changed, too.
		if ok && digests.Of(text) == approved && differInText(kind, text, definition) {
			v = Verdict{State: Frozen, Use: text}
		}
	}
	return v
}

// differInText reports whether two definitions differ only in what a model or a person reads: calls of one are calls
// of the other.
func differInText(kind Kind, a, b []byte) bool {
	if kind == Instructions {
		return true
	}
	read := map[string]bool{"title": true, "description": true, "icons": true, "annotations": true, "_meta": true}
	one, other := members(a), members(b)
	if one == nil || other == nil {
		return false
	}
	for name, value := range one {
		if !read[name] && !equal(value, other[name]) {
			return false
		}
	}
	for name := range other {
		if _, ok := one[name]; !ok && !read[name] {
			return false
		}
	}
	return true
}

// members returns the members of an object, or nil if one is there twice.
func members(object []byte) map[string][]byte {
	m := make(map[string][]byte)
	for name, value := range jsonscan.Members(object) {
		if _, twice := m[name]; twice {
			return nil
		}
		m[name] = value
	}
	return m
}

// equal reports whether two JSON texts mean the same.
func equal(a, b []byte) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	x, y := jsontext.Value(bytes.Clone(a)), jsontext.Value(bytes.Clone(b))
	return x.Canonicalize() == nil && y.Canonicalize() == nil && bytes.Equal(x, y)
}
