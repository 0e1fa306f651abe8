// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// key is one key of a mapping. A table of keys describes the mapping completely. The key is
// read into the field that has its name as its tag.
type key struct {
	name string
	form form
	// def is the default as written in a file; empty means no default.
	def string
	// doc describes the key in sentences.
	doc string
}

func (k key) field(of reflect.Value) reflect.Value {
	for i := range of.NumField() {
		if of.Type().Field(i).Tag.Get("json") == k.name {
			return of.Field(i)
		}
	}
	panic("config: no field for the key " + k.name) //nolint:forbidigo // a test compares keys and fields
}

// fill sets the zero fields of a struct to their defaults.
func fill(keys []key, into reflect.Value) {
	for _, k := range keys {
		field := k.field(into)
		// Nested fields, too: an absent mapping has the defaults of its keys. A new slice of
		// mappings leaves those of the caller unchanged.
		switch {
		case field.Kind() == reflect.Struct && k.form.keys != nil:
			fill(k.form.keys, field)
		case field.Kind() == reflect.Slice && field.Len() > 0 && k.form.elem != nil && k.form.elem.keys != nil:
			filled := reflect.AppendSlice(reflect.MakeSlice(field.Type(), 0, field.Len()), field)
			for i := range filled.Len() {
				fill(k.form.elem.keys, filled.Index(i))
			}
			field.Set(filled)
		// The default is parsed like a value of the file, so that it equals what the documents
		// contain. No form accepts a zero value other than the default: zero means absent.
		case k.def != "" && field.IsZero():
			kind := configfile.Text
			if isNumber(k.def) {
				kind = configfile.Integer // only counts are not strings
			}
			k.form.read(&reader{}, configfile.Node{Kind: kind, Text: k.def}, place{name: k.name}, field)
		}
	}
}

// object is a mapping with known keys. Any other key is a problem, or a note if it is a
// harmless key of another program.
func object(keys []key, others []foreignKey) form {
	names := keyNames(keys)
	return form{
		want:   "a mapping",
		keys:   keys,
		others: others,
		read: func(r *reader, n configfile.Node, p place, into reflect.Value) {
			r.eachMember(n, p, keysHint(names), func(name string, n configfile.Node, at place) {
				// Keys are case-sensitive, as for the other programs that read the file.
				i := slices.Index(names, name)
				if i < 0 {
					r.unknownKey(name, p, names, others)
					return
				}
				keys[i].form.read(r, n, at, keys[i].field(into))
				if n.Kind != configfile.Mapping {
					r.positions[at.path] = n.At // later problems refer to the value
				}
			})
		},
	}
}

// keysHint lists the keys of a mapping, or the first of many.
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

func keyNames(keys []key) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	return names
}
