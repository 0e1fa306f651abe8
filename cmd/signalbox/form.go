// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// form is what elicitation/create asks for (2026-07-28, client/elicitation,
// "Form Mode"): a flat object of simple values.
type form struct {
	message string
	fields  []formField // in the order of the schema
}

// formField is one property of the requested schema.
type formField struct {
	name     string
	required bool

	Type        string         `json:"type"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	Default     jsontext.Value `json:"default"` // sent as it was written
	Minimum     *float64       `json:"minimum"` // nil for none, as 0 is one
	Maximum     *float64       `json:"maximum"`
	MinLength   int            `json:"minLength"` // in characters
	MaxLength   int            `json:"maxLength"` // 0 for none: no form asks for nothing
	choices
	Items choices `json:"items"` // of an array: several of them
}

// choices are the values that there are, in each way that revisions have had of
// writing them.
type choices struct {
	Enum  []string `json:"enum"`  // of values alone
	OneOf []choice `json:"oneOf"` // with titles, for one of them
	AnyOf []choice `json:"anyOf"` // with titles, for several
}

// choice is a value, and what people call it where they have a word for it.
type choice struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// all returns the choices in the order of the schema, however it writes them; a
// sound schema writes them in one way only.
func (c *choices) all() []choice {
	var all []choice
	for _, value := range c.Enum {
		all = append(all, choice{Const: value})
	}
	return append(append(all, c.OneOf...), c.AnyOf...)
}

// parseForm reads the parameters of elicitation/create.
func parseForm(params []byte) (*form, error) {
	var p struct {
		Mode    string `json:"mode"`
		Message string `json:"message"`
		Schema  struct {
			Properties jsontext.Value `json:"properties"`
			Required   []string       `json:"required"`
		} `json:"requestedSchema"`
	}
	if err := decode(params, &p); err != nil {
		return nil, err
	}
	// A revision without modes has forms only. An address to open in a browser was
	// not declared, and no server should send one.
	if p.Mode != "" && p.Mode != "form" {
		return nil, fmt.Errorf("the command line cannot answer in mode %q", p.Mode)
	}
	fields, err := parseFields(p.Schema.Properties)
	for i := range fields {
		fields[i].required = slices.Contains(p.Schema.Required, fields[i].name)
	}
	return &form{message: p.Message, fields: fields}, err
}

// parseFields reads the properties in the order in which they stand.
func parseFields(properties jsontext.Value) ([]formField, error) {
	if properties == nil {
		return nil, nil
	}
	// A map would lose the order, and with it the sense of a form whose second
	// question leans on the first.
	d := jsontext.NewDecoder(bytes.NewReader(properties))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, errors.New("the properties are no object")
	}
	var fields []formField
	for d.PeekKind() == '"' {
		key, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		f := formField{name: key.String()}
		schema, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		if err := decode(schema, &f); err != nil {
			return nil, fmt.Errorf("the property %q: %w", f.name, err)
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// ask has each field filled in, and returns the result: the content, or that the
// person declined by ending the input.
func (f *form) ask(ctx context.Context, prompt func(context.Context, string) (string, error)) ([]byte, error) {
	content := []byte(`{"action":"accept","content":{`)
	for i := range f.fields {
		value, err := f.fields[i].ask(ctx, prompt)
		// Who ends the input has answered: no. It is not the cancel of the
		// specification, which is for a question that was closed unread.
		if errors.Is(err, io.EOF) {
			return []byte(`{"action":"decline"}`), nil
		}
		if err != nil {
			return nil, err
		}
		if value == nil {
			continue // left out and not null, which would be a value
		}
		if content[len(content)-1] != '{' {
			content = append(content, ',')
		}
		content = append(mcp.AppendString(content, f.fields[i].name), ':')
		content = append(content, value...)
	}
	return append(content, "}}"...), nil
}

// ask asks until the answer fits. Nothing is the default, or no value at all.
func (f *formField) ask(ctx context.Context, prompt func(context.Context, string) (string, error)) (jsontext.Value, error) {
	text := f.question()
	for {
		line, err := prompt(ctx, text)
		if err != nil {
			return nil, err
		}
		// It is asked again until it fits. A server would refuse the whole form, and
		// the person would begin anew.
		value, problem := f.parse(line)
		if problem == "" {
			return value, nil
		}
		text = problem + ". " + f.question()
	}
}

// question returns the prompt of the field.
func (f *formField) question() string {
	text := cmp.Or(f.Title, f.name)
	if f.Description != "" {
		text += " (" + f.Description + ")"
	}
	if hint := f.hint(); hint != "" {
		text += " [" + hint + "]"
	}
	if f.Default != nil {
		text += " default " + string(f.Default)
	} else if !f.required {
		text += " (optional)"
	}
	return text + ":"
}

// hint says what can be answered, where that is not anything.
func (f *formField) hint() string {
	switch f.Type {
	case "boolean":
		return "y/n"
	case "array":
		return strings.Join(names(f.Items.all()), ", ") + "; several with commas"
	default:
		return strings.Join(names(f.all()), ", ")
	}
}

// names are how choices are shown: by the value, which is always taken, and by the
// title where it says more.
func names(all []choice) []string {
	var words []string
	for _, c := range all {
		word := c.Const
		if c.Title != "" && c.Title != c.Const {
			word += " = " + c.Title
		}
		words = append(words, word)
	}
	return words
}

// parse returns the JSON value of an answer, or what is wrong with it.
func (f *formField) parse(line string) (value jsontext.Value, problem string) {
	line = strings.TrimSpace(line)
	// A default is taken as the server wrote it, and is its own to be right about.
	if line == "" && f.Default != nil {
		return f.Default, ""
	}
	if line == "" && f.required {
		return nil, "An answer is needed"
	}
	if line == "" {
		return nil, ""
	}
	switch f.Type {
	case "boolean":
		return parseBool(line)
	case "integer", "number":
		return f.parseNumber(line)
	case "array":
		return f.parseSeveral(line)
	default:
		return f.parseString(line)
	}
}

// parseBool takes the words that people type for yes and no.
func parseBool(line string) (jsontext.Value, string) {
	switch strings.ToLower(line) {
	case "y", "yes", "true":
		return jsontext.Value("true"), ""
	case "n", "no", "false":
		return jsontext.Value("false"), ""
	default:
		return nil, "That is neither yes nor no"
	}
}

// parseNumber keeps the digits as they were typed, as long as they are a number in
// JSON: 1.50 is not 1.5 to everybody, and what Go calls a number (0x1p4, Inf,
// NaN) is none to the server.
func (f *formField) parseNumber(line string) (jsontext.Value, string) {
	n, err := strconv.ParseFloat(line, 64)
	value := jsontext.Value(line)
	switch {
	case err != nil || math.IsInf(n, 0) || !value.IsValid():
		return nil, "That is no number"
	case f.Type == "integer" && n != math.Trunc(n):
		return nil, "That is no whole number"
	case f.Minimum != nil && n < *f.Minimum:
		return nil, fmt.Sprintf("The least is %v", *f.Minimum)
	case f.Maximum != nil && n > *f.Maximum:
		return nil, fmt.Sprintf("The most is %v", *f.Maximum)
	}
	return value, ""
}

// parseString counts characters and not bytes, as JSON Schema does.
func (f *formField) parseString(line string) (jsontext.Value, string) {
	length := len([]rune(line))
	// Formats and patterns are left to the server, which has to check them anyway;
	// what is checked here saves the person a round.
	switch {
	case len(f.all()) > 0:
		return oneOf(f.all(), line)
	case length < f.MinLength:
		return nil, fmt.Sprintf("At least %d characters are needed", f.MinLength)
	case f.MaxLength > 0 && length > f.MaxLength:
		return nil, fmt.Sprintf("At most %d characters are possible", f.MaxLength)
	}
	return mcp.AppendString(nil, line), ""
}

// parseSeveral reads words between commas. A choice with a comma in it cannot be
// made by its value then, but by no means is another one taken for it.
func (f *formField) parseSeveral(line string) (jsontext.Value, string) {
	list := []byte{'['}
	for i, word := range strings.Split(line, ",") {
		value, problem := oneOf(f.Items.all(), strings.TrimSpace(word))
		if problem != "" {
			return nil, problem
		}
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, value...)
	}
	return append(list, ']'), ""
}

// oneOf finds a choice by its value or its title.
func oneOf(all []choice, word string) (jsontext.Value, string) {
	// By the value first: a title may be another choice's value.
	i := slices.IndexFunc(all, func(c choice) bool { return c.Const == word })
	if i < 0 {
		i = slices.IndexFunc(all, func(c choice) bool { return c.Title != "" && strings.EqualFold(c.Title, word) })
	}
	if i < 0 {
		return nil, fmt.Sprintf("%q is none of %s", word, strings.Join(names(all), ", "))
	}
	return mcp.AppendString(nil, all[i].Const), ""
}
