// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// witnessTimeout is how long the tool witness waits.
const witnessTimeout = time.Minute

// stepPause separates the progress notifications from each other and from the result. Some
// clients drop a notification that they read together with the result.
const stepPause = 50 * time.Millisecond

// textArgs are the arguments of echo, log and the tools that change adds.
type textArgs struct {
	Text string `json:"text"`
}

// stepsArgs are the arguments of steps.
type stepsArgs struct {
	Steps int `json:"steps"`
}

// keyArgs are the arguments of block.
type keyArgs struct {
	Key string `json:"key"`
}

// witnessArgs name a block and the awaited state.
type witnessArgs struct {
	Key   string `json:"key"`
	State string `json:"state" jsonschema:"started or cancelled"`
}

// changeArgs name the tool to add or to remove.
type changeArgs struct {
	Name   string `json:"name"`
	Remove bool   `json:"remove,omitempty"`
}

// touchArgs name the resource that was updated.
type touchArgs struct {
	URI string `json:"uri"`
}

// addTools adds the tools that ask nothing of the client.
func addTools(s *mcp.Server) {
	w := newWatch()
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Returns its text."}, echo)
	mcp.AddTool(s, &mcp.Tool{Name: "steps", Description: "Reports progress once per step."}, steps)
	mcp.AddTool(s, &mcp.Tool{Name: "log", Description: "Logs its text at level info."}, logText)
	mcp.AddTool(s, &mcp.Tool{Name: "block", Description: "Returns when it is cancelled."}, w.block)
	mcp.AddTool(s, &mcp.Tool{Name: "witness", Description: "Waits until a block has started or was cancelled."}, w.witness)
	mcp.AddTool(s, &mcp.Tool{Name: "change", Description: "Adds a tool, or removes it."}, changer(s))
	mcp.AddTool(s, &mcp.Tool{Name: "touch", Description: "Says that a resource was updated."}, toucher(s))
}

// text returns a result of one text.
func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// echo returns its text with a mark, so that a result that merely repeats the request is
// not mistaken for a response.
func echo(_ context.Context, _ *mcp.CallToolRequest, in textArgs) (*mcp.CallToolResult, any, error) {
	return text("echo: %s", in.Text), nil, nil
}

// steps reports progress with the token of the caller. A call without a token is an error,
// which reveals a lost token.
func steps(ctx context.Context, req *mcp.CallToolRequest, in stepsArgs) (*mcp.CallToolResult, any, error) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil, nil, errors.New("the call has no progress token")
	}
	for i := range in.Steps {
		err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token,
			Progress:      float64(i + 1),
			Total:         float64(in.Steps),
		})
		if err != nil {
			return nil, nil, err
		}
		if err := pause(ctx, stepPause); err != nil {
			return nil, nil, err
		}
	}
	return text("%d steps", in.Steps), nil, nil
}

// pause waits for d, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// logText logs within the call, so that the message belongs to it. The SDK suppresses it
// unless the client asked for a level.
func logText(ctx context.Context, req *mcp.CallToolRequest, in textArgs) (*mcp.CallToolResult, any, error) {
	err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Logger: "goserver", Data: in.Text})
	return text("logged"), nil, err
}

// changer returns a tool that changes the list of tools. The names come from the caller, so
// that concurrent callers do not undo each other's changes.
func changer(s *mcp.Server) mcp.ToolHandlerFor[changeArgs, any] {
	return func(_ context.Context, _ *mcp.CallToolRequest, in changeArgs) (*mcp.CallToolResult, any, error) {
		if in.Remove {
			s.RemoveTools(in.Name)
			return text("removed %s", in.Name), nil, nil
		}
		mcp.AddTool(s, &mcp.Tool{Name: in.Name}, echo)
		return text("added %s", in.Name), nil, nil
	}
}

// toucher returns a tool that sends an update of a resource to its subscribers. The content
// of the resource stays the same.
func toucher(s *mcp.Server) mcp.ToolHandlerFor[touchArgs, any] {
	return func(ctx context.Context, _ *mcp.CallToolRequest, in touchArgs) (*mcp.CallToolResult, any, error) {
		err := s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: in.URI})
		return text("touched"), nil, err
	}
}
