// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"

	"github.com/signalbox-mcp/signalbox/mux"
)

// greetPrompt has one required and one optional argument, so that a client's form shows both.
func greetPrompt() mux.Prompt {
	return mux.Prompt{
		Name: "greet", Title: "Greet", Description: "Asks the model for a greeting, and shows it one.",
		Arguments: []mux.Argument{
			{Name: "language", Title: "Language", Description: "The language of the greeting. It is completed.", Required: true, Complete: completeLanguage},
			{Name: "name", Title: "Name", Description: "The name of the person to greet."},
		},
		Get: mux.Bound(getGreet),
	}
}

// getGreet accepts any language, as a model may know more than the demo. If the demo has a
// greeting, it is embedded as a resource, so that the client does not have to read it
// (2026-07-28, server/prompts, "Embedded Resources").
func getGreet(_ context.Context, _ *mux.Call, in greetArguments) ([]mux.Message, error) {
	if in.Language == "" {
		return nil, mux.Errorf("the argument %q is missing", "language") // the field of the form was left empty
	}
	if in.Name == "" {
		in.Name = "me"
	}
	all := []mux.Message{mux.User(mux.Text("Greet " + in.Name + " warmly in " + in.Language + "."))}
	if c, ok := greetingContents(in.Language); ok {
		all = append(all, mux.User(mux.Embed(c)))
	}
	return all, nil
}

// greetArguments has the arguments of greet.
type greetArguments struct {
	Language string `json:"language"`
	Name     string `json:"name"`
}
