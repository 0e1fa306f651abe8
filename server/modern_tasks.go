// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// checkTasks refuses requests that require the tasks extension from clients that do not
// declare it (io.modelcontextprotocol/tasks, "Error Handling").
func checkTasks(m *mcp.Message) *mcp.Error {
	switch m.Method {
	case "tasks/get", "tasks/update", "tasks/cancel":
	case "subscriptions/listen":
		if !tasks.Watches(m.Params.Raw(mcp.FieldNotifications)) {
			return nil
		}
	default:
		return nil
	}
	if tasks.Declared(m.Params.Raw(mcp.MetaClientCapabilities)) {
		return nil
	}
	return tasks.Missing(m.Method)
}

// undeclaredTask reports whether a result is a task for a client that did not declare the
// extension, or the answer to a request that cannot become a task. Such a result must not
// be sent, whatever became of the call.
func undeclaredTask(req *mcp.Request, res *mcp.Result) bool {
	return res.Type() == mcp.ResultTask && (req.Method != "tools/call" || !tasks.Declared(req.Client.Capabilities))
}
