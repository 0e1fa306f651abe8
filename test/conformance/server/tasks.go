// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
)

// taskTools continue in the background for clients that support tasks, except greet.
func taskTools() []mux.Item {
	return []mux.Item{
		mux.Tool{
			Name: "greet", Description: "Greets at once.",
			InputSchema: `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`,
			Call:        mux.Bound(greet),
		},
		mux.Tool{
			Name: "slow_compute", Description: "Takes its time.", Task: mux.TaskOptional,
			InputSchema: `{"type":"object","properties":{"seconds":{"type":"number"},"label":{"type":"string"}},"required":["seconds"]}`,
			Call:        mux.Bound(slowCompute),
		},
		mux.Tool{Name: "failing_job", Description: "Fails after a while.", Task: mux.TaskRequired, Call: inBackground(failingJob)},
		mux.Tool{Name: "protocol_error_job", Description: "Ends with an error of the protocol.", Task: mux.TaskOptional, Call: inBackground(protocolErrorJob)},
		mux.Tool{
			Name: "confirm_delete", Description: "Asks before it does nothing.", Task: mux.TaskOptional,
			InputSchema: `{"type":"object","properties":{"filename":{"type":"string"}}}`,
			Call:        inBackground(confirmDelete),
		},
		mux.Tool{Name: "multi_input", Description: "Asks two things at once.", Task: mux.TaskOptional, Call: inBackground(multiInput)},
		mux.Tool{Name: "test_tool_with_task", Description: "Asks for a name, and then takes its time.", Task: mux.TaskRequired, Call: askThenWork},
	}
}

type person struct {
	Name string `json:"name"`
}

func greet(_ context.Context, _ *mux.Call, in person) (*mux.Result, error) {
	return mux.Say("Hello, %s!", in.Name), nil
}

// inBackground returns a function that runs in the background as a whole.
func inBackground(f function) function {
	return func(ctx context.Context, call *mux.Call) (*mux.Result, error) { return call.Background(ctx, f) }
}

type computation struct {
	Seconds float64 `json:"seconds"`
	Label   string  `json:"label"`
}

func slowCompute(ctx context.Context, call *mux.Call, in computation) (*mux.Result, error) {
	return call.Background(ctx, func(ctx context.Context, _ *mux.Call) (*mux.Result, error) {
		if err := pause(ctx, time.Duration(in.Seconds*float64(time.Second))); err != nil {
			return nil, err
		}
		return mux.Say("%s: computed for %g seconds.", in.Label, in.Seconds), nil
	})
}

func failingJob(ctx context.Context, _ *mux.Call) (*mux.Result, error) {
	if err := pause(ctx, time.Second); err != nil {
		return nil, err
	}
	return nil, mux.Errorf("The job has failed, as it was to.")
}

func protocolErrorJob(context.Context, *mux.Call) (*mux.Result, error) {
	return nil, mcp.Errorf(mcp.CodeInternalError, "the job has ended with an error of the protocol, as it was to")
}

func confirmDelete(ctx context.Context, call *mux.Call) (*mux.Result, error) {
	answer, err := call.Ask(ctx, mux.Elicit("confirm", "Delete the file?",
		`{"type":"object","properties":{"confirm":{"type":"boolean"}},"required":["confirm"]}`))
	if err != nil {
		return nil, err
	}
	return mux.Say("The user has said: %s.", answer.Action()), nil
}

func multiInput(ctx context.Context, call *mux.Call) (*mux.Result, error) {
	answers, err := call.Input(ctx, text("first", "What is the first name?", "name"), text("second", "What is the second name?", "name"))
	if err != nil {
		return nil, err
	}
	return mux.Say("%s and %s", fieldOf(answers["first"], "name"), fieldOf(answers["second"], "name")), nil
}

// askThenWork asks during the call, and continues as a task once it has the answer.
func askThenWork(ctx context.Context, call *mux.Call) (*mux.Result, error) {
	answers, err := call.Input(ctx, text("user_name", "What is your name?", "name"))
	if err != nil {
		return nil, err
	}
	name := fieldOf(answers["user_name"], "name")
	return call.Background(ctx, func(ctx context.Context, _ *mux.Call) (*mux.Result, error) {
		if err := pause(ctx, 4*step); err != nil {
			return nil, err
		}
		return mux.Say("This took a while, %s.", name), nil
	})
}
