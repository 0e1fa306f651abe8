// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// inputKey names the one input that each of these tools asks for.
const inputKey = "input"

// addAsks adds the tools that ask the client for something. They return what
// they need: to a modern client the SDK passes that on as input_required, and
// a legacy client it asks by a request of the server, within the same call.
func addAsks(s *mcp.Server) {
	addAsk(s, "elicit", &mcp.ElicitParams{
		Message: "What is your name?",
		RequestedSchema: &jsonschema.Schema{
			Type:       "object",
			Properties: map[string]*jsonschema.Schema{"name": {Type: "string"}},
			Required:   []string{"name"},
		},
	})
	addAsk(s, "sample", &mcp.CreateMessageParams{
		MaxTokens: 100,
		Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "Name a number."}}},
	})
	addAsk(s, "roots", &mcp.ListRootsParams{})
}

// addAsk adds a tool that asks first and, called again with the answer, returns
// what was answered.
func addAsk(s *mcp.Server, name string, ask mcp.InputRequest) {
	mcp.AddTool(s, &mcp.Tool{Name: name, Description: "Asks the client and returns the answer."},
		func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			answer, ok := req.Params.InputResponses[inputKey]
			if !ok {
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{inputKey: ask}}, nil, nil
			}
			return describe(answer), nil, nil
		})
}

// describe returns the answer as text, which a client can compare with what it
// said.
func describe(answer mcp.InputResponse) *mcp.CallToolResult {
	switch a := answer.(type) {
	case *mcp.ElicitResult:
		return text("%s: %v", a.Action, a.Content["name"])
	case *mcp.CreateMessageWithToolsResult:
		return &mcp.CallToolResult{Content: a.Content}
	case *mcp.ListRootsResult:
		return describeRoots(a.Roots)
	}
	return text("unexpected answer %T", answer)
}

// describeRoots names the first root: the clients offer only one.
func describeRoots(roots []*mcp.Root) *mcp.CallToolResult {
	if len(roots) == 0 {
		return text("no roots")
	}
	return text("first root: %s", roots[0].URI)
}
