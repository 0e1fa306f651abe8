// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"strconv"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
)

// countdownTool has defaults for all arguments, so that a call without any shows something,
// and forms are filled in.
func countdownTool() mux.Tool {
	return mux.Tool{
		Name: "countdown", Title: "Countdown",
		Description: "Counts down to zero, with a progress notification and a log message at each step. Cancel it, and it stops.",
		InputSchema: `{"type":"object","properties":{
			"from":{"type":"integer","minimum":1,"maximum":60,"default":3,"description":"The number to start from."},
			"stepMs":{"type":"integer","minimum":0,"maximum":1000,"default":300,"description":"Milliseconds between two steps."}}}`,
		Annotations: `{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}`,
		Call:        countdown,
	}
}

// countdown takes at most a minute: long enough to cancel it by hand, and to test that a quiet
// call is not timed out on the way.
func countdown(ctx context.Context, call *mux.Call) (*mux.Result, error) {
	in := struct {
		From   int `json:"from"`
		StepMs int `json:"stepMs"`
	}{From: 3, StepMs: 300}
	if err := call.Bind(&in); err != nil {
		return nil, err
	}
	if err := within("from", in.From, 1, 60); err != nil {
		return nil, err
	}
	if err := within("stepMs", in.StepMs, 0, 1000); err != nil {
		return nil, err
	}
	// Before the pause, so that a countdown of one step shows something at once.
	for done := 1; done <= in.From; done++ {
		message := strconv.Itoa(in.From-done) + " to go"
		if err := call.Progress(ctx, float64(done), float64(in.From), message); err != nil {
			return nil, err
		}
		if err := call.Log(ctx, mcp.LogInfo, "countdown", message); err != nil {
			return nil, err
		}
		if !backoff.Sleep(ctx, time.Duration(in.StepMs)*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
	return mux.Say("Lift-off after %d steps.", in.From), nil
}
