// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package toolsets reads public collections of definitions of tools, for the commands of test/search and test/poisoning.
package toolsets

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Tool is a tool as its server lists it.
type Tool struct {
	Server, Name string
	Definition   json.RawMessage
}

// LiveMCP returns the tools of real servers that are in a checkout of icip-cas/LiveMCPBench.
func LiveMCP(dir string) ([]Tool, error) {
	var servers []struct {
		Tools map[string]struct{ Tools []json.RawMessage }
	}
	if err := ReadJSON(filepath.Join(dir, "tools", "LiveMCPTool", "tools.json"), &servers); err != nil {
		return nil, err
	}
	var all []Tool
	for _, s := range servers {
		for _, server := range slices.Sorted(maps.Keys(s.Tools)) {
			for _, definition := range s.Tools[server].Tools {
				var named struct{ Name string }
				if err := json.Unmarshal(definition, &named); err != nil {
					return nil, err
				}
				all = append(all, Tool{server, named.Name, definition})
			}
		}
	}
	return all, nil
}

// MCPProxy returns the path of a file in a checkout of smart-mcp-proxy/mcpproxy-go that has labelled texts and queries.
func MCPProxy(dir, file string) string {
	return filepath.Join(dir, "specs", "065-evaluation-foundation", "datasets", file)
}

// ReadJSON reads a file.
func ReadJSON(file string, to any) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
