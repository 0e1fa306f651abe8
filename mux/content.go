// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Content is one block of a tool's result or a prompt's message. The zero value is
// invalid.
type Content struct{ raw jsontext.Value }

// MarshalJSON returns the block as it is sent.
func (c Content) MarshalJSON() ([]byte, error) { return c.raw, nil }

// With returns the block with one more member, such as annotations or _meta. The block
// must not have it yet.
func (c Content) With(member string, value JSON) Content {
	return Content{jsonscan.WithMember(c.raw, member, []byte(value))}
}

// Text returns a text block.
func Text(text string) Content {
	return Content{object("type", "text", "text", text)}
}

// Image returns an image block.
func Image(mimeType string, data []byte) Content { return media("image", mimeType, data) }

// Audio returns an audio block.
func Audio(mimeType string, data []byte) Content { return media("audio", mimeType, data) }

func media(kind, mimeType string, data []byte) Content {
	return Content{object("type", kind, "data", base64.StdEncoding.EncodeToString(data), "mimeType", mimeType)}
}

// Embed returns a block with an embedded resource, which the client need not read.
func Embed(c Contents) Content {
	return Content{jsonscan.WithMember(object("type", "resource"), "resource", c.raw)}
}

// Link returns a block with a link to a resource, which the client may read.
func Link(uri, name string) Content {
	return Content{object("type", "resource_link", "uri", uri, "name", name)}
}

// Contents is the contents of a resource, or a part of it. The zero value is invalid.
type Contents struct{ raw jsontext.Value }

// MarshalJSON returns the contents as they are sent.
func (c Contents) MarshalJSON() ([]byte, error) { return c.raw, nil }

// With returns the contents with one more member; see Content.With.
func (c Contents) With(member string, value JSON) Contents {
	return Contents{jsonscan.WithMember(c.raw, member, []byte(value))}
}

// TextContents returns text as the contents of the resource with the given URI.
func TextContents(uri, mimeType, text string) Contents {
	return Contents{object("uri", uri, "mimeType", mimeType, "text", text)}
}

// BlobContents returns bytes as the contents of the resource with the given URI.
func BlobContents(uri, mimeType string, data []byte) Contents {
	return Contents{object("uri", uri, "mimeType", mimeType, "blob", base64.StdEncoding.EncodeToString(data))}
}

// object returns a JSON object with string values; members alternates names and values.
func object(members ...string) jsontext.Value {
	out := []byte{'{'}
	for i, text := range members {
		switch {
		case i%2 != 0:
			out = append(out, ':')
		case i > 0:
			out = append(out, ',')
		}
		out = jsonscan.AppendString(out, text)
	}
	return append(out, '}')
}

// A Result is the result of a tool. The zero value is an empty one.
type Result struct {
	// Content is for the model. If it is nil and Structured is set, the JSON of
	// Structured is added as a text, for clients that read nothing else (2026-07-28,
	// server/tools, "Structured Content").
	Content []Content `json:"content"`
	// Structured is a value described by the tool's output schema. It is encoded after
	// the function has returned.
	Structured any `json:"structuredContent,omitzero"`
	// IsError reports that the tool failed and that Content has the error for the
	// model.
	IsError bool `json:"isError,omitzero"`
	// Meta is an object, or empty.
	Meta JSON `json:"_meta,omitzero"`

	raw *mcp.Result // the complete result, if it has another form
}

// Say returns a result with one formatted text.
func Say(format string, args ...any) *Result { return Show(Text(fmt.Sprintf(format, args...))) }

// Show returns a result with the given content.
func Show(content ...Content) *Result { return &Result{Content: content} }

// Structured returns a result with a value described by the tool's output schema.
func Structured(value any) *Result { return &Result{Structured: value} }

// wire returns the result as it is sent.
func (r *Result) wire() (*mcp.Result, error) {
	if r == nil {
		r = &Result{}
	}
	if r.raw != nil {
		return r.raw, nil
	}
	if r.Content != nil || r.Structured == nil {
		return result(r)
	}
	value, err := json.Marshal(r.Structured, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	own := *r // a copy, because the function may return r again
	own.Content, own.Structured = []Content{Text(string(value))}, JSON(value)
	return result(own)
}

// JSON is a JSON text, such as a schema, or "" for none. It is checked where it is
// added or sent, and keeps the order of members and the text of numbers.
type JSON string

// MustJSON returns the JSON text of a value, such as a schema made by a library. It
// panics if the value cannot be encoded.
func MustJSON(v any) JSON {
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(fmt.Errorf("mux: %w", err)) //nolint:forbidigo // documented: a mistake in the program
	}
	return JSON(raw)
}

// MarshalJSON returns the text.
func (j JSON) MarshalJSON() ([]byte, error) { return []byte(j), nil }

// The kinds of JSON texts.
const (
	anObject jsontext.Kind = '{'
	anArray  jsontext.Kind = '['
)

// jsonField is a JSON text in an item and the kind that it must have.
type jsonField struct {
	member string
	text   JSON
	kind   jsontext.Kind
}

// check returns an error for the first text that is invalid. An empty text is valid.
func check(all ...jsonField) error {
	for _, m := range all {
		raw := jsontext.Value(m.text)
		switch {
		case m.text == "":
		case !raw.IsValid():
			return fmt.Errorf("its %s is not valid JSON", m.member)
		case raw.Kind() != m.kind:
			return fmt.Errorf("its %s is not %s", m.member, map[jsontext.Kind]string{anObject: "an object", anArray: "an array"}[m.kind])
		}
	}
	return nil
}

// required returns the top-level members that a schema for arguments requires.
// Forgetting one is the most frequent mistake of models.
func required(schema JSON) ([]string, error) {
	var top struct {
		Type     string   `json:"type"`
		Required []string `json:"required"`
	}
	if err := json.Unmarshal([]byte(schema), &top); err != nil || top.Type != "object" {
		return nil, errors.New(`its input schema is not of the type "object"`)
	}
	return top.Required, nil
}
