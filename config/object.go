// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

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

// field returns the field of a struct for the key.
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
		// servers leaves those of the caller unchanged.
		switch {
		case field.Kind() == reflect.Struct && k.form.keys != nil:
			fill(k.form.keys, field)
		case k.name == serversKey:
			filled := reflect.AppendSlice(reflect.MakeSlice(field.Type(), 0, field.Len()), field)
			for i := range filled.Len() {
				fill(k.form.keys, filled.Index(i))
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
		schema: objectSchema(keys, others),
		keys:   keys,
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

// keyNames returns the names in a table, for hints.
func keyNames(keys []key) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	return names
}

// row is the description of one key for documents.
type row struct{ path, want, def, doc string }

// rows returns the descriptions of the keys of a form and of those nested in them.
func (f form) rows(prefix string) []row {
	var rows []row
	for _, k := range f.keys {
		path := place{path: prefix}.key(k.name).path
		rows = append(rows, row{path: path, want: k.form.want, def: k.def, doc: k.doc})
		rows = append(rows, k.form.rows(path+k.form.infix)...)
	}
	return rows
}

// objectSchema returns the schema of a mapping with known keys. It permits passed keys of
// other programs, so that editors do not mark them.
func objectSchema(keys []key, others []foreignKey) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:                 "object",
		Properties:           make(map[string]*jsonschema.Schema),
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	// In the order of the table and the documents, in which editors offer the keys.
	add := func(name string, property jsonschema.Schema) {
		s.Properties[name] = &property
		s.PropertyOrder = append(s.PropertyOrder, name)
	}
	for _, k := range keys {
		property := *k.form.schema
		property.Description = k.doc
		switch {
		case isNumber(k.def):
			property.Default = []byte(k.def)
		case k.def != "":
			property.Default = fmt.Appendf(nil, "%q", k.def)
		}
		add(k.name, property)
	}
	for _, other := range others {
		if other.passed {
			add(other.name, jsonschema.Schema{Description: "Ignored: " + other.about + "."})
		}
	}
	return s
}

// schemaID is the URL of the committed schema.
const schemaID = "https://raw.githubusercontent.com/signalbox-mcp/signalbox/main/schema/config.schema.json"

// schema returns a JSON Schema (2020-12) of configuration files, for editors. It is less
// strict than Parse: it covers keys, types and forms, but not how settings depend on each
// other or the values of variables. It accepts everything that Parse accepts.
func schema() *jsonschema.Schema {
	s := objectSchema(configKeys(), foreignConfigKeys())
	s.ID = schemaID
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "Signalbox config"

	// Both names, as an editor would mark the other one as unknown.
	alias := *servers().schema
	alias.Description = "Another name of mcpServers, used by one editor."
	s.Properties[editorsKey] = &alias
	s.PropertyOrder = append(s.PropertyOrder, editorsKey)
	s.OneOf = []*jsonschema.Schema{{Required: []string{serversKey}}, {Required: []string{editorsKey}}}

	server := objectSchema(serverKeys(), foreignServerKeys())
	need := []*jsonschema.Schema{{Required: []string{"command"}}, {Required: []string{"url"}}, {Required: []string{"disabled"}}, {Required: []string{"enabled"}}}
	server.Properties["enabled"] = &jsonschema.Schema{Type: "boolean", Description: `The opposite of "disabled".`}
	server.PropertyOrder = append(server.PropertyOrder, "enabled")
	for _, name := range slices.Sorted(maps.Keys(keyAliases())) {
		own := keyAliases()[name]
		server.Properties[name] = &jsonschema.Schema{Type: "string", Description: fmt.Sprintf("Another name of %q.", own)}
		server.PropertyOrder = append(server.PropertyOrder, name)
		if own == "url" {
			need = append(need, &jsonschema.Schema{Required: []string{name}})
		}
	}
	// Parse checks which of them go together. If the schema did, an editor would respond
	// to a mistake with the whole list of alternatives.
	server.AnyOf = need
	s.Defs = map[string]*jsonschema.Schema{"server": server}
	return s
}
