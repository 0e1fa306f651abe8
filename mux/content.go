// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"encoding/base64"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Content is one block of what a tool answers or a prompt says. The zero value is
// none.
type Content struct{ raw jsontext.Value }

// MarshalJSON returns the block as it stands on the wire.
func (c Content) MarshalJSON() ([]byte, error) { return c.raw, nil }

// With returns the block with one more member, such as its annotations or its _meta,
// which it does not have yet.
func (c Content) With(member string, value JSON) Content {
	return Content{mcp.WithMember(c.raw, member, []byte(value))}
}

// Text is a text.
func Text(text string) Content {
	return Content{object("type", "text", "text", text)}
}

// Image is an image of a MIME type.
func Image(mimeType string, data []byte) Content { return media("image", mimeType, data) }

// Audio is sound of a MIME type.
func Audio(mimeType string, data []byte) Content { return media("audio", mimeType, data) }

func media(kind, mimeType string, data []byte) Content {
	return Content{object("type", kind, "data", base64.StdEncoding.EncodeToString(data), "mimeType", mimeType)}
}

// Embed is a resource that the client need not read any more.
func Embed(c Contents) Content {
	return Content{mcp.WithMember(object("type", "resource"), "resource", c.raw)}
}

// Link is a resource that the client may read.
func Link(uri, name string) Content {
	return Content{object("type", "resource_link", "uri", uri, "name", name)}
}

// Contents is what a resource holds, or a part of it. The zero value is nothing.
type Contents struct{ raw jsontext.Value }

// MarshalJSON returns the contents as they stand on the wire.
func (c Contents) MarshalJSON() ([]byte, error) { return c.raw, nil }

// With is Content.With.
func (c Contents) With(member string, value JSON) Contents {
	return Contents{mcp.WithMember(c.raw, member, []byte(value))}
}

// TextContents is a text of a MIME type, as the contents of the resource of that URI.
func TextContents(uri, mimeType, text string) Contents {
	return Contents{object("uri", uri, "mimeType", mimeType, "text", text)}
}

// BlobContents is bytes of a MIME type, likewise.
func BlobContents(uri, mimeType string, data []byte) Contents {
	return Contents{object("uri", uri, "mimeType", mimeType, "blob", base64.StdEncoding.EncodeToString(data))}
}

// object returns an object of texts, given as names and values by turns.
func object(members ...string) jsontext.Value {
	out := []byte{'{'}
	for i, text := range members {
		switch {
		case i%2 != 0:
			out = append(out, ':')
		case i > 0:
			out = append(out, ',')
		}
		out = mcp.AppendString(out, text)
	}
	return append(out, '}')
}

// Result is what a tool answers with. The zero value says nothing.
type Result struct {
	// Content is what the model reads. Where it is nil and there is a Structured, that is
	// a text besides, for clients that read nothing else (2026-07-28, server/tools,
	// "Structured Content").
	Content []Content `json:"content"`
	// Structured is a value that the tool's output schema describes. It is encoded when
	// the function has returned.
	Structured any `json:"structuredContent,omitzero"`
	// IsError says that Content is a complaint, which the model can read.
	IsError bool `json:"isError,omitzero"`
	// Meta is an object, or nothing.
	Meta JSON `json:"_meta,omitzero"`

	raw *mcp.Result // the result itself, where it is of another form
}

// Say is the result of one text.
func Say(format string, args ...any) *Result { return Show(Text(fmt.Sprintf(format, args...))) }

// Show is a result of blocks.
func Show(content ...Content) *Result { return &Result{Content: content} }

// Structured is a result of a value, which the tool's output schema describes.
func Structured(value any) *Result { return &Result{Structured: value} }

// wire is the result as it is sent.
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
	own := *r // which is the function's, and may be answered again
	own.Content, own.Structured = []Content{Text(string(value))}, JSON(value)
	return result(own)
}
