// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"cmp"
	"encoding/base64"
	"fmt"
)

// content is one block of a tool's result (2026-07-28, server/tools, "Tool
// Result"): text, image, audio, resource_link or resource.
type content struct {
	Type     string   `json:"type"`
	Text     string   `json:"text"`     // of text
	Data     string   `json:"data"`     // of an image or audio, in base64
	MIMEType string   `json:"mimeType"` // of an image or audio
	URI      string   `json:"uri"`      // of a resource_link
	Name     string   `json:"name"`     // of a resource_link
	Resource contents `json:"resource"` // of an embedded resource
}

// shown returns the text to print for the block: its text, or a description of it.
func (c *content) shown() string {
	switch c.Type {
	case "text":
		return c.Text
	case "image", "audio":
		return fmt.Sprintf("[%s %s, %d bytes; --json prints it]", c.Type, cmp.Or(c.MIMEType, "of unknown type"), decodedSize(c.Data))
	// A link is a reference to a resource, which read can fetch.
	case "resource_link":
		return fmt.Sprintf("[resource %s: %s]", c.Name, c.URI)
	case "resource":
		return c.Resource.shown()
	default:
		return fmt.Sprintf("[%s; --json prints it]", cmp.Or(c.Type, "a block without a type"))
	}
}

// contents are the contents of a resource (2026-07-28, server/resources, "Resource
// Contents"): text, or bytes in base64.
type contents struct {
	URI      string  `json:"uri"`
	MIMEType string  `json:"mimeType"`
	Text     *string `json:"text"` // nil if absent; an empty text is not
	Blob     *string `json:"blob"`
}

// shown returns the text, or a description of bytes: they are not fit for a terminal.
func (c *contents) shown() string {
	if c.Text != nil {
		return *c.Text
	}
	return fmt.Sprintf("[resource %s, %s; --json prints it]", c.URI, c.describe())
}

// describe returns the type and the size of contents that are not text.
func (c *contents) describe() string {
	size := 0
	if c.Blob != nil {
		size = decodedSize(*c.Blob)
	}
	return fmt.Sprintf("%s, %d bytes", cmp.Or(c.MIMEType, "of unknown type"), size)
}

func (c *contents) bytes() ([]byte, error) {
	switch {
	case c.Text != nil:
		return []byte(*c.Text), nil
	case c.Blob != nil:
		return base64.StdEncoding.DecodeString(*c.Blob)
	default:
		return nil, fmt.Errorf("%s has neither text nor blob", c.URI)
	}
}

// decodedSize returns the number of bytes that a base64 text encodes.
func decodedSize(text string) int {
	// Computed and not decoded: the text may be megabytes.
	n := base64.StdEncoding.DecodedLen(len(text))
	for i := len(text) - 1; i >= 0 && text[i] == '='; i-- {
		n--
	}
	return n
}
