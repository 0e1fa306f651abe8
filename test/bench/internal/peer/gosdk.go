// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
)

// query has the arguments of a tool of the Go SDK's server.
type query struct {
	Path    string `json:"path" jsonschema:"The folder to begin in."`
	Pattern string `json:"pattern" jsonschema:"What to look for."`
	Limit   int    `json:"limit,omitempty" jsonschema:"How many matches are enough."`
}

// goSDK is a server built with the official SDK.
func goSDK(tools int) http.Handler {
	s := mcp.NewServer(&mcp.Implementation{Name: "gosdk", Version: "1"}, nil)
	for _, name := range canned.ToolNames(tools) {
		text := canned.PlainText(canned.TextSize(name))
		mcp.AddTool(s, &mcp.Tool{Name: name, Title: "Find in files", Description: description},
			func(context.Context, *mcp.CallToolRequest, query) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
			})
	}
	// With sessions it supports only the legacy era, without them the modern one too.
	get := func(*http.Request) *mcp.Server { return s }
	legacy := mcp.NewStreamableHTTPHandler(get, nil)
	modern := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") == canned.ModernVersion {
			modern.ServeHTTP(w, r)
			return
		}
		legacy.ServeHTTP(w, r)
	})
}
