// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// pageSize is less than the number of tools, so that a client that lists them must follow a
// cursor.
const pageSize = 4

// languages are the completion values of the prompt's argument.
var languages = []string{"norsk", "nynorsk", "suomi"} //nolint:gochecknoglobals // a constant list

// newServer returns a server with everything that the interop tests use. Its board is the
// one template that no other server has.
func newServer(board string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "goserver", Version: "1.0.0"}, &mcp.ServerOptions{
		PageSize:          pageSize,
		CompletionHandler: complete,
		// The SDK keeps the subscriptions, if both handlers are set.
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	addTools(s)
	addAsks(s)
	addShapes(s)
	addContent(s)
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: "interop://" + board + "/{id}", Name: board, MIMEType: "text/plain",
	}, read)
	return s
}

// addContent adds a resource, a template and a prompt.
func addContent(s *mcp.Server) {
	s.AddResource(&mcp.Resource{
		URI: "interop://greeting", Name: "greeting", MIMEType: "text/plain",
	}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: "interop://item/{id}", Name: "item", MIMEType: "text/plain",
	}, read)
	s.AddPrompt(&mcp.Prompt{
		Name:      "welcome",
		Arguments: []*mcp.PromptArgument{{Name: "language", Required: true}},
	}, prompt)
}

// read serves the resource and the templates. The text contains the requested part of the
// URI, so that a client can distinguish the responses. One resource never exists.
func read(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	if strings.HasSuffix(req.Params.URI, "/missing") {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	text := "hello"
	if kind, id, ok := strings.Cut(strings.TrimPrefix(req.Params.URI, "interop://"), "/"); ok {
		text = kind + " " + id
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
		{URI: req.Params.URI, MIMEType: "text/plain", Text: text},
	}}, nil
}

// prompt puts its argument into the one message.
func prompt(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	text := fmt.Sprintf("Welcome the reader in %s.", req.Params.Arguments["language"])
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
		{Role: "user", Content: &mcp.TextContent{Text: text}},
	}}, nil
}

// complete completes the argument of the prompt and of the template.
func complete(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	candidates := languages
	if req.Params.Ref.Type == "ref/resource" {
		candidates = []string{"41", "42"}
	}
	values := []string{}
	for _, c := range candidates {
		if strings.HasPrefix(c, req.Params.Argument.Value) {
			values = append(values, c)
		}
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values, Total: len(values)}}, nil
}
