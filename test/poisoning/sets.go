// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/pins"
	"github.com/signalbox-mcp/signalbox/test/toolsets"
)

// readLiveMCP reads the tools of real servers.
func readLiveMCP(dir string) ([]*set, error) {
	tools, err := toolsets.LiveMCP(dir)
	if err != nil {
		return nil, err
	}
	s, adviser := &set{name: "tools of LiveMCPBench"}, new(pins.Adviser)
	for _, t := range tools {
		adviser.Add(t.Server, t.Name)
		s.tools = append(s.tools, tool{t.Name, t.Server, t.Definition, adviser})
	}
	return []*set{s}, nil
}

// readLabelled reads the corpora of mcpproxy-go.
func readLabelled(dir string) ([]*set, error) {
	hidden := &set{name: "mcpproxy-go, hidden text", hidden: true, attack: true}
	attacks := &set{name: "mcpproxy-go, other attacks", attack: true}
	honest := &set{name: "mcpproxy-go, not malicious"}
	for _, file := range []string{"detect_corpus_v1.json", "security_corpus_v1.json"} {
		var corpus struct {
			Entries []struct {
				ID, Label, Category, Server, Description string

				Tool  json.RawMessage
				Peers []struct {
					Server string
					Tool   struct{ Name string }
				}
			}
		}
		if err := toolsets.ReadJSON(toolsets.MCPProxy(dir, file), &corpus); err != nil {
			return nil, err
		}
		for _, e := range corpus.Entries {
			t := tool{e.ID, e.Server, e.Tool, new(pins.Adviser)}
			if t.definition == nil {
				t.definition = describe("x", e.Description)
			}
			for _, p := range e.Peers {
				t.adviser.Add(p.Server, p.Tool.Name)
			}
			s := honest
			switch {
			case e.Category == "unicode_smuggling":
				s = hidden
			case e.Label == "malicious":
				s = attacks
			}
			s.tools = append(s.tools, t)
		}
	}
	return []*set{hidden, attacks, honest}, nil
}

// docstring matches a tool in Python: its name and its description.
var docstring = regexp.MustCompile(`(?s)@\w+\.tool\([^\n]*\)\s*\n(?:async )?\s*def (\w+)\([^\n]*\n\s*"""(.*?)"""`)

// readVulnerable reads the tools of the servers of damn-vulnerable-MCP-server. A poisoned description there has a tag.
func readVulnerable(dir string) ([]*set, error) {
	files, err := filepath.Glob(filepath.Join(dir, "challenges", "*", "*", "server.py"))
	if err != nil {
		return nil, err
	}
	if files == nil {
		return nil, fmt.Errorf("%s has no folder challenges", dir)
	}
	attacks, others := &set{name: "damn-vulnerable-MCP-server, poisoned descriptions", attack: true}, &set{name: "damn-vulnerable-MCP-server, other tools"}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range docstring.FindAllStringSubmatch(string(source), -1) {
			s := others
			if strings.Contains(m[2], "<IMPORTANT>") || strings.Contains(m[2], "<HIDDEN>") {
				s = attacks
			}
			s.tools = append(s.tools, tool{m[1], filepath.Base(filepath.Dir(file)), describe(m[1], m[2]), new(pins.Adviser)})
		}
	}
	return []*set{attacks, others}, nil
}

// describe returns the definition of a tool.
func describe(name, description string) json.RawMessage {
	raw, err := json.Marshal(map[string]string{"name": name, "description": description})
	if err != nil {
		panic(err) //nolint:forbidigo // strings have a form in JSON
	}
	return raw
}
