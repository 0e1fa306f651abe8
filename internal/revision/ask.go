// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const sampling = "sampling/createMessage"

// Ask converts the parameters of a request to a client of the revision; it returns them
// unmodified if possible. Sampling with tools needs its own capability, and a client
// that has declared it reads the format of 2025-11-25, whatever its revision.
func Ask(v mcp.Version, method string, params *mcp.Object) []byte {
	if method != sampling || v >= mcp.V20251125 || params.Has(mcp.FieldTools) {
		return params.Bytes()
	}
	return jsonscan.RewriteMembers(params.Bytes(), func(name string, value []byte) []byte {
		if name != "messages" {
			return value
		}
		return jsonscan.RewriteElements(value, func(message []byte) []byte { return splitMessage(v, message) })
	})
}

// splitMessage splits a message with a list of content into one message for each item:
// before 2025-11-25 a message had one item.
func splitMessage(v mcp.Version, message []byte) []byte {
	list := jsonscan.Member(message, "content")
	if len(list) == 0 || list[0] != '[' {
		return withContent(message, Block(v, list))
	}
	var parts [][]byte
	for block := range jsonscan.Elements(list) {
		parts = append(parts, withContent(message, Block(v, block)))
	}
	if len(parts) == 0 {
		return message // there is nothing to convert
	}
	return bytes.Join(parts, []byte(","))
}

// withContent returns the message with the given content.
func withContent(message, content []byte) []byte {
	return jsonscan.RewriteMembers(message, func(name string, value []byte) []byte {
		if name == "content" && !isSame(value, content) {
			return content
		}
		return value
	})
}

// Answer converts a client's answer for a server of the revision, which expects one
// item of content; several texts are joined. A server that asked with tools reads
// lists.
func Answer(v mcp.Version, method string, params *mcp.Object, result []byte) []byte {
	if method != sampling || v >= mcp.V20251125 || params.Has(mcp.FieldTools) {
		return result
	}
	return jsonscan.RewriteMembers(result, func(name string, value []byte) []byte {
		switch {
		case name != "content":
			return value
		case value[0] == '[':
			return mergeContent(v, value)
		default:
			return Block(v, value)
		}
	})
}

// mergeContent converts a list of content into one item: the only one, or the joined
// text of all. Other lists are unmodified, and the server will reject them.
func mergeContent(v mcp.Version, list []byte) []byte {
	var only []byte
	var text []string
	allText := true
	for block := range jsonscan.Elements(list) {
		only = Block(v, block)
		allText = allText && typeOf(block) == "text"
		text = append(text, jsonscan.TextOf(jsonscan.Member(block, "text")))
	}
	switch {
	case len(text) == 1:
		return only
	case len(text) > 1 && allText:
		return append(jsonscan.AppendString([]byte(`{"type":"text","text":`), strings.Join(text, "\n\n")), '}')
	default:
		return list
	}
}

// AskError converts the error of a request to a client for a server of the revision.
// Only the modern era has a code for a capability that the client did not declare;
// before, it was one of JSON-RPC (2025-11-25, client/roots and client/elicitation,
// "Error Handling").
func AskError(v mcp.Version, method string, err *mcp.Error) *mcp.Error {
	switch {
	case v >= mcp.V20260728 || err.Code != mcp.CodeMissingCapability:
		return err
	case method == "elicitation/create", method == sampling && bytes.Contains(err.Data, []byte(`"tools"`)):
		return recode(err, mcp.CodeInvalidParams) // the method is known, but not these params
	default:
		return recode(err, mcp.CodeMethodNotFound)
	}
}
