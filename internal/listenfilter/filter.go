// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package listenfilter reads the filter of subscriptions/listen (2026-07-28,
// basic/patterns/subscriptions, "Notification Filter").
package listenfilter

import (
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Filter is the notifications that a client wants, or those that were agreed.
// Packages that serve subscriptions/listen define their own type with this one as its
// underlying type.
type Filter struct {
	Tools     bool     `json:"toolsListChanged,omitzero"`
	Prompts   bool     `json:"promptsListChanged,omitzero"`
	Resources bool     `json:"resourcesListChanged,omitzero"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
	TaskIDs   []string `json:"taskIds,omitempty"` // of the extension io.modelcontextprotocol/tasks
}

// Read reads the filter in the parameters of subscriptions/listen. Duplicates count
// once. Unknown members, which belong to other extensions or later revisions, are not
// agreed to; the client sees that in the acknowledgement. Without a filter nothing is
// requested. The only error is an [*mcp.Error] for an invalid filter.
func Read(params *mcp.Object) (Filter, error) {
	var f Filter
	raw := params.Raw(mcp.FieldNotifications)
	if raw == nil {
		return f, nil
	}
	if json.Unmarshal(raw, &f) != nil {
		return Filter{}, mcp.Errorf(mcp.CodeInvalidParams, "params.notifications is not a notification filter")
	}
	f.URIs, f.TaskIDs = Distinct(f.URIs), Distinct(f.TaskIDs)
	return f, nil
}

// Distinct removes duplicates and keeps the order of the first occurrences. It reuses
// the slice.
func Distinct(names []string) []string {
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(names, func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again
	})
}
