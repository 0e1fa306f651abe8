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

// key is one key of a mapping that is read into a T. A table of keys describes the mapping
// completely.
type key[T any] struct {
	name string
	// doc describes the key in sentences.
	doc string
	// def is the default as written in a file; empty means no default.
	def string

	want   string
	read   func(r *reader, n configfile.Node, p place, into *T)
	fill   func(into *T)
	schema func() *jsonschema.Schema
	rows   func(prefix string) []row
}

// row is the description of one key for documents.
type row struct{ path, want, def, doc string }

// field returns the key for one field of a T.
func field[T, F any](name string, of form[F], at func(*T) *F, def, doc string) key[T] {
	return key[T]{
		name: name, doc: doc, def: def, want: of.want, rows: of.rows,
		read: func(r *reader, n configfile.Node, p place, into *T) { of.read(r, n, p, at(into)) },
		fill: func(into *T) {
			// Nested fields first: an absent mapping has the defaults of its keys.
			if of.fill != nil {
				of.fill(at(into))
			}
			// The default is parsed like a value of the file, so that it equals what the
			// documents contain.
			// No form accepts a zero value other than the default, as zero means absent.
			if def != "" && reflect.ValueOf(at(into)).Elem().IsZero() {
				of.read(&reader{}, configfile.Node{Kind: defaultKind(def), Text: def}, place{name: name}, at(into))
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

// defaultKind returns the kind of a default. Only counts are not strings.
func defaultKind(def string) configfile.Kind {
	if isNumber(def) {
		return configfile.Integer
	}
	return configfile.Text
}

// defaultJSON returns a default for the schema, in which a count is a number.
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

// object is a mapping with known keys. Any other key is a problem, or a note if it is a
// harmless key of another program.
func object[T any](keys []key[T], others []foreignKey) form[T] {
	return form[T]{
		want: "a mapping",
		read: func(r *reader, n configfile.Node, p place, into *T) {
			r.eachMember(n, p, keysHint(keyNames(keys)), func(name string, n configfile.Node, at place) {
				// Keys are case-sensitive, as for the other programs that read the file.
				i := slices.IndexFunc(keys, func(k key[T]) bool { return k.name == name })
				if i < 0 {
					r.unknownKey(name, p, keyNames(keys), others)
					return
				}
				keys[i].read(r, n, at, into)
				if n.Kind != configfile.Mapping {
					r.positions[at.path] = n.At // later problems refer to the value
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
func keyNames[T any](keys []key[T]) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	return names
}

// keyRows returns the rows of a key and of those nested in it.
func keyRows[T any](k key[T], prefix string) []row {
	path := place{path: prefix}.key(k.name).path
	rows := []row{{path: path, want: k.want, def: k.def, doc: k.doc}}
	if k.rows != nil {
		rows = append(rows, k.rows(path)...)
	}
	return rows
}

// objectSchema returns the schema of a mapping with known keys. It permits passed keys of
// other programs, so that editors do not mark them.
func objectSchema[T any](keys []key[T], others []foreignKey) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:                 "object",
		Properties:           make(map[string]*jsonschema.Schema),
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	// In the order of the table and the documents, in which editors offer the keys.
	for _, k := range keys {
		s.Properties[k.name] = k.schema()
		s.PropertyOrder = append(s.PropertyOrder, k.name)
	}
	for _, other := range others {
		if other.passed {
			s.Properties[other.name] = &jsonschema.Schema{Description: "Ignored: " + other.about + "."}
			s.PropertyOrder = append(s.PropertyOrder, other.name)
		}
	}
	return s
}

// eachMember calls f for the members of a mapping in file order. It records the positions
// of keys, and reports repeated ones. hint is for a value that is not a mapping.
func (r *reader) eachMember(n configfile.Node, p place, hint string, f func(name string, n configfile.Node, at place)) {
	if n.Kind != configfile.Mapping {
		r.wrongKind(n, p, "a mapping", hint)
		return
	}
	// Not r.where, which has keys of other mappings and of an earlier pass.
	seen := make(map[string]configfile.Position)
	for _, m := range n.Members {
		at := p.key(m.Key)
		if first, twice := seen[m.Key]; twice {
			r.report(m.At, at, "", "duplicate key %q, first on line %d", m.Key, first.Line)
			continue
		}
		seen[m.Key], r.positions[at.path] = m.At, m.At
		f(m.Key, m.Value, at)
	}
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
	alias := servers().schema()
	alias.Description = "Another name of mcpServers, used by one editor."
	s.Properties[editorsKey] = alias
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
