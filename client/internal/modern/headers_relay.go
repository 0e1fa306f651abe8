// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"net/http"
	"slices"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// relay forwards the Mcp-Param headers of the client that the tool's list does not
// declare: "Intermediate servers that do not recognize an Mcp-Param-{Name} header MUST
// forward it and otherwise ignore it" (2026-07-28, basic/transports/streamable-http,
// "Server Behavior for Custom Headers").
//
// Declared headers are recognized, and were made from the arguments: if an argument has
// no value there is no header, whatever the client sent. A client cannot replace
// headers that the operator has configured.
func (w *httpConn) relay(h http.Header, req *mcp.Request, known []mcp.ParamHeader) {
	for key, values := range req.ParamHeaders {
		isKnown := slices.ContainsFunc(known, func(p mcp.ParamHeader) bool { return p.Header() == key })
		if !isKnown && !w.Configures(key) {
			h[key] = values
		}
	}
}
