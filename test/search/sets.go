// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/search"
	"github.com/signalbox-mcp/signalbox/test/toolsets"
)

// readLiveMCP reads the tasks of LiveMCPBench, each with all tools that it needs, and single steps
// with the tool of each, of the tasks that have as many steps as tools.
func readLiveMCP(dir string) (tasks, steps *set, err error) {
	listed, err := toolsets.LiveMCP(dir)
	if err != nil {
		return nil, nil, err
	}
	var tools []search.Tool
	known := make(map[string]bool)
	for _, t := range listed {
		var definition struct {
			Description string
			InputSchema struct {
				Properties map[string]struct{ Description any }
			}
		}
		if err := json.Unmarshal(t.Definition, &definition); err != nil {
			return nil, nil, err
		}
		tool := search.Tool{Name: t.Name, Server: t.Server, Description: definition.Description}
		for argument, a := range definition.InputSchema.Properties {
			tool.Arguments = append(tool.Arguments, argument)
			if text, ok := a.Description.(string); ok {
				tool.Arguments = append(tool.Arguments, text)
			}
		}
		tools = append(tools, tool)
		known[t.Name] = true
	}
	var annotated []struct {
		Question   string
		Annotation struct{ Steps, Tools string } `json:"Annotator Metadata"`
	}
	if err := toolsets.ReadJSON(filepath.Join(dir, "annotated_data", "all_annotations.json"), &annotated); err != nil {
		return nil, nil, err
	}
	tasks, steps = &set{name: "tasks of LiveMCPBench, all tools that a task needs", tools: tools}, &set{name: "steps of them, one tool each", tools: tools}
	for _, a := range annotated {
		texts, names := numbered(a.Annotation.Steps), numbered(a.Annotation.Tools)
		all := make(map[string]bool)
		for i, name := range names {
			if !known[name] {
				continue // annotated with another name
			}
			all[name] = true
			if len(texts) == len(names) {
				steps.queries = append(steps.queries, query{texts[i], map[string]bool{name: true}})
			}
		}
		if len(all) > 0 {
			tasks.queries = append(tasks.queries, query{a.Question, all})
		}
	}
	return tasks, steps, nil
}

var number = regexp.MustCompile(`^\d+\.\s*`)

// numbered returns the lines of a numbered list.
func numbered(list string) (lines []string) {
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(number.ReplaceAllString(strings.TrimSpace(line), "")); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// readGolden reads the annotated queries of mcpproxy-go, each with the tools that are the best ones.
func readGolden(dir string) (*set, error) {
	var corpus struct {
		Tools []struct{ Description, Server, Tool string }
	}
	if err := toolsets.ReadJSON(toolsets.MCPProxy(dir, "corpus_v1.tools.json"), &corpus); err != nil {
		return nil, err
	}
	s := &set{name: "queries of mcpproxy-go, the best tools"}
	for _, t := range corpus.Tools {
		s.tools = append(s.tools, search.Tool{Name: t.Tool, Server: t.Server, Description: t.Description})
	}
	var golden struct {
		Queries []struct {
			Query  string
			Labels []struct {
				ID        string `json:"tool_id"`
				Relevance int
			}
		}
	}
	if err := toolsets.ReadJSON(toolsets.MCPProxy(dir, "retrieval_golden_v1.json"), &golden); err != nil {
		return nil, err
	}
	for _, q := range golden.Queries {
		needs := make(map[string]bool)
		for _, l := range q.Labels {
			const best = 2
			_, name, _ := strings.Cut(l.ID, ":")
			if l.Relevance == best && slices.ContainsFunc(s.tools, func(t search.Tool) bool { return t.Name == name }) {
				needs[name] = true
			}
		}
		if len(needs) > 0 {
			s.queries = append(s.queries, query{q.Query, needs})
		}
	}
	return s, nil
}
