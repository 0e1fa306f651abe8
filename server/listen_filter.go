// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// listenFilter is the set of notification types that a listen has requested.
type listenFilter struct{ tools, prompts, resources, updates, tasks bool }

// listenFilterOf reads the filter of a listen (2026-07-28, basic/patterns/subscriptions,
// "Notification Filter"; the extension io.modelcontextprotocol/tasks). A value of the
// wrong type requests nothing.
func listenFilterOf(req *mcp.Request) listenFilter {
	var w listenFilter
	for name, value := range jsonscan.Members(req.Params.Raw(mcp.FieldNotifications)) {
		switch name {
		case "toolsListChanged":
			w.tools = string(value) == "true"
		case "promptsListChanged":
			w.prompts = string(value) == "true"
		case "resourcesListChanged":
			w.resources = string(value) == "true"
		case "resourceSubscriptions":
			w.updates = hasElements(value)
		case "taskIds":
			w.tasks = hasElements(value)
		}
	}
	return w
}

func hasElements(raw []byte) bool {
	for range jsonscan.Elements(raw) {
		return true
	}
	return false
}

// allows reports whether a notification is of a requested type. The Handler filters by
// resource and task, since only it knows their relations. Other types pass.
func (w listenFilter) allows(method string) bool {
	switch method {
	case "notifications/tools/list_changed":
		return w.tools
	case "notifications/prompts/list_changed":
		return w.prompts
	case "notifications/resources/list_changed":
		return w.resources
	case "notifications/resources/updated":
		return w.updates
	case "notifications/tasks":
		return w.tasks
	default:
		return true
	}
}
