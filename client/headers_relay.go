// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net/http"
	"slices"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// relay adds the Mcp-Param headers that a request came with and that mirror nothing of
// it here, because they are not among those that are known of its tool: "Intermediate servers that do not recognize an Mcp-Param-{Name} header
// MUST forward it and otherwise ignore it" (2026-07-28,
// basic/transports/streamable-http, "Server Behavior for Custom Headers").
//
// What the tool's list says is recognized, and was made anew from the arguments as
// they are sent: where these have no value there is no header, whatever came. And
// what the operator has configured is not a client's to replace.
func (w *modernHTTP) relay(h http.Header, req *mcp.Request, known []mcp.ParamHeader) {
	for key, values := range req.ParamHeaders {
		isKnown := slices.ContainsFunc(known, func(p mcp.ParamHeader) bool { return p.Header() == key })
		if !isKnown && !w.configures(key) {
			h[key] = values
		}
	}
}

// configures reports whether the operator has set a header of that canonical name.
func (e *endpoint) configures(key string) bool {
	_, ok := e.configured[key]
	return ok
}
