// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"

	"github.com/signalbox-mcp/signalbox/mux"
)

// tools returns the tools in the order in which they are listed, the plainest
// first. "Servers SHOULD return tools in a deterministic order" (2026-07-28,
// server/tools, "Listing Tools").
func tools() []mux.Tool {
	return []mux.Tool{echoTool(), countdownTool(), introduceTool(), diceTool()}
}

// within refuses a number outside of the bounds that the schema gives it. The
// schema alone stops nobody: what it says is checked here or nowhere.
func within(name string, n, least, most int) error {
	if n < least || n > most {
		return mux.Errorf("%s goes from %d to %d; %d is outside.", name, least, most, n)
	}
	return nil
}

func echoTool() mux.Tool {
	return mux.Tool{
		Name: "echo", Title: "Echo", Description: "Says what it was told.",
		InputSchema: `{"type":"object","properties":{"text":{"type":"string","default":"","description":"What to say, in any script."}}}`,
		Annotations: `{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}`,
		Call:        mux.Bound(echo),
	}
}

// echo is for looking at the way rather than at the answer: what comes back
// differs from what was sent only if somebody between changed it.
func echo(_ context.Context, _ *mux.Call, in said) (*mux.Result, error) {
	return mux.Say("%s", in.Text), nil
}

// said are the arguments of echo.
type said struct {
	Text string `json:"text"`
}
