// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// key is one key of a mapping that is read into a T. A table of keys is all that
// there is to know about such a mapping.
type key[T any] struct {
	name string
	// doc says what the key is for, in sentences.
	doc string
	// def is the default, as it would be written; empty where there is none.
	def string

	want   string
	read   func(r *reader, n node, p place, into *T)
	fill   func(into *T)
	schema func() *jsonschema.Schema
	rows   func(prefix string) []row
}

// row is one key as documents show it.
type row struct{ path, want, def, doc string }

// field is the key that is read into one field of a T.
func field[T, F any](name string, of form[F], at func(*T) *F, def, doc string) key[T] {
	return key[T]{
		name: name, doc: doc, def: def, want: of.want, rows: of.rows,
		read: func(r *reader, n node, p place, into *T) { of.read(r, n, p, at(into)) },
		fill: func(into *T) {
			// From the inside out: a mapping that is not there has defaults below it all the same.
			if of.fill != nil {
				of.fill(at(into))
			}
			// The default is read as if it stood in the file, so that the documents
			// cannot say another one.
			// Zero is the only way to say nothing in a Config, so no form reads anything as zero
			// that is not the default.
			if def != "" && reflect.ValueOf(at(into)).Elem().IsZero() {
				of.read(&reader{}, node{kind: defaultKind(def), text: def}, place{name: name}, at(into))
			}
		},
		schema: func() *jsonschema.Schema {
			s := of.schema()
			s.Description = doc
			if def != "" {
				s.Default = defaultJSON(def)
			}
			return s
		},
	}
}

// defaultKind is the kind of a default: counts are the only ones that are not
// strings.
func defaultKind(def string) kind {
	if isNumber(def) {
		return kindInteger
	}
	return kindText
}

// defaultJSON is a default as the schema has it, where a count is a number.
func defaultJSON(def string) []byte {
	if isNumber(def) {
		return []byte(def)
	}
	return fmt.Appendf(nil, "%q", def)
}

// fill sets the zero fields of a T to their defaults.
func fill[T any](keys []key[T], into *T) {
	for _, k := range keys {
		k.fill(into)
	}
}

// object is a mapping with known keys. Every other key is a problem, or a note
// where it is known to be another program's and harmless.
func object[T any](keys []key[T], others []foreign) form[T] {
	return form[T]{
		want: "a mapping",
		read: func(r *reader, n node, p place, into *T) {
			r.eachMember(n, p, keysHint(keyNames(keys)), func(name string, n node, at place) {
				// Case counts: other programs that read the file are as strict, and would not see it.
				i := slices.IndexFunc(keys, func(k key[T]) bool { return k.name == name })
				if i < 0 {
					r.unknownKey(name, p, keyNames(keys), others)
					return
				}
				keys[i].read(r, n, at, into)
				if n.kind != kindMapping {
					r.where[at.path] = n.at // what is judged later is the value
				}
			})
		},
		fill:   func(into *T) { fill(keys, into) },
		schema: func() *jsonschema.Schema { return objectSchema(keys, others) },
		rows: func(prefix string) []row {
			var rows []row
			for _, k := range keys {
				rows = append(rows, keyRows(k, prefix)...)
			}
			return rows
		},
	}
}

// keysHint names the keys of a mapping, or the first of many.
func keysHint(names []string) string {
	const most = 3
	last := names[len(names)-1]
	if len(names) > most {
		names, last = names[:most+1], "others"
	}
	if len(names) == 1 {
		return "write " + last + " below it"
	}
	return "write " + strings.Join(names[:len(names)-1], ", ") + " or " + last + " below it"
}

// keyNames returns the names of a table, for hints.
func keyNames[T any](keys []key[T]) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	return names
}

// keyRows is a key and the keys below it.
func keyRows[T any](k key[T], prefix string) []row {
	path := place{path: prefix}.key(k.name).path
	rows := []row{{path: path, want: k.want, def: k.def, doc: k.doc}}
	if k.rows != nil {
		rows = append(rows, k.rows(path)...)
	}
	return rows
}

// objectSchema describes a mapping with known keys. The keys of other programs
// that are passed over are allowed, too, so that an editor does not mark them.
func objectSchema[T any](keys []key[T], others []foreign) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:                 "object",
		Properties:           make(map[string]*jsonschema.Schema),
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	// In the order of the table, which is that of the documents: editors offer keys so.
	for _, k := range keys {
		s.Properties[k.name] = k.schema()
		s.PropertyOrder = append(s.PropertyOrder, k.name)
	}
	for _, other := range others {
		if other.passed {
			s.Properties[other.name] = &jsonschema.Schema{Description: "Not used here: " + other.about + "."}
			s.PropertyOrder = append(s.PropertyOrder, other.name)
		}
	}
	return s
}

// eachMember calls f for the members of a mapping in the order of the file. It
// notes where each key stands, and complains of keys that repeat. The hint is for
// who wrote something else than a mapping.
func (r *reader) eachMember(n node, p place, hint string, f func(name string, n node, at place)) {
	if n.kind != kindMapping {
		r.wrongKind(n, p, "a mapping", hint)
		return
	}
	// Not the map of places, which knows paths of other mappings and of a first reading.
	seen := make(map[string]position)
	for _, m := range n.members {
		at := p.key(m.key)
		if first, twice := seen[m.key]; twice {
			r.tell(m.at, at, "", "the key %q stands here twice, first on line %d", m.key, first.line)
			continue
		}
		seen[m.key], r.where[at.path] = m.at, m.at
		f(m.key, m.value, at)
	}
}
