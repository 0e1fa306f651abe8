// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"

	"github.com/signalbox-mcp/signalbox/mux"
)

// inputTools ask for input, and are called again with the answers if the client's revision
// does that.
func inputTools() []mux.Item {
	tool := func(name, description string, call function) mux.Item {
		return mux.Tool{Name: "test_" + name, Description: description, Call: call}
	}
	return []mux.Item{
		tool("input_required_result_elicitation", "Asks for a name.", greetByName),
		tool("streaming_elicitation", "Asks for a name.", greetByName),
		tool("input_required_result_sampling", "Asks a model.", askCapital),
		tool("input_required_result_list_roots", "Asks for roots.", listRoots),
		tool("input_required_result_request_state", "Asks for a confirmation.", confirm),
		tool("input_required_result_tampered_state", "Asks for a confirmation.", confirm),
		tool("input_required_result_multiple_inputs", "Asks for three things at once.", askAtOnce),
		tool("input_required_result_multi_round", "Asks for one thing, and then for another.", askInTurn),
		tool("input_required_result_capabilities", "Asks for what it can.", askWhatItCan),
	}
}

// text asks the user for one text.
func text(key, message, field string) mux.Question {
	return mux.Elicit(key, message, one(field))
}

// fieldOf returns the text of a field, or the user's action if it is missing.
func fieldOf(a mux.Answer, field string) string {
	var in map[string]any
	if !a.Content(&in) {
		return "(" + a.Action() + ")"
	}
	value, _ := in[field].(string)
	return value
}

func greetByName(ctx context.Context, call *mux.Call) (*mux.Result, error) {
	answers, err := call.Input(ctx, text("user_name", "What is your name?", "name"))
	if err != nil {
		return nil, err
	}
	return mux.Say("Hello, %s!", fieldOf(answers["user_name"], "name")), nil
}

func askCapital(ctx context.Context, call *mux.Call) (*mux.Result, error) {
	answers, err := call.Input(ctx, mux.Sample("capital_question", 100, mux.User(mux.Text("What is the capital of France?"))))
	if err != nil {
		return nil, err
	}
	return mux.Say("The model says: %s", answers["capital_question"].Text()), nil
}

func listRoots(ctx context.Context, call *mux.Call) (*mux.Result, error) {
	answers, err := call.Input(ctx, mux.Roots("client_roots"))
	if err != nil {
		return nil, err
	}
	return mux.Say("The client has: %s", rootsOf(answers["client_roots"])), nil
}

func rootsOf(a mux.Answer) string {
	var all []string
	for _, root := range a.Roots() {
		all = append(all, root.URI)
	}
	return strings.Join(all, ", ")
}

// confirm is called again only with the state of the same call: the Mux ensures that.
func confirm(ctx context.Context, call *mux.Call) (*mux.Result, error) {
	answers, err := call.Input(ctx, mux.Elicit("confirm", "Please confirm",
		`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`))
	if err != nil {
		return nil, err
	}
	return mux.Say("state-ok: %s", answers["confirm"].Action()), nil
}

func askAtOnce(ctx context.Context, call *mux.Call) (*mux.Result, error) {
	answers, err := call.Input(ctx,
		text("user_name", "What is your name?", "name"),
		mux.Sample("greeting", 50, mux.User(mux.Text("Generate a greeting"))),
		mux.Roots("client_roots"))
	if err != nil {
		return nil, err
	}
	return mux.Say("%s, %s! You work in %s.", answers["greeting"].Text(), fieldOf(answers["user_name"], "name"), rootsOf(answers["client_roots"])), nil
}

func askInTurn(ctx context.Context, call *mux.Call) (*mux.Result, error) {
	first, err := call.Input(ctx, text("step1", "Step 1: What is your name?", "name"))
	if err != nil {
		return nil, err
	}
	second, err := call.Input(ctx, text("step2", "Step 2: What is your favorite color?", "color"))
	if err != nil {
		return nil, err
	}
	return mux.Say("%s likes %s.", fieldOf(first["step1"], "name"), fieldOf(second["step2"], "color")), nil
}

func askWhatItCan(ctx context.Context, call *mux.Call) (*mux.Result, error) {
	var can []mux.Question
	for _, q := range []mux.Question{
		text("user_name", "What is your name?", "name"),
		mux.Sample("greeting", 50, mux.User(mux.Text("Generate a greeting"))),
		mux.Roots("client_roots"),
	} {
		if call.CanAsk(q) {
			can = append(can, q)
		}
	}
	answers, err := call.Input(ctx, can...)
	if err != nil {
		return nil, err
	}
	return mux.Say("The client has answered %d questions.", len(answers)), nil
}
