// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// witnessTimeout is how long the tool witness waits for what it is asked about.
const witnessTimeout = 5 * time.Second

// stepPause parts the notices of progress from each other and from the result.
// Some clients drop a notice that they read together with the result.
const stepPause = 50 * time.Millisecond

type textArgs struct {
	Text string `json:"text"`
}

type stepsArgs struct {
	Steps int `json:"steps"`
}

type keyArgs struct {
	Key string `json:"key"`
}

type witnessArgs struct {
	Key   string `json:"key"`
	State string `json:"state" jsonschema:"started or cancelled"`
}

type changeArgs struct {
	Name   string `json:"name"`
	Remove bool   `json:"remove,omitempty"`
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
}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in textArgs) (*mcp.CallToolResult, any, error) {
	return text("echo: %s", in.Text), nil, nil
}

func steps(ctx context.Context, req *mcp.CallToolRequest, in stepsArgs) (*mcp.CallToolResult, any, error) {
	for i := range in.Steps {
		err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: req.Params.GetProgressToken(),
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

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func logText(ctx context.Context, req *mcp.CallToolRequest, in textArgs) (*mcp.CallToolResult, any, error) {
	err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Logger: "goserver", Data: in.Text})
	return text("logged"), nil, err
}

// changer returns a tool that makes the list of tools change. The names come
// from the caller, so that callers who run at once do not undo each other's.
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
