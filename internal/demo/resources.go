// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	aboutURI     = "demo://about"
	languagesURI = "demo://languages"

	// greetingBase is what the template begins with. One expression in one path
	// segment is what every client can fill.
	greetingBase     = "demo://greeting/"
	greetingTemplate = greetingBase + "{language}"
)

const resourceList = `{"resources":[
	{"uri":"` + aboutURI + `","name":"about","title":"About this demo","mimeType":"text/markdown","description":"What this endpoint is, and what to try."},
	{"uri":"` + languagesURI + `","name":"languages","title":"Languages","mimeType":"application/json","description":"The languages that there is a greeting in."}]}`

const templateList = `{"resourceTemplates":[
	{"uriTemplate":"` + greetingTemplate + `","name":"greeting","title":"A greeting","mimeType":"text/plain","description":"Hello in a language. The argument is completed."}]}`

// about is what somebody reads who has just started the command and wonders what
// to do next.
const about = `# Signalbox

You have reached the built-in demo: there was no configuration to serve.

Things to try:

- call **countdown** and watch its progress and its log messages, or cancel it half way;
- call **introduce**, and your client is asked a question;
- call **roll_dice** for structured content;
- read demo://greeting/japanese, or have your client complete the language;
- use the prompt **greet**.

To see your own servers here, put the mcpServers map that you already have into a
file named signalbox.json, and start the command beside it.
`

// greeting is how people of a language say hello.
type greeting struct {
	language, words string
}

// greetings returns the greetings by language in the order of the alphabet, in
// which they are listed and completed. Some are beyond ASCII, so that whoever
// re-encodes on the way is found out.
func greetings() []greeting {
	return []greeting{
		{"arabic", "مرحبا"},
		{"english", "Hello"},
		{"french", "Bonjour"},
		{"german", "Guten Tag"},
		{"italian", "Buongiorno"},
		{"japanese", "こんにちは"},
		{"spanish", "Buenos días"},
		{"swahili", "Habari"},
	}
}

// greetingIn returns the greeting of a language, in the spelling of the list.
func greetingIn(language string) (words string, ok bool) {
	for _, g := range greetings() {
		if g.language == language {
			return g.words, true
		}
	}
	return "", false
}

// contents is one item of a resources/read result, and what an embedded
// resource embeds.
type contents struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType"`
	Text     string `json:"text"`
}

// readResource answers for the resources that are listed and for whatever the
// template makes, which is in no list.
func readResource(req *mcp.Request) (*mcp.Result, error) {
	uri, _ := req.Params.Text(mcp.FieldURI)
	found, ok := contentsOf(uri)
	if !ok {
		return nil, notFound(uri)
	}
	return list("contents", []contents{found})
}

// contentsOf looks a resource up. URIs are compared as they are: a locator has
// one spelling, and a gateway forwards it without touching it.
func contentsOf(uri string) (contents, bool) {
	switch uri {
	case aboutURI:
		return contents{uri, "text/markdown", about}, true
	case languagesURI:
		return contents{uri, "application/json", languages()}, true
	}
	language, ok := strings.CutPrefix(uri, greetingBase)
	if !ok {
		return contents{}, false
	}
	words, ok := greetingIn(language)
	return contents{uri, "text/plain", words}, ok
}

// languages is a JSON text inside of a JSON text: whoever decodes once too often
// on the way shows it as something else.
func languages() string {
	out := []byte{'['}
	for i, g := range greetings() {
		if i > 0 {
			out = append(out, ',')
		}
		out = mcp.AppendString(out, g.language)
	}
	return string(append(out, ']'))
}

// notFound names the resource in its data, for a client that reads several at
// once. The code is that of the modern era, whose words a Handler uses
// (2026-07-28, server/resources, "Error Handling").
func notFound(uri string) error {
	data, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		return err
	}
	return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "resource not found", Data: data}
}
