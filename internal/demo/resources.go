// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"strings"

	"github.com/signalbox-mcp/signalbox/mux"
)

const (
	aboutURI     = "demo://about"
	languagesURI = "demo://languages"

	// greetingBase is the beginning of the template. Every client supports a single
	// expression in one path segment.
	greetingBase = "demo://greeting/"
)

func aboutDemo() mux.Resource {
	return mux.Resource{
		URI: aboutURI, Name: "about", Title: "About this demo", MIMEType: "text/markdown",
		Description: "What this endpoint is, and what to try.",
		Read:        mux.Always([]mux.Contents{mux.TextContents(aboutURI, "text/markdown", about)}),
	}
}

func languageList() mux.Resource {
	return mux.Resource{
		URI: languagesURI, Name: "languages", Title: "Languages", MIMEType: "application/json",
		Description: "The languages for which there is a greeting.",
		Read:        mux.Always([]mux.Contents{mux.TextContents(languagesURI, "application/json", languages())}),
	}
}

func greetingTemplate() mux.Template {
	return mux.Template{
		URI: greetingBase + "{language}", Name: "greeting", Title: "A greeting", MIMEType: "text/plain",
		Description: "Hello in a language. The argument is completed.",
		Read:        readGreeting,
		Complete:    map[string]mux.Completer{"language": completeLanguage},
	}
}

// about is the text for users that have just started the command.
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

// greeting is a greeting in a language.
type greeting struct {
	language, words string
}

// greetings returns the greetings, sorted by language. Some are not ASCII, so that wrong
// re-encoding can be noticed.
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

// greetingContents returns the contents of the template's resource for a language of the list.
func greetingContents(language string) (mux.Contents, bool) {
	for _, g := range greetings() {
		if g.language == language {
			return mux.TextContents(greetingBase+language, "text/plain", g.words), true
		}
	}
	return mux.Contents{}, false
}

func readGreeting(_ context.Context, call *mux.Call) ([]mux.Contents, error) {
	c, ok := greetingContents(call.Var("language"))
	if !ok {
		return nil, mux.NotFound(call.URI())
	}
	return []mux.Contents{c}, nil
}

// completeLanguage returns the languages that begin with typed, ignoring case.
func completeLanguage(_ context.Context, typed string, _ map[string]string) ([]string, error) {
	var fit []string
	for _, g := range greetings() {
		if strings.HasPrefix(g.language, strings.ToLower(typed)) {
			fit = append(fit, g.language)
		}
	}
	return fit, nil
}

// languages returns a JSON text inside of a JSON text, so that repeated decoding can be
// noticed.
func languages() string {
	var all []string
	for _, g := range greetings() {
		all = append(all, g.language)
	}
	return string(mux.MustJSON(all))
}
