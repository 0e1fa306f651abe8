// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/mux"
)

// changingTools change the offered items while they are served.
func changingTools(m *mux.Mux) []mux.Item {
	tool := mux.Tool{Name: "test_dynamic_tool", Description: "Was not there before.", Call: show(mux.Text("Here I am."))}
	prompt := mux.Prompt{Name: "test_dynamic_prompt", Description: "Was not there before.", Get: constant(mux.User(mux.Text("Here I am.")))}
	return []mux.Item{
		mux.Tool{Name: "test_trigger_tool_change", Description: "Adds a tool, or takes it away again.", Call: toggle(m, tool)},
		mux.Tool{Name: "test_trigger_prompt_change", Description: "Adds a prompt, or takes it away again.", Call: toggle(m, prompt)},
	}
}

// toggle returns a function that adds an item, and removes it on the next call. The change
// is visible in the list, which a gateway compares before it sends a notice.
func toggle(m *mux.Mux, item mux.Item) function {
	var mu sync.Mutex
	there := false
	return func(context.Context, *mux.Call) (*mux.Result, error) {
		mu.Lock() // one change at a time; Add and Remove call no foreign code
		defer mu.Unlock()
		change := m.Add
		if there {
			change = m.Remove
		}
		if err := change(item); err != nil {
			return nil, err
		}
		there = !there
		return mux.Say("The list has changed."), nil
	}
}

const watchedURI = "test://watched-resource"

// watch changes the watched resource every three seconds.
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
