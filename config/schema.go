// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

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
