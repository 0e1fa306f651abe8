// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/signalbox-mcp/signalbox/mux"
)

// askingTools ask for input and wait for the answer in place.
func askingTools() []mux.Item {
	return []mux.Item{
		mux.Tool{
			Name: "test_sampling", Description: "Has the client's model answer a prompt.",
			InputSchema: one("prompt"), Call: mux.Bound(sample),
		},
		mux.Tool{
			Name: "test_missing_capability", Description: "Needs a client that has a model.",
			Call: func(ctx context.Context, call *mux.Call) (*mux.Result, error) {
				return sample(ctx, call, conversation{Prompt: "Say something."})
			},
		},
		mux.Tool{
			Name: "test_elicitation", Description: "Asks the user who they are.",
			InputSchema: one("message"), Call: mux.Bound(elicit),
		},
		mux.Tool{
			Name: "test_elicitation_sep1034_defaults", Description: "Asks with a default for each type of field.",
			Call: form("Please have a look at this.", defaultsForm),
		},
		mux.Tool{
			Name: "test_elicitation_sep1330_enums", Description: "Asks with each kind of choice.",
			Call: form("Please choose.", choicesForm),
		},
	}
}

// one returns the schema of one text, for arguments and for forms.
func one(name string) mux.JSON {
	return mux.JSON(`{"type":"object","properties":{"` + name + `":{"type":"string"}},"required":["` + name + `"]}`)
}

type conversation struct {
	Prompt string `json:"prompt"`
}

func sample(ctx context.Context, call *mux.Call, in conversation) (*mux.Result, error) {
	answer, err := call.Ask(ctx, mux.Sample("answer", 100, mux.User(mux.Text(in.Prompt))))
	if err != nil {
		return nil, err
	}
	return mux.Say("LLM response: %s", answer.Text()), nil
}

type inquiry struct {
	Message string `json:"message"`
}

func elicit(ctx context.Context, call *mux.Call, in inquiry) (*mux.Result, error) {
	return form(in.Message, userForm)(ctx, call)
}

// form returns a function that asks for what the schema describes.
func form(message string, schema mux.JSON) function {
	return func(ctx context.Context, call *mux.Call) (*mux.Result, error) {
		answer, err := call.Ask(ctx, mux.Elicit("form", message, schema))
		if err != nil {
			return nil, err
		}
		return mux.Say("User response: %s", answer), nil
	}
}

const userForm = `{"type":"object","properties":{
	"username":{"type":"string","description":"User's response"},
	"email":{"type":"string","description":"User's email address"}},
	"required":["username","email"]}`

const defaultsForm = `{"type":"object","properties":{
	"name":{"type":"string","default":"John Doe"},
	"age":{"type":"integer","default":30},
	"score":{"type":"number","default":95.5},
	"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},
	"verified":{"type":"boolean","default":true}}}`

const choicesForm = `{"type":"object","properties":{
	"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
	"titledSingle":{"type":"string","oneOf":[
		{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
	"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
	"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
	"titledMulti":{"type":"array","items":{"anyOf":[
		{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}}`
