// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// callArguments are the arguments of a call from the command line.
type callArguments struct {
	object []byte // one JSON object, unmodified; nil if there are pairs
	pairs  []pair
}

// pair is one argument of the form key=value or key:=JSON.
type pair struct {
	key, text string
	isJSON    bool // text is JSON, whatever the tool's schema declares
}

// argumentsUsage is the last part of errors about arguments.
const argumentsUsage = `write them as '{"key": "value"}', or each as key=value`

// maxArguments bounds what is read from standard input.
const maxArguments = 64 << 20

// arguments reads the arguments of the command line.
func (e *env) arguments(args []string) (*callArguments, error) {
	switch {
	case len(args) == 0:
		return &callArguments{object: []byte("{}")}, nil
	case isPair(args[0]):
		return parsePairs(args)
	case len(args) > 1:
		return nil, usagef("the arguments: %q is not of the form key=value; %s", args[0], argumentsUsage)
	}
	text := []byte(args[0])
	if args[0] == "-" {
		var err error
		if text, err = io.ReadAll(io.LimitReader(e.Stdin, maxArguments)); err != nil {
			return nil, fmt.Errorf("read the arguments: %w", err)
		}
	}
	// ParseObject is strict: these are the user's own arguments. They are sent unmodified.
	object, err := mcp.ParseObject(text)
	if err != nil {
		return nil, usagef("the arguments: %w; %s", err, argumentsUsage)
	}
	if object.IsZero() {
		return nil, usagef("the arguments are empty; write {} for none")
	}
	return &callArguments{object: object.Bytes()}, nil
}

// isPair reports whether word has the form key=value. A word that begins like JSON is not one.
func isPair(word string) bool {
	return strings.Contains(word, "=") && !strings.ContainsRune(`{["`, rune(word[0]))
}

// parsePairs parses words of the form key=value.
func parsePairs(words []string) (*callArguments, error) {
	a := new(callArguments)
	for _, word := range words {
		if !isPair(word) {
			return nil, usagef("the arguments: %q is not of the form key=value; %s", word, argumentsUsage)
		}
		var p pair
		p.key, p.text, _ = strings.Cut(word, "=")
		p.key, p.isJSON = strings.CutSuffix(p.key, ":")
		switch {
		case p.key == "":
			return nil, usagef("the arguments: %q has no key; %s", word, argumentsUsage)
		case slices.ContainsFunc(a.pairs, func(other pair) bool { return other.key == p.key }):
			return nil, usagef("the arguments: %q is given twice; remove one of them", p.key)
		case p.isJSON && !jsontext.Value(p.text).IsValid():
			return nil, usagef("the arguments: the value of %q is not JSON; write %s=... for a text", p.key, p.key)
		}
		a.pairs = append(a.pairs, p)
	}
	if _, err := mcp.ParseObject(a.bytes(func(pair) bool { return false })); err != nil {
		return nil, usagef("the arguments: %w; %s", err, argumentsUsage)
	}
	return a, nil
}

// bytes returns the arguments as a JSON object. isText reports whether a pair is a string
// although its value is JSON.
func (a *callArguments) bytes(isText func(pair) bool) []byte {
	if a.object != nil {
		return a.object
	}
	dst := []byte{'{'}
	for i, p := range a.pairs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsonscan.AppendString(dst, p.key), ':')
		if p.isJSON || jsontext.Value(p.text).IsValid() && !isText(p) {
			dst = append(dst, p.text...)
		} else {
			dst = jsonscan.AppendString(dst, p.text)
		}
	}
	return append(dst, '}')
}

// needsSchema reports whether the tool's schema decides the type of an argument: a string
// may look like a number.
func (a *callArguments) needsSchema() bool {
	return slices.ContainsFunc(a.pairs, func(p pair) bool {
		v := jsontext.Value(p.text)
		return !p.isJSON && v.IsValid() && v.Kind() != '"'
	})
}

// forTool returns the arguments as an object for a tool. If the schema of the tool cannot
// be fetched, the values alone decide, and the call itself reports the error.
func (a *callArguments) forTool(ctx context.Context, t *target, tool string) []byte {
	var properties map[string]jsontext.Value
	if a.needsSchema() {
		properties = propertiesOf(ctx, t, tool)
	}
	return a.bytes(func(p pair) bool {
		return jsontext.Value(p.text).Kind() != '"' && wantsString(properties[p.key], p.text)
	})
}

// propertiesOf returns the schemas of a tool's arguments, or nil.
func propertiesOf(ctx context.Context, t *target, name string) map[string]jsontext.Value {
	items, err := toolList().fetch(ctx, t)
	if err != nil {
		return nil
	}
	for _, raw := range items {
		var tool struct {
			Name        string `json:"name"`
			InputSchema struct {
				Properties map[string]jsontext.Value `json:"properties"`
			} `json:"inputSchema"`
		}
		if decode(raw, &tool) == nil && tool.Name == name {
			return tool.InputSchema.Properties
		}
	}
	return nil
}

// wantsString reports whether a schema accepts value only as a string.
func wantsString(schema jsontext.Value, value string) bool {
	var one struct {
		Type string `json:"type"`
	}
	var several struct {
		Type []string `json:"type"`
	}
	if len(schema) == 0 {
		return false
	}
	if decode(schema, &one) == nil {
		return one.Type == "string"
	}
	if decode(schema, &several) != nil || !slices.Contains(several.Type, "string") {
		return false
	}
	return !slices.ContainsFunc(several.Type, func(name string) bool {
		return name != "string" && (name != "null" || value == "null")
	})
}
