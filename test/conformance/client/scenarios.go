// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// scenario is the client's part of one scenario.
type scenario func(ctx context.Context, s *session) error

// scenarios returns the scenarios of the suite except those about authorization, by name.
// Of those, useAccount plays all.
func scenarios() map[string]scenario {
	return map[string]scenario{
		"initialize":                          listTools,
		"request-metadata":                    listTools,
		"json-schema-ref-no-deref":            listTools,
		"tools_call":                          callOne("add_numbers", map[string]int{"a": 5, "b": 3}),
		"elicitation-sep1034-client-defaults": callOne("test_client_elicitation_defaults", struct{}{}),
		"sse-retry":                           callOne("test_reconnection", struct{}{}),
		"sep-2322-client-request-state":       callAtOnce,
		"http-standard-headers":               useEverything,
		"http-custom-headers":                 callGiven,
		"http-invalid-tool-headers":           callAll,
		"json-schema-2020-12-preservation":    echoSchema,
		"sep-2640-client-no-prefetch":         listSkills,
		"sep-2640-client-verify-digest":       loadSkills,
		"sep-2640-client-verify-size":         loadSkills,
		"sep-2640-client-verify-frontmatter":  loadSkills,
	}
}

// listTools is the minimum of a client.
func listTools(ctx context.Context, s *session) error {
	_, err := s.tools(ctx)
	return err
}

// find returns a tool that the server must have.
func (s *session) find(ctx context.Context, name string) (item, error) {
	tools, err := s.tools(ctx)
	if err != nil {
		return item{}, err
	}
	i := slices.IndexFunc(tools, func(t item) bool { return t.Name == name })
	if i < 0 {
		return item{}, fmt.Errorf("the server has no tool %q", name)
	}
	return tools[i], nil
}

// callOne calls one listed tool.
func callOne(name string, arguments any) scenario {
	return func(ctx context.Context, s *session) error {
		if _, err := s.find(ctx, name); err != nil {
			return err
		}
		return s.call(ctx, name, arguments)
	}
}

// callAtOnce calls all tools at the same time. Questions and state of one call must not
// appear in the others.
func callAtOnce(ctx context.Context, s *session) error {
	tools, err := s.tools(ctx)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, len(tools))
	for i, tool := range tools {
		// Waited for below; ends with its call.
		wg.Go(func() { errs[i] = s.call(ctx, tool.Name, struct{}{}) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// callAll calls all listed tools, with every argument that any of them has.
func callAll(ctx context.Context, s *session) error {
	tools, err := s.tools(ctx)
	if err != nil {
		return err
	}
	for _, tool := range tools {
		if err := s.call(ctx, tool.Name, map[string]string{"region": "us-west1"}); err != nil {
			return err
		}
	}
	return nil
}

// callGiven makes the calls that the suite specifies, with unmodified arguments. It reads
// the list first, which specifies the arguments that must also be sent as headers.
func callGiven(ctx context.Context, s *session) error {
	var given struct {
		Calls []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if err := json.Unmarshal([]byte(s.given), &given); err != nil {
		return fmt.Errorf("%s: %w", envContext, err)
	}
	if _, err := s.tools(ctx); err != nil {
		return err
	}
	for _, call := range given.Calls {
		if err := s.call(ctx, call.Name, call.Arguments); err != nil {
			return err
		}
	}
	return nil
}

// useEverything uses the first tool, resource and prompt.
func useEverything(ctx context.Context, s *session) error {
	tools, err := s.tools(ctx)
	if err != nil {
		return err
	}
	resources, err := s.list(ctx, "resources/list", mcp.FieldResources)
	if err != nil {
		return err
	}
	prompts, err := s.list(ctx, "prompts/list", mcp.FieldPrompts)
	if err != nil {
		return err
	}
	if len(tools) == 0 || len(resources) == 0 || len(prompts) == 0 {
		return fmt.Errorf("the server has %d tools, %d resources, %d prompts", len(tools), len(resources), len(prompts))
	}
	if err := s.call(ctx, tools[0].Name, struct{}{}); err != nil {
		return err
	}
	if _, err := s.request(ctx, "resources/read", map[string]string{"uri": resources[0].URI}); err != nil {
		return err
	}
	_, err = s.request(ctx, "prompts/get", map[string]string{"name": prompts[0].Name})
	return err
}

// echoSchema sends the schema of one tool to another, unmodified.
func echoSchema(ctx context.Context, s *session) error {
	tool, err := s.find(ctx, "json_schema_2020_12_tool")
	if err != nil {
		return err
	}
	return s.call(ctx, "json_schema_echo", map[string]any{"schema": tool.InputSchema})
}
