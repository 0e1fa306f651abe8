// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"strconv"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
)

// countdownTool has a default for each argument: a call without any is worth
// watching, and a form comes filled in.
func countdownTool() mux.Tool {
	return mux.Tool{
		Name: "countdown", Title: "Countdown",
		Description: "Counts down to zero, with a progress notification and a log message at each step. Cancel it, and it stops.",
		InputSchema: `{"type":"object","properties":{
			"from":{"type":"integer","minimum":1,"maximum":60,"default":3,"description":"Where to begin."},
			"stepMs":{"type":"integer","minimum":0,"maximum":1000,"default":300,"description":"Milliseconds between two steps."}}}`,
		Annotations: `{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}`,
		Call:        countdown,
	}
}

// countdown takes a minute at most: long enough to cancel it by hand, and to see
// that nothing on the way gives a quiet call up; short enough that one which was
// forgotten is no burden.
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
	// Told before the pause, so that who asks for one step sees something at once.
	for done := 1; done <= in.From; done++ {
		if err := tell(ctx, call, done, in.From); err != nil {
			return nil, err
		}
		if err := pause(ctx, time.Duration(in.StepMs)*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return mux.Say("Lift-off after %d steps.", in.From), nil
}

// pause waits, unless the request is cancelled: nobody would hear the rest.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// tell says how far the countdown is. Who has not asked for it does not hear it.
func tell(ctx context.Context, call *mux.Call, done, total int) error {
	message := strconv.Itoa(total-done) + " to go"
	if err := call.Progress(ctx, float64(done), float64(total), message); err != nil {
		return err
	}
	return call.Log(ctx, mcp.LogInfo, "countdown", message)
}
