// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// JSON is a JSON text, such as a schema: a constant is one as it is written, and "" is
// none. It is checked where it is added or sent, and keeps the order of its members and
// the texts of its numbers.
type JSON string

// MustJSON is the JSON text of a value, such as a schema of a library for schemas. It
// panics where the value has none, which is a mistake of the program.
func MustJSON(v any) JSON {
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(fmt.Errorf("mux: %w", err)) //nolint:forbidigo // a mistake of the program, as the comment says
	}
	return JSON(raw)
}

// MarshalJSON returns the text.
func (j JSON) MarshalJSON() ([]byte, error) { return []byte(j), nil }

// kinds of JSON texts.
const (
	anObject jsontext.Kind = '{'
	anArray  jsontext.Kind = '['
)

// must is a JSON text that an item has, and of what kind it is to be.
type must struct {
	member string
	text   JSON
	kind   jsontext.Kind
}

// check returns what is wrong with the first of the texts that is. None is right.
func check(all ...must) error {
	for _, m := range all {
		raw := jsontext.Value(m.text)
		switch {
		case m.text == "":
		case !raw.IsValid():
			return fmt.Errorf("its %s is no JSON text", m.member)
		case raw.Kind() != m.kind:
			return fmt.Errorf("its %s is not %s", m.member, map[jsontext.Kind]string{anObject: "an object", anArray: "an array"}[m.kind])
		}
	}
	return nil
}

// required are the members that a schema of arguments requires at its top, where a
// model that forgets one is most often wrong.
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
