// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package pins

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// Difference is one place at which two definitions differ. The texts are for people: hidden characters are spelt
// out.
type Difference struct {
	Path     string // as a JSON pointer (RFC 6901), or "" for the whole definition
	Old, New string // "" if it is not there
}

// Diff returns the places at which two definitions differ, in the order of the new one. Objects are compared member by
// member, and all other values as a whole.
func Diff(before, after []byte) []Difference {
	return diff("", before, after)
}

func diff(path jsontext.Pointer, before, after []byte) []Difference {
	if equal(before, after) {
		return nil
	}
	old, next := members(before), members(after)
	if !isObject(before) || !isObject(after) || old == nil || next == nil {
		return []Difference{{string(path), spell(before), spell(after)}}
	}
	var all []Difference
	var names []string
	for name, value := range jsonscan.Members(after) {
		names = append(names, name)
		all = append(all, diff(path.AppendToken(name), old[name], value)...)
	}
	for name, value := range jsonscan.Members(before) {
		if !slices.Contains(names, name) {
			all = append(all, diff(path.AppendToken(name), value, nil)...)
		}
	}
	return all
}

// spell returns a value for people: a string as its text.
func spell(value []byte) string {
	if text, ok := jsonscan.DecodeText(value); ok {
		return Spell(text)
	}
	return Spell(string(value))
}

func isObject(raw []byte) bool {
	return len(bytes.TrimSpace(raw)) > 0 && bytes.TrimSpace(raw)[0] == '{'
}
