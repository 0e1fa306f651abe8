// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package listenfilter reads what a listen asks for, for all who serve one
// (2026-07-28, basic/patterns/subscriptions, "Notification Filter").
package listenfilter

import (
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Filter is what a listener wants to hear, and what was agreed. Who serves a listen
// has a type of its own of this form, with what it does with one.
type Filter struct {
	Tools     bool     `json:"toolsListChanged,omitzero"`
	Prompts   bool     `json:"promptsListChanged,omitzero"`
	Resources bool     `json:"resourcesListChanged,omitzero"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
	TaskIDs   []string `json:"taskIds,omitempty"` // of the extension io.modelcontextprotocol/tasks
}

// Read reads the filter of a listen out of its parameters. What it names twice counts
// once. What it has besides is another's, or of a later revision: that is not agreed,
// which the client sees in the acknowledgement. Without a filter nothing is asked for;
// one of another form is the only error, an [*mcp.Error].
func Read(params *mcp.Object) (Filter, error) {
	var f Filter
	raw := params.Raw(mcp.FieldNotifications)
	if raw == nil {
		return f, nil
	}
	if json.Unmarshal(raw, &f) != nil {
		return Filter{}, mcp.Errorf(mcp.CodeInvalidParams, "params.notifications is no filter of notifications")
	}
	f.URIs, f.TaskIDs = Distinct(f.URIs), Distinct(f.TaskIDs)
	return f, nil
}

// Distinct returns the names once each, in the order in which they came first. It uses
// the slice that it is given.
func Distinct(names []string) []string {
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(names, func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again
	})
}
