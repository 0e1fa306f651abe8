// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

const introduceTool = `{"name":"introduce","title":"Introduce","description":"Asks the user for a name (elicitation) and greets.",
	"inputSchema":{"type":"object","properties":{}},
	"annotations":{"readOnlyHint":true,"openWorldHint":false}}`

// askName asks for one text, because a form of one field is what every client
// that can ask at all can show.
const askName = `{"mode":"form","message":"What is your name?",
	"requestedSchema":{"type":"object","properties":{"name":{"type":"string","title":"Name","minLength":1,"maxLength":80}},"required":["name"]}}`

// introduce puts a question to the user in the middle of a call. How it reaches
// them (a request on the stream of the call, or a result that asks for input and
// a retry) is the edges' business: here it is one call that returns the answer.
func introduce(ctx context.Context, _ *mcp.Request, caller mcp.Caller) (toolResult, error) {
	ask, err := mcp.NewRequest("elicitation/create", []byte(askName))
	if err != nil {
		return toolResult{}, err
	}
	res, err := caller.Ask(ctx, ask)
	switch {
	case ctx.Err() != nil:
		return toolResult{}, ctx.Err() // not the user's fault, and nobody is left to tell
	case err != nil:
		return toolResult{}, mistake("The user could not be asked: " + err.Error())
	}
	return greet(res.Bytes())
}

// greet makes a sentence of the answer. "Accept", "decline" and "cancel" are all
// answers (2025-11-25 and 2026-07-28, client/elicitation, "Response Actions"): a
// user who does not say is no error.
func greet(answer []byte) (toolResult, error) {
	var in struct {
		Action  string `json:"action"`
		Content struct {
			Name string `json:"name"`
		} `json:"content"`
	}
	switch err := json.Unmarshal(answer, &in); {
	case err != nil:
		return toolResult{}, mistake("The answer was not of the form that was asked for.")
	case in.Action != "accept":
		return say("The user did not say (%s).", in.Action), nil
	default:
		return say("Hello, %s!", in.Content.Name), nil
	}
}
