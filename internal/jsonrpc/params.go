// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// ParamValues returns the values of the headers of one call, in the order of headers,
// as [mcp.ParamHeader.Value] does for one.
// It reads the arguments once, however many headers there are and however deep their
// arguments are, so that the work is bounded by the size of schema and call.
func ParamValues(headers []mcp.ParamHeader, arguments []byte) []jsonscan.Argument {
	paths := make([][]string, len(headers))
	for i, p := range headers {
		paths[i] = p.Path
	}
	return jsonscan.Arguments(paths, arguments)
}
