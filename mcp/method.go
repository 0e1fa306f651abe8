// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

// methodName returns a method's name as a string, without allocating for those
// that the specification has.
func methodName(b []byte) string {
	switch string(b) {
	case "tools/call":
		return "tools/call"
	case "tools/list":
		return "tools/list"
	case "resources/read":
		return "resources/read"
	case "resources/list":
		return "resources/list"
	case "resources/templates/list":
		return "resources/templates/list"
	case "resources/subscribe":
		return "resources/subscribe"
	case "resources/unsubscribe":
		return "resources/unsubscribe"
	case "prompts/get":
		return "prompts/get"
	case "prompts/list":
		return "prompts/list"
	case "completion/complete":
		return "completion/complete"
	case "logging/setLevel":
		return "logging/setLevel"
	case "ping":
		return "ping"
	case "initialize":
		return "initialize"
	case "server/discover":
		return "server/discover"
	case "subscriptions/listen":
		return "subscriptions/listen"
	case "elicitation/create":
		return "elicitation/create"
	case "sampling/createMessage":
		return "sampling/createMessage"
	case "roots/list":
		return "roots/list"
	case "tasks/get":
		return "tasks/get"
	case "tasks/list":
		return "tasks/list"
	case "tasks/result":
		return "tasks/result"
	case "tasks/update":
		return "tasks/update"
	case "tasks/cancel":
		return "tasks/cancel"
	default:
		return notificationName(b)
	}
}

func notificationName(b []byte) string {
	switch string(b) {
	case "notifications/initialized":
		return "notifications/initialized"
	case "notifications/cancelled":
		return "notifications/cancelled"
	case "notifications/progress":
		return "notifications/progress"
	case "notifications/message":
		return "notifications/message"
	case "notifications/tools/list_changed":
		return "notifications/tools/list_changed"
	case "notifications/resources/list_changed":
		return "notifications/resources/list_changed"
	case "notifications/resources/updated":
		return "notifications/resources/updated"
	case "notifications/prompts/list_changed":
		return "notifications/prompts/list_changed"
	case "notifications/roots/list_changed":
		return "notifications/roots/list_changed"
	case "notifications/subscriptions/acknowledged":
		return "notifications/subscriptions/acknowledged"
	case "notifications/elicitation/complete":
		return "notifications/elicitation/complete"
	case "notifications/tasks/status":
		return "notifications/tasks/status"
	default:
		return string(b)
	}
}
