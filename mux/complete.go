// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Completer returns completions of typed text, the best first; a client receives at
// most a hundred. others has the arguments that are already filled in, as far as the
// client sent them, and may be nil. A Completer is called concurrently and often,
// possibly for each letter.
type Completer func(ctx context.Context, typed string, others map[string]string) ([]string, error)

// maxValues bounds the values sent to a client (2026-07-28,
// server/utilities/completion, "Completion Results").
const maxValues = 100

// completion is the result for a client.
type completion struct {
	HasMore bool     `json:"hasMore"`
	Total   int      `json:"total"`
	Values  []string `json:"values"`
}

// complete serves completion/complete. An argument without a Completer gets an empty
// list; a reference to an unknown item is an error (2026-07-28,
// server/utilities/completion, "Error Handling").
func (c *catalog) complete(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	of, ok := c.completers(req)
	if !ok {
		return nil, invalid("unknown reference: nothing to complete")
	}
	var arg struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	if err := decode(req.Params.Raw(mcp.FieldArgument), &arg); err != nil {
		return nil, invalid("the argument is invalid: %v", err)
	}
	out := completion{Values: []string{}} // the list is required, even if empty
	if f := of(arg.Name); f != nil {
		values, err := f(ctx, arg.Value, filledIn(req))
		if err != nil {
			return nil, err
		}
		out.Total, out.HasMore = len(values), len(values) > maxValues
		out.Values = append(out.Values, values[:min(len(values), maxValues)]...)
	}
	return result(map[string]completion{"completion": out})
}

// completers returns a lookup of the Completers for the arguments of the item that the
// request refers to.
func (c *catalog) completers(req *mcp.Request) (func(argument string) Completer, bool) {
	kind, _ := req.Params.Text(mcp.FieldRefType)
	// By kind first: a prompt and a template may have the same name.
	switch kind {
	case "ref/prompt":
		name, _ := req.Params.Text(mcp.FieldRefName)
		p, ok := c.prompts.get(name)
		return func(argument string) Completer {
			for _, a := range p.Arguments {
				if a.Name == argument {
					return a.Complete
				}
			}
			return nil
		}, ok
	case "ref/resource":
		uri, _ := req.Params.Text(mcp.FieldRefURI)
		t, ok := c.templates.get(uri)
		return func(argument string) Completer { return t.Complete[argument] }, ok
	default:
		return nil, false
	}
}

// filledIn returns the arguments that are already filled in. It ignores values that it
// cannot decode.
func filledIn(req *mcp.Request) map[string]string {
	for name, value := range jsonscan.Members(req.Params.Bytes()) {
		if name != "context" {
			continue
		}
		var given struct {
			Arguments map[string]string `json:"arguments"`
		}
		if decode(value, &given) == nil {
			return given.Arguments
		}
	}
	return nil
}
