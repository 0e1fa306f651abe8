// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "slices"

// methods are the method names of all revisions of the specification, those of requests
// first. It is never written to.
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
	"skills/list", // of an extension that is translated, as are the next two
	"skills/get",
	"resources/directory/read",
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

// methodName returns a method's name as a string, without an allocation for those of
// the specification.
func methodName(b []byte) string {
	// In order, because the most frequent ones are first; a map would hash each name.
	for _, name := range methods {
		if len(name) == len(b) && name == string(b) {
			return name
		}
	}
	return string(b)
}

// IsMethod reports whether a revision of the specification, or an extension that is
// translated, has a method.
func IsMethod(name string) bool { return slices.Contains(methods[:], name) }
