// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"

	"github.com/signalbox-mcp/signalbox/mux"
)

// tools returns the tools in the order of the list, the simplest first. "Servers SHOULD return
// tools in a deterministic order" (2026-07-28,
// server/tools, "Listing Tools").
func tools() []mux.Tool {
	return []mux.Tool{echoTool(), countdownTool(), introduceTool(), diceTool()}
}

// within returns an error for a number outside of the bounds of the schema. Nothing else
// checks the arguments against the schema.
func within(name string, n, least, most int) error {
	if n < least || n > most {
		return mux.Errorf("%s must be from %d to %d, not %d.", name, least, most, n)
	}
	return nil
}

func echoTool() mux.Tool {
	return mux.Tool{
		Name: "echo", Title: "Echo", Description: "Returns the given text.",
		InputSchema: `{"type":"object","properties":{"text":{"type":"string","default":"","description":"The text to return, in any script."}}}`,
		Annotations: `{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}`,
		Call:        mux.Bound(echo),
	}
}

// echo is for testing the path of a call: the result differs from the argument only if
// something on the way has changed it.
func echo(_ context.Context, _ *mux.Call, in echoArguments) (*mux.Result, error) {
	return mux.Say("%s", in.Text), nil
}

// echoArguments has the arguments of echo.
type echoArguments struct {
	Text string `json:"text"`
}
