// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/signalbox-mcp/signalbox/mux"
)

// changingTools change what there is while it is served.
func changingTools(m *mux.Mux) []mux.Item {
	tool := mux.Tool{Name: "test_dynamic_tool", Description: "Was not there before.", Call: show(mux.Text("Here I am."))}
	prompt := mux.Prompt{Name: "test_dynamic_prompt", Description: "Was not there before.", Get: fill(mux.User(mux.Text("Here I am.")))}
	return []mux.Item{
		mux.Tool{Name: "test_trigger_tool_change", Description: "Adds a tool for a moment.", Call: flash(m, tool)},
		mux.Tool{Name: "test_trigger_prompt_change", Description: "Adds a prompt for a moment.", Call: flash(m, prompt)},
	}
}

// flash returns a function that adds an item and takes it away again: the list has
// changed, and is as before for whoever comes next.
func flash(m *mux.Mux, item mux.Item) function {
	return func(context.Context, *mux.Call) (*mux.Result, error) {
		if err := errors.Join(m.Add(item), m.Remove(item)); err != nil {
			return nil, err
		}
		return mux.Say("The list has changed."), nil
	}
}

const watchedURI = "test://watched-resource"

// watch has the watched resource change every three seconds.
func watch(ctx context.Context, m *mux.Mux) {
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = m.Updated(watchedURI) // the Mux is not fixed
		case <-ctx.Done():
			return
		}
	}
}
