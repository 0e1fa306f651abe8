// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/task"
)

// legacyTasks declares tasks in the form of 2025-11-25. It is the equivalent of the extension,
// which is declared besides: each client receives its own form.
const legacyTasks = `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`

// offersTasks reports whether tools of some backend can be called as tasks. A backend
// that was never reached does not count: most have no tasks, clients can do without,
// and calls of tools that need tasks are served anyway.
func offersTasks(backends []Backend) bool {
	return slices.ContainsFunc(backends, func(in Backend) bool {
		return in.State != Missing && task.OfferOf(in.Capabilities).Any()
	})
}

// leavesTasksToTools reports whether a backend has the extension, in which the server
// decides which tools may be called as tasks, without another way to declare it.
func leavesTasksToTools(capabilities []byte) bool {
	offer := task.OfferOf(capabilities)
	return offer.Extension && !offer.Calls
}

// showTaskSupport marks a tool of such a backend as one that may be called as a task: a
// client of 2025-11-25 does not use tasks for a tool without this mark
// (basic/utilities/tasks, "Tool-Level Negotiation").
func (e *Entry) showTaskSupport() {
	if jsonscan.Member(e.item, "execution") == nil {
		e.item = jsonscan.WithMember(e.item, "execution", []byte(`{"taskSupport":"optional"}`))
	}
}
