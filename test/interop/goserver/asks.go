// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addAsks adds the tools that ask the client for something. They return their questions:
// the SDK sends them to a modern client as input_required, and to a legacy client as
// requests of the server within the same call.
func addAsks(s *mcp.Server) {
	elicit := &mcp.ElicitParams{
		Message: "What is your name?",
		RequestedSchema: &jsonschema.Schema{
			Type:       "object",
			Properties: map[string]*jsonschema.Schema{"name": {Type: "string"}},
			Required:   []string{"name"},
		},
	}
	sample := &mcp.CreateMessageParams{
		MaxTokens: 100,
		Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "Name a number."}}},
	}
	roots := &mcp.ListRootsParams{}
	addAsk(s, "elicit", elicit)
	addAsk(s, "visit", &mcp.ElicitParams{
		Mode: "url", Message: "Sign here.", URL: "https://example.com/sign", ElicitationID: "sign-here",
	})
	addAsk(s, "use", &mcp.CreateMessageWithToolsParams{
		MaxTokens: 100,
		Messages:  []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "Where is north?"}}}},
		Tools:     []*mcp.Tool{{Name: "compass", InputSchema: map[string]any{"type": "object"}}},
	})
	addKeep(s, elicit)
	addAsk(s, "sample", sample)
	addAsk(s, "roots", roots)
	addAsk(s, "several", elicit, roots, sample)
}

// addAsk adds a tool that first asks all questions at once and, called again with the
// answers, returns the answers in the order of the questions.
func addAsk(s *mcp.Server, name string, asks ...mcp.InputRequest) {
	questions := make(mcp.InputRequestMap)
	for i, ask := range asks {
		questions[inputKey(i)] = ask
	}
	mcp.AddTool(s, &mcp.Tool{Name: name, Description: "Asks the client and returns the answers."},
		func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			var all mcp.CallToolResult
			for i := range asks {
				answer, ok := req.Params.InputResponses[inputKey(i)]
				if !ok {
					return &mcp.CallToolResult{InputRequests: questions}, nil, nil
				}
				all.Content = append(all.Content, describe(answer).Content...)
			}
			return &all, nil, nil
		})
}

// keepArgs are the arguments of keep.
type keepArgs struct {
	Key string `json:"key"`
}

// addKeep adds a tool that does not store its argument when it asks: it returns the
// argument from the state that the client sends back with the answer.
func addKeep(s *mcp.Server, ask mcp.InputRequest) {
	mcp.AddTool(s, &mcp.Tool{Name: "keep", Description: "Returns the state that it asked with."},
		func(_ context.Context, req *mcp.CallToolRequest, in keepArgs) (*mcp.CallToolResult, any, error) {
			if _, ok := req.Params.InputResponses[inputKey(0)]; ok {
				return text("%s", req.Params.RequestState), nil, nil
			}
			return &mcp.CallToolResult{
				InputRequests: mcp.InputRequestMap{inputKey(0): ask},
				RequestState:  "state of " + in.Key,
			}, nil, nil
		})
}

// inputKey returns the key of one of a tool's questions.
func inputKey(i int) string { return fmt.Sprintf("input%d", i) }

// describe returns the answer as text, which a client can compare with its own.
func describe(answer mcp.InputResponse) *mcp.CallToolResult {
	switch a := answer.(type) {
	case *mcp.ElicitResult:
		return text("%s: %v", a.Action, a.Content["name"])
	case *mcp.CreateMessageWithToolsResult:
		return describeMessage(a.Content)
	case *mcp.ListRootsResult:
		return describeRoots(a.Roots)
	}
	return text("unexpected answer %T", answer)
}

// describeMessage names the tool that the model wants to use, if any.
func describeMessage(content []mcp.Content) *mcp.CallToolResult {
	if len(content) == 0 {
		return text("no text")
	}
	if use, ok := content[0].(*mcp.ToolUseContent); ok {
		return text("use: %s", use.Name)
	}
	return &mcp.CallToolResult{Content: content}
}

// describeRoots names the first root: the clients offer only one.
func describeRoots(roots []*mcp.Root) *mcp.CallToolResult {
	if len(roots) == 0 {
		return text("no roots")
	}
	return text("first root: %s", roots[0].URI)
}
