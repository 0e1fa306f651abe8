// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// countdownTool has a default for each argument: a call without any is worth
// watching, and a form comes filled in.
const countdownTool = `{"name":"countdown","title":"Countdown","description":"Counts down to zero, with a progress notification and a log message at each step. Cancel it, and it stops.",
	"inputSchema":{"type":"object","properties":{
		"from":{"type":"integer","minimum":1,"maximum":60,"default":3,"description":"Where to begin."},
		"stepMs":{"type":"integer","minimum":0,"maximum":1000,"default":300,"description":"Milliseconds between two steps."}}},
	"annotations":{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}}`

// countdown takes a minute at most: long enough to cancel it by hand, and to see
// that nothing on the way gives a quiet call up; short enough that one which was
// forgotten is no burden.
func countdown(ctx context.Context, req *mcp.Request, caller mcp.Caller) (toolResult, error) {
	in := struct {
		From   int `json:"from"`
		StepMs int `json:"stepMs"`
	}{From: 3, StepMs: 300}
	if err := arguments(req, &in); err != nil {
		return toolResult{}, err
	}
	if err := within("from", in.From, 1, 60); err != nil {
		return toolResult{}, err
	}
	if err := within("stepMs", in.StepMs, 0, 1000); err != nil {
		return toolResult{}, err
	}
	// Told before the pause, so that who asks for one step sees something at once.
	for done := 1; done <= in.From; done++ {
		if err := tell(ctx, req, caller, done, in.From); err != nil {
			return toolResult{}, err
		}
		if err := pause(ctx, time.Duration(in.StepMs)*time.Millisecond); err != nil {
			return toolResult{}, err
		}
	}
	return say("Lift-off after %d steps.", in.From), nil
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

// tell says how far the countdown is: as progress, if the caller gave a token to
// name it by, and as a log message, if it wants messages of that level. What was
// not asked for must not be sent (2026-07-28, server/utilities/logging and
// basic/patterns/progress).
func tell(ctx context.Context, req *mcp.Request, caller mcp.Caller, done, total int) error {
	message := mcp.AppendString(nil, strconv.Itoa(total-done)+" to go")
	if token := req.Params.Raw(mcp.MetaProgressToken); token != nil {
		params := fmt.Appendf(nil, `{"progressToken":%s,"progress":%d,"total":%d,"message":%s}`, token, done, total, message)
		if err := notify(ctx, caller, "notifications/progress", params); err != nil {
			return err
		}
	}
	if !req.LogLevel.Wants(mcp.LogInfo) {
		return nil
	}
	return notify(ctx, caller, "notifications/message", fmt.Appendf(nil, `{"level":"info","logger":"countdown","data":%s}`, message))
}

// notify sends a message that belongs to the request. An error is the end of the
// call: it says that the request has had its terminal or that its caller is gone.
func notify(ctx context.Context, caller mcp.Caller, method string, params []byte) error {
	n, err := mcp.NewNotification(method, params)
	if err != nil {
		return err
	}
	return caller.Notify(ctx, n)
}
