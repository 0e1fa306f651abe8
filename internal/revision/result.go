// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Result converts the result of a request for a client of the revision. It returns res
// itself if no change is needed.
func Result(v mcp.Version, method string, res *mcp.Result) *mcp.Result {
	raw := res.Bytes()
	changed := raw
	switch method {
	case "tools/call", "tasks/result":
		changed = toolResult(v, res)
	case "prompts/get":
		changed = promptResult(v, raw)
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		changed = listResult(v, raw)
	}
	if len(raw) == 0 || &changed[0] == &raw[0] {
		return res
	}
	next, err := res.WithBytes(changed)
	if err != nil {
		return res // nested too deeply for one more level: the client receives it unmodified
	}
	return &mcp.Result{Object: next}
}

// toolResult converts the result of a tool. Structured content that the revision does
// not support is added as text, if the server has not done so ("a tool that returns
// structured content SHOULD also return the serialized JSON in a TextContent block":
// 2026-07-28, server/tools, "Structured Content").
func toolResult(v mcp.Version, res *mcp.Result) []byte {
	structured, content := res.Raw(mcp.FieldStructuredContent), res.Raw(mcp.FieldContent)
	isObject := jsonscan.IsObject(structured)
	var e mcp.Edit
	next := blocks(v, content)
	switch {
	case structured == nil:
	case content == nil:
		// Every revision requires content, but some servers omit it.
		next = withText([]byte("[]"), structured)
	case (v < mcp.V20250618 || v < mcp.V20260728 && !isObject) && !hasText(content):
		next = withText(next, structured)
	}
	if len(next) > 0 && !isSame(next, content) {
		e.Set(mcp.FieldContent, next)
	}
	if structured != nil && !isObject && v < mcp.V20260728 {
		e.Set(mcp.FieldStructuredContent, wrapValue(structured))
	}
	if e.IsZero() {
		return res.Bytes()
	}
	return e.AppendTo(nil, &res.Object)
}

// wrapValue wraps a value in an object; wrapSchema makes the matching schema.
func wrapValue(raw []byte) []byte {
	return append(append([]byte(`{"result":`), raw...), '}')
}

// hasText reports whether a list of content has a text item, which every client can
// show.
func hasText(content []byte) bool {
	for block := range jsonscan.Elements(content) {
		if typeOf(block) == "text" {
			return true
		}
	}
	return false
}

// withText appends an item with the text of a JSON value.
func withText(content, value []byte) []byte {
	if content[0] != '[' {
		return content // not a list: unmodified
	}
	end := bytes.LastIndexByte(content, ']')
	out := append(make([]byte, 0, len(content)+2*len(value)), content[:end]...)
	if len(bytes.TrimSpace(content[1:end])) > 0 {
		out = append(out, ',')
	}
	out = append(out, `{"type":"text","text":`...)
	out = jsonscan.AppendString(out, string(value))
	return append(out, "}]"...)
}

// promptResult is the same for the messages of a prompt, each with one item.
func promptResult(v mcp.Version, raw []byte) []byte {
	if v >= mcp.V20250618 || !mayHaveBlocks(raw) {
		return raw
	}
	return jsonscan.RewriteMembers(raw, func(name string, value []byte) []byte {
		if name != "messages" {
			return value
		}
		return jsonscan.RewriteElements(value, func(message []byte) []byte {
			return jsonscan.RewriteMembers(message, func(name string, value []byte) []byte {
				if name != "content" {
					return value
				}
				return Block(v, value)
			})
		})
	})
}

// isSame reports whether two JSON texts are the same memory.
func isSame(a, b []byte) bool { return len(a) == len(b) && &a[0] == &b[0] }
