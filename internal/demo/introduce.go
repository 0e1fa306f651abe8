// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"

	"github.com/signalbox-mcp/signalbox/mux"
)

func introduceTool() mux.Tool {
	return mux.Tool{
		Name: "introduce", Title: "Introduce", Description: "Asks the user for a name (elicitation) and greets.",
		InputSchema: `{"type":"object","properties":{}}`,
		Annotations: `{"readOnlyHint":true,"openWorldHint":false}`,
		Call:        introduce,
	}
}

// askName asks for one text, because every client that supports elicitation supports a form
// with one field.
func askName() mux.Question {
	return mux.Elicit("name", "What is your name?",
		`{"type":"object","properties":{"name":{"type":"string","title":"Name","minLength":1,"maxLength":80}},"required":["name"]}`)
}

// introduce asks the user a question during a call. How it is transported (as a request on the
// stream of the call, or as a result that asks for input and a retry) is up to the gateway:
// here one call returns the answer.
func introduce(ctx context.Context, call *mux.Call) (*mux.Result, error) {
	answer, err := call.Ask(ctx, askName())
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err() // not the user's fault; the caller has left
	case err != nil:
		return nil, mux.Errorf("The user could not be asked: %v", err)
	}
	return greet(answer)
}

// greet returns a sentence for the answer. "Accept", "decline" and "cancel" are all answers
// (2025-11-25 and 2026-07-28, client/elicitation, "Response Actions"), and not errors.
func greet(answer mux.Answer) (*mux.Result, error) {
	var in struct {
		Name string `json:"name"`
	}
	switch {
	case answer.Content(&in):
		return mux.Say("Hello, %s!", in.Name), nil
	case answer.Action() == "accept":
		return nil, mux.Errorf("The answer was not of the form that was asked for.")
	default:
		return mux.Say("The user did not say (%s).", answer.Action()), nil
	}
}
