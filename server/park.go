// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"github.com/signalbox-mcp/signalbox/mcp"
)

// askModern is what Ask is for a modern client. Such a client cannot be sent a
// request; it is asked by a result of type input_required, after which it comes
// back with the answer in a request of its own (2026-07-28,
// basic/patterns/mrtr). That takes the exchange apart from its task, which waits
// here for the retry: the two meet in this function and nowhere else.
func askModern(req *mcp.Request) (*mcp.Result, error) {
	return nil, &mcp.Fault{
		Code: mcp.CodeUnsupported,
		Message: req.Method + " cannot be put to a client of " + string(mcp.V20260728) +
			" yet; one of " + string(mcp.LatestLegacy) + " can be asked",
	}
}
