// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// taskCapabilities are what is said of tasks, in the form of each era: the extension,
// and what it amounts to in 2025-11-25. Each client is told its own.
var taskCapabilities = [...]string{ //nolint:gochecknoglobals // nothing writes to it
	`"extensions":{"` + tasks.Extension + `":{}}`,
	`"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`,
}

// offersTasks reports whether tools of some backend can be called as tasks. One that
// was never reached does not count: most have no tasks, a client can do without, and
// whoever calls a tool that needs them is served all the same.
func offersTasks(backends []Backend) bool {
	return slices.ContainsFunc(backends, func(in Backend) bool {
		return in.State != Missing && tasks.OfferOf(in.Capabilities).Any()
	})
}

// leavesTasksToTools reports whether a backend has the extension, which leaves it to
// the server which tools may be called as tasks, and no other way to say so.
func leavesTasksToTools(capabilities []byte) bool {
	offer := tasks.OfferOf(capabilities)
	return offer.Extension && !offer.Calls
}

// showTaskSupport marks a tool of such a backend as one that may be called as a task:
// a client of 2025-11-25 asks for tasks of no tool that does not say so
// (basic/utilities/tasks, "Tool-Level Negotiation").
func (e *Entry) showTaskSupport() {
	if member(e.item, "execution") == nil {
		e.item = mcp.WithMember(e.item, "execution", []byte(`{"taskSupport":"optional"}`))
	}
}
