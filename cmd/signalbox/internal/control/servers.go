// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"github.com/signalbox-mcp/signalbox"
)

// ServersPath is the path below which a server of a gateway is changed:
// POST NAME/retry, NAME/stop and NAME/restart return a ServerResult.
const ServersPath = "/admin/v1/servers/"

// ServerResult is the result of a change of one server.
type ServerResult struct {
	Process int                      `json:"process"`
	Problem string                   `json:"problem,omitempty"` // why it was not done
	Unknown bool                     `json:"unknown,omitzero"`  // no backend has the name
	Backend *signalbox.BackendStatus `json:"backend,omitempty"`
}
