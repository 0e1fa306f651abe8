// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo is the backend that the command serves when nothing is
// configured, so that a gateway can be tried before there is anything to put
// behind it. Each item shows one thing that has to survive the way through:
//
//	echo         text, byte for byte
//	countdown    progress, log messages, cancellation
//	introduce    a question to the user
//	roll_dice    structured content
//	demo://...   a list of resources, a template and what fills it
//	greet        a prompt that carries a resource
//
// It is a plain [mcp.Handler], and an example of how one is written: it knows
// no era, no session and no transport, only requests and their caller.
package demo

import (
	"context"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Backend is the demo. The zero value is ready and keeps no state, so that one
// may serve any number of gateways at once.
type Backend struct{}

// Serve answers one request. It is called concurrently. The lists fit one page
// and never change: there is no cursor to honour and no change to announce, and
// the capabilities promise neither.
func (Backend) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	switch req.Method {
	case "server/discover":
		return mcp.NewResult([]byte(discoverResult))
	case "tools/list":
		return listTools()
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

// discoverResult is what the legacy edges make their initialize of as well: a
// Handler says once what it offers (2026-07-28, server/discover).
const discoverResult = `{
	"supportedVersions": ["2026-07-28"],
	"capabilities": {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}},
	"instructions": "Things to try a gateway with. countdown shows progress and log messages and can be cancelled, introduce asks the user for a name, roll_dice answers with structured content. Read demo://about for the rest.",
	"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "signalbox-demo", "title": "Signalbox demo", "version": "1"}}
}`
