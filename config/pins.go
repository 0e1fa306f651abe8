// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/pins"
)

// Pins is what becomes of definitions of tools, prompts and templates, and of instructions of servers, that differ
// from those that were approved in the lock file. The zero value is the strictest.
type Pins struct {
	// Changed is PinFreeze, PinHold or PinWarn. Empty is PinFreeze.
	Changed string `json:"changed"`
	// New and Hidden are PinHold or PinAllow, for definitions that the lock file does not have, and for those
	// with hidden characters. Empty is PinHold.
	New    string `json:"new"`
	Hidden string `json:"hidden"`
	// Pages is PinHold or PinAllow, for the HTML of apps that is not the approved one. Empty is PinHold.
	Pages string `json:"pages"`
	// Ignore lists the places in definitions, as JSON pointers, at which changes do not count.
	Ignore []string `json:"ignore"`
}

// The values of Pins.
const (
	PinFreeze = string(pins.Freeze) // offer the approved definition if the text alone has changed, and hold others
	PinHold   = string(pins.Hold)   // neither list nor call it
	PinWarn   = string(pins.Warn)   // offer the changed definition, and report it
	PinAllow  = "allow"
)

// Policy returns the pins.Policy of the settings.
func (p *Pins) Policy() pins.Policy {
	return pins.Policy{Changed: pins.Change(p.Changed), AllowNew: p.New == PinAllow, AllowHidden: p.Hidden == PinAllow, AllowPages: p.Pages == PinAllow}
}

func pinKeys() []key {
	return []key{
		// No defaults here: each default is the strictest.
		{"changed", oneOf(PinFreeze, PinHold, PinWarn), "", "What becomes of a definition that is not the approved one: the approved one is offered in its place if nothing but text has changed, and otherwise it is held (freeze, the default); it is held, which is neither listed nor called (hold); or it is offered and reported (warn)."},
		{"new", oneOf(PinHold, PinAllow), "", "What becomes of a definition that the lock file does not have: it is held (hold, the default) or offered (allow)."},
		{"hidden", oneOf(PinHold, PinAllow), "", "What becomes of a definition with characters that people do not see, also without a lock file: it is held (hold, the default) until it is approved, or offered (allow)."},
		{"pages", oneOf(PinHold, PinAllow), "", "What becomes of the HTML of an app that is not the approved one: reading it is an error (hold, the default), or it is passed on (allow)."},
		{"ignore", listOf(text()), "", "Places in definitions at which changes do not count, as JSON pointers, such as /_meta/build."},
	}
}

// checkPins requires that the places to ignore are pointers to members.
func checkPins(c *Config, r *reader) {
	list := place{}.key("pins").key("ignore")
	for i, text := range c.Pins.Ignore {
		if p := jsontext.Pointer(text); !r.has(list.item(i)) && (!p.IsValid() || text == "") {
			r.report(list.item(i), "write a JSON pointer, such as /_meta/build", "%.80q is not a place in a definition", text)
		}
	}
	checkTwice(c.Pins.Ignore, list, r)
}

// LockFile returns the path of the lock file of the configuration at path: signalbox.lock for signalbox.yaml. It is in
// the same folder, as is the folder of the approved texts.
func LockFile(path string) string {
	name := filepath.Base(path)
	if plain := strings.TrimSuffix(name, filepath.Ext(name)); strings.Trim(plain, ".") != "" {
		name = plain
	}
	return filepath.Join(filepath.Dir(path), name+".lock")
}

// PinsFolder returns the folder with the texts of approved definitions of the configuration at path.
func PinsFolder(path string) string { return filepath.Join(filepath.Dir(path), "pins") }

// TextFile returns the path of the text of an approved definition.
func TextFile(path string, d pins.Digest) string {
	return filepath.Join(PinsFolder(path), strings.TrimPrefix(d.String(), "sha256:")+".json")
}

// maxLock is the size of the largest lock file.
const maxLock = 32 << 20

// ReadLock reads the lock file of the configuration at path. It returns nil without a file. A file that
// cannot be read, or not be understood, is an error, since without it everything would be offered.
func ReadLock(path string) (*pins.Lock, error) {
	text, err := readAtMost(LockFile(path), maxLock)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil //nolint:nilnil // nil is the lock without a file
	case err != nil:
		return nil, err
	case len(text) > maxLock:
		return nil, errors.New("it is larger than 32 MiB")
	}
	return pins.Parse(text)
}

// readLock reads the lock file of the configuration that is being read.
func (r *reader) readLock() *pins.Lock {
	if r.file == "" {
		return nil
	}
	lock, err := ReadLock(r.file)
	if err != nil {
		p := Problem{File: LockFile(r.file), Line: 1, Column: 1, Message: err.Error(), Hint: "restore the file from version control, or remove it and run signalbox lock"}
		if syntax, ok := errors.AsType[*pins.SyntaxError](err); ok {
			p.Line, p.Message = syntax.Line, syntax.Message
		}
		r.add(p)
	}
	return lock
}

// Lock returns what was approved, or nil if the configuration has no lock file. The lock must not be changed.
func (c *Config) Lock() *pins.Lock {
	if c.source == nil {
		return nil
	}
	return c.source.lock
}

// ApprovedText returns the text of an approved definition, and reports whether it is there. It reads a file, which may be
// as large as a lock file.
func (c *Config) ApprovedText(d pins.Digest) ([]byte, bool) {
	if c.source == nil {
		return nil, false
	}
	text, err := readAtMost(TextFile(c.source.file, d), maxLock)
	return text, err == nil && len(text) <= maxLock
}
