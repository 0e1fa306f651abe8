// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

// methods are the names that the specification has, in any revision, those of
// requests first. It is a table that nothing writes to.
//
//nolint:gochecknoglobals // a function that returned it would allocate or copy it
var methods = [...]string{
	"tools/call",
	"tools/list",
	"resources/read",
	"resources/list",
	"resources/templates/list",
	"resources/subscribe",
	"resources/unsubscribe",
	"prompts/get",
	"prompts/list",
	"completion/complete",
	"logging/setLevel",
	"ping",
	"initialize",
	"server/discover",
	"subscriptions/listen",
	"elicitation/create",
	"sampling/createMessage",
	"roots/list",
	"tasks/get",
	"tasks/list",
	"tasks/result",
	"tasks/update",
	"tasks/cancel",
	"notifications/initialized",
	"notifications/cancelled",
	"notifications/progress",
	"notifications/message",
	"notifications/tools/list_changed",
	"notifications/resources/list_changed",
	"notifications/resources/updated",
	"notifications/prompts/list_changed",
	"notifications/roots/list_changed",
	"notifications/subscriptions/acknowledged",
	"notifications/elicitation/complete",
	"notifications/tasks", // of the extension
	"notifications/tasks/status",
}

// methodName returns a method's name as a string, without allocating for those
// that the specification has.
func methodName(b []byte) string {
	// In order, since those that are called most stand first; a map would have to hash each.
	for _, name := range methods {
		if len(name) == len(b) && name == string(b) {
			return name
		}
	}
	return string(b)
}
