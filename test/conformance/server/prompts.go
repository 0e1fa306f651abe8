// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/mux"
)

// prompts returns texts, with each kind of content.
func prompts() []mux.Item {
	required := func(name, description string) mux.Argument {
		return mux.Argument{Name: name, Description: description, Required: true, Complete: complete}
	}
	return []mux.Item{
		mux.Prompt{
			Name: "test_simple_prompt", Description: "A text.",
			Get: constant(mux.User(mux.Text("This is a simple prompt for testing."))),
		},
		mux.Prompt{
			Name: "test_prompt_with_arguments", Description: "A text with two arguments.",
			Arguments: []mux.Argument{required("arg1", "First test argument"), required("arg2", "Second test argument")},
			Get:       mux.Bound(fillArguments),
		},
		mux.Prompt{
			Name: "test_prompt_with_embedded_resource", Description: "A resource.",
			Arguments: []mux.Argument{required("resourceUri", "URI of the resource to embed")},
			Get:       mux.Bound(fillResource),
		},
		mux.Prompt{
			Name: "test_prompt_with_image", Description: "An image.",
			Get: constant(mux.User(mux.Image("image/png", redDot())), mux.User(mux.Text("Please analyze the image above."))),
		},
		mux.Prompt{
			Name: "test_input_required_result_prompt", Description: "Asks for what it is to be about.",
			Get: fillContext,
		},
	}
}

// constant returns a function with constant messages.
func constant(messages ...mux.Message) func(context.Context, *mux.Call) ([]mux.Message, error) {
	return mux.Always(messages)
}

type pair struct {
	First  string `json:"arg1"`
	Second string `json:"arg2"`
}

func fillArguments(_ context.Context, _ *mux.Call, in pair) ([]mux.Message, error) {
	return []mux.Message{mux.User(mux.Text("Prompt with arguments: arg1='" + in.First + "', arg2='" + in.Second + "'"))}, nil
}

type embedded struct {
	URI string `json:"resourceUri"`
}

func fillResource(_ context.Context, _ *mux.Call, in embedded) ([]mux.Message, error) {
	return []mux.Message{
		mux.User(mux.Embed(mux.TextContents(in.URI, "text/plain", "Embedded resource content for testing."))),
		mux.User(mux.Text("Please process the embedded resource above.")),
	}, nil
}

func fillContext(ctx context.Context, call *mux.Call) ([]mux.Message, error) {
	answers, err := call.Input(ctx, text("user_context", "What context should the prompt use?", "context"))
	if err != nil {
		return nil, err
	}
	return []mux.Message{mux.User(mux.Text("The context is: " + fieldOf(answers["user_context"], "context")))}, nil
}

// complete completes a few words.
func complete(_ context.Context, typed string, _ map[string]string) ([]string, error) {
	words := []string{"hello", "paris", "park", "party", "test", "test1", "test2", "world"}
	return slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, typed) }), nil
}
