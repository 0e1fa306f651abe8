// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strconv"
	"strings"
)

// kind is what a value of a file is, before anybody knows what it should be.
type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindInteger
	kindFloat
	kindText
	kindList
	kindMapping
)

// String names the kind as a message does.
func (k kind) String() string {
	switch k {
	case kindNull:
		return "nothing"
	case kindBool:
		return "true or false"
	case kindInteger, kindFloat:
		return "a number"
	case kindText:
		return "a string"
	case kindList:
		return "a list"
	case kindMapping:
		return "a mapping"
	default:
		return "kind " + strconv.Itoa(int(k))
	}
}

// position is a place in a file; both count from 1.
type position struct{ line, column int }

// node is one value of a file. Both syntaxes are read into it, so that nothing
// else knows of them.
type node struct {
	at      position
	kind    kind
	text    string   // of a text its value, of a number or boolean as written
	items   []node   // of a list
	members []member // of a mapping, in the order of the file; keys may repeat
}

// member is one key of a mapping and its value.
type member struct {
	key   string
	at    position // of the key
	value node
}

// member returns the first member of a mapping with a key.
func (n node) member(key string) (node, bool) {
	// The first one is what counts, because the second is refused.
	for _, m := range n.members {
		if m.key == key {
			return m.value, true
		}
	}
	return node{}, false
}

// place is where a value stands: its path from the root, and the name by which
// messages speak of it, which is the end of the path.
type place struct{ path, name string }

// key is the place of a member. Keys with the characters of the path's own
// syntax are quoted, so that two places never share a path.
func (p place) key(key string) place {
	switch {
	// Also the empty key, which would leave no trace in the path.
	case key == "" || strings.ContainsAny(key, `.[]"`):
		return place{path: p.path + "[" + strconv.Quote(key) + "]", name: key}
	case p.path == "":
		return place{path: key, name: key}
	default:
		return place{path: p.path + "." + key, name: key}
	}
}

// item is the place of an element.
func (p place) item(i int) place {
	index := "[" + strconv.Itoa(i) + "]"
	return place{path: p.path + index, name: p.name + index}
}
