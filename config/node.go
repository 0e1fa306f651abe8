// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strconv"
	"strings"
)

// kind is the kind of a value in the file's syntax.
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

// String describes the kind in messages.
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

// position is a place in a file. Lines and columns count from 1.
type position struct{ line, column int }

// node is one value of a file, in either syntax.
type node struct {
	at      position
	kind    kind
	text    string   // the value of a text; the source text of a number or boolean
	items   []node   // of a list
	members []member // of a mapping, in file order; keys may repeat
}

// member is one key of a mapping and its value.
type member struct {
	key   string
	at    position // of the key
	value node
}

// member returns the value of the first member with a key.
func (n node) member(key string) (node, bool) {
	// A repeated key is rejected.
	for _, m := range n.members {
		if m.key == key {
			return m.value, true
		}
	}
	return node{}, false
}

// place identifies a value by its path from the root. name is the end of the path, which is
// used in messages.
type place struct{ path, name string }

// key returns the place of a member. A key with characters of the path syntax is quoted, so
// that places have unique paths.
func (p place) key(key string) place {
	switch {
	// The empty key is quoted, too, or it would not change the path.
	case key == "" || strings.ContainsAny(key, `.[]"`):
		return place{path: p.path + "[" + strconv.Quote(key) + "]", name: key}
	case p.path == "":
		return place{path: key, name: key}
	default:
		return place{path: p.path + "." + key, name: key}
	}
}

// item returns the place of an element.
func (p place) item(i int) place {
	index := "[" + strconv.Itoa(i) + "]"
	return place{path: p.path + index, name: p.name + index}
}
