// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

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
