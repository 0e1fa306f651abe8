// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo is the backend that the command serves when nothing is
// configured: a few tools, resources and prompts that show what goes through a
// gateway: progress, log messages, a question to the user, completion.
//
// It is a plain [mcp.Handler], and an example of how one is written.
package demo

import (
	"context"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Backend is the demo. The zero value is ready, and keeps no state.
type Backend struct{}

// Serve answers one request.
func (Backend) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	switch req.Method {
	case "server/discover":
		return mcp.NewResult([]byte(discoverResult))
	case "tools/list":
		return list("tools", toolList())
	case "tools/call":
		return callTool(ctx, req, caller)
	case "resources/list":
		return mcp.NewResult([]byte(resourceList))
	case "resources/templates/list":
		return mcp.NewResult([]byte(templateList))
	case "resources/read":
		return readResource(req)
	case "prompts/list":
		return mcp.NewResult([]byte(promptList))
	case "prompts/get":
		return getPrompt(req)
	case "completion/complete":
		return complete(req)
	default:
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "the demo has no method %q", req.Method)
	}
}

const discoverResult = `{
	"supportedVersions": ["2026-07-28"],
	"capabilities": {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}},
	"instructions": "Tools to try a gateway with. countdown shows progress and log messages, introduce asks the user for a name.",
	"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "signalbox-demo", "title": "Signalbox demo", "version": "1"}}
}`
