// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// tool is one tool: how it is listed and what it does.
type tool struct {
	name   string // by which it is called, and listed
	listed string // its Tool object, as it stands on the wire
	call   func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (toolResult, error)
}

// tools returns the tools in the order in which they are listed, the plainest
// first. "Servers SHOULD return tools in a deterministic order" (2026-07-28,
// server/tools, "Listing Tools").
func tools() []tool {
	return []tool{
		{"echo", echoTool, echo},
		{"countdown", countdownTool, countdown},
		{"introduce", introduceTool, introduce},
		{"roll_dice", diceTool, rollDice},
	}
}

// listTools embeds the objects as they are written, because what a schema says
// and in which order is part of what a reader sees.
func listTools() (*mcp.Result, error) {
	var listed []jsontext.Value
	for _, t := range tools() {
		listed = append(listed, jsontext.Value(t.listed))
	}
	return list("tools", listed)
}

// toolResult is a tools/call result (2025-11-25 and 2026-07-28, server/tools).
type toolResult struct {
	Content []text `json:"content"`
	// Structured is an object that the tool's output schema describes.
	Structured any `json:"structuredContent,omitempty"`
	// IsError says that Content is a complaint.
	IsError bool `json:"isError,omitzero"`
}

// say is the result of a tool that has one thing to say.
func say(format string, args ...any) toolResult {
	return toolResult{Content: []text{newText(fmt.Sprintf(format, args...))}}
}

// mistake is an error of the tool rather than of the protocol: it goes to the
// model, which can read it and call again with better arguments (2025-11-25,
// server/tools, "Error Handling").
type mistake string

func (m mistake) Error() string { return string(m) }

// callTool runs one tool. That there is no such tool is an error of the protocol,
// because it is the client's mistake and not the model's.
func callTool(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	name, _ := req.Params.Text(mcp.FieldName)
	all := tools()
	i := slices.IndexFunc(all, func(t tool) bool { return t.name == name })
	if i < 0 {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown tool: %q", name)
	}
	out, err := all[i].call(ctx, req, caller)
	if m, ok := errors.AsType[mistake](err); ok {
		out, err = say("%s", m), nil
		out.IsError = true
	}
	if err != nil {
		return nil, err
	}
	return result(out)
}

// arguments decodes a call's arguments into in, which holds the defaults.
func arguments(req *mcp.Request, in any) error {
	if err := decode(req.Params.Raw(mcp.FieldArguments), in); err != nil {
		return mistake("The arguments do not fit: " + err.Error() + ".")
	}
	return nil
}

// within refuses a number outside of the bounds that the schema gives it. The
// schema alone stops nobody: what it says is checked here or nowhere.
func within(name string, n, least, most int) error {
	if n < least || n > most {
		return mistake(fmt.Sprintf("%s goes from %d to %d; %d is outside.", name, least, most, n))
	}
	return nil
}

const echoTool = `{"name":"echo","title":"Echo","description":"Says what it was told.",
	"inputSchema":{"type":"object","properties":{"text":{"type":"string","default":"","description":"What to say, in any script."}}},
	"annotations":{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}}`

// echo is for looking at the way rather than at the answer: what comes back
// differs from what was sent only if somebody between changed it.
func echo(_ context.Context, req *mcp.Request, _ mcp.Caller) (toolResult, error) {
	var in struct {
		Text string `json:"text"`
	}
	if err := arguments(req, &in); err != nil {
		return toolResult{}, err
	}
	return say("%s", in.Text), nil
}
