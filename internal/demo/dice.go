// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/signalbox-mcp/signalbox/mux"
)

// diceTool is the only tool with an output schema. Its results differ and it is not marked as
// idempotent, so that a wrongly cached result can be noticed.
func diceTool() mux.Tool {
	return mux.Tool{
		Name: "roll_dice", Title: "Roll dice", Description: "Rolls six-sided dice and returns structured content.",
		InputSchema:  `{"type":"object","properties":{"count":{"type":"integer","minimum":1,"maximum":10,"default":2,"description":"How many dice."}}}`,
		OutputSchema: `{"type":"object","properties":{"dice":{"type":"array","items":{"type":"integer","minimum":1,"maximum":6}},"sum":{"type":"integer"}},"required":["dice","sum"]}`,
		Annotations:  `{"readOnlyHint":true,"openWorldHint":false}`,
		Call:         rollDice,
	}
}

// roll is the structured content. It has the members of the output schema above: "Servers MUST
// provide structured results that conform to this schema" (2026-07-28, server/tools, "Output
// Schema").
type roll struct {
	Dice []int `json:"dice"`
	Sum  int   `json:"sum"`
}

// rollDice returns its result in three forms: as a sentence for people, as structured content,
// and, since "a tool that returns structured content SHOULD also return the serialized JSON in a
// TextContent block" for older clients (2025-06-18 and later, server/tools, "Structured Content"),
// as text of it.
func rollDice(_ context.Context, call *mux.Call) (*mux.Result, error) {
	in := struct {
		Count int `json:"count"`
	}{Count: 2}
	if err := call.Bind(&in); err != nil {
		return nil, err
	}
	if err := within("count", in.Count, 1, 10); err != nil {
		return nil, err
	}
	r := roll{Dice: make([]int, in.Count)}
	for i := range r.Dice {
		r.Dice[i] = 1 + rand.N(6) //nolint:gosec // dice of a demo
		r.Sum += r.Dice[i]
	}
	return &mux.Result{
		Content:    []mux.Content{mux.Text(r.String()), mux.Text(string(mux.MustJSON(r)))},
		Structured: r,
	}, nil
}

// String returns the roll in the form "2 + 5 = 7".
func (r roll) String() string {
	words := strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Dice), " ", " + "), "[]")
	return fmt.Sprintf("%s = %d", words, r.Sum)
}
