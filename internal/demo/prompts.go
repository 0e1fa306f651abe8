// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import "github.com/signalbox-mcp/signalbox/mcp"

const greetPrompt = "greet"

// promptList has one argument that must be given and one that need not be, so
// that a client's form shows both.
const promptList = `{"prompts":[
	{"name":"` + greetPrompt + `","title":"Greet","description":"Asks the model for a greeting, and shows it one.",
	 "arguments":[
		{"name":"language","title":"Language","description":"The language of the greeting. It is completed.","required":true},
		{"name":"name","title":"Name","description":"Who is to be greeted."}]}]}`

// embedded is a resource that a prompt carries with it, so that the client need
// not read it (2026-07-28, server/prompts, "Embedded Resources").
type embedded struct {
	Type     string   `json:"type"`
	Resource contents `json:"resource"`
}

// message is one message of a prompt. Its content is a text or an embedded
// resource: two types that share nothing but a member on the wire.
type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

// getPrompt fills the prompt. A wrong argument is an error of the protocol here:
// a prompt's arguments come from a user's form, and no model would read a
// complaint (2026-07-28, server/prompts, "Error Handling").
func getPrompt(req *mcp.Request) (*mcp.Result, error) {
	if name, _ := req.Params.Text(mcp.FieldName); name != greetPrompt {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown prompt: %q", name)
	}
	var in struct {
		Language string `json:"language"`
		Name     string `json:"name"`
	}
	if err := decode(req.Params.Raw(mcp.FieldArguments), &in); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "prompt greet: the arguments do not fit: %v", err)
	}
	if in.Language == "" {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, `prompt greet: the argument "language" is missing`)
	}
	if in.Name == "" {
		in.Name = "me"
	}
	return list("messages", greetMessages(in.Language, in.Name))
}

// greetMessages takes any language, of which the model may know more than the
// demo; where the demo has the words itself, it hands them over.
func greetMessages(language, name string) []message {
	all := []message{{"user", newText("Greet " + name + " warmly in " + language + ".")}}
	if c, ok := contentsOf(greetingBase + language); ok {
		all = append(all, message{"user", embedded{"resource", c}})
	}
	return all
}
