// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"encoding/base64"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Content is one block of what a tool answers or a prompt says. The zero value is
// none.
type Content struct{ raw jsontext.Value }

// MarshalJSON returns the block as it stands on the wire.
func (c Content) MarshalJSON() ([]byte, error) { return c.raw, nil }

// With returns the block with one more member, such as its annotations or its _meta,
// whose value is given as JSON text.
func (c Content) With(member, value string) Content {
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
func (c Contents) With(member, value string) Contents {
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

// Result is what a tool answers with.
type Result struct {
	Content []Content `json:"content"`
	// Structured is a value that the tool's output schema describes.
	Structured any `json:"structuredContent,omitzero"`
	// IsError says that Content is a complaint, which the model can read.
	IsError bool `json:"isError,omitzero"`
	// Meta is a JSON object, or nothing.
	Meta jsontext.Value `json:"_meta,omitzero"`

	raw *mcp.Result // the result itself, where it is of another form
}

// Say is the result of one text.
func Say(format string, args ...any) *Result { return Show(Text(fmt.Sprintf(format, args...))) }

// Show is a result of blocks.
func Show(content ...Content) *Result { return &Result{Content: content} }

// wire is the result as it is sent.
func (r *Result) wire() (*mcp.Result, error) {
	if r == nil {
		r = &Result{}
	}
	if r.raw != nil {
		return r.raw, nil
	}
	return result(r)
}
