// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// The documents and the schema are generated from the tables of keys; see generated_test.go.

// row is the description of one key for documents.
type row struct{ path, want, def, doc string }

// rows returns the descriptions of the keys of a form and of those nested in them.
func (f form) rows(prefix string) []row {
	var rows []row
	for _, k := range f.keys {
		path := place{path: prefix}.key(k.name).path
		rows = append(rows, row{path: path, want: k.form.want, def: k.def, doc: k.doc})
		inner := k.form
		switch {
		case inner.isList():
			inner, path = *inner.elem, path+"[]"
		case inner.elem != nil:
			inner, path = *inner.elem, path+".NAME"
		}
		rows = append(rows, inner.rows(path)...)
	}
	return rows
}

func (f form) isList() bool { return strings.HasPrefix(f.want, "a list of ") }

// schema returns the schema of the values that the form accepts, before variables are
// expanded.
func (f form) schema() *jsonschema.Schema {
	switch {
	case f.words != nil:
		s := new(jsonschema.Schema)
		for _, word := range f.words {
			s.Enum = append(s.Enum, word)
		}
		return s
	case f.want == wantAppsForm:
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "boolean"}, objectSchema(f.keys, f.others)}}
	case f.keys != nil:
		return objectSchema(f.keys, f.others)
	case f.isList():
		return &jsonschema.Schema{Type: "array", Items: f.elem.schema()}
	case f.want == profiles().want:
		return &jsonschema.Schema{
			Type:                 "object",
			PropertyNames:        &jsonschema.Schema{Pattern: profileNamePattern},
			AdditionalProperties: f.elem.schema(),
		}
	case f.elem != nil && f.elem.keys != nil: // of servers
		return &jsonschema.Schema{
			Type:                 "object",
			PropertyNames:        &jsonschema.Schema{Pattern: serverNamePattern},
			AdditionalProperties: &jsonschema.Schema{Ref: "#/$defs/server"},
		}
	case f.elem != nil:
		return &jsonschema.Schema{Type: "object", AdditionalProperties: f.elem.schema()}
	}
	switch f.want {
	case "a string", "a secret":
		return &jsonschema.Schema{Type: "string"}
	case "true or false":
		return &jsonschema.Schema{Type: "boolean"}
	case "a duration":
		return &jsonschema.Schema{Type: "string", Pattern: durationPattern}
	case "a size":
		return &jsonschema.Schema{Type: "string", Pattern: sizePattern}
	case "a port":
		return &jsonschema.Schema{Type: "integer", Minimum: new(1.0), Maximum: new(65535.0)}
	case "a rate":
		return &jsonschema.Schema{Type: "string", Pattern: ratePattern}
	case "a whole number above zero":
		return &jsonschema.Schema{Type: "integer", Minimum: new(1.0)}
	case "a whole number":
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "integer", Minimum: new(1.0)},
			{Enum: []any{none}},
		}}
	}
	panic("no schema for " + f.want)
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
		property := *k.form.schema()
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
	alias := *servers().schema()
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

// profileNamePattern is the schema's pattern of the names of profiles, equivalent to
// isProfileName.
const profileNamePattern = `^[a-z0-9_][a-z0-9_-]{0,63}$`

// serverNamePattern is the schema's pattern of server names, equivalent to isName with
// maxServerName.
const serverNamePattern = `^[A-Za-z0-9_.-]{1,64}$`

// The patterns of durations and sizes in the schema.
const (
	durationPattern = `^(none|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
	sizePattern     = `^(none|[0-9]+(B|KiB|MiB|GiB))$`
	ratePattern     = `^[0-9]+/(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
)
