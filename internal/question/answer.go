// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package question

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// IsAnswer reports whether a JSON text has the form of a result of the method: the
// members that its schema requires, with their types.
func IsAnswer(method string, raw []byte) bool {
	switch method {
	case "elicitation/create":
		var a struct {
			Action  string                    `json:"action"`
			Content map[string]jsontext.Value `json:"content"`
		}
		return json.Unmarshal(raw, &a) == nil && (a.Action == "accept" || a.Action == "decline" || a.Action == "cancel")
	case "sampling/createMessage":
		var a struct {
			Role    string         `json:"role"`
			Model   *string        `json:"model"`
			Content jsontext.Value `json:"content"`
		}
		return json.Unmarshal(raw, &a) == nil && a.Model != nil && (a.Role == "assistant" || a.Role == "user") && isContent(a.Content)
	case "roots/list":
		var a struct {
			Roots []struct {
				URI *string `json:"uri"`
			} `json:"roots"`
		}
		if json.Unmarshal(raw, &a) != nil || a.Roots == nil {
			return false
		}
		for _, root := range a.Roots {
			if root.URI == nil {
				return false
			}
		}
		return true
	default:
		return false // there are no other requests to clients
	}
}

// Action returns the action in the result of an elicitation, or "" if it is not a
// string.
func Action(raw []byte) string {
	var a struct {
		Action string `json:"action"`
	}
	if json.Unmarshal(raw, &a) != nil {
		return ""
	}
	return a.Action
}

// isContent reports whether a JSON text may be one block of content or a list of them.
func isContent(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '{' || raw[0] == '[')
}
