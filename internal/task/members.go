// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"bytes"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// members are the members of an object in order, with the bytes of their values.
type members []member

type member struct {
	name  string
	value jsontext.Value
}

var errNotObject = errors.New("not a JSON object")

// read parses an object; empty text is one without members.
func read(raw []byte) (members, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	first, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	if first.Kind() != '{' {
		return nil, errNotObject
	}
	var all members
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		m := member{name: name.String()}
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		m.value = bytes.Clone(value)
		all = append(all, m)
	}
	_, err = d.ReadToken()
	return all, err
}

// find returns one member of an object, or nil if it is absent or raw is not an object.
func find(raw []byte, name string) jsontext.Value {
	all, err := read(raw)
	if err != nil {
		return nil
	}
	return all.get(name)
}

func isObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

// textOf returns the text of a string, and "" for any other value.
func textOf(value []byte) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return ""
	}
	return string(text)
}

func (m members) index(name string) int {
	return slices.IndexFunc(m, func(one member) bool { return one.name == name })
}

func (m members) get(name string) jsontext.Value {
	if i := m.index(name); i >= 0 {
		return m[i].value
	}
	return nil
}

// text returns a string member, and "" for any other value.
func (m members) text(name string) string { return textOf(m.get(name)) }

// with returns the members with one set, in its place or at the end.
func (m members) with(name string, value []byte) members {
	out := slices.Clone(m)
	if i := m.index(name); i >= 0 {
		out[i].value = value
		return out
	}
	return append(out, member{name, value})
}

func (m members) without(names ...string) members {
	return slices.DeleteFunc(slices.Clone(m), func(one member) bool { return slices.Contains(names, one.name) })
}

// renamed returns the members with one renamed in its place.
func (m members) renamed(from, to string) members {
	out := slices.Clone(m)
	if i := m.index(from); i >= 0 {
		out[i].name = to
	}
	return out
}

// bytes encodes the object.
func (m members) bytes() []byte {
	out := []byte{'{'}
	for i, one := range m {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsonscan.AppendString(out, one.name)
		out = append(out, ':')
		out = append(out, one.value...)
	}
	return append(out, '}')
}
