// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// text is the one kind of content that tools and prompts of the demo have
// besides embedded resources: every client can show it.
type text struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func newText(s string) text { return text{Type: "text", Text: s} }

// list makes a result of one member. A list of nothing is [] and never null,
// which no reader of the protocol expects.
func list[T any](key string, items []T) (*mcp.Result, error) {
	return result(map[string][]T{key: items})
}

// result encodes v in one way only: the same request has the same bytes for an
// answer, so that somebody who compares two ways to the demo finds no difference
// that is not of the way.
func result(v any) (*mcp.Result, error) {
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return mcp.NewResult(raw)
}

// decode reads a member of the params into a struct that holds the defaults. The
// words of its error are for whoever wrote the call, who knows JSON and the
// schema, and nothing of Go's types.
func decode(raw []byte, into any) error {
	if raw == nil {
		return nil
	}
	err := json.Unmarshal(raw, into)
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok && wrong.JSONPointer != "" {
		return fmt.Errorf("%s is not of the type that the schema asks for", wrong.JSONPointer)
	}
	if err != nil {
		return errors.New("it is not what the schema asks for")
	}
	return nil
}
