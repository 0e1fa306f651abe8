// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
)

type ticket struct {
	From  string `json:"from" jsonschema:"where the journey begins"`
	To    string `json:"to" jsonschema:"where it ends"`
	Class int    `json:"class,omitempty" jsonschema:"1 or 2"`
}

// typed makes a tool with the schema of a type, and calls f with valid arguments only.
// A function like this, around a tool, does for one tool what middleware does for all.
func typed[In any](tool mux.Tool, f func(ctx context.Context, call *mux.Call, in In) (*mux.Result, error)) (mux.Tool, error) {
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		return tool, err
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return tool, err
	}
	bound := mux.Bound(f)
	tool.InputSchema = mux.MustJSON(schema)
	tool.Call = func(ctx context.Context, call *mux.Call) (*mux.Result, error) {
		var in any
		if err := json.Unmarshal([]byte(call.Arguments()), &in); err != nil {
			return nil, mux.Errorf("The arguments are no JSON.")
		}
		if err := resolved.Validate(in); err != nil {
			return nil, mux.Errorf("The arguments do not fit: %v", err)
		}
		return bound(ctx, call)
	}
	return tool, nil
}

// A library makes the schema of a type, and validates the arguments.
func Example_schema() {
	tool, err := typed(mux.Tool{Name: "book"}, func(_ context.Context, _ *mux.Call, in ticket) (*mux.Result, error) {
		return mux.Say("From %s to %s.", in.From, in.To), nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tool.InputSchema)
	m := mux.New(tool)
	for _, arguments := range []string{`{"from":"Bern","to":"Thun"}`, `{"from":"Bern"}`, `{"from":"Bern","to":"Thun","via":"Rome"}`} {
		req, err := mcp.NewRequest("tools/call", []byte(`{"name":"book","arguments":`+arguments+`}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		res, err := m.Serve(context.Background(), req, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s\n", res.Raw(mcp.FieldContent))
	}
	// Output:
	// {"type":"object","properties":{"from":{"type":"string","description":"where the journey begins"},"to":{"type":"string","description":"where it ends"},"class":{"type":"integer","description":"1 or 2"}},"required":["from","to"],"additionalProperties":false}
	// [{"type":"text","text":"From Bern to Thun."}]
	// [{"type":"text","text":"The argument \"to\" is missing."}]
	// [{"type":"text","text":"The arguments do not fit: validating root: unexpected additional properties [\"via\"]"}]
}
