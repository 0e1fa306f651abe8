// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"
	"strings"

	"github.com/signalbox-mcp/signalbox/mcp"
)

const sampling = "sampling/createMessage"

// Ask returns the parameters of a question to a client as one of the revision can read
// them; the very ones that it was given where nothing of them is in the way. Sampling
// with tools needs a capability of its own, and a client that has declared it reads what
// 2025-11-25 has, whatever its revision is.
func Ask(v mcp.Version, method string, params *mcp.Object) []byte {
	if method != sampling || v >= mcp.V20251125 || params.Has(mcp.FieldTools) {
		return params.Bytes()
	}
	return mcp.RewriteMembers(params.Bytes(), func(name string, value []byte) []byte {
		if name != "messages" {
			return value
		}
		return mcp.RewriteElements(value, func(message []byte) []byte { return sampled(v, message) })
	})
}

// sampled says a message with a list of content as that many messages, one after the
// other: before 2025-11-25 each message had one item.
func sampled(v mcp.Version, message []byte) []byte {
	var list []byte
	for name, value := range mcp.Members(message) {
		if name == "content" {
			list = value
		}
	}
	if len(list) == 0 || list[0] != '[' {
		return oneOf(message, Block(v, list))
	}
	var parts [][]byte
	for block := range mcp.Elements(list) {
		parts = append(parts, oneOf(message, Block(v, block)))
	}
	if len(parts) == 0 {
		return message // says nothing that could be said otherwise
	}
	return join(parts)
}

// oneOf returns the message with this content.
func oneOf(message, content []byte) []byte {
	return mcp.RewriteMembers(message, func(name string, value []byte) []byte {
		if name == "content" && !isSame(value, content) {
			return content
		}
		return value
	})
}

// join puts several elements of an array where there was one.
func join(parts [][]byte) []byte {
	if len(parts) == 1 {
		return parts[0]
	}
	var out []byte
	for i, part := range parts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, part...)
	}
	return out
}

// Answer is the reverse for what a client has answered: a server of the revision asked
// for one item of content, and several of text are one text. A server that asked with
// tools reads lists.
func Answer(v mcp.Version, method string, params *mcp.Object, result []byte) []byte {
	if method != sampling || v >= mcp.V20251125 || params.Has(mcp.FieldTools) {
		return result
	}
	return mcp.RewriteMembers(result, func(name string, value []byte) []byte {
		switch {
		case name != "content" || len(value) == 0:
			return value
		case value[0] == '[':
			return single(v, value)
		default:
			return Block(v, value)
		}
	})
}

// single makes one item of a list of content: the only one, or the text of all. What
// is neither stays, for the server to refuse.
func single(v mcp.Version, list []byte) []byte {
	var only []byte
	var text []string
	n, allText := 0, true
	for block := range mcp.Elements(list) {
		only = Block(v, block)
		n++
		allText = allText && typeOf(block) == "text"
		for name, value := range mcp.Members(block) {
			if name == "text" {
				text = append(text, textOf(value))
			}
		}
	}
	switch {
	case n == 1:
		return only
	case n > 1 && allText:
		return append(mcp.AppendString([]byte(`{"type":"text","text":`), strings.Join(text, "\n\n")), '}')
	default:
		return list
	}
}

// AskError returns the error that a server of the revision gets for its question.
// That a client did not declare what the question needs has a code of its own in the
// modern era alone; before, it was one of JSON-RPC (2025-11-25, client/roots and
// client/elicitation, "Error Handling").
func AskError(v mcp.Version, method string, err *mcp.Error) *mcp.Error {
	switch {
	case v >= mcp.V20260728 || err.Code != mcp.CodeMissingCapability:
		return err
	case method == "elicitation/create", method == sampling && bytes.Contains(err.Data, []byte(`"tools"`)):
		return recode(err, mcp.CodeInvalidParams) // it can be asked, but not so
	default:
		return recode(err, mcp.CodeMethodNotFound)
	}
}
