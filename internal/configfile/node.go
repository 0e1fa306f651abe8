// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package configfile parses the syntax of a configuration file into a tree in which each value
// has its position: YAML or JSON, and for files of other programs TOML. It knows no settings.
package configfile

import "strconv"

// Kind is the kind of a value in the file's syntax.
type Kind uint8

// The kinds of values.
const (
	Null Kind = iota
	Bool
	Integer
	Float
	Text
	List
	Mapping
)

// String describes the kind in messages.
func (k Kind) String() string {
	switch k {
	case Null:
		return "nothing"
	case Bool:
		return "true or false"
	case Integer, Float:
		return "a number"
	case Text:
		return "a string"
	case List:
		return "a list"
	case Mapping:
		return "a mapping"
	default:
		return "kind " + strconv.Itoa(int(k))
	}
}

// Position is a place in a file. Lines and columns count from 1.
type Position struct{ Line, Column int }

// Node is one value of a file, in either syntax.
type Node struct {
	At      Position
	Kind    Kind
	Text    string   // the value of a text; the source text of a number or boolean
	Items   []Node   // of a list
	Members []Member // of a mapping, in file order; keys may repeat
}

// Member is one key of a mapping and its value.
type Member struct {
	Key   string
	At    Position // of the key
	Value Node
}

// Member returns the value of the first member with a key.
func (n Node) Member(key string) (Node, bool) {
	// A repeated key is rejected.
	for _, m := range n.Members {
		if m.Key == key {
			return m.Value, true
		}
	}
	return Node{}, false
}
