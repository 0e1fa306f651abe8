// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package confirm

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// How much of a call a question shows, in bytes.
const (
	MaxArguments = 2048
	maxName      = 512
	maxTitle     = 200
)

// A Call is what a user is asked about.
type Call struct {
	Method    string // tools/call, prompts/get or resources/read
	Name      string // as clients see it, or the URI
	Backend   string
	Title     string // by the server, or ""
	Arguments []byte // an object of JSON as it is sent to the server, or nil
}

// Question returns the request that asks the user. secrets may be nil.
func (c *Call) Question(secrets *redact.Redactor) (*mcp.Request, error) {
	show := func(text string, most int) string { return spell(secrets.Text(text), most) }
	var b strings.Builder
	switch name := show(c.Name, maxName); c.Method {
	case "prompts/get":
		fmt.Fprintf(&b, "Get the prompt %s of the server %s?", name, c.Backend)
	case "resources/read":
		fmt.Fprintf(&b, "Read the resource %s of the server %s?", name, c.Backend)
	default:
		fmt.Fprintf(&b, "Call the tool %s of the server %s?", name, c.Backend)
	}
	if c.Title != "" {
		fmt.Fprintf(&b, "\nTitle: %s", show(c.Title, maxTitle))
	}
	if c.Method != "resources/read" {
		text := "none"
		if len(c.Arguments) > 0 {
			text = spell(string(secrets.JSON(plain(c.Arguments))), MaxArguments)
		}
		fmt.Fprintf(&b, "\nArguments: %s", text)
	}
	params := jsonscan.AppendString([]byte(`{"message":`), b.String())
	return mcp.NewRequest("elicitation/create", append(params, `,"requestedSchema":{"type":"object","properties":{}}}`...))
}

// plain returns JSON without escapes that it does not need, with which a model could hide what it
// writes. Duplicate names stay.
func plain(raw []byte) []byte {
	v := jsontext.Value(bytes.Clone(raw))
	err := v.Format(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(false),
		jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err != nil {
		return raw
	}
	return v
}

// spell returns a text of one line, of at most most bytes and a note about the rest. Characters that
// are not shown are written as in JSON.
func spell(text string, most int) string {
	var b strings.Builder
	for i, r := range text {
		_, width := utf8.DecodeRuneInString(text[i:])
		next := string(r)
		switch {
		case r == utf8.RuneError && width == 1:
			next = fmt.Sprintf(`\x%02x`, text[i])
		case r > 0xffff && isHidden(r):
			next = fmt.Sprintf(`\u{%x}`, r)
		case isHidden(r):
			next = fmt.Sprintf(`\u%04x`, r)
		}
		if b.Len()+len(next) > most {
			fmt.Fprintf(&b, " … (%d more bytes)", len(text)-i)
			break
		}
		b.WriteString(next)
	}
	return b.String()
}

// isHidden reports whether a character is not shown as one, is a space other than U+0020, or
// changes how others are shown.
func isHidden(r rune) bool {
	const blankBraille = '\u2800'
	return !unicode.IsPrint(r) || r == blankBraille || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
