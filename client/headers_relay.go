// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

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
func (w *modernHTTP) relay(h http.Header, req *mcp.Request, known []mcp.ParamHeader) {
	for key, values := range req.ParamHeaders {
		isKnown := slices.ContainsFunc(known, func(p mcp.ParamHeader) bool { return p.Header() == key })
		if !isKnown && !w.configures(key) {
			h[key] = values
		}
	}
}

// configures reports whether the operator has configured the header with the canonical
// name key.
func (e *endpoint) configures(key string) bool {
	_, ok := e.configured[key]
	return ok
}
