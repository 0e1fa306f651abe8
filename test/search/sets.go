// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
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

// readBFCL reads the questions of the Berkeley Function Calling Leaderboard that need one function: those
// written for it, and those of users. The tools of each set are the functions of all its questions.
func readBFCL(dir string) (written, users *set, err error) {
	dir = filepath.Join(dir, "berkeley-function-call-leaderboard", "bfcl_eval", "data")
	written, users = &set{name: "written questions of BFCL, one function each"}, &set{name: "questions of users of BFCL, one function each"}
	for _, part := range []struct {
		to   *set
		file string
	}{
		{written, "BFCL_v4_simple_python.json"},
		{written, "BFCL_v4_multiple.json"},
		{users, "BFCL_v4_live_simple.json"},
		{users, "BFCL_v4_live_multiple.json"},
	} {
		if err := part.to.addBFCL(filepath.Join(dir, part.file), filepath.Join(dir, "possible_answer", part.file)); err != nil {
			return nil, nil, err
		}
	}
	return written, users, nil
}

func (s *set) addBFCL(questions, answers string) error {
	type answer struct {
		ID    string
		Truth []map[string]any `json:"ground_truth"`
	}
	all, err := readLines[answer](answers)
	if err != nil {
		return err
	}
	needs := make(map[string]map[string]bool)
	for _, a := range all {
		needs[a.ID] = make(map[string]bool)
		for _, call := range a.Truth {
			for name := range call {
				needs[a.ID][name] = true
			}
		}
	}
	type question struct {
		ID       string
		Question [][]struct{ Role, Content string }
		Function []struct {
			Name, Description string
			Parameters        struct {
				Properties map[string]struct{ Description any }
			}
		}
	}
	asked, err := readLines[question](questions)
	if err != nil {
		return err
	}
	for _, q := range asked {
		for _, f := range q.Function {
			if slices.ContainsFunc(s.tools, func(t search.Tool) bool { return t.Name == f.Name }) {
				continue
			}
			tool := search.Tool{Name: f.Name, Description: f.Description}
			for argument, a := range f.Parameters.Properties {
				tool.Arguments = append(tool.Arguments, argument)
				if text, ok := a.Description.(string); ok {
					tool.Arguments = append(tool.Arguments, text)
				}
			}
			s.tools = append(s.tools, tool)
		}
		var text []string
		for _, m := range q.Question[0] {
			if m.Role == "user" {
				text = append(text, m.Content)
			}
		}
		if len(needs[q.ID]) == 1 {
			s.queries = append(s.queries, query{strings.Join(text, " "), needs[q.ID]})
		}
	}
	return nil
}

// readLines reads a file with a JSON value in each line.
func readLines[T any](file string) (all []T, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(raw)) {
		var value T
		if err := json.Unmarshal([]byte(line), &value); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, value)
	}
	return all, nil
}
