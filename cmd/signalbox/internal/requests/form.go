// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

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

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// form is a form of elicitation/create (2026-07-28, client/elicitation, "Form Mode"): a
// flat object of primitive values.
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
	Default     jsontext.Value `json:"default"` // sent unmodified
	Minimum     *float64       `json:"minimum"` // nil if absent; 0 is a limit
	Maximum     *float64       `json:"maximum"`
	MinLength   int            `json:"minLength"` // in characters
	MaxLength   int            `json:"maxLength"` // 0 if absent
	choices
	Items choices `json:"items"` // the choices of an array
}

// choices are the permitted values, in each form that a revision of the protocol has.
type choices struct {
	Enum  []string `json:"enum"`  // values without titles
	OneOf []choice `json:"oneOf"` // with titles, for one value
	AnyOf []choice `json:"anyOf"` // with titles, for several values
}

// choice is a permitted value, with a title if it has one.
type choice struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// all returns the choices in the order of the schema. A valid schema uses one form only.
func (c *choices) all() []choice {
	var all []choice
	for _, value := range c.Enum {
		all = append(all, choice{Const: value})
	}
	return append(append(all, c.OneOf...), c.AnyOf...)
}

// parseForm decodes the parameters of elicitation/create.
func parseForm(params []byte) (*form, error) {
	var p struct {
		Mode    string `json:"mode"`
		Message string `json:"message"`
		Schema  struct {
			Properties jsontext.Value `json:"properties"`
			Required   []string       `json:"required"`
		} `json:"requestedSchema"`
	}
	if err := control.Decode(params, &p); err != nil {
		return nil, err
	}
	// A revision without modes has forms only. The command does not declare the URL
	// mode, so no server should use it.
	if p.Mode != "" && p.Mode != "form" {
		return nil, fmt.Errorf("the command line cannot answer in mode %q", p.Mode)
	}
	fields, err := parseFields(p.Schema.Properties)
	for i := range fields {
		fields[i].required = slices.Contains(p.Schema.Required, fields[i].name)
	}
	return &form{message: p.Message, fields: fields}, err
}

// parseFields decodes the properties in the order of the schema.
func parseFields(properties jsontext.Value) ([]formField, error) {
	if properties == nil {
		return nil, nil
	}
	// A map would lose the order, in which one question may depend on the previous one.
	d := jsontext.NewDecoder(bytes.NewReader(properties))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, errors.New("the properties are not an object")
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
		if err := control.Decode(schema, &f); err != nil {
			return nil, fmt.Errorf("the property %q: %w", f.name, err)
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// ask prompts for each field, and returns the result: the content, or a decline if the
// user ended the input.
func (f *form) ask(ctx context.Context, prompt func(context.Context, string) (string, error)) ([]byte, error) {
	content := []byte(`{"action":"accept","content":{`)
	for i := range f.fields {
		value, err := f.fields[i].ask(ctx, prompt)
		// The end of the input is a decline, and not the specification's cancel, which is for
		// a question that was dismissed without a choice.
		if errors.Is(err, io.EOF) {
			return []byte(`{"action":"decline"}`), nil
		}
		if err != nil {
			return nil, err
		}
		if value == nil {
			continue // absent, and not null, which would be a value
		}
		if content[len(content)-1] != '{' {
			content = append(content, ',')
		}
		content = append(jsonscan.AppendString(content, f.fields[i].name), ':')
		content = append(content, value...)
	}
	return append(content, "}}"...), nil
}

// ask prompts until the answer is valid. An empty answer is the default, or no value.
func (f *formField) ask(ctx context.Context, prompt func(context.Context, string) (string, error)) (jsontext.Value, error) {
	text := f.question()
	for {
		line, err := prompt(ctx, text)
		if err != nil {
			return nil, err
		}
		// Ask again: a server would reject the whole form, and the user would have to
		// start over.
		value, problem := f.parse(line)
		if problem == "" {
			return value, nil
		}
		text = problem + ". " + f.question()
	}
}

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

// hint describes the valid answers, or is empty if any is.
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

// names returns the choices as shown: the value, which is always accepted, and the title
// if it differs.
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

// parse returns the JSON value of an answer, or a description of what is wrong with it.
func (f *formField) parse(line string) (value jsontext.Value, problem string) {
	line = strings.TrimSpace(line)
	switch {
	case line == "" && f.Default != nil:
		return f.Default, "" // the server is responsible for it
	case line == "" && f.required:
		return nil, "An answer is required"
	case line == "":
		return nil, ""
	}
	switch f.Type {
	case "boolean":
		switch strings.ToLower(line) {
		case "y", "yes", "true":
			return jsontext.Value("true"), ""
		case "n", "no", "false":
			return jsontext.Value("false"), ""
		}
		return nil, "That is neither yes nor no"
	case "integer", "number":
		return f.parseNumber(line)
	case "array":
		return f.parseSeveral(line)
	default:
		return f.parseString(line)
	}
}

// parseNumber keeps the digits as typed (1.50 may differ from 1.5 for the server). Numbers
// must be valid in JSON: Go also accepts 0x1p4, Inf and NaN.
func (f *formField) parseNumber(line string) (jsontext.Value, string) {
	n, err := strconv.ParseFloat(line, 64)
	value := jsontext.Value(line)
	switch {
	case err != nil || math.IsInf(n, 0) || !value.IsValid():
		return nil, "That is not a number"
	case f.Type == "integer" && n != math.Trunc(n):
		return nil, "That is not a whole number"
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
	// Formats and patterns are left to the server, which has to check them anyway. The
	// checks here save a round trip.
	switch {
	case len(f.all()) > 0:
		return oneOf(f.all(), line)
	case length < f.MinLength:
		return nil, fmt.Sprintf("At least %d characters are needed", f.MinLength)
	case f.MaxLength > 0 && length > f.MaxLength:
		return nil, fmt.Sprintf("At most %d characters are possible", f.MaxLength)
	}
	return jsonscan.AppendString(nil, line), ""
}

// parseSeveral parses choices separated by commas. A choice with a comma in its value cannot
// be selected by it, but is never mistaken for another one.
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
	// By value first: a title may be the value of another choice.
	i := slices.IndexFunc(all, func(c choice) bool { return c.Const == word })
	if i < 0 {
		i = slices.IndexFunc(all, func(c choice) bool { return c.Title != "" && strings.EqualFold(c.Title, word) })
	}
	if i < 0 {
		return nil, fmt.Sprintf("%q is not one of %s", word, strings.Join(names(all), ", "))
	}
	return jsonscan.AppendString(nil, all[i].Const), ""
}
