// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
)

// step is the duration of a step of simulated work.
const step = 50 * time.Millisecond

// reportingTools report progress.
func reportingTools() []mux.Item {
	return []mux.Item{
		mux.Tool{Name: "test_tool_with_logging", Description: "Logs three messages.", Call: logThrice},
		mux.Tool{Name: "test_logging_tool", Description: "Logs three messages, if requested.", Call: logThrice},
		mux.Tool{Name: "test_tool_with_progress", Description: "Reports its progress.", Call: progress},
		mux.Tool{Name: "test_reconnection", Description: "Has its client come back for the answer.", Call: reconnect},
	}
}

func logThrice(ctx context.Context, call *mux.Call) (*mux.Result, error) {
	for i, text := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		if i > 0 && pause(ctx, step) != nil {
			return nil, ctx.Err()
		}
		if err := call.Log(ctx, mcp.LogInfo, "", text); err != nil {
			return nil, err
		}
	}
	return mux.Say("Logged."), nil
}

func progress(ctx context.Context, call *mux.Call) (*mux.Result, error) {
	for _, done := range []float64{0, 50, 100} {
		if done > 0 && pause(ctx, step) != nil {
			return nil, ctx.Err()
		}
		if err := call.Progress(ctx, done, 100, ""); err != nil {
			return nil, err
		}
	}
	return mux.Say("Done."), nil
}

// reconnect ends the connection, and continues. A client that cannot reconnect keeps its
// connection.
func reconnect(ctx context.Context, call *mux.Call) (*mux.Result, error) {
	call.Caller.Extension().Poll(10 * step)
	if err := pause(ctx, 2*step); err != nil {
		return nil, err
	}
	return mux.Say("The client has come back."), nil
}

// pause waits, unless the call is cancelled.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
