// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

const resourceList = `{"resources":[
	{"uri":"demo://about","name":"about","title":"About this demo","mimeType":"text/markdown","description":"What this endpoint is."}]}`

const templateList = `{"resourceTemplates":[
	{"uriTemplate":"demo://greeting/{language}","name":"greeting","title":"A greeting","mimeType":"text/plain","description":"Hello in a language."}]}`

const promptList = `{"prompts":[
	{"name":"greet","title":"Greet","description":"Asks the model for a greeting.",
	 "arguments":[{"name":"language","description":"The language of the greeting.","required":true}]}]}`

const about = `# Signalbox

This is the built-in demo. Put your servers into a file with an mcpServers map,
name it signalbox.json, and start the command beside it: then they stand here.
`

func greetings() map[string]string {
	return map[string]string{
		"english": "Hello", "french": "Bonjour", "german": "Guten Tag", "italian": "Buongiorno",
		"japanese": "こんにちは", "spanish": "Buenos días", "swahili": "Habari",
	}
}

func readResource(req *mcp.Request) (*mcp.Result, error) {
	uri, _ := req.Params.Text(mcp.FieldURI)
	if uri == "demo://about" {
		return contents(uri, "text/markdown", about)
	}
	language, ok := strings.CutPrefix(uri, "demo://greeting/")
	greeting, known := greetings()[language]
	if !ok || !known {
		data, err := json.Marshal(map[string]string{"uri": uri})
		if err != nil {
			return nil, err
		}
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "resource not found", Data: data}
	}
	return contents(uri, "text/plain", greeting)
}

func contents(uri, mimeType, body string) (*mcp.Result, error) {
	type content struct {
		URI      string `json:"uri"`
		MIMEType string `json:"mimeType"`
		Text     string `json:"text"`
	}
	return list("contents", []content{{uri, mimeType, body}})
}

func getPrompt(req *mcp.Request) (*mcp.Result, error) {
	if name, _ := req.Params.Text(mcp.FieldName); name != "greet" {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown prompt: %q", name)
	}
	var in struct {
		Language string `json:"language"`
	}
	if err := arguments(req, &in); err != nil {
		return nil, err
	}
	if in.Language == "" {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "prompt greet: the argument \"language\" is missing")
	}
	type message struct {
		Role    string `json:"role"`
		Content text   `json:"content"`
	}
	return list("messages", []message{{"user", text{"text", "Greet me warmly in " + in.Language + "."}}})
}

func complete(req *mcp.Request) (*mcp.Result, error) {
	var arg struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	if raw := req.Params.Raw(mcp.FieldArgument); raw != nil {
		if err := json.Unmarshal(raw, &arg); err != nil {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "argument: %v", err)
		}
	}
	values := []string{}
	for language := range greetings() {
		if arg.Name == "language" && strings.HasPrefix(language, strings.ToLower(arg.Value)) {
			values = append(values, language)
		}
	}
	slices.Sort(values)
	return result(map[string]any{"completion": map[string]any{"values": values, "total": len(values), "hasMore": false}})
}

// list makes a result of one member.
func list[T any](key string, items []T) (*mcp.Result, error) {
	return result(map[string][]T{key: items})
}

func result(v any) (*mcp.Result, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return mcp.NewResult(raw)
}
