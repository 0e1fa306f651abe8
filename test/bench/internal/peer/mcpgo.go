// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
)

// mcpGo is a server built with mcp-go.
func mcpGo(tools int) http.Handler {
	s := server.NewMCPServer("mcpgo", "1", server.WithToolCapabilities(true))
	for _, name := range canned.ToolNames(tools) {
		text := canned.PlainText(canned.TextSize(name))
		tool := mcp.NewTool(name, mcp.WithTitleAnnotation("Find in files"), mcp.WithDescription(description),
			mcp.WithString("path", mcp.Required(), mcp.Description("The folder to begin in.")),
			mcp.WithString("pattern", mcp.Required(), mcp.Description("What to look for.")),
			mcp.WithNumber("limit", mcp.Description("How many matches are enough.")))
		s.AddTool(tool, func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(text), nil
		})
	}
	return server.NewStreamableHTTPServer(s)
}
