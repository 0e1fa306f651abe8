// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// blocks converts the items of a list of content into types that the revision knows.
func blocks(v mcp.Version, content []byte) []byte {
	if v >= mcp.V20250618 || !mayHaveBlocks(content) {
		return content
	}
	return jsonscan.RewriteElements(content, func(block []byte) []byte { return Block(v, block) })
}

// mayHaveBlocks quickly excludes content that needs no conversion, which is most:
// neither type occurs, nor an escape that could hide it.
func mayHaveBlocks(raw []byte) bool {
	return bytes.Contains(raw, []byte(`"audio"`)) || bytes.Contains(raw, []byte(`"resource_link"`)) || bytes.Contains(raw, []byte(`\u`))
}

// Block converts one item of content into a type that the revision knows. It returns
// block itself if the type is known already, or is unknown to all revisions.
func Block(v mcp.Version, block []byte) []byte {
	switch kind := typeOf(block); {
	case kind == "audio" && v < mcp.V20250326:
		return audioBlock(block)
	case kind == "resource_link" && v < mcp.V20250618:
		return linkBlock(block)
	default:
		return block
	}
}

// typeOf returns the type of an item of content.
func typeOf(block []byte) string { return jsonscan.TextOf(jsonscan.Member(block, "type")) }

// audioBlock converts audio content into an embedded resource, in which the earliest
// revision can carry any data. Its URI refers to a part of the same message (RFC 2392).
func audioBlock(block []byte) []byte {
	resource := []byte(`{"uri":"cid:audio"`)
	var rest []byte
	for name, value := range jsonscan.Members(block) {
		switch name {
		case "type":
		case "data":
			resource = append(append(resource, `,"blob":`...), value...)
		case "mimeType":
			resource = append(append(resource, `,"mimeType":`...), value...)
		default:
			rest = appendMember(rest, name, value)
		}
	}
	out := append([]byte(`{"type":"resource","resource":`), resource...)
	return append(append(append(out, '}'), rest...), '}')
}

// linkBlock converts a resource link into text for users and models: name, URI and
// description.
func linkBlock(block []byte) []byte {
	var link struct{ name, title, uri, description string }
	var rest []byte
	for name, value := range jsonscan.Members(block) {
		switch name {
		case "name":
			link.name = jsonscan.TextOf(value)
		case "title":
			link.title = jsonscan.TextOf(value)
		case "uri":
			link.uri = jsonscan.TextOf(value)
		case "description":
			link.description = jsonscan.TextOf(value)
		case "annotations", "_meta":
			rest = appendMember(rest, name, value)
		}
	}
	text := link.uri
	if link.name != "" {
		text = link.name + ": " + text
	}
	if link.title != "" && link.title != link.name {
		text = link.title + " (" + text + ")"
	}
	if link.description != "" {
		text += "\n" + link.description
	}
	out := jsonscan.AppendString([]byte(`{"type":"text","text":`), text)
	return append(append(out, rest...), '}')
}

// appendMember appends a member after another one.
func appendMember(dst []byte, name string, value []byte) []byte {
	dst = jsonscan.AppendString(append(dst, ','), name)
	return append(append(dst, ':'), value...)
}
