// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// schemaID is where the committed schema is found.
const schemaID = "https://raw.githubusercontent.com/signalbox-mcp/signalbox/main/schema/config.schema.json"

// Schema returns a JSON Schema (2020-12) of config files, for editors. It says
// less than Parse: it knows keys, types and forms, and not how settings depend on
// each other or what variables hold. What Parse accepts, it accepts.
func Schema() *jsonschema.Schema {
	s := objectSchema(configKeys(), foreignConfigKeys())
	s.ID = schemaID
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "Signalbox config"

	// An editor that knows one of the names only would mark the other as unknown.
	alias := servers().schema()
	alias.Description = "Another name of mcpServers, which is that of one editor."
	s.Properties[editorsKey] = alias
	s.PropertyOrder = append(s.PropertyOrder, editorsKey)
	s.OneOf = []*jsonschema.Schema{{Required: []string{serversKey}}, {Required: []string{editorsKey}}}

	server := objectSchema(serverKeys(), foreignServerKeys())
	need := []*jsonschema.Schema{{Required: []string{"command"}}, {Required: []string{"url"}}, {Required: []string{"disabled"}}, {Required: []string{"enabled"}}}
	server.Properties["enabled"] = &jsonschema.Schema{Type: "boolean", Description: `The opposite of "disabled".`}
	server.PropertyOrder = append(server.PropertyOrder, "enabled")
	for _, name := range slices.Sorted(maps.Keys(otherNames())) {
		own := otherNames()[name]
		server.Properties[name] = &jsonschema.Schema{Type: "string", Description: fmt.Sprintf("Another name of %q.", own)}
		server.PropertyOrder = append(server.PropertyOrder, name)
		if own == "url" {
			need = append(need, &jsonschema.Schema{Required: []string{name}})
		}
	}
	// Which of the two go together is judged by Parse; a schema that said it, too, would
	// answer a slip with the whole list of alternatives.
	server.AnyOf = need
	s.Defs = map[string]*jsonschema.Schema{"server": server}
	return s
}
