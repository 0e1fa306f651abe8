// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// tool is one tool: how it is listed and what it does.
type tool struct {
	listed string
	call   func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (any, error)
}

func tools() map[string]tool {
	return map[string]tool{
		"echo": {call: echo, listed: `{"name":"echo","title":"Echo","description":"Says what it was told.",
			"inputSchema":{"type":"object","properties":{"text":{"type":"string","description":"What to say."}},"required":["text"]},
			"annotations":{"readOnlyHint":true}}`},
		"countdown": {call: countdown, listed: `{"name":"countdown","title":"Countdown","description":"Counts down to zero, with a progress notification and a log message at each step.",
			"inputSchema":{"type":"object","properties":{
				"from":{"type":"integer","minimum":1,"maximum":60,"default":3,"description":"Where to begin."},
				"stepMs":{"type":"integer","minimum":0,"maximum":1000,"default":300,"description":"Milliseconds between two steps."}}},
			"annotations":{"readOnlyHint":true}}`},
		"introduce": {call: introduce, listed: `{"name":"introduce","title":"Introduce","description":"Asks the user for a name (elicitation) and greets.",
			"inputSchema":{"type":"object","properties":{}},
			"annotations":{"readOnlyHint":true}}`},
		"roll_dice": {call: rollDice, listed: `{"name":"roll_dice","title":"Roll dice","description":"Rolls dice of six sides; answers with structured content.",
			"inputSchema":{"type":"object","properties":{"count":{"type":"integer","minimum":1,"maximum":10,"default":2}}},
			"outputSchema":{"type":"object","properties":{"dice":{"type":"array","items":{"type":"integer"}},"sum":{"type":"integer"}},"required":["dice","sum"]},
			"annotations":{"readOnlyHint":true}}`},
	}
}

func toolList() []jsontext.Value {
	ts := tools()
	out := make([]jsontext.Value, 0, len(ts))
	for _, name := range []string{"echo", "countdown", "introduce", "roll_dice"} {
		out = append(out, jsontext.Value(ts[name].listed))
	}
	return out
}

// toolResult is a tools/call result (2025-11-25 and 2026-07-28, server/tools).
type toolResult struct {
	Content    []text `json:"content"`
	Structured any    `json:"structuredContent,omitempty"`
	IsError    bool   `json:"isError,omitzero"`
}

type text struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func say(format string, args ...any) toolResult {
	return toolResult{Content: []text{{"text", fmt.Sprintf(format, args...)}}}
}

func callTool(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	name, _ := req.Params.Text(mcp.FieldName)
	t, ok := tools()[name]
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown tool: %q", name)
	}
	out, err := t.call(ctx, req, caller)
	if err != nil {
		return nil, err
	}
	return result(out)
}

// arguments decodes a call's arguments into in, which holds the defaults.
func arguments(req *mcp.Request, in any) error {
	raw := req.Params.Raw(mcp.FieldArguments)
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, in); err != nil {
		return mcp.Errorf(mcp.CodeInvalidParams, "arguments: %v", err)
	}
	return nil
}

func echo(_ context.Context, req *mcp.Request, _ mcp.Caller) (any, error) {
	var in struct {
		Text string `json:"text"`
	}
	if err := arguments(req, &in); err != nil {
		return nil, err
	}
	return say("%s", in.Text), nil
}

func countdown(ctx context.Context, req *mcp.Request, caller mcp.Caller) (any, error) {
	in := struct {
		From   int `json:"from"`
		StepMs int `json:"stepMs"`
	}{3, 300}
	if err := arguments(req, &in); err != nil {
		return nil, err
	}
	in.From = min(max(in.From, 1), 60)
	tick := time.NewTicker(time.Duration(min(max(in.StepMs, 1), 1000)) * time.Millisecond)
	defer tick.Stop()
	for i := range in.From {
		if err := step(ctx, req, caller, i+1, in.From); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
	return say("Lift-off after %d steps.", in.From), nil
}

// step tells the caller how far the countdown is: as progress, if it gave a
// token, and as a log message, if it wants that level.
func step(ctx context.Context, req *mcp.Request, caller mcp.Caller, done, total int) error {
	message := fmt.Sprintf("%d to go", total-done)
	if token := req.Params.Raw(mcp.MetaProgressToken); token != nil {
		params := fmt.Appendf(nil, `{"progressToken":%s,"progress":%d,"total":%d,"message":%q}`, token, done, total, message)
		if err := notify(ctx, caller, "notifications/progress", params); err != nil {
			return err
		}
	}
	if !req.LogLevel.Wants(mcp.LogInfo) {
		return nil
	}
	return notify(ctx, caller, "notifications/message", fmt.Appendf(nil, `{"level":"info","logger":"countdown","data":%q}`, message))
}

func notify(ctx context.Context, caller mcp.Caller, method string, params []byte) error {
	n, err := mcp.NewNotification(method, params)
	if err != nil {
		return err
	}
	return caller.Notify(ctx, n)
}

const askName = `{"mode":"form","message":"What is your name?",
	"requestedSchema":{"type":"object","properties":{"name":{"type":"string","title":"Name"}},"required":["name"]}}`

func introduce(ctx context.Context, _ *mcp.Request, caller mcp.Caller) (any, error) {
	ask, err := mcp.NewRequest("elicitation/create", []byte(askName))
	if err != nil {
		return nil, err
	}
	res, err := caller.Ask(ctx, ask)
	if err != nil {
		out := say("The user could not be asked: %v", err)
		out.IsError = true
		return out, nil
	}
	var answer struct {
		Action  string `json:"action"`
		Content struct {
			Name string `json:"name"`
		} `json:"content"`
	}
	if err := json.Unmarshal(res.Bytes(), &answer); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "the answer to elicitation/create: %v", err)
	}
	if answer.Action != "accept" {
		return say("The user did not say (%s).", answer.Action), nil
	}
	return say("Hello, %s!", answer.Content.Name), nil
}

func rollDice(_ context.Context, req *mcp.Request, _ mcp.Caller) (any, error) {
	in := struct {
		Count int `json:"count"`
	}{2}
	if err := arguments(req, &in); err != nil {
		return nil, err
	}
	out := struct {
		Dice []int `json:"dice"`
		Sum  int   `json:"sum"`
	}{Dice: make([]int, min(max(in.Count, 1), 10))}
	for i := range out.Dice {
		out.Dice[i] = 1 + rand.N(6) //nolint:gosec // dice of a demo
		out.Sum += out.Dice[i]
	}
	words := strings.Trim(fmt.Sprint(slices.Sorted(slices.Values(out.Dice))), "[]")
	res := say("%s: %d", words, out.Sum)
	res.Structured = out
	return res, nil
}
