// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// regionArgs are the arguments of header.
type regionArgs struct {
	Region string `json:"region"`
}

// sounding is the result of measure.
type sounding struct {
	Depth string `json:"depth"`
}

// addShapes adds the tools for the shape of a call and of its result.
func addShapes(s *mcp.Server) {
	region := &jsonschema.Schema{Type: "string", Extra: map[string]any{"x-mcp-header": "Region"}}
	mcp.AddTool(s, &mcp.Tool{
		Name: "header", Description: "Returns the header that its argument came in.",
		InputSchema: &jsonschema.Schema{
			Type: "object", Properties: map[string]*jsonschema.Schema{"region": region}, Required: []string{"region"},
		},
	}, header)
	mcp.AddTool(s, &mcp.Tool{Name: "kinds", Description: "Returns one of each kind of content."}, kinds)
	mcp.AddTool(s, &mcp.Tool{Name: "measure", Description: "Returns structured content."}, measure)
}

func header(_ context.Context, req *mcp.CallToolRequest, _ regionArgs) (*mcp.CallToolResult, any, error) {
	return text("header: %s", req.Extra.Header.Get("Mcp-Param-Region")), nil, nil
}

func kinds(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
	const greeting = "interop://greeting"
	return &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.TextContent{Text: "text"},
		&mcp.ImageContent{MIMEType: "image/png", Data: []byte("image")},
		&mcp.AudioContent{MIMEType: "audio/wav", Data: []byte("audio")},
		&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: greeting, MIMEType: "text/plain", Text: "hello"}},
		&mcp.ResourceLink{URI: greeting, Name: "greeting"},
	}}, nil, nil
}

// measure returns a text that differs from its structured content, so that neither is
// mistaken for the other.
func measure(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, sounding, error) {
	return text("measured"), sounding{Depth: "nine fathoms"}, nil
}
